// What the TypeScript clients share: the same task and the same facts as in facts.py.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

// The packages live under target/, not beside these scripts.
const home = process.env.WICKETGATE_TEST_MCP;
if (!home) throw new Error("WICKETGATE_TEST_MCP is not set: run through tests/run");
export const packages = join(home, "npm", "node_modules");
export const require = createRequire(join(home, "npm", "package.json"));

/** The version of an installed package. */
export function version(name) {
  return JSON.parse(readFileSync(join(packages, name, "package.json"), "utf8")).version;
}

export function headers(task) {
  return task.token ? { Authorization: `Bearer ${task.token}` } : {};
}

/** A tool result as facts. */
export function result(name, answer) {
  const text = (answer.content ?? [])
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n");
  return {
    name,
    is_error: answer.isError === true,
    text,
    structured: answer.structuredContent ?? null,
    meta: answer._meta ?? null,
  };
}

/** Makes the calls in their order; an exception is a fact, not the end. */
export async function each(calls, one) {
  const done = [];
  for (const call of calls) {
    try {
      done.push(await one(call.name, call.arguments));
    } catch (error) {
      done.push({ name: call.name, raised: `${error.name}: ${error.message}` });
    }
  }
  return done;
}

export async function main(name, run) {
  const limit = setTimeout(() => {
    console.error(`${name}: no end after 60 s`);
    process.exit(1);
  }, 60_000);
  const facts = await run(JSON.parse(process.argv[2]));
  clearTimeout(limit);
  console.log(JSON.stringify({ client: `${name} ${version(name)}`, ...facts }));
}
