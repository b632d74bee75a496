// The client: a gate, and a run of an agent at it.
import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { Held, NotReached, Unavailable, errorOf } from "./errors.ts";
import { AGAIN } from "./models.ts";
import type { CallAnswer, OpenedRunBody, Receipt, ResultReference, RunBody, RunRequest, SealedBody, ToolBody, ToolList } from "./models.ts";
import { Address, json } from "./wire.ts";
import type { Reply, TlsOptions, WireEvent } from "./wire.ts";

// The longest time that one request waits for approvers; the gate takes no more.
const WAIT_MS_MAX = 60_000;
// The length of one part of a large result.
const PART = 1 << 20;

/** A call that ran: `result` is what the tool answered, `receipt` the entry that records it. */
export interface Answer {
  callId: string;
  status: string;
  result: unknown;
  receipt: Receipt;
}

export interface GateOptions {
  /** The agent's token. Over a Unix socket the kernel names the agent, and none is needed. */
  token?: string | undefined;
  /** For https: authorities to trust, and the agent's certificate for mutual TLS. */
  tls?: TlsOptions;
  /** How long a request is repeated, with the same call id, while nothing was decided. */
  retryMs?: number;
}

export interface CallOptions {
  /** The id of the call; if there is none, one is made. */
  callId?: string | undefined;
  /** How long to wait for approvers if the call is held. */
  waitMs?: number | undefined;
  /** Stops waiting. The call goes on: `cancel` stops it. */
  signal?: AbortSignal | undefined;
}

export interface OpenOptions extends RunRequest {
  /** The agent's instructions, of which the digests are claimed. */
  instructions?: string | string[];
}

interface Asking {
  token?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
  runId?: string;
  repeat?: boolean;
  signal?: AbortSignal | undefined;
}

/** A gate, and the agent's credential at it. */
export class Gate {
  readonly address: Address;
  readonly #token: string | undefined;
  readonly #retryMs: number;
  /** The token of the run that `wicketgate run` opened for this process. */
  #given: string | undefined;

  constructor(url: string, options: GateOptions = {}) {
    this.address = new Address(url, options.tls);
    this.#token = options.token;
    this.#retryMs = options.retryMs ?? 10_000;
  }

  /**
   * The gate of WICKETGATE_URL, with the token of WICKETGATE_TOKEN or of the file WICKETGATE_TOKEN_FILE. Below
   * `wicketgate run -- PROGRAM`, `open` gives the run that the command opened.
   */
  static fromEnv(options: GateOptions = {}): Gate {
    const { WICKETGATE_URL, WICKETGATE_TOKEN, WICKETGATE_TOKEN_FILE } = process.env;
    if (!WICKETGATE_URL) throw new NotReached("WICKETGATE_URL is not set");
    const token = WICKETGATE_TOKEN || (WICKETGATE_TOKEN_FILE && readFileSync(WICKETGATE_TOKEN_FILE, "utf8").trim()) || undefined;
    const gate = new Gate(WICKETGATE_URL, { token, ...options });
    gate.#given = process.env["WICKETGATE_RUN_TOKEN"] || undefined;
    return gate;
  }

  /** Where it answers, for a client that takes a URL. */
  get url(): string {
    const { url } = this.address;
    if (url.startsWith("unix:")) {
      throw new TypeError("a socket has no URL that a model's client takes: set WICKETGATE_URL to the gate's TCP address");
    }
    return url.replace(/\/$/, "");
  }

