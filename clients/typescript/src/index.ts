/**
 * Tools of an AI agent behind a Wicketgate gate.
 *
 *     const run = await Gate.fromEnv().open({ model: "gpt-5.5" });
 *     const { result } = await run.call("notes.read", { path: "todo.md" });
 *     await run.seal();
 */
export { Gate, Run } from "./client.ts";
export type { Answer, CallOptions, GateOptions, OpenOptions } from "./client.ts";
export * from "./errors.ts";
export type * from "./models.ts";
export type { TlsOptions, WireEvent } from "./wire.ts";
