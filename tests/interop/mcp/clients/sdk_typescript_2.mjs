// The TypeScript SDK, 2.x, over streamable HTTP or stdio, in both eras of the protocol.
import { each, headers, main, require, result } from "./facts.mjs";

const name = "@modelcontextprotocol/client";
const { Client, StreamableHTTPClientTransport } = require(name);
const { StdioClientTransport } = require(`${name}/stdio`);

await main(name, async (task) => {
  const client = new Client(
    { name: "interop", version: "1" },
    { versionNegotiation: { mode: task.era ?? "auto" } },
  );
  const transport = task.command
    ? new StdioClientTransport({ command: task.command[0], args: task.command.slice(1), env: process.env })
    : new StreamableHTTPClientTransport(new URL(task.url), { requestInit: { headers: headers(task) } });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const calls = await each(task.calls, async (tool, args) =>
    result(tool, await client.callTool({ name: tool, arguments: args })),
  );
  const protocol = client.getNegotiatedProtocolVersion?.() ?? null;
  await client.close();
  return { protocol, tools: tools.map((tool) => tool.name), calls };
});
