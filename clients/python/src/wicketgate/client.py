"""The client: a gate, and a run of an agent at it."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import functools
import hashlib
import json
import os
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from . import errors
from ._http import Address, Reply, secret
from ._models import AGAIN, CallAnswer, OpenedRunBody, Problem, Receipt, ResultReference, RunBody, SealedBody, ToolBody

T = TypeVar("T")

# The longest time that one request waits for approvers; the gate takes a minute. A thread that waits ends soon after its
# program.
WAIT_MS_MAX = 10_000
# The length of one part of a large result.
PART = 1 << 20

_current: contextvars.ContextVar[Run | None] = contextvars.ContextVar("wicketgate_run", default=None)
_ambient: list[Run] = []


@dataclass(frozen=True)
class Answer:
    """A call that ran: `result` is what the tool answered, `receipt` the entry that records it."""

    call_id: str
    status: str
    result: Any
    receipt: Receipt
    outcome_pending: bool = False

    @property
    def is_error(self) -> bool:
        """Whether an MCP tool ran and answered that it failed."""
        return isinstance(self.result, dict) and self.result.get("isError") is True

    @property
    def text(self) -> str:
        """The result as a text: of an MCP tool the parts that are text."""
        content = self.result.get("content") if isinstance(self.result, dict) else None
        parts = [part.get("text") if isinstance(part, dict) else None for part in content or []]
        texts = [part for part in parts if isinstance(part, str)]
        if texts and len(texts) == len(parts):
            return "\n".join(texts)
        return self.result if isinstance(self.result, str) else json.dumps(self.result, ensure_ascii=False)


@dataclass(frozen=True)
class Event:
    """Something that happened to a call: `held`, `authorized`, `progress`, `completed` or `problem`."""

    name: str
    id: str
    data: Any


class Gate:
    """A gate, and the agent's credential at it. Over a Unix socket the kernel names the agent, and no token is needed."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        context: ssl.SSLContext | None = None,
        retry_seconds: float = 10.0,
    ) -> None:
        self._address = Address(url, context)
        self._token = token
        # How long a request is repeated, with the same call id, while nothing was decided.
        self.retry_seconds = retry_seconds
        # The run that `wicketgate run` opened for this process: its token and id.
        self._given: tuple[str, str] | None = None

    @property
    def url(self) -> str:
        """Where it answers, for a client that takes a URL."""
        if self._address.url.startswith("unix:"):
            raise ValueError("a socket has no URL that a model's client takes: set WICKETGATE_URL to the gate's TCP address")
        return self._address.url.rstrip("/")

    @classmethod
    def from_env(cls, **more: Any) -> Gate:
        """The gate of WICKETGATE_URL, with the token of WICKETGATE_TOKEN or of the file WICKETGATE_TOKEN_FILE. Below
        `wicketgate run -- PROGRAM`, `open` gives the run that the command opened."""
        url = os.environ.get("WICKETGATE_URL")
        if not url:
            raise errors.unavailable("WICKETGATE_URL is not set")
        gate = cls(url, secret("WICKETGATE_TOKEN"), **more)
        run_token = os.environ.get("WICKETGATE_RUN_TOKEN")
        if run_token:
            gate._given = (run_token, os.environ.get("WICKETGATE_RUN", ""))
        return gate

    def open(
        self,
        *,
        model: str = "",
        instructions: str | Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        **claims: Any,
    ) -> Run:
        """Opens a run. `model` and `instructions` (texts) are what the agent claims; `claims` are other members of
        `RunRequest`. A run that `wicketgate run` opened has the claims of that command, and the command seals it."""
        if self._given:
            return self.join(*self._given)
        texts = [instructions] if isinstance(instructions, str) else list(instructions)
        body = {"model": model, "labels": dict(labels or {}), **claims}
        if texts:
            body["instructions_sha256"] = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        opened = self._ask("POST", "/gate/v1/runs", self._token, body, repeat=False)
        return Run(self, OpenedRunBody.of(opened.json()))

    def join(self, run_token: str, run_id: str = "") -> Run:
        """A run that another program opened, by its token. It is not sealed here."""
        run = Run(self, token=run_token, run_id=run_id)
        if not run_id:
            run.info()
        return run

    def _ask(
        self,
        verb: str,
        path: str,
        token: str | None,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        run_id: str | None = None,
        repeat: bool = True,
    ) -> Reply:
        """One request; again, byte for byte, while the gate decided nothing. A problem is raised."""
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {token}"
        raw = None
        if body is not None:
            # Once: a repeated call has the same bytes.
            raw = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
            sent["Content-Type"] = "application/json"
        until, pause = time.monotonic() + self.retry_seconds, 0.1
        while True:
            try:
                reply = self._address.ask(verb, path, sent, raw)
                if reply.status < 300 and reply.status != 202:
                    return reply
                problem = reply.json()
                if reply.status == 202 and not (isinstance(problem, Mapping) and "code" in problem):
                    return reply
                raise errors.error(problem, reply.status, run_id)
            except errors.Unavailable as why:
                lost = isinstance(why, errors.NotReached) and (repeat or not why.sent)
                if not (lost or why.code in AGAIN) or time.monotonic() + pause > until:
                    raise
                time.sleep(max(pause, min(why.retry_after or 0, until - time.monotonic())))
                pause = min(pause * 2, 2.0)

    def __repr__(self) -> str:
        return f"Gate({self._address.url!r})"


