// The tools of the upstream. A tool that wants something of the client says so in its result; on the wire of 2025 the SDK
// turns that into a request of the server.
import { require } from "../clients/facts.mjs";
import { PIXEL, SILENCE, text } from "./content.mjs";

const { CLIENT_CAPABILITIES_META_KEY, ProtocolError, ProtocolErrorCode, acceptedContent, inputRequired } = require(
  "@modelcontextprotocol/server",
);

const said = (value) => ({ content: [text(value)] });
const none = { type: "object", properties: {} };
const one = (name) => ({ type: "object", properties: { [name]: { type: "string" } }, required: [name] });
const form = (message, properties, required = Object.keys(properties)) =>
  inputRequired.elicit({ message, requestedSchema: { type: "object", properties, required } });
const ask = (prompt) =>
  inputRequired.createMessage({ messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 });

/** Asks for `inputRequests` until every one is answered, then says what it got. */
function wants(inputRequests, name) {
  return ({ context }) => {
    const given = context.mcpReq.inputResponses ?? {};
    const complete = Object.keys(inputRequests).every((key) => given[key] && typeof given[key] === "object");
    return complete ? said(`${name}: ${JSON.stringify(given)}`) : inputRequired({ inputRequests });
  };
}

const confirm = { confirm: form("Go on?", { ok: { type: "boolean" } }) };
const many = { user_name: form("Your name?", { name: { type: "string" } }), greeting: ask("Greet them"), client_roots: inputRequired.listRoots() };

async function withState({ context, mint }, inputRequests) {
  const carried = context.mcpReq.requestState();
  const given = context.mcpReq.inputResponses;
  if (carried && given) return said(`state-ok ${JSON.stringify(given)}`);
  return inputRequired({ inputRequests, requestState: await mint({ step: 1 }) });
}

async function rounds({ context, mint }) {
  const carried = context.mcpReq.requestState();
  if (!carried) {
    return inputRequired({ inputRequests: { step1: form("Name?", { name: { type: "string" } }) }, requestState: await mint({ step: 1 }) });
  }
  const name = acceptedContent(context.mcpReq.inputResponses, "step1")?.name;
  if (carried.step === 1) {
    const step2 = form("Colour?", { color: { type: "string" } });
    return inputRequired({ inputRequests: { step2 }, requestState: await mint({ step: 2, name }) });
  }
  return said(`${carried.name} likes ${acceptedContent(context.mcpReq.inputResponses, "step2")?.color}`);
}

function within({ context }) {
  if (context.mcpReq.inputResponses) return said("answered");
  const declared = context.mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? {};
  const inputRequests = {};
  if (declared.elicitation) inputRequests.user_name = many.user_name;
  if (declared.sampling) inputRequests.greeting = many.greeting;
  return Object.keys(inputRequests).length ? inputRequired({ inputRequests }) : said("nothing to ask with");
}

async function logging({ context }) {
  for (const data of ["started", "working", "done"]) await context.mcpReq.log("info", data);
  return said("logged");
}

async function progressing({ context }) {
  const progressToken = context.mcpReq._meta?.progressToken;
  for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
    await context.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
  }
  return said("progressed");
}

function reconnecting({ context }) {
  context.http?.closeSSE?.();
  return said("the rest of the stream");
}

const enums = {
  untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
  titledSingle: { type: "string", oneOf: ["1", "2", "3"].map((n) => ({ const: `value${n}`, title: `Option ${n}` })) },
  legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["One", "Two", "Three"] },
  untitledMulti: { type: "array", minItems: 1, maxItems: 3, items: { type: "string", enum: ["option1", "option2", "option3"] } },
  titledMulti: { type: "array", minItems: 1, maxItems: 3, items: { anyOf: ["1", "2", "3"].map((n) => ({ const: `value${n}`, title: `Choice ${n}` })) } },
};
const defaults = {
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
};

