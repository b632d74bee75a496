// An MCP server over streamable HTTP for the conformance suite: the official TypeScript SDK with the tools, resources
// and prompts that the suite's scenarios ask for. Both eras: the stateless 2026-07-28, and sessions for the versions before.
//
//     node everything.mjs        prints its address as one line of JSON, ends when its standard input does
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { require } from "../clients/facts.mjs";
import { promptNamed, prompts } from "./prompts.mjs";
import { callTool, tools } from "./tools.mjs";
import { readResource, resources, templates } from "./resources.mjs";

const { Server, createMcpHandler, createRequestStateCodec, isLegacyRequest } = require("@modelcontextprotocol/server");
const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest, localhostHostValidation, localhostOriginValidation } =
  require("@modelcontextprotocol/node");

const state = createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });

function build() {
  const server = new Server(
    { name: "conformance-upstream", version: "1.0.0" },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
      requestState: { verify: state.verify },
    },
  );
  const on = (method, answer) => server.setRequestHandler(method, answer);
  on("tools/list", () => ({ tools }));
  on("tools/call", (request, context) => callTool(request.params, { context, state, changed, mint: state.mint }));
  on("resources/list", () => ({ resources }));
  on("resources/templates/list", () => ({ resourceTemplates: templates }));
  on("resources/read", (request) => readResource(request.params.uri));
  on("resources/subscribe", () => ({}));
  on("resources/unsubscribe", () => ({}));
  on("prompts/list", () => ({ prompts }));
  on("prompts/get", (request, context) => promptNamed(request.params, context));
  on("completion/complete", () => ({ completion: { values: [], total: 0, hasMore: false } }));
  on("logging/setLevel", () => ({}));
  return server;
}

const stateless = createMcpHandler(build, { legacy: "reject" });
const serveStateless = toNodeHandler(stateless);
const changed = { tools: () => stateless.notify.toolsChanged(), prompts: () => stateless.notify.promptsChanged() };

/** What a stream sent, so that a client can ask for the rest of it after a cut. */
function events() {
  const kept = [];
  return {
    storeEvent: async (stream, message) => {
      kept.push({ stream, message });
      return String(kept.length);
    },
    replayEventsAfter: async (last, { send }) => {
      const { stream } = kept[Number(last) - 1];
      for (let at = Number(last); at < kept.length; at += 1) {
        const event = kept[at];
        if (event.stream === stream && Object.keys(event.message).length > 0) await send(String(at + 1), event.message);
      }
      return stream;
    },
  };
}

const sessions = new Map();

function refuse(response, status, code, message) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message } }));
}

async function serveSession(request, response, body) {
  const id = request.headers["mcp-session-id"];
  if (id) {
    const known = sessions.get(id);
    return known ? known.handleRequest(request, response, body) : refuse(response, 404, -32001, "no such session");
  }
  if (body?.method !== "initialize") return refuse(response, 400, -32000, "a session id is needed");
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: events(),
    retryInterval: 500,
    onsessioninitialized: (made) => sessions.set(made, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await build().connect(transport);
  return transport.handleRequest(request, response, body);
}

async function read(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const text = Buffer.concat(parts).toString("utf8");
  try {
    return text ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

const hostIsLocal = localhostHostValidation();
const originIsLocal = localhostOriginValidation();
const server = createServer(async (request, response) => {
  if (!hostIsLocal(request, response) || !originIsLocal(request, response)) return;
  const body = await read(request);
  const old = await isLegacyRequest(await toWebRequest(request, body), body);
  await (old ? serveSession(request, response, body) : serveStateless(request, response, body));
});
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}/mcp` }));
});
process.stdin.on("end", () => process.exit(0)).resume();
