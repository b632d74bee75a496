"""Governed tools as the tool objects of agent frameworks: `openai_agents`, `pydantic_ai`, `langchain`."""
