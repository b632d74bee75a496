"""The gateways that are compared: how each is set up, started and asked, and where it keeps its records.

Each is set up as its own documentation says for one machine, with the record of calls turned on where it has one. What is
not its default stands in `settings`, which the report prints.
"""

import json
import os
import pathlib
import secrets
import socket
import sqlite3
import subprocess
import urllib.request

HERE = pathlib.Path(__file__).parent


class Failed(Exception):
    """A gateway could not be set up or did not serve."""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ask(url, value=None, headers=None, seconds=30):
    data = None if value is None else json.dumps(value).encode()
    headers = {"content-type": "application/json"} | (headers or {})
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=seconds) as done:
        return json.loads(done.read() or b"null")


class Gateway:
    """One gateway. `store` is the directory of its records, `folder` everything else that it needs."""

    name = requirements = use = record = None
    settings = []
    # Whether it serves MCP servers and models.
    serves = ("tools",)
    # What the test takes away: "disk" or "log".
    loses = "disk"
    # Seconds without a new record after which none is to come: some write them in batches.
    batch_seconds = 3

    def __init__(self, environment, origin, options):
        self.environment = environment
        self.origin = origin
        self.options = options

    def program(self, name):
        return str(self.environment / "bin" / name)

    def version(self):
        """The version that its requirements file pins."""
        first = (HERE / self.requirements).read_text("utf-8").splitlines()
        return next(line.partition("==")[2] for line in first if "==" in line and not line.startswith("#"))

    def prepare(self, folder, store):
        """Writes what it needs; returns command, environment and the URL that answers when it serves."""
        raise NotImplementedError

    def served(self):
        """What has to be done once it serves."""

    def target(self, what):
        raise NotImplementedError

    def recorded(self):
        """How many calls its records have; None if that cannot be told."""
        raise NotImplementedError


class Wicketgate(Gateway):
    name = "Wicketgate"
    use = "policy, approvals and signed evidence for the calls of agents, beside each agent"
    record = "ledger, SQLite, two durable commits for each call"
    serves = ("tools", "models")
    token = "the-token-of-the-agent-that-is-measured-0123"
    rules = "package wicketgate.agent\n\nimport rego.v1\n\nallow if input.tool.name in {\"bench.say\", \"llm.main\"}\n"

    def version(self):
        words = subprocess.run([self.options.gate, "--version"], capture_output=True, text=True, check=True).stdout
        return words.split()[1]

    def run(self, *args):
        done = subprocess.run([self.options.gate, *args], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"wicketgate {' '.join(args)}: {done.stderr}{done.stdout}")

    def secret(self, name, text):
        path = self.folder / name
        path.write_text(text, "utf-8")
        path.chmod(0o600)

    def write(self, name, value):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")

    def prepare(self, folder, store):
        self.folder, self.store = folder, store
        self.port, self.operators = free_port(), free_port()
        for name in ("m", "p", "l"):
            self.run("config", "keygen", "--out", name)
        self.secret("token", self.token)
        self.secret("provider.key", "sk-scripted-0123456789abcdef")
        self.write("bundle/agent/main.rego", self.rules)
        self.run("policy", "sign", "bundle", "--key", "p", "--name", "peers", "--version", "1.0.0")
        self.write("agent.yaml", "")
        self.write("wicketgate.yaml", self.configuration())
        self.run("tools", "lock", "--config", "wicketgate.yaml", "--key", "l")
        self.write("agent.yaml", self.manifest())
        self.run("manifest", "sign", "agent.yaml", "--key", "m")
        command = [self.options.gate, "serve", "--config", "wicketgate.yaml"]
        return command, {}, f"http://127.0.0.1:{self.operators}/readyz"

    def configuration(self):
        private = {"private_addresses": ["127.0.0.1/32"]}
        upstream = {
            "name": "scripted",
            "provider": "example",
            "api": "openai",
            "url": f"{self.origin}/v1",
            "models": {"scripted-1": "scripted-1"},
            "credentials": [{"header": "authorization", "prefix": "Bearer ", "file": "provider.key"}],
        }
        model = {"faces": ["chat"], "output_tokens_max": 1_000_000, "upstreams": [upstream | private]}
        tool = {"name": "llm.main", "description": "a model", "kind": "model", "tier": "T2", "model": model}
        return {
            "state": str(self.store / "state"),
            "listen": {"tcp": f"127.0.0.1:{self.port}"},
            "operator": {"listen": f"127.0.0.1:{self.operators}"},
            "ledger": {"sqlite": {}},
            "trust": {"manifest_keys": ["m.pub"], "policy_keys": ["p.pub"], "lock_keys": ["l.pub"]},
            "policy": {"bundle": "bundle"},
            "agents": [{"manifest": "agent.yaml", "callers": [{"token_file": "token"}]}],
            "servers": [{"name": "bench", "tier": "T1", "http": {"url": f"{self.origin}/mcp"} | private}],
            "tools": [tool],
            "limits": {"requests_per_second": None},
            "lock": "tools.lock",
        }

    def manifest(self):
        lock = json.loads((self.folder / "tools.lock.sig.json").read_text("utf-8"))
        signer = lock["signatures"][0]["keyid"]
        server = {"server": "bench", "lock": {"signer": signer}, "allow": ["say"]}
        return {
            "apiVersion": "wicketgate.dev/v1",
            "kind": "AgentManifest",
            "metadata": {"name": "peers", "version": "1.0.0", "owner": "bench@example.com"},
            "spec": {
                "status": "active",
                "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": ["scripted-1"]},
                "instructions": [],
                "limits": {},
                "tools": [server, {"name": "llm.main", "tier": "T2"}],
                "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"},
            },
        }

    def target(self, what):
        headers = {"authorization": f"Bearer {self.token}"}
        base = f"http://127.0.0.1:{self.port}"
        if what == "models":
            return {"url": f"{base}/r/peer-{{caller}}/v1/chat/completions", "headers": headers, "model": "scripted-1"}
        return {"url": f"{base}/mcp", "headers": headers, "tool": "bench.say"}

    def recorded(self):
        return count(self.store / "state/ledger.sqlite", "SELECT count(*) FROM entry WHERE kind = 'call.completed'")


