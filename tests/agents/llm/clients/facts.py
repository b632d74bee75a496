"""What every Python client of this folder shares: its scenarios, its tools, and the facts it prints.

    client.py DIALECT[,DIALECT…] SCENARIO [SCENARIO …]

The environment says where the provider is, WICKETGATE_LLM_PROVIDER, and, if the gate is to be compared with it, where
that is, WICKETGATE_LLM_GATE (both without `/v1`); the agent's token is WICKETGATE_LLM_KEY. Each scenario is played
against the provider, those named in WICKETGATE_LLM_THROUGH then through the gate, and every time one JSON line is printed:

    {"client": "openai 3.54.0", "dialect": "chat", "scenario": "tools", "way": "direct" | "gate", "requests": 2,
     "text": "…" | null, "tools": [{"name": "…", "arguments": "{…}"}], "results": ["…"], "structured": "{…}" | null,
     "stop": "…" | null, "error": null | {"class", "status", "code", "message"}, "upstream": ["…"]}

`tools` is what the SDK delivered, `arguments` as JSON with its members in their order; `results` what the tools gave
back; `structured` the value that its user gets, in its order; `text` the last answer, or what came before an error;
`upstream` which of WORDS were in what reached the provider.
"""

import asyncio
import base64
import importlib.metadata
import json
import os
import pathlib
import sys
import urllib.request

PROVIDER = os.environ["WICKETGATE_LLM_PROVIDER"]
GATE = os.environ.get("WICKETGATE_LLM_GATE")
KEY = os.environ.get("WICKETGATE_LLM_KEY", "no-key")
MODEL = "scripted-1"
THROUGH = os.environ.get("WICKETGATE_LLM_THROUGH", "").split(",") if GATE else []
WORDS = ["policy.denied", "wicketgate_denied"]
# Where the scenario that runs is played: the one thing a client changes to go through the gate.
URL = PROVIDER
SCENARIOS = json.loads((pathlib.Path(__file__).parents[1] / "scenarios.json").read_text("utf-8"))

INSTRUCTIONS = "You are the agent of the conformance tests."
PROMPT = "Do what you are here for."
TURNS = 4

# Names and orders that no sorting leaves as they are.
TOOLS = {
    "lookup": (
        "The weather of a city.",
        {
            "type": "object",
            "properties": {
                "units": {"type": "string", "description": "metric or imperial"},
                "city": {"type": "string"},
                "days": {"type": "integer"},
            },
            "required": ["units", "city", "days"],
            "additionalProperties": False,
        },
    ),
    "write_note": (
        "Writes a note.",
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "note": {"type": "string"}},
            "required": ["path", "note"],
            "additionalProperties": False,
        },
    ),
}
SCHEMA = {
    "type": "object",
    "title": "Answer",
    "properties": {
        "reasoning": {"type": "string"},
        "answer": {"type": "integer"},
        "checked": {"type": "boolean"},
    },
    "required": ["reasoning", "answer", "checked"],
    "additionalProperties": False,
}


def lookup(units: str, city: str, days: int) -> str:
    """The weather of a city."""
    return f"{city}: {days} cold days ({units})"


def write_note(path: str, note: str) -> str:
    """Writes a note."""
    return f"wrote {note} to {path}"


def wicketgate_denied(tool: str, code: str, rule: str, message: str, call: str) -> str:
    """Gives a denial of the gate to the model: a tool that an agent may have if its library stops at unknown ones."""
    return message


def functions(facts):
    """The tools of the scenario as functions."""
    own = [wicketgate_denied] if facts.task.get("knows_denials") else []
    return [lookup, write_note, *own]


def use(name, arguments):
    """Runs a tool as an agent loop written by hand does: (what goes back to the model, whether it is an error)."""
    tools = {"lookup": lookup, "write_note": write_note}
    if name not in tools:
        return f"there is no tool {name}", True
    return tools[name](**json.loads(arguments)), False


