// The prompts of the upstream.
import { require } from "../clients/facts.mjs";
import { PIXEL, text, user } from "./content.mjs";

const { ProtocolError, ProtocolErrorCode, acceptedContent, inputRequired } = require("@modelcontextprotocol/server");

const argument = (name) => ({ name, description: `the ${name}`, required: true });

export const prompts = [
  { name: "test_simple_prompt", description: "No arguments" },
  { name: "test_prompt_with_arguments", description: "Two arguments", arguments: [argument("arg1"), argument("arg2")] },
  { name: "test_prompt_with_embedded_resource", description: "A resource inside", arguments: [argument("resourceUri")] },
  { name: "test_prompt_with_image", description: "A picture inside" },
  { name: "test_input_required_result_prompt", description: "Asks the user first" },
];

function asked(context) {
  const answer = acceptedContent(context.mcpReq.inputResponses, "user_context");
  if (answer) return { messages: [user(text(`Use this context: ${answer.context}`))] };
  const requestedSchema = { type: "object", properties: { context: { type: "string" } }, required: ["context"] };
  const user_context = inputRequired.elicit({ message: "Which context?", requestedSchema });
  return inputRequired({ inputRequests: { user_context } });
}

export function promptNamed({ name, arguments: args = {} }, context) {
  switch (name) {
    case "test_simple_prompt":
      return { messages: [user(text("A simple prompt."))] };
    case "test_prompt_with_arguments":
      return { messages: [user(text(`Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`))] };
    case "test_prompt_with_embedded_resource": {
      const resource = { uri: args.resourceUri, mimeType: "text/plain", text: "What is embedded." };
      return { messages: [user({ type: "resource", resource }), user(text("Look at the resource above."))] };
    }
    case "test_prompt_with_image":
      return { messages: [user({ type: "image", data: PIXEL, mimeType: "image/png" }), user(text("Look at it."))] };
    case "test_input_required_result_prompt":
      return asked(context);
    default:
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `no such prompt: ${name}`);
  }
}
