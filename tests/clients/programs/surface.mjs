// What the TypeScript client makes of a gate's answers; says where a call is held, and at last that all was so.
import assert from "node:assert/strict";
import { createServer, connect } from "node:net";
import { readFileSync } from "node:fs";
import { Conflict, Denied, Gate, Held, InvalidArguments, NotFound, NotReached, Unauthenticated } from "wicketgate-sdk";

async function raises(kind, work) {
  try {
    await work();
  } catch (why) {
    assert.equal(why.constructor, kind, String(why));
    return why;
  }
  return assert.fail(`no ${kind.name}`);
}

const held = (why) => console.log(JSON.stringify({ held: why.approval }));
const where = process.env.WICKETGATE_URL.startsWith("unix:") ? "unix" : "tcp";
const token = process.env.WICKETGATE_TOKEN_FILE && readFileSync(process.env.WICKETGATE_TOKEN_FILE, "utf8").trim();
const names = async (events) => (await Array.fromAsync(events)).map(({ name }) => name);

async function results(run) {
  const tools = await run.tools();
  assert.deepEqual(tools.map(({ name }) => name), ["notes.read", "notes.write"]);
  const answer = await run.call("notes.read", { path: "todo.md" });
  assert.equal(answer.result.text, "water the plants\n");
  assert.ok(answer.receipt.run_seq > 0);
  assert.deepEqual(await run.answer(answer.callId), answer);
  assert.deepEqual(await names(run.events(answer.callId)), ["authorized", "completed"]);
  const large = await run.call("notes.read", { path: "large.md" });
  assert.equal(large.result.text, "water the plants\n".repeat(64_000));
}

async function refusals(run) {
  const why = await raises(Denied, () => run.call("notes.read", { path: "payroll.md" }));
  assert.deepEqual([why.code, why.finerCode, why.detail], ["policy.denied", "payroll", "payroll is not for agents"]);
  assert.equal(why.rule, "wicketgate.agent.deny agent/main.rego:9");
  assert.match(why.message, /change the call/);
  assert.match(why.forModel(), /payroll is not for agents.*did not run|did not run.*payroll is not for agents/);
  assert.equal((await raises(Denied, () => run.call("no.such"))).code, "tool.not_granted");
  assert.match((await raises(InvalidArguments, () => run.call("notes.read", { nothing: 1 }))).next, /schema/);
  await raises(NotFound, () => run.answer("no-such-call"));
  await run.call("notes.read", { path: "todo.md" }, { callId: "same" });
  await raises(Conflict, () => run.call("notes.read", { path: "other.md" }, { callId: "same" }));
}

async function holds(run) {
  const args = { path: `held-ts-${where}.md`, content: "x" };
  const why = await raises(Held, () => run.call("notes.write", args, { callId: "waits" }));
  assert.deepEqual([why.callId, why.runId, why.url], ["waits", run.id, "/gate/v1/calls/waits"]);
  assert.ok(why.forModel().includes(`\`${run.id} waits\``), why.forModel());
  assert.equal((await run.info()).counts.held, 1);
  const events = run.events("waits");
  assert.equal((await events.next()).value.name, "held");
  held(why);
  assert.equal((await run.wait("waits", 60_000)).status, "ok");
  assert.deepEqual(await names(events), ["authorized", "completed"]);
  run.onHeld = held;
  const written = await run.call("notes.write", { ...args, path: `held-ts-2-${where}.md` }, { waitMs: 60_000 });
  assert.equal(written.status, "ok");
  // A program that stops waiting leaves the call as it is.
  const leaves = new AbortController();
  run.onHeld = () => leaves.abort(new Error("enough"));
  const left = run.call("notes.write", { ...args, path: "held-3.md" }, { callId: "stops", waitMs: 60_000, signal: leaves.signal });
  await assert.rejects(left, /enough|aborted/);
  await raises(Held, () => run.answer("stops"));
  await run.cancel("stops");
}

/** Stands before a gate, and cuts the first connections of calls once the gate answered. */
async function cutting(times) {
  const seen = [];
  const server = createServer((client) => {
    let request = "";
    client.on("error", () => {});
    client.on("data", (piece) => {
      request += piece;
      const [head, body] = request.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head ?? "")?.[1] ?? 0);
      if (body === undefined || body.length < length) return;
      const key = /idempotency-key: (\S+)/i.exec(head)?.[1];
      if (key) seen.push(`${key} ${body}`);
      const url = process.env.WICKETGATE_URL;
      const upstream = url.startsWith("unix:") ? connect(url.slice(5)) : connect(Number(new URL(url).port), "127.0.0.1");
      const whole = head.replace(/\r\nconnection: [^\r]*/i, "") + "\r\nConnection: close\r\n\r\n" + body;
      let answer = "";
      upstream.on("data", (part) => (answer += part));
      upstream.on("end", () => (key && times-- > 0 ? client.destroy() : client.end(answer)));
      upstream.write(whole);
    });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { seen, server, url: `http://127.0.0.1:${server.address().port}` };
}

async function repeats() {
  const between = await cutting(2);
  const run = await new Gate(between.url, { token }).open();
  const answer = await run.call("notes.read", { path: "todo.md" });
  assert.equal(between.seen.length, 3);
  assert.equal(new Set(between.seen).size, 1);
  assert.ok(between.seen[0].startsWith(answer.callId));
  assert.equal((await run.info()).counts.calls, 1);
  await run.seal();
  between.server.close();
}

const run = await Gate.fromEnv().open({ labels: { for: "tests" } });
await results(run);
await refusals(run);
await holds(run);
await run.seal();
await repeats();
if (where === "tcp") await raises(Unauthenticated, () => new Gate(process.env.WICKETGATE_URL, { token: "x".repeat(40) }).open());
const nowhere = await raises(NotReached, () => new Gate("http://127.0.0.1:1", { retryMs: 100 }).open());
assert.match(nowhere.message, /WICKETGATE_URL/);
console.log(JSON.stringify({ passed: where }));
