// The inspector's command line, one process a question, as a person would type it.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { each, headers, main, packages, result } from "./facts.mjs";

const name = "@modelcontextprotocol/inspector";

function ask(task, method, more = []) {
  const [header] = Object.entries(headers(task));
  const question = ["--method", method, ...more];
  // Behind `--` stands the server's command, whose own options are none of the inspector's.
  const words = task.command
    ? [...question, "--", ...task.command]
    : ["--server-url", task.url, "--transport", "http", ...(header ? ["--header", `${header[0]}: ${header[1]}`] : []), ...question];
  const program = join(packages, ".bin", "mcp-inspector");
  const ran = spawnSync(process.execPath, [program, "--cli", ...words], { encoding: "utf8", timeout: 50_000 });
  const out = ran.stdout.trim();
  if (out.startsWith("{")) return JSON.parse(out);
  throw new Error(`exit ${ran.status}: ${ran.stderr.trim() || out}`);
}

await main(name, async (task) => {
  const { tools } = ask(task, "tools/list");
  const calls = await each(task.calls, async (tool, args) => {
    const pairs = Object.entries(args).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
    const more = ["--tool-name", tool, ...(pairs.length ? ["--tool-arg", ...pairs] : [])];
    return result(tool, ask(task, "tools/call", more));
  });
  return { protocol: null, tools: tools.map((tool) => tool.name), calls };
});
