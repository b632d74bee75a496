// The resources of the upstream.
import { require } from "../clients/facts.mjs";
import { PIXEL } from "./content.mjs";

const { ProtocolError, ProtocolErrorCode } = require("@modelcontextprotocol/server");

export const resources = [
  { uri: "test://static-text", name: "static-text", description: "A text that stays", mimeType: "text/plain" },
  { uri: "test://static-binary", name: "static-binary", description: "A picture that stays", mimeType: "image/png" },
  { uri: "test://watched-resource", name: "watched", description: "One to subscribe to", mimeType: "text/plain" },
];

export const templates = [
  { uriTemplate: "test://template/{id}/data", name: "template", description: "One of many", mimeType: "application/json" },
];

export function readResource(uri) {
  const plain = { "test://static-text": "This text stays as it is.", "test://watched-resource": "watched" }[uri];
  if (plain) return { contents: [{ uri, mimeType: "text/plain", text: plain }] };
  if (uri === "test://static-binary") return { contents: [{ uri, mimeType: "image/png", blob: PIXEL }] };
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id) {
    const data = { id, templateTest: true, data: `Data for ID: ${id}` };
    return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify(data) }] };
  }
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `no such resource: ${uri}`, { uri });
}