class Mcpg(Gateway):
    name = "mcpg"
    requirements = "mcpg.txt"
    use = "a gateway that turns HTTP, SQL and MCP backends into one governed MCP server"
    record = "audit file of one line for each event, its default"
    settings = [
        "default_minimum_trust: unauthenticated",
        "upstream_safety: loopback allowed",
        "anonymous_rate_limit_per_min, anonymous_rate_limit_burst: not reached",
    ]

    def prepare(self, folder, store):
        self.store, self.port = store, free_port()
        safety = {"allow_insecure_http": True, "allow_private_backends": True}
        federation = {
            "name": "bench",
            "upstream": {"url": f"{self.origin}/mcp", "upstream_safety": safety},
            "governance": {"minimum_trust": "unauthenticated"},
        }
        server = {
            "bind_address": f"127.0.0.1:{self.port}",
            "mcp_path": "/mcp",
            "health_path": "/health",
            "anonymous_rate_limit_per_min": 100_000_000,
            "anonymous_rate_limit_burst": 1_000_000,
        }
        config = {
            "gateway": {"server": server},
            "usage_reporting": {"enabled": False},
            "governance": {"policy": {"tool_access": {"default_minimum_trust": "unauthenticated"}}},
            "mcp": {"federations": [federation]},
        }
        # JSON is YAML. The audit file lies in the working directory.
        path = folder / "mcpg.yaml"
        path.write_text(json.dumps(config), "utf-8")
        return [self.program("mcpg")], {"MCPG_CONFIG": str(path)}, f"http://127.0.0.1:{self.port}/health"

    def target(self, what):
        return {"url": f"http://127.0.0.1:{self.port}/mcp", "headers": {}, "tool": None}

    def recorded(self):
        text = (self.store / "mcpg-audit.log").read_text("utf-8", "replace")
        return text.count("mcpg.tool.call.completed")


