"""What the Python client makes of a gate's answers; says where a call is held, and at last that all was so."""

import json
import os
import socket
import threading

from wicketgate import (
    Conflict,
    Denied,
    Gate,
    Held,
    InvalidArguments,
    NotFound,
    NotReached,
    Sealed,
    Unauthenticated,
)


def raises(kind, work, *args, **named):
    try:
        work(*args, **named)
    except kind as why:
        assert type(why) is kind, why
        return why
    raise AssertionError(f"no {kind.__name__}")


def held(why):
    print(json.dumps({"held": why.approval}), flush=True)


class Cutting:
    """Stands before a gate, and cuts the first connections once the gate has their requests."""

    def __init__(self, cut):
        self.left, self.seen = cut, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client = self.listener.accept()[0]
            with client, self.upstream() as upstream:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += client.recv(65536)
                head, _, body = request.partition(b"\r\n\r\n")
                names = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
                names = {name.lower(): value for name, value in names.items()}
                while len(body) < int(names.get(b"content-length", 0)):
                    body += client.recv(65536)
                self.seen.append((names.get(b"idempotency-key"), body))
                upstream.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
                answer = b""
                while piece := upstream.recv(65536):
                    answer += piece
                # The gate made the call, and its answer is lost.
                if self.left > 0 and b"/gate/v1/calls" in head:
                    self.left -= 1
                    continue
                client.sendall(answer)

    def upstream(self):
        url = os.environ["WICKETGATE_URL"]
        if url.startswith("unix:"):
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(url.removeprefix("unix:"))
            return upstream
        host, _, port = url.removeprefix("http://").partition(":")
        return socket.create_connection((host, int(port)))


def token():
    path = os.environ.get("WICKETGATE_TOKEN_FILE")
    return open(path, encoding="utf-8").read().strip() if path else None


def results(run):
    names = [tool.name for tool in run.tools()]
    assert names == ["notes.read", "notes.write"], names
    assert run.tools()[0].read_only and run.tools()[0].input_schema["type"] == "object"
    answer = run.call("notes.read", path="todo.md")
    assert answer.result["text"] == "water the plants\n" and answer.status == "ok", answer
    assert answer.receipt.run_seq > 0 and run.answer(answer.call_id) == answer
    assert [event.name for event in run.events(answer.call_id)] == ["authorized", "completed"]
    large = run.call("notes.read", {"path": "large.md"})
    assert large.result["text"] == "water the plants\n" * 64_000


def refusals(run):
    why = raises(Denied, run.call, "notes.read", path="payroll.md")
    assert (why.code, why.cause, why.detail) == ("policy.denied", "payroll", "payroll is not for agents"), why
    assert why.rule == "wicketgate.agent.deny agent/main.rego:9", why.rule
    assert why.receipt and why.retry == "no" and "change the call" in why.message, why.message
    assert "payroll is not for agents" in why.for_model() and "did not run" in why.for_model()
    assert raises(Denied, run.call, "no.such").code == "tool.not_granted"
    assert "schema" in raises(InvalidArguments, run.call, "notes.read", nothing=1).next
    raises(NotFound, run.answer, "no-such-call")
    run.call("notes.read", {"path": "todo.md"}, call_id="same")
    assert run.call("notes.read", {"path": "todo.md"}, call_id="same").call_id == "same"
    raises(Conflict, run.call, "notes.read", {"path": "other.md"}, call_id="same")


def holds(run, where):
    arguments = {"path": f"held-{where}.md", "content": "x"}
    why = raises(Held, run.call, "notes.write", arguments, call_id="waits")
    assert why.call_id == "waits" and why.run_id == run.id and why.expires, why
    assert why.url == "/gate/v1/calls/waits" and f"{run.id} waits" in why.message
    assert f"`{run.id} waits`" in why.for_model(), why.for_model()
    assert run.info().counts.held == 1
    events = run.events("waits")
    assert next(events).name == "held"
    held(why)
    assert run.wait("waits", 60).status == "ok"
    assert [event.name for event in events] == ["authorized", "completed"]
    run.on_held = held
    assert run.call("notes.write", {**arguments, "path": f"held-2-{where}.md"}, wait=60).status == "ok"
    raises(Held, run.call, "notes.write", {**arguments, "path": "held-3.md"}, call_id="stops")
    run.cancel("stops")


def repeats():
    """A call whose answer is lost is asked for again, with the same id and bytes, and ran once."""
    between = Cutting(2)
    with Gate(between.url, token()).open() as run:
        answer = run.call("notes.read", path="todo.md")
        sent = [one for one in between.seen if one[0]]
        assert len(sent) == 3 and len(set(sent)) == 1, sent
        assert sent[0][0].decode() == answer.call_id
        assert run.info().counts.calls == 1


def main():
    where = os.environ["WICKETGATE_URL"].partition(":")[0].replace("http", "tcp")
    gate = Gate.from_env()
    with gate.open(labels={"for": "tests"}) as run:
        assert run.info().agent == "clients"
        results(run)
        refusals(run)
        holds(run, where)
        # Another program goes on with the run by its token.
        assert gate.join(run.opened.run_token).id == run.id
    raises_after_seal(run)
    repeats()
    if where == "tcp":
        assert "token" in raises(Unauthenticated, Gate(gate._address.url, "x" * 40).open).next
    nowhere = Gate("http://127.0.0.1:1", retry_seconds=0.3)
    assert "WICKETGATE_URL" in raises(NotReached, nowhere.open).message
    print(json.dumps({"passed": where}))


def raises_after_seal(run):
    """The token of a sealed run is dead."""
    try:
        run.call("notes.read", path="todo.md")
    except (Sealed, Unauthenticated):
        return
    raise AssertionError("a sealed run took a call")


main()
