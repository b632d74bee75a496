// What the Node clients share: the same command line, the same scenarios and the same facts as in facts.py.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

// The packages live under target/, not beside these scripts.
const home = process.env.WICKETGATE_TEST_LLM;
if (!home) throw new Error("WICKETGATE_TEST_LLM is not set: run through tests/run");
const packages = join(home, "npm", "node_modules");
export const require = createRequire(join(home, "npm", "package.json"));

const { WICKETGATE_LLM_PROVIDER: provider, WICKETGATE_LLM_GATE: gate } = process.env;
const through = gate ? (process.env.WICKETGATE_LLM_THROUGH ?? "").split(",") : [];
const words = ["policy.denied", "wicketgate_denied"];
const scenarios = JSON.parse(readFileSync(new URL("../scenarios.json", import.meta.url), "utf8"));

export const key = process.env.WICKETGATE_LLM_KEY ?? "no-key";
export const model = "scripted-1";
export const instructions = "You are the agent of the conformance tests.";
export const prompt = "Do what you are here for.";
export const turns = 4;

const text = { type: "string" };
const closed = (properties) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

// Names and orders that no sorting leaves as they are.
export const schema = closed({ reasoning: text, answer: { type: "integer" }, checked: { type: "boolean" } });

/** The tools of the scenario: name → {description, schema, run}. */
export function tools(facts) {
  const all = {
    lookup: {
      description: "The weather of a city.",
      schema: closed({ units: text, city: text, days: { type: "integer" } }),
      run: ({ units, city, days }) => `${city}: ${days} cold days (${units})`,
    },
    write_note: {
      description: "Writes a note.",
      schema: closed({ path: text, note: text }),
      run: ({ path, note }) => `wrote ${note} to ${path}`,
    },
  };
  if (facts.task.knows_denials) {
    all.wicketgate_denied = {
      description: "Gives a denial of the gate to the model.",
      schema: closed({ tool: text, code: text, rule: text, message: text, call: text }),
      run: ({ message }) => message,
    };
  }
  return all;
}

/** A JSON text, or a value, as one compact line with its members in their order. */
export function oneLine(value) {
  return JSON.stringify(typeof value === "string" ? JSON.parse(value) : value);
}

/** What the user of the SDK gets to see of an error. */
export function failure(error) {
  let inner = error;
  // A retry wraps the error of its last try.
  while (inner && inner.statusCode === undefined) inner = inner.lastError ?? inner.cause;
  const body = parsed(inner?.responseBody);
  const shown = body?.error ?? error?.error ?? {};
  return {
    class: error?.name ?? typeof error,
    status: inner?.statusCode ?? null,
    code: shown.wicketgate?.code ?? shown.code ?? shown.type ?? error?.code ?? null,
    message: error?.message ?? JSON.stringify(error),
  };
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

async function ask(path, value) {
  const request = value === undefined ? {} : { method: "POST", body: JSON.stringify(value) };
  return (await fetch(`${provider}${path}`, request)).json();
}

/** Which of the words were in the bodies of what reached the provider. */
async function upstream() {
  const { requests } = await ask("/requests");
  const bodies = requests.map(({ body }) => Buffer.from(body, "base64").toString());
  return words.filter((word) => bodies.some((body) => body.includes(word)));
}

async function play(run, scenario, way) {
  const task = scenarios[scenario];
  const url = { direct: provider, gate }[way];
  const facts = { task, stream: task.stream, url, requests: 0, text: null, tools: [], results: [] };
  Object.assign(facts, { structured: null, stop: null, error: null });
  // The SDK's own way to see what it sends.
  facts.fetch = (...asked) => {
    facts.requests += 1;
    return fetch(...asked);
  };
  await ask("/script", way === "direct" ? (task.direct ?? task.script) : task.script);
  const limit = setTimeout(() => process.exit(70), 40_000);
  try {
    await run(facts);
  } catch (error) {
    facts.error = failure(error);
  }
  clearTimeout(limit);
  return facts;
}

/** Plays the scenarios of the command line; `dialects` has a function of the facts for each dialect. */
export async function main(name, dialects) {
  const [spoken, ...names] = process.argv.slice(2);
  const version = JSON.parse(readFileSync(join(packages, name, "package.json"), "utf8")).version;
  const ways = names.flatMap((name) => (through.includes(name) ? ["direct", "gate"] : ["direct"]).map((way) => [name, way]));
  for (const [dialect, scenario, way] of spoken.split(",").flatMap((dialect) => ways.map((way) => [dialect, ...way]))) {
    const { requests, text, tools, results, structured, stop, error } = await play(dialects[dialect], scenario, way);
    const line = { client: `${name} ${version}`, dialect, scenario, way, requests, text, tools, results };
    console.log(JSON.stringify({ ...line, structured, stop, error, upstream: await upstream() }));
  }
}
