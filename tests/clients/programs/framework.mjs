// An agent on Vercel's ai whose model reads a note, asks for payroll, and writes a note that a person has to approve.
// Prints what its model read, and its last answer.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs } from "ai";
import { Denied, Gate } from "wicketgate-sdk";
import { tools } from "wicketgate-sdk/ai";

globalThis.AI_SDK_LOG_WARNINGS = false;
const provider = process.env.WICKETGATE_LLM_PROVIDER;
const asked = (name, args) => ({ tools: [{ name, arguments: args }] });
const script = {
  rules: [
    { when: { results: 0 }, answer: asked("notes_read", { path: "todo.md" }) },
    { when: { results: 1 }, answer: asked("notes_read", { path: "payroll.md" }) },
    { when: { results: 2 }, answer: asked("notes_write", { path: "held-ai.md", content: "x" }) },
    { when: { results: 3 }, answer: { text: "Done." } },
  ],
};
const begin = () => fetch(`${provider}/script`, { method: "POST", body: JSON.stringify(script) });
const text = (content) => (typeof content === "string" ? content : content.map((part) => part.text).join(""));

const run = await Gate.fromEnv().open();
run.onHeld = (why) => console.log(JSON.stringify({ held: why.approval }));
const observed = process.argv.includes("observed");
const where = observed ? run.openai() : { baseURL: `${provider}/v1`, apiKey: "k" };
const model = createOpenAICompatible({ name: "scripted", ...where }).chatModel("scripted-1");
const play = (tools) => generateText({ model, instructions: "Keep the notes.", prompt: "Do what you are here for.", stopWhen: stepCountIs(8), tools });

await begin();
const { text: final } = await play(await tools(run, { waitMs: 60_000, names: ["notes.read", "notes.write"] }));
const { requests } = await (await fetch(`${provider}/requests`)).json();
const last = JSON.parse(Buffer.from(requests.at(-1).body, "base64").toString());
const results = last.messages.filter(({ role }) => role === "tool").map(({ content }) => text(content));

let alone;
if (observed) {
  // The model asked for none of this.
  await run.call("notes.write", { path: "held-alone.md", content: "x" }).catch((why) => (alone = why.finerCode));
}

// With `raises` the library has the error itself: it tells the model of it, and shows it in the steps.
await begin();
const { steps } = await play(await tools(run, { raises: true, names: ["notes.read"] }));
const errors = steps.flatMap(({ content }) => content).filter(({ type }) => type === "tool-error").map(({ error }) => error);
await run.seal();
console.log(JSON.stringify({ final, results, alone, raised: errors.find((error) => error instanceof Denied)?.code }));
