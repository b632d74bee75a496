// The agent of agent_openai.py on Vercel's ai. It takes OPENAI_BASE_URL and OPENAI_API_KEY from its environment.
//
//     node agent_vercel.mjs INSTRUCTIONS PROMPT
import { readFileSync, readdirSync, rmSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";

const [instructions, prompt] = [readFileSync(process.argv[2], "utf8"), process.argv[3]];
const folder = { type: "object", properties: { folder: { type: "string" } }, required: ["folder"], additionalProperties: false };
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY });

const { steps, text } = await generateText({
  model: openai.chat("gpt-5.5"),
  instructions,
  prompt,
  stopWhen: stepCountIs(8),
  tools: {
    list_folder: tool({ inputSchema: jsonSchema(folder), execute: ({ folder }) => readdirSync(folder).sort().join(" ") }),
    remove_folder: tool({ inputSchema: jsonSchema(folder), execute: ({ folder }) => rmSync(folder, { recursive: true }) }),
  },
});
// A call of a tool that is not there is an error that the library tells the model: so it goes on from a denial.
for (const { toolCalls } of steps) for (const { toolName, input } of toolCalls) console.log("tool ", toolName, JSON.stringify(input));
console.log("model", text);