const schema2020 = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};
const region = {
  type: "object",
  properties: { region: { type: "string", "x-mcp-header": "Region" }, query: { type: "string" } },
  required: ["region"],
};
const picture = { type: "image", data: PIXEL, mimeType: "image/png" };
const inside = (uri, mimeType, value) => ({ type: "resource", resource: { uri, mimeType, text: value } });

// name: [what it does, its input, how it answers]
const shelf = {
  test_simple_text: ["Says a text", none, () => said("This is a simple text response for testing.")],
  test_image_content: ["Shows a picture", none, () => ({ content: [picture] })],
  test_audio_content: ["Plays a sound", none, () => ({ content: [{ type: "audio", data: SILENCE, mimeType: "audio/wav" }] })],
  test_embedded_resource: ["Holds a resource", none, () => ({ content: [inside("test://embedded-resource", "text/plain", "inside")] })],
  test_multiple_content_types: [
    "Holds several kinds",
    none,
    () => ({ content: [text("Several:"), picture, inside("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')] }),
  ],
  test_tool_with_logging: ["Logs", none, logging],
  test_logging_tool: ["Logs if the request asks for it", none, logging],
  test_tool_with_progress: ["Says how far it is", none, progressing],
  test_error_handling: ["Fails", none, () => ({ isError: true, content: [text("This tool intentionally returns an error for testing")] })],
  test_reconnection: ["Cuts its stream", none, reconnecting],
  test_header_param: ["Mirrors a parameter in a header", region, ({ args }) => said(`region ${args.region}`)],
  json_schema_2020_12_tool: ["Has a rich schema", schema2020, ({ args }) => said(JSON.stringify(args))],
  test_sampling: ["Asks the model", one("prompt"), (call) => wants({ answer: ask(call.args.prompt) }, "LLM response")(call)],
  test_missing_capability: ["Needs sampling", none, wants({ answer: ask("Anything") }, "answer")],
  test_elicitation: [
    "Asks the user",
    one("message"),
    (call) => wants({ answer: form(call.args.message, { username: { type: "string" }, email: { type: "string" } }) }, "User response")(call),
  ],
  test_streaming_elicitation: ["Asks the user", none, wants(confirm, "confirmed")],
  test_elicitation_sep1034_defaults: ["Asks with defaults", none, wants({ answer: form("Right?", defaults, []) }, "Elicitation completed")],
  test_elicitation_sep1330_enums: ["Asks with choices", none, wants({ answer: form("Choose", enums, []) }, "Elicitation completed")],
  test_input_required_result_elicitation: ["Asks a name", none, wants({ user_name: many.user_name }, "Hello")],
  test_input_required_result_sampling: ["Asks the model", none, wants({ capital_question: ask("What is the capital of France?") }, "It said")],
  test_input_required_result_list_roots: ["Asks for roots", none, wants({ client_roots: inputRequired.listRoots() }, "Roots")],
  test_input_required_result_request_state: ["Carries state", none, (call) => withState(call, confirm)],
  test_input_required_result_tampered_state: ["Carries sealed state", none, (call) => withState(call, confirm)],
  test_input_required_result_multiple_inputs: ["Asks for much", none, (call) => withState(call, many)],
  test_input_required_result_multi_round: ["Asks twice", none, rounds],
  test_input_required_result_capabilities: ["Asks what the client can", none, within],
  test_trigger_tool_change: ["Changes the tools", none, ({ changed }) => (changed.tools(), said("changed"))],
  test_trigger_prompt_change: ["Changes the prompts", none, ({ changed }) => (changed.prompts(), said("changed"))],
};

export const tools = Object.entries(shelf).map(([name, [description, inputSchema]]) => ({ name, description, inputSchema }));

export function callTool({ name, arguments: args = {} }, more) {
  const known = shelf[name];
  if (!known) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `no such tool: ${name}`);
  return known[2]({ args, ...more });
}
