// The TypeScript SDK, 1.x, over streamable HTTP or stdio.
import { each, headers, main, require, result } from "./facts.mjs";

const name = "@modelcontextprotocol/sdk";
const { Client } = require(`${name}/client/index.js`);
const { StreamableHTTPClientTransport } = require(`${name}/client/streamableHttp.js`);
const { StdioClientTransport } = require(`${name}/client/stdio.js`);

await main(name, async (task) => {
  const client = new Client({ name: "interop", version: "1" });
  const transport = task.command
    ? new StdioClientTransport({ command: task.command[0], args: task.command.slice(1), env: process.env })
    : new StreamableHTTPClientTransport(new URL(task.url), { requestInit: { headers: headers(task) } });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const calls = await each(task.calls, async (tool, args) =>
    result(tool, await client.callTool({ name: tool, arguments: args })),
  );
  const protocol = transport.protocolVersion ?? null;
  await client.close();
  return { protocol, tools: tools.map((tool) => tool.name), calls };
});