class Run:
    """A run of the agent. As a context manager it is the current run, and is sealed at the end."""

    def __init__(
        self, gate: Gate, opened: OpenedRunBody | None = None, *, token: str = "", run_id: str = ""
    ) -> None:
        self.gate = gate
        self.opened = opened
        self._token = opened.run_token if opened else token
        self.id = opened.run_id if opened else run_id
        # Gets each call that begins to wait for approvers: a program can tell people.
        self.on_held: Callable[[errors.Held], None] | None = None
        self._sealed = False
        self._workers: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._reset: contextvars.Token[Run | None] | None = None

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    # --- what the agent asks ---

    def _get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self.gate._ask("GET", path, self._token, headers=headers, run_id=self.id)

    def info(self) -> RunBody:
        """The run: agent, binding, how many calls."""
        found = RunBody.of(self._get("/gate/v1/run").json())
        self.id = found.run_id
        return found

    def openai(self) -> dict[str, str]:
        """What an OpenAI client takes so that its requests belong to this run: `AsyncOpenAI(**run.openai())`. Then the gate
        sees which calls the model asked for."""
        return {"base_url": f"{self.gate.url}/v1", "api_key": self._token}

    def anthropic(self) -> dict[str, str]:
        """The same for `Anthropic(**run.anthropic())`."""
        return {"base_url": self.gate.url, "auth_token": self._token}

    def tools(self) -> list[ToolBody]:
        """The tools that the manifest grants, with the schemas of their arguments."""
        return [ToolBody.of(tool) for tool in self._get("/gate/v1/tools").json()["tools"]]

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        call_id: str | None = None,
        wait: float = 0.0,
        **named: Any,
    ) -> Answer:
        """Makes one call, and raises an error of `wicketgate.errors` if it has no result.

        The call id is sent as `Idempotency-Key`, the same whenever the request has to be sent again: the call runs at
        most once. A held call is waited for `wait` seconds, then `Held` is raised.
        """
        if arguments is not None and named:
            raise TypeError("give the arguments as one mapping or by name, not both")
        ident = call_id or uuid.uuid4().hex
        body = {"tool": tool, "arguments": dict(arguments if arguments is not None else named)}
        headers = {"Idempotency-Key": ident}
        try:
            reply = self.gate._ask("POST", "/gate/v1/calls", self._token, body, headers=headers, run_id=self.id)
        except errors.Held as held:
            if wait <= 0:
                raise
            if self.on_held is not None:
                self.on_held(held)
            return self.wait(ident, wait)
        return self._answer(reply)

    def answer(self, call_id: str) -> Answer:
        """The recorded answer of a call."""
        return self.wait(call_id, 0)

    def wait(self, call_id: str, seconds: float) -> Answer:
        """The answer of a call, waiting so long for approvers. `Held` is raised if it still waits."""
        until = time.monotonic() + seconds
        while True:
            left = max(0, int((until - time.monotonic()) * 1000))
            asked = f"?wait_ms={min(left, WAIT_MS_MAX)}" if left else ""
            try:
                return self._answer(self._get(f"/gate/v1/calls/{call_id}{asked}"))
            except errors.Held:
                if time.monotonic() >= until:
                    raise

    def cancel(self, call_id: str) -> None:
        """Asks a call to stop; how it ended is its answer."""
        self.gate._ask("DELETE", f"/gate/v1/calls/{call_id}", self._token, run_id=self.id)

    def events(self, call_id: str) -> Iterator[Event]:
        """What happens to a call, as it happens, until it is over. A broken stream is taken up where it ended."""
        last, until = "", time.monotonic() + self.gate.retry_seconds
        while True:
            headers = {"Authorization": f"Bearer {self._token}", **({"Last-Event-ID": last} if last else {})}
            try:
                for name, ident, data in self.gate._address.events(f"/gate/v1/calls/{call_id}/events", headers):
                    if not name:
                        if ident == "204":
                            return
                        raise errors.error(data, int(ident), self.id)
                    last, until = ident or last, time.monotonic() + self.gate.retry_seconds
                    yield Event(name, ident, data)
                    if name in ("completed", "problem"):
                        return
            except errors.NotReached:
                if time.monotonic() > until:
                    raise
            time.sleep(0.2)

    def seal(self) -> SealedBody:
        """Ends the run: its token is dead."""
        self._sealed = True
        return SealedBody.of(self.gate._ask("POST", "/gate/v1/run/seal", self._token, run_id=self.id).json())

    # --- large results ---

    def _answer(self, reply: Reply) -> Answer:
        body = CallAnswer.of(reply.json())
        result = body.result if body.result_ref is None else self._whole(body.result_ref)
        return Answer(body.call_id, body.status, result, body.receipt, body.outcome_pending)

    def _whole(self, reference: ResultReference) -> Any:
        """A result of more than 1 MiB: fetched in parts, and compared with its digest."""
        raw = b""
        while len(raw) < reference.size:
            end = min(len(raw) + PART, reference.size) - 1
            part = self._get(reference.href, {"Range": f"bytes={len(raw)}-{end}"}).body
            if not part:
                break
            raw += part
        if hashlib.sha256(raw).hexdigest() != reference.sha256:
            raise errors.unavailable(f"the result at {reference.href} is not what its digest says")
        return json.loads(raw)

    # --- for frameworks that do not wait ---

    async def in_thread(self, work: Callable[..., T], *args: Any, **named: Any) -> T:
        """Does this apart from the event loop, on threads of the run's own: one that waits for a person stops no other
        work."""
        with self._lock:
            if self._workers is None:
                self._workers = ThreadPoolExecutor(64, thread_name_prefix="wicketgate")
        return await asyncio.get_running_loop().run_in_executor(self._workers, functools.partial(work, *args, **named))

    async def acall(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Answer:
        """`call`, for a coroutine."""
        return await self.in_thread(self.call, tool, arguments, **more)

    # --- the current run ---

    def __enter__(self) -> Run:
        self._reset = _current.set(self)
        _ambient.append(self)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._reset is not None:
            _current.reset(self._reset)
            self._reset = None
        if self in _ambient:
            _ambient.remove(self)
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
            self._workers = None
        if self.opened is not None and not self._sealed:
            try:
                self.seal()
            except errors.GateError:
                # What went wrong in the block says more.
                if kind is None:
                    raise


_shared = threading.Lock()
_joined: list[Run] = []


def current_run() -> Run:
    """The run of the nearest `with`; else that of WICKETGATE_RUN_TOKEN, or one that is opened now, of this process."""
    run = _current.get() or (_ambient[-1] if _ambient else None)
    if run is not None:
        return run
    with _shared:
        if not _joined:
            gate, token = Gate.from_env(), secret("WICKETGATE_RUN_TOKEN")
            _joined.append(gate.join(token) if token else gate.open())
            atexit.register(_leave, _joined[0])
        return _joined[0]


def _leave(run: Run) -> None:
    if run.opened is not None:
        with contextlib.suppress(errors.GateError):
            run.seal()


__all__ = ["Answer", "Event", "Gate", "Problem", "Run", "current_run"]
