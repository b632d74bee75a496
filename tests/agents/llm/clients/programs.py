"""Coding agents as programs: Claude Code, Codex, opencode, each run without a person and with a clean home.

    programs.py claude|codex|opencode SCENARIO [SCENARIO …]

The environment is that of facts.py; beside it WICKETGATE_TEST_LLM and WICKETGATE_TEST_MCP say where the programs and the
MCP server are installed, and WICKETGATE_LLM_MCP is the gate's MCP face in the run that the model calls belong to. A
scenario is one of programs.json, where "$write NAME" stands for a call of the program's own tool that writes a file,
"$echo TEXT" for a call of the MCP server's `echo` under the name the program gives it, and "$note TEXT" for one of the
gate's `notes.write`; {"gate": NAME, "arguments"} is a call of another tool of the gate. A scenario with
`"ways": ["gate"]` is played through the gate only, one with `"own_tools": false` by a program whose own tools are turned
off; "surroundings" are more of the program's environment. One JSON line for each scenario and way, as in facts.py, but:

    "requests": what reached the provider, without the programs' requests for titles · "tools": names only, as the program
    tells them · "files": what is in the working directory · "exit": its status · "outside": what else it asked for

WICKETGATE_LLM_HOME is a home and a working directory (`work` in it) that stay, so that a program's instructions are the
same every time. WICKETGATE_LLM_PIN is a directory: "instructions" are then the entries of a manifest that the instructions
of all requests match, and the templates among them are written there.

Nothing of a program's own prompts is printed or kept.
"""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

PROVIDER = os.environ["WICKETGATE_LLM_PROVIDER"]
GATE = os.environ.get("WICKETGATE_LLM_GATE")
THROUGH = os.environ.get("WICKETGATE_LLM_THROUGH", "").split(",") if GATE else []
GATE_MCP = os.environ.get("WICKETGATE_LLM_MCP")
KEY = os.environ.get("WICKETGATE_LLM_KEY", "no-key")
PACKAGES = pathlib.Path(os.environ["WICKETGATE_TEST_LLM"]) / "npm/node_modules"
SERVERS = pathlib.Path(os.environ["WICKETGATE_TEST_MCP"])
SCENARIOS = json.loads((pathlib.Path(__file__).parents[1] / "programs.json").read_text("utf-8"))
MACHINE = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
WORDS = ["policy.denied", "wicketgate_denied", "a person has to look"]
PROMPT = "Do what you are here for."
# A program hangs for longer than this only if it hangs: the machine may be busy with a build.
SECONDS = 240
ECHO = {"direct": "echo", "gate": "everything_echo"}
# What Codex offers its model beside the tools of MCP servers, by its names of features.
CODEX_TOOLS = ["shell_tool", "unified_exec", "view_image", "image_generation", "multi_agent", "goals"]
CODEX_TOOLS += ["sleep_tool", "tool_suggest"]
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def echo_server():
    """The command of the MCP server that a program has without the gate."""
    server = SERVERS / "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    return [str(SERVERS / "python-1/bin/node"), str(server), "stdio"]


