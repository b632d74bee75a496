// Tools of a gate for the Vercel `ai` library.
import { dynamicTool, jsonSchema } from "ai";
import type { ToolSet } from "ai";
import type { Run } from "./client.ts";
import { GateError } from "./errors.ts";

export interface ToolOptions {
  /** The names of the tools at the gate; if absent, all that the manifest grants. */
  names?: string[];
  /** How long to wait for approvers if a call is held. */
  waitMs?: number;
  /** Throw denials instead of giving their text to the model. */
  raises?: boolean;
}

/** The tools of a run, for `generateText({ tools })`. In their names `_` stands for dots: providers take none. */
export async function tools(run: Run, options: ToolOptions = {}): Promise<ToolSet> {
  const listed = new Map((await run.tools()).map((tool) => [tool.name, tool]));
  const made: ToolSet = {};
  for (const name of options.names ?? listed.keys()) {
    const tool = listed.get(name);
    if (!tool) throw new TypeError(`the manifest grants no tool \`${name}\`: it grants ${[...listed.keys()].join(", ") || "none"}`);
    const short = name.replaceAll(".", "_");
    if (short in made) throw new TypeError(`\`${name}\` and another tool have one name for models: choose one`);
    made[short] = dynamicTool({
      description: tool.description,
      inputSchema: jsonSchema({ type: "object", properties: {}, ...(tool.input_schema as object) }),
      execute: async (input, { abortSignal }) => {
        try {
          const asked = { waitMs: options.waitMs, signal: abortSignal };
          return plain((await run.call(name, input as Record<string, unknown>, asked)).result);
        } catch (why) {
          if (!(why instanceof GateError) || options.raises) throw why;
          return why.forModel();
        }
      },
    });
  }
  return made;
}

/** Of an MCP tool's result, what a model needs. */
function plain(result: unknown): unknown {
  const { content, structuredContent, isError } = (result ?? {}) as { content?: unknown; structuredContent?: unknown; isError?: unknown };
  const texts = Array.isArray(content) ? content.map((part: { text?: unknown }) => part.text) : [];
  const text = texts.length > 0 && texts.every((one) => typeof one === "string") ? texts.join("\n") : undefined;
  if (isError === true) return `The tool ran and failed: ${text ?? JSON.stringify(result)}`;
  return structuredContent === undefined ? (text ?? result) : structuredContent;
}
