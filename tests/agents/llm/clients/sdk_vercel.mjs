// Vercel's ai with the providers openai (chat completions, responses), openai-compatible and anthropic.
import { failure, instructions, key, main, model, oneLine, prompt, require, schema, tools, turns } from "./facts.mjs";

const { generateText, jsonSchema, Output, stepCountIs, streamText, tool } = require("ai");
const { createOpenAI } = require("@ai-sdk/openai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { createAnthropic } = require("@ai-sdk/anthropic");

globalThis.AI_SDK_LOG_WARNINGS = false;

function openai({ url, fetch }) {
  return createOpenAI({ baseURL: `${url}/v1`, apiKey: key, fetch });
}

function asked(facts, languageModel) {
  const request = { model: languageModel, instructions, prompt, stopWhen: stepCountIs(turns) };
  if (facts.task.task === "tools") {
    const own = Object.entries(tools(facts)).map(([name, { description, schema, run }]) => [
      name,
      tool({ description, inputSchema: jsonSchema(schema), execute: async (input) => run(input) }),
    ]);
    request.tools = Object.fromEntries(own);
  }
  if (facts.task.task === "structured") request.output = Output.object({ schema: jsonSchema(schema) });
  return request;
}

function keep(facts, steps) {
  for (const { content } of steps) {
    for (const part of content) {
      if (part.type === "tool-call") facts.tools.push({ name: part.toolName, arguments: oneLine(part.input) });
      if (part.type === "tool-result") facts.results.push(part.output);
      if (part.type === "tool-error") facts.results.push(part.error?.message ?? String(part.error));
    }
  }
}

async function run(facts, languageModel) {
  const request = asked(facts, languageModel);
  let done;
  if (facts.stream) {
    const errors = [];
    done = streamText({ ...request, onError: ({ error }) => errors.push(error) });
    for await (const part of done.fullStream) {
      if (part.type === "text-delta") facts.text = (facts.text ?? "") + part.text;
      if (part.type === "start-step") facts.text = null;
    }
    if (errors.length > 0) {
      facts.error = failure(errors[0]);
      return;
    }
  } else {
    done = await generateText(request);
    facts.text = (await done.text) || null;
  }
  keep(facts, await done.steps);
  facts.stop = await done.finishReason;
  if (facts.task.task === "structured") facts.structured = oneLine(await done.output);
}

await main("ai", {
  chat: (facts) => run(facts, openai(facts).chat(model)),
  responses: (facts) => run(facts, openai(facts).responses(model)),
  compatible: (facts) => {
    const { url, fetch } = facts;
    const compatible = { name: "compatible", baseURL: `${url}/v1`, apiKey: key, supportsStructuredOutputs: true, fetch };
    return run(facts, createOpenAICompatible(compatible).chatModel(model));
  },
  messages: (facts) => {
    const { url, fetch } = facts;
    return run(facts, createAnthropic({ baseURL: `${url}/v1`, apiKey: key, fetch })(model));
  },
});
