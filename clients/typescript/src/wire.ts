// HTTP/1.1 to a gate over TCP or its Unix socket. `fetch` has no Unix sockets, so this is node:http.
import { request as plain } from "node:http";
import type { IncomingMessage, RequestOptions } from "node:http";
import { request as secure } from "node:https";
import { NotReached } from "./errors.ts";

/** A whole answer. */
export interface Reply {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

/** One event of a call. */
export interface WireEvent {
  name: string;
  id: string;
  data: unknown;
}

// A gate answers a call within its tool's deadline, at most ten minutes, and writes at least every second to a stream.
const TIMEOUT_MS = 660_000;

/** For https: authorities to trust, and the agent's certificate for mutual TLS. */
export interface TlsOptions {
  ca?: string | Buffer;
  cert?: string | Buffer;
  key?: string | Buffer;
}

/** Where a gate answers: `http://HOST:PORT`, `https://HOST`, or `unix:PATH`. */
export class Address {
  readonly url: string;
  readonly #options: RequestOptions;
  readonly #secure: boolean;

  constructor(url: string, tls: TlsOptions = {}) {
    this.url = url;
    this.#secure = url.startsWith("https:");
    const socket = /^unix:(?:\/\/(?=\/))?(.+)$/.exec(url);
    if (socket) {
      this.#options = { socketPath: socket[1]!, host: "localhost" };
      return;
    }
    if (!/^https?:\/\/[^/]+\/?$/.test(url)) {
      throw new TypeError(`\`${url}\` is no address of a gate: write http://HOST:PORT, https://HOST or unix:PATH`);
    }
    const { hostname, port } = new URL(url);
    this.#options = { ...tls, host: hostname.replace(/^\[|\]$/g, ""), ...(port ? { port } : {}) };
  }

  #begin(method: string, path: string, headers: Record<string, string>, body?: Buffer, signal?: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const length: Record<string, string> = body || method !== "GET" ? { "content-length": String(body?.length ?? 0) } : {};
      const options: RequestOptions = { ...this.#options, method, path, headers: { ...headers, ...length }, agent: false, timeout: TIMEOUT_MS };
      if (signal) options.signal = signal;
      const request = (this.#secure ? secure : plain)(options, resolve);
      request.on("timeout", () => request.destroy(new Error("no answer in time")));
      const lost = (why: NodeJS.ErrnoException) => {
        const sent = !["ECONNREFUSED", "ENOENT", "ENOTFOUND"].includes(why.code ?? "");
        return new NotReached(`no answer from the gate at ${this.url}: ${why.message}`, sent);
      };
      request.on("error", (why) => reject(signal?.aborted ? signal.reason : lost(why)));
      request.end(body);
    });
  }

  /** One request, and its whole answer. */
  async ask(method: string, path: string, headers: Record<string, string>, body?: Buffer, signal?: AbortSignal): Promise<Reply> {
    const response = await this.#begin(method, path, headers, body, signal);
    const parts: Buffer[] = [];
    try {
      for await (const part of response) parts.push(part as Buffer);
    } catch (why) {
      if (signal?.aborted) throw signal.reason;
      throw new NotReached(`the gate at ${this.url} did not finish its answer: ${String(why)}`);
    }
    const lines = Object.entries(response.headers).map(([name, value]) => [name, String(value)]);
    return { status: response.statusCode ?? 0, headers: Object.fromEntries(lines), body: Buffer.concat(parts) };
  }

  /** The events of a call. An answer that is no stream is one event without a name, its status as the id. */
  async *events(path: string, headers: Record<string, string>): AsyncGenerator<WireEvent> {
    const response = await this.#begin("GET", path, { ...headers, accept: "text/event-stream" });
    try {
      if (!(response.headers["content-type"] ?? "").startsWith("text/event-stream")) {
        const parts: Buffer[] = [];
        for await (const part of response) parts.push(part as Buffer);
        yield { name: "", id: String(response.statusCode), data: json(Buffer.concat(parts)) };
        return;
      }
      yield* read(response);
    } catch (why) {
      throw why instanceof NotReached ? why : new NotReached(`the gate at ${this.url} ended the stream: ${String(why)}`);
    } finally {
      response.destroy();
    }
  }
}

async function* read(response: IncomingMessage): AsyncGenerator<WireEvent> {
  response.setEncoding("utf8");
  let rest = "";
  let event = { name: "", id: "", data: [] as string[] };
  for await (const piece of response) {
    const lines = (rest + String(piece)).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const [, member, value] = /^([^:]*):? ?(.*?)\r?$/s.exec(line) ?? ["", "", ""];
      if (member === "" && value === "") {
        if (event.data.length > 0 && !line.startsWith(":")) yield { name: event.name, id: event.id, data: JSON.parse(event.data.join("\n")) };
        if (!line.startsWith(":")) event = { name: "", id: event.id, data: [] };
      } else if (member === "event") event.name = value ?? "";
      else if (member === "id") event.id = value ?? "";
      else if (member === "data") event.data.push(value ?? "");
    }
  }
}

/** A body as a value; undefined if it is not JSON. */
export function json(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}