  /** Opens a run with the agent's claims. A run that `wicketgate run` opened has the claims of that command. */
  async open({ instructions = [], ...claims }: OpenOptions = {}): Promise<Run> {
    if (this.#given) return this.join(this.#given);
    const digests = [instructions].flat().map((text) => createHash("sha256").update(text).digest("hex"));
    const body = { ...claims, ...(digests.length > 0 ? { instructions_sha256: digests } : {}) };
    const reply = await this.ask("POST", "/gate/v1/runs", { token: this.#token, body, repeat: false });
    const opened = json(reply.body) as OpenedRunBody;
    return new Run(this, opened.run_token, opened.run_id);
  }

  /** A run that another program opened, by its token. */
  async join(runToken: string): Promise<Run> {
    const run = new Run(this, runToken, "");
    return new Run(this, runToken, (await run.info()).run_id);
  }

  /** One request; again, byte for byte, while the gate decided nothing. A problem is thrown. */
  async ask(method: string, path: string, asking: Asking): Promise<Reply> {
    const headers: Record<string, string> = { ...asking.headers };
    if (asking.token) headers["authorization"] = `Bearer ${asking.token}`;
    let raw: Buffer | undefined;
    if (asking.body !== undefined) {
      // Once: a repeated call has the same bytes.
      raw = Buffer.from(JSON.stringify(asking.body));
      headers["content-type"] = "application/json";
    }
    const until = Date.now() + this.#retryMs;
    for (let wait = 100; ; wait = Math.min(wait * 2, 2000)) {
      try {
        const reply = await this.address.ask(method, path, headers, raw, asking.signal);
        const problem = reply.status < 300 && reply.status !== 202 ? undefined : json(reply.body);
        if (problem === undefined && reply.status < 300) return reply;
        if (reply.status === 202 && !(problem as { code?: string } | undefined)?.code) return reply;
        throw errorOf(problem, reply.status, asking.runId);
      } catch (why) {
        if (!(why instanceof Unavailable)) throw why;
        const lost = why instanceof NotReached && (asking.repeat !== false || !why.sent);
        if (!(lost || AGAIN.includes(why.code)) || Date.now() + wait > until) throw why;
        await pause(wait, undefined, asking.signal ? { signal: asking.signal } : {});
      }
    }
  }
}

/** A run of the agent. `await using` seals it at the end. */
export class Run {
  readonly gate: Gate;
  readonly id: string;
  /** Gets each call that begins to wait for approvers: a program can tell people. */
  onHeld: ((held: Held) => void) | undefined;
  readonly #token: string;

  constructor(gate: Gate, token: string, id: string) {
    this.gate = gate;
    this.id = id;
    this.#token = token;
  }

  #ask(method: string, path: string, more: Omit<Asking, "token" | "runId"> = {}): Promise<Reply> {
    return this.gate.ask(method, path, { ...more, token: this.#token, runId: this.id });
  }

  /** The run: agent, binding, how many calls. */
  async info(): Promise<RunBody> {
    return json((await this.#ask("GET", "/gate/v1/run")).body) as RunBody;
  }

  /**
   * What a provider of an OpenAI dialect takes so that its requests belong to this run: `createOpenAI(run.openai())`. Then the
   * gate sees which calls the model asked for.
   */
  openai(): { baseURL: string; apiKey: string } {
    return { baseURL: `${this.gate.url}/v1`, apiKey: this.#token };
  }

  /** The tools that the manifest grants, with the schemas of their arguments. */
  async tools(): Promise<ToolBody[]> {
    return (json((await this.#ask("GET", "/gate/v1/tools")).body) as ToolList).tools;
  }

  /**
   * Makes one call, and throws an error of this package if it has no result. The call id is sent as `Idempotency-Key`, the
   * same whenever the request has to be sent again: the call runs at most once.
   */
  async call(tool: string, args: Record<string, unknown> = {}, options: CallOptions = {}): Promise<Answer> {
    const callId = options.callId ?? randomUUID();
    try {
      const headers = { "idempotency-key": callId };
      const body = { tool, arguments: args };
      return await this.#answer(await this.#ask("POST", "/gate/v1/calls", { body, headers, signal: options.signal }));
    } catch (why) {
      if (!(why instanceof Held) || !options.waitMs) throw why;
      this.onHeld?.(why);
      return this.wait(callId, options.waitMs, options.signal);
    }
  }

  /** The answer of a call, waiting so long for approvers. `Held` is thrown if it still waits. */
  async wait(callId: string, ms: number, signal?: AbortSignal): Promise<Answer> {
    const until = Date.now() + ms;
    for (;;) {
      const left = Math.min(Math.max(0, until - Date.now()), WAIT_MS_MAX);
      try {
        const query = left > 0 ? `?wait_ms=${Math.floor(left)}` : "";
        return await this.#answer(await this.#ask("GET", `/gate/v1/calls/${callId}${query}`, { signal }));
      } catch (why) {
        if (!(why instanceof Held) || Date.now() >= until) throw why;
      }
    }
  }

  /** The recorded answer of a call. */
  answer(callId: string): Promise<Answer> {
    return this.wait(callId, 0);
  }

  /** Asks a call to stop; how it ended is its answer. */
  async cancel(callId: string): Promise<void> {
    await this.#ask("DELETE", `/gate/v1/calls/${callId}`);
  }

  /** What happens to a call, as it happens, until it is over. */
  async *events(callId: string): AsyncGenerator<WireEvent> {
    let last = "";
    for (let failures = 0; ; ) {
      const headers: Record<string, string> = { authorization: `Bearer ${this.#token}` };
      if (last) headers["last-event-id"] = last;
      try {
        for await (const event of this.gate.address.events(`/gate/v1/calls/${callId}/events`, headers)) {
          if (!event.name && event.id === "204") return;
          if (!event.name) throw errorOf(event.data, Number(event.id), this.id);
          [last, failures] = [event.id || last, 0];
          yield event;
          if (event.name === "completed" || event.name === "problem") return;
        }
      } catch (why) {
        // A broken stream is taken up where it ended.
        if (!(why instanceof NotReached) || ++failures > 20) throw why;
      }
      await pause(200);
    }
  }

  /** Ends the run: its token is dead. */
  async seal(): Promise<SealedBody> {
    return json((await this.#ask("POST", "/gate/v1/run/seal")).body) as SealedBody;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.seal();
  }

  async #answer(reply: Reply): Promise<Answer> {
    const body = json(reply.body) as CallAnswer;
    const result = body.result_ref ? await this.#whole(body.result_ref) : body.result;
    return { callId: body.call_id, status: body.status, result, receipt: body.receipt };
  }

  /** A result of more than 1 MiB: fetched in parts, and compared with its digest. */
  async #whole(reference: ResultReference): Promise<unknown> {
    const parts: Buffer[] = [];
    for (let at = 0; at < reference.size; ) {
      const range = `bytes=${at}-${Math.min(at + PART, reference.size) - 1}`;
      const { body } = await this.#ask("GET", reference.href, { headers: { range } });
      if (body.length === 0) break;
      parts.push(body);
      at += body.length;
    }
    const raw = Buffer.concat(parts);
    if (createHash("sha256").update(raw).digest("hex") !== reference.sha256) {
      throw new NotReached(`the result at ${reference.href} is not what its digest says`);
    }
    return json(raw);
  }
}
