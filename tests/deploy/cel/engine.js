// The second engine for CEL: one question a line on standard input, {conditions, variables, expressions, given}; its answer a line on
// standard output. Started with the folder that has the packages.

const { createInterface } = require("node:readline");
const { createRequire } = require("node:module");

const cel = createRequire(`${process.argv[2]}/engine.js`)("@bufbuild/cel");
const environment = cel.celEnv();
const programs = new Map();

// A number of JSON without a fraction is an `int`, as the API server decodes it.
function given(value) {
  if (Array.isArray(value)) return value.map(given);
  if (typeof value === "number") return Number.isInteger(value) ? BigInt(value) : value;
  if (value === null || typeof value !== "object") return value;
  return new Map(Object.entries(value).map(([key, one]) => [key, given(one)]));
}

function plain(value) {
  if (typeof value === "bigint") return Number(value);
  if (cel.isCelList(value)) return [...value].map(plain);
  if (cel.isCelMap(value)) return Object.fromEntries([...value].map(([key, one]) => [key, plain(one)]));
  return value;
}

function evaluate(expression, bindings) {
  if (!programs.has(expression)) programs.set(expression, cel.plan(environment, cel.parse(expression)));
  return programs.get(expression)(bindings);
}

function answer({ conditions, variables, expressions, given: objects }) {
  const bindings = Object.fromEntries(Object.entries(objects).map(([name, value]) => [name, given(value)]));
  for (const condition of conditions) if (evaluate(condition, bindings) !== true) return { matches: false, values: [] };
  bindings.variables = new Map();
  for (const [name, expression] of variables) bindings.variables.set(name, evaluate(expression, bindings));
  const values = expressions.map((expression) => {
    const value = evaluate(expression, bindings);
    return cel.isCelError(value) ? { error: value.message } : { value: plain(value) };
  });
  return { matches: true, values };
}

createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
});