class ContextForge(Gateway):
    name = "ContextForge"
    requirements = "contextforge.txt"
    use = "a registry and gateway that federates MCP servers, REST APIs and agents for many teams"
    record = "SQLite; a call leaves a row in `tool_metrics`, in batches"
    settings = [
        "USE_STATEFUL_SESSIONS=true (three times faster here)",
        "AUDIT_TRAIL_ENABLED=true",
        "PERMISSION_AUDIT_ENABLED=true",
        "RATE_LIMITING_ENABLED=false",
        "METRICS_BUFFER_FLUSH_INTERVAL=5, the shortest",
        "SSRF_ALLOW_LOCALHOST=true",
        "one uvicorn worker",
    ]
    batch_seconds = 12

    def prepare(self, folder, store):
        self.store, self.port = store, free_port()
        secret = secrets.token_hex(32)
        self.own = {
            "ENVIRONMENT": "development",
            "DATABASE_URL": f"sqlite:///{store}/mcp.db",
            "JWT_SECRET_KEY": secret,
            "AUTH_ENCRYPTION_SECRET": secrets.token_hex(32),
            "PLATFORM_ADMIN_PASSWORD": f"A-{secrets.token_hex(16)}",
            "AUDIT_TRAIL_ENABLED": "true",
            "PERMISSION_AUDIT_ENABLED": "true",
            "USE_STATEFUL_SESSIONS": "true",
            "MCPGATEWAY_UI_ENABLED": "false",
            "SSRF_ALLOW_LOCALHOST": "true",
            "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
            "CACHE_TYPE": "memory",
            "RATE_LIMITING_ENABLED": "false",
            "METRICS_BUFFER_FLUSH_INTERVAL": "5",
            "LOG_LEVEL": "ERROR",
        }
        command = [self.program("mcpgateway"), "mcpgateway.main:app", "--host", "127.0.0.1", "--port", str(self.port)]
        return command, self.own, f"http://127.0.0.1:{self.port}/health"

    def served(self):
        words = [self.program("python"), "-m", "mcpgateway.utils.create_jwt_token"]
        words += ["--username", "admin@example.com", "--admin", "--exp", "600"]
        done = subprocess.run(words, env=os.environ | self.own, capture_output=True, text=True, cwd=self.store, check=True)
        self.headers = {"authorization": f"Bearer {done.stdout.split()[-1]}"}
        server = {"name": "bench", "url": f"{self.origin}/mcp", "transport": "STREAMABLEHTTP"}
        ask(f"http://127.0.0.1:{self.port}/gateways", server, self.headers)

    def target(self, what):
        return {"url": f"http://127.0.0.1:{self.port}/mcp/", "headers": self.headers, "tool": None}

    def recorded(self):
        return count(self.store / "mcp.db", "SELECT count(*) FROM tool_metrics")


class LiteLlm(Gateway):
    name = "LiteLLM"
    requirements = "litellm.txt"
    use = "a proxy that gives many model providers one API, with budgets and keys; it also serves MCP servers"
    record = "log events in batches to a URL (`generic_api`)"
    settings = ['callbacks: ["generic_api"]', "LITELLM_MODE=PRODUCTION", "no database, so no spend logs", "one worker"]
    serves = ("tools", "models")
    loses = "log"
    batch_seconds = 12
    key = "sk-peers-0123456789abcdef"

    def prepare(self, folder, store):
        self.port = free_port()
        provider = {"model": "openai/scripted-1", "api_base": f"{self.origin}/v1", "api_key": "sk-scripted"}
        config = {
            "model_list": [{"model_name": "scripted-1", "litellm_params": provider}],
            "mcp_servers": {"bench": {"url": f"{self.origin}/mcp", "transport": "http", "allow_all_keys": True}},
            "general_settings": {"master_key": self.key},
            "litellm_settings": {"telemetry": False, "callbacks": ["generic_api"]},
        }
        path = folder / "litellm.yaml"
        path.write_text(json.dumps(config), "utf-8")
        command = [self.program("litellm"), "--config", str(path), "--host", "127.0.0.1", "--port", str(self.port)]
        own = {
            "GENERIC_LOGGER_ENDPOINT": f"{self.origin}/logs",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            "LITELLM_MODE": "PRODUCTION",
        }
        return command, own, f"http://127.0.0.1:{self.port}/health/liveliness"

    def target(self, what):
        headers = {"authorization": f"Bearer {self.key}"}
        base = f"http://127.0.0.1:{self.port}"
        if what == "models":
            return {"url": f"{base}/v1/chat/completions", "headers": headers, "model": "scripted-1"}
        return {"url": f"{base}/mcp/", "headers": headers, "tool": None}

    def recorded(self):
        return ask(f"{self.origin}/calls")["events"]


def count(path, query):
    """The answer of a query on a SQLite file that another process has open."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as base:
        return base.execute(query).fetchone()[0]


ALL = [Wicketgate, Mcpg, ContextForge, LiteLlm]
