"""google-genai: Gemini, with a tool loop by hand."""

import facts as shared
from google import genai
from google.genai import errors, types


def client():
    # The library tries again by itself only where it is told to: as its users know it from other libraries.
    retry = types.HttpRetryOptions(attempts=3, initial_delay=0.1, http_status_codes=[429])
    return genai.Client(
        api_key=shared.KEY, vertexai=False, http_options=types.HttpOptions(base_url=shared.URL, retry_options=retry)
    )


def turn(models, said, config, facts):
    """The parts of one answer, as the library delivered them."""
    asked = {"model": shared.MODEL, "contents": said, "config": config}
    if not facts.stream:
        done = models.generate_content(**asked)
        answers = [done]
    else:
        answers = models.generate_content_stream(**asked)
    parts = []
    for answer in answers:
        candidate = answer.candidates[0]
        for part in (candidate.content.parts if candidate.content else None) or []:
            if part.text and not part.thought:
                facts.more(part.text)
            if part.text or part.function_call:
                parts.append(part)
        if candidate.finish_reason:
            facts.stop = candidate.finish_reason.value
    return parts


async def gemini(facts):
    said = [types.Content(role="user", parts=[types.Part(text=shared.PROMPT)])]
    config = types.GenerateContentConfig(system_instruction=shared.INSTRUCTIONS)
    if facts.task["task"] == "tools":
        functions = [
            types.FunctionDeclaration(name=name, description=text, parameters_json_schema=schema)
            for name, (text, schema) in shared.TOOLS.items()
        ]
        config.tools = [types.Tool(function_declarations=functions)]
    if facts.task["task"] == "structured":
        config.response_mime_type = "application/json"
        config.response_json_schema = shared.SCHEMA
    with client() as asked:
        for _ in range(shared.TURNS):
            facts.text = None
            try:
                parts = turn(asked.models, said, config, facts)
            except errors.APIError as error:
                # What the others call the status of an error.
                error.status_code = error.code
                error.body, error.code = error.details, None
                raise
            if facts.task["task"] == "structured":
                facts.structured = shared.one_line(facts.text)
            calls = [part.function_call for part in parts if part.function_call]
            if not calls:
                return
            results = []
            for call in calls:
                facts.call(call.name, call.args)
                result, wrong = shared.use(call.name, shared.one_line(call.args))
                facts.results.append(result)
                answer = {"error" if wrong else "result": result}
                results.append(types.Part(function_response=types.FunctionResponse(name=call.name, response=answer)))
            said.append(types.Content(role="model", parts=parts))
            said.append(types.Content(role="user", parts=results))


shared.main("google-genai", {"gemini": gemini})