class Claude:
    """Two things are set: the URL (without `/v1`) and the token. The rest keeps it from asking for other things."""

    package, dialect, model = "@anthropic-ai/claude-code", "messages", "claude-opus-5-5"
    own_tools = True

    def governed(self, name):
        return {"name": f"mcp__gov__{name}"}

    def write(self, name):
        return {"name": "Bash", "arguments": {"command": f"echo written > {name}", "description": "Writes a file"}}

    def command(self, home, url, mcp):
        if mcp is None:
            command, *args = echo_server()
            server = {"type": "stdio", "command": command, "args": args}
        else:
            server = {"type": "http", "url": mcp, "headers": {"Authorization": f"Bearer {KEY}"}}
        program = PACKAGES / f"@anthropic-ai/claude-code-linux-{MACHINE}/claude"
        words = [program, "-p", PROMPT, "--model", self.model, "--output-format", "stream-json", "--verbose"]
        words += ["--strict-mcp-config", "--mcp-config", json.dumps({"mcpServers": {"gov": server}})]
        words += ["--allowedTools", "Bash", "mcp__gov"] if self.own_tools else ["--tools", "", "--allowedTools", "mcp__gov"]
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
        # Otherwise the model has to ask for the tools of a server before it can see them.
        quiet |= {"ENABLE_TOOL_SEARCH": "false"}
        return words, {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": KEY} | quiet

    def read(self, facts, event):
        if event.get("type") == "assistant":
            for block in event["message"]["content"]:
                if block["type"] == "tool_use":
                    facts["tools"].append(block["name"])
        elif event.get("type") == "result":
            wrong = event.get("is_error")
            facts["error" if wrong else "text"] = event.get("result")


class Codex:
    """A provider of its own in config.toml. It offers a web search that the provider would run: the gate strips it."""

    package, dialect, model = "@openai/codex", "responses", "scripted-1"
    own_tools = True

    def governed(self, name):
        return {"namespace": "mcp__gov", "name": name}

    def write(self, name):
        return {"name": "exec_command", "arguments": {"cmd": f"echo written > {name}"}}

    def command(self, home, url, mcp):
        own = "" if self.own_tools else 'web_search = "disabled"'
        tools = "".join(f"{name} = false\n" for name in ([] if self.own_tools else CODEX_TOOLS))
        config = f"""
model = "{self.model}"
model_provider = "gate"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
{own}

[analytics]
enabled = false

[features]
plugins = false
apps = false
remote_plugin = false
{tools}
[model_providers.gate]
name = "gate"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "GATE_TOKEN"
request_max_retries = 1
stream_max_retries = 1

# Without these Codex asks the model before a server that is slow to start has told its tools.
[mcp_servers.gov]
required = true
startup_timeout_sec = 120
"""
        if mcp is None:
            command, *args = echo_server()
            config += f"command = {json.dumps(command)}\nargs = {json.dumps(args)}\n"
        else:
            config += f'url = {json.dumps(mcp)}\nbearer_token_env_var = "GATE_TOKEN"\n'
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex/config.toml").write_text(config, "utf-8")
        program = next((PACKAGES / f"@openai/codex-linux-{MACHINE}/vendor").glob("*/bin/codex"))
        return [program, "exec", "--json", "--skip-git-repo-check", PROMPT], {"GATE_TOKEN": KEY}

    def read(self, facts, event):
        item = event.get("item") or {}
        if event.get("type") == "item.completed":
            if item["type"] == "agent_message":
                facts["text"] = item["text"]
            elif item["type"] == "command_execution":
                facts["tools"].append("exec_command")
            elif item["type"] == "mcp_tool_call":
                facts["tools"].append(item["tool"])
        elif event.get("type") == "turn.failed":
            facts["error"] = event["error"]["message"]


class Opencode:
    """A provider of its own, openai-compatible. It asks for a title beside the answer.

    The package of the program itself installs others for each kind of machine; only this one is pinned: it runs on every
    x86-64."""

    package, dialect, model = "opencode-linux-x64-baseline", "chat", "scripted-1"
    own_tools = True

    def governed(self, name):
        return {"name": f"gov_{name}"}

    def write(self, name):
        return {"name": "bash", "arguments": {"command": f"echo written > {name}", "description": "Writes a file"}}

    def command(self, home, url, mcp):
        if mcp is None:
            server = {"type": "local", "command": echo_server()}
        else:
            headers = {"Authorization": f"Bearer {KEY}"}
            server = {"type": "remote", "url": mcp, "headers": headers, "oauth": False}
        options = {"baseURL": f"{url}/v1", "apiKey": KEY}
        models = {self.model: {"name": self.model}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "gate", "options": options, "models": models}
        config = {
            "model": f"gate/{self.model}",
            "small_model": f"gate/{self.model}",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"bash": "allow", "edit": "allow"},
            "provider": {"gate": provider},
            "mcp": {"gov": server | {"enabled": True}},
        }
        if not self.own_tools:
            config |= {"tools": {"*": False, "gov_*": True}, "permission": {"bash": "deny", "edit": "deny"}}
        where = home / ".config/opencode"
        where.mkdir(parents=True, exist_ok=True)
        (where / "opencode.json").write_text(json.dumps(config), "utf-8")
        program = PACKAGES / self.package / "bin/opencode"
        names = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"]
        return [program, "run", "--format", "json", PROMPT], {f"OPENCODE_DISABLE_{name}": "1" for name in names}

    def read(self, facts, event):
        part = event.get("part") or {}
        if event.get("type") == "tool_use":
            facts["tools"].append(part["tool"])
        elif event.get("type") == "text":
            facts["text"] = part["text"]
        elif event.get("type") == "error":
            error = event["error"]
            facts["error"] = (error.get("data") or {}).get("message") or error.get("name")


def script_of(program, task, way):
    """The scenario's script in the program's own words."""
    script = task["direct"] if way == "direct" and "direct" in task else task["script"]
    script = json.loads(json.dumps(script))
    for answer in script["answers"]:
        answer["tools"] = [tool_of(program, tool, way) for tool in answer.get("tools", [])]
    # What asks for a title offers no tools.
    title = {"when": {"tools": False}, "answer": {"text": "A title"}}
    script["rules"] = [title, *script.get("rules", [])]
    return script