class Facts:
    """What one scenario came to."""

    def __init__(self, scenario, way):
        self.way = way
        self.scenario, self.task = scenario, SCENARIOS[scenario]
        self.stream = self.task["stream"]
        self.text, self.stop, self.structured = None, None, None
        self.tools, self.results, self.requests = [], [], 0
        self.error = None

    def more(self, text):
        self.text = (self.text or "") + (text or "")

    def call(self, name, arguments):
        """A tool call as it was delivered: arguments as text, or as the value the SDK made of it."""
        self.tools.append({"name": name, "arguments": one_line(arguments)})

    def fail(self, error):
        """What the user of the SDK gets to see of an error."""
        # Frameworks wrap the SDK's error: the innermost that has a status says more.
        inner = error
        while inner is not None and getattr(inner, "status_code", None) is None:
            inner = inner.__cause__ or inner.__context__
        self.error = {
            "class": type(error).__name__,
            "status": getattr(inner, "status_code", None),
            "code": code_of(inner or error),
            "message": str(error),
        }


def one_line(value):
    """A JSON text, or a value, as one compact line with its members in their order; text that is no JSON as it is."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def code_of(error):
    """The error's code: the SDK's own attribute, or that of the body."""
    if getattr(error, "code", None):
        return error.code
    body = getattr(error, "body", None)
    if not isinstance(body, dict):
        return None
    inner = body.get("error", body)
    return (inner.get("wicketgate") or {}).get("code") or inner.get("code") or inner.get("type")


def count_requests(current):
    """Counts what leaves through either generation of httpx, whoever made the client."""
    import httpx
    import httpx2

    def counted(kind):
        sync, coroutine = kind.Client.send, kind.AsyncClient.send

        def send(self, request, **more):
            current[0].requests += 1
            return sync(self, request, **more)

        async def asend(self, request, **more):
            current[0].requests += 1
            return await coroutine(self, request, **more)

        kind.Client.send, kind.AsyncClient.send = send, asend

    counted(httpx)
    counted(httpx2)


def provider(path, value=None):
    """Asks the provider's own side."""
    data = None if value is None else json.dumps(value).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{PROVIDER}{path}", data=data), timeout=40) as done:
        return json.loads(done.read())


def prepare(facts):
    """Gives the provider the scenario's script."""
    script = facts.task["script"]
    provider("/script", facts.task.get("direct", script) if facts.way == "direct" else script)


def upstream():
    """Which of the words were in the requests' bodies."""
    bodies = [base64.b64decode(one["body"]).decode("utf-8", "replace") for one in provider("/requests")["requests"]]
    return [word for word in WORDS if any(word in body for body in bodies)]


def main(package, dialects):
    """Plays the scenarios of the command line; `dialects` has a function of the facts for each dialect."""
    global URL
    current = [None]
    count_requests(current)
    version = f"{package} {importlib.metadata.version(package)}"
    members = ["scenario", "way", "requests", "text", "tools", "results", "structured", "stop", "error"]
    ways = [(scenario, way) for scenario in sys.argv[2:] for way in ["direct", *["gate"] * (scenario in THROUGH)]]
    # One loop for all: some of the libraries keep a client, and with it connections, for the next call.
    with asyncio.Runner() as runner:
        for dialect, (scenario, way) in ((dialect, way) for dialect in sys.argv[1].split(",") for way in ways):
            URL = {"direct": PROVIDER, "gate": GATE}[way]
            facts = current[0] = Facts(scenario, way)
            prepare(facts)
            try:
                runner.run(asyncio.wait_for(dialects[dialect](facts), timeout=240))
            except Exception as error:  # noqa: BLE001 - whatever a library throws is what its user would see
                facts.fail(error)
            line = {"client": version, "dialect": dialect} | {name: getattr(facts, name) for name in members}
            print(json.dumps(line | {"upstream": upstream()}, ensure_ascii=False), flush=True)