def tool_of(program, tool, way):
    if not isinstance(tool, str):
        return program.governed(tool["gate"]) | {"arguments": tool["arguments"]} if "gate" in tool else tool
    verb, _, rest = tool.partition(" ")
    if verb == "$write":
        return program.write(rest)
    if verb == "$note":
        return program.governed("notes_write") | {"arguments": {"path": "note.txt", "content": rest}}
    return program.governed(ECHO[way]) | {"arguments": {"message": rest}}


def pinned(dialect, requests, folder):
    """Entries of `spec.instructions` that the instructions of these requests match: dates differ from day to day."""
    entries = []

    def add(text, place):
        template = DATE.sub("{{date}}", text)
        kind = "block" if template == text else "template"
        sha256 = hashlib.sha256(template.encode()).hexdigest()
        if kind == "template":
            (folder / f"{sha256}.txt").write_bytes(template.encode())
        entry = {"scope": kind, "sha256": sha256, "place": place}
        if entry not in entries:
            entries.append(entry)

    def texts(content):
        return [content] if isinstance(content, str) else [part["text"] for part in content if part.get("text")]

    for request in requests:
        place = "leading"
        for text in texts(request.get("system") or request.get("instructions") or []):
            add(text, place)
        for item in request["input" if dialect == "responses" else "messages"]:
            if item.get("role") not in ("system", "developer"):
                place = "mid"
                continue
            for text in texts(item["content"]):
                add(text, place)
    return entries


@contextlib.contextmanager
def working_directory(home):
    """One of this play alone, or the one that stays."""
    if os.environ.get("WICKETGATE_LLM_HOME"):
        work = home / "work"
        work.mkdir(exist_ok=True)
        yield str(work)
        return
    with tempfile.TemporaryDirectory(dir=home) as work:
        yield work


def ask(path, value=None):
    data = None if value is None else json.dumps(value).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{PROVIDER}{path}", data=data), timeout=40) as done:
        return json.loads(done.read())


def surroundings(home, own):
    """The environment of a program: nothing of ours, and a proxy that lets nothing leave this machine."""
    proxies = {name: PROVIDER for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
    here = {"NO_PROXY": "127.0.0.1,localhost", "HOME": str(home), "TMPDIR": str(home), "PATH": "/usr/bin:/bin"}
    return proxies | here | own | {name: os.environ[name] for name in ("WICKETGATE_TEST_RUN",) if name in os.environ}


def play(program, home, scenario, way):
    task = SCENARIOS[scenario]
    program.own_tools = task.get("own_tools", True)
    ask("/script", script_of(program, task, way))
    url, mcp = (PROVIDER, None) if way == "direct" else (GATE, GATE_MCP)
    facts = {"text": None, "tools": [], "error": None}
    with working_directory(home) as work:
        words, own = program.command(home, url, mcp)
        began = time.monotonic()
        done = subprocess.run(
            [str(word) for word in words],
            cwd=work,
            env=surroundings(home, own | task.get("surroundings", {})),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        took = time.monotonic() - began
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            if line.startswith("{"):
                program.read(facts, json.loads(line))
        facts["files"] = sorted(os.listdir(work))
    kept = ask("/requests")
    facts["requests"] = len([one for one in kept["requests"] if (one["answer"] or {}).get("text") != "A title"])
    bodies = [base64.b64decode(one["body"]).decode("utf-8", "replace") for one in kept["requests"]]
    facts["upstream"] = [word for word in WORDS if any(word in body for body in bodies)]
    facts["outside"] = sorted(set(kept["outside"]))
    if os.environ.get("WICKETGATE_LLM_PIN"):
        folder = pathlib.Path(os.environ["WICKETGATE_LLM_PIN"])
        facts["instructions"] = pinned(program.dialect, [json.loads(body) for body in bodies], folder)
    if done.returncode and not facts["error"]:
        facts["error"] = done.stderr.decode("utf-8", "replace")[-2000:]
    return facts | {"exit": done.returncode, "seconds": round(took, 1)}


def main():
    name, *scenarios = sys.argv[1:]
    program = {"claude": Claude, "codex": Codex, "opencode": Opencode}[name]()
    version = json.loads((PACKAGES / program.package / "package.json").read_text("utf-8"))["version"]
    # One home for all: the first run of a program sets it up, and costs more than the others.
    with contextlib.ExitStack() as stack:
        home = os.environ.get("WICKETGATE_LLM_HOME") or stack.enter_context(tempfile.TemporaryDirectory())
        for scenario in scenarios:
            ways = SCENARIOS[scenario].get("ways", ["direct", "gate"])
            for way in ways if scenario in THROUGH else ["direct"]:
                line = {"client": f"{name} {version}", "dialect": program.dialect, "scenario": scenario, "way": way}
                print(json.dumps(line | play(program, pathlib.Path(home), scenario, way), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
