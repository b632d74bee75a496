//! A network of one test's own, and a gate in it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::names::Names;
use crate::servers::{PUBLIC, Servers};
use wicketgate_support::agent::{Agent, Refused};

/// Set in the network: the process is a test's second life.
const INSIDE: &str = "WICKETGATE_TEST_WORLD";
/// The secret that goes to `https://tools.test` and to nobody else.
pub const SECRET: &str = "sec-Of/the+tools.test=0123";

const RULES: &str = r#"
allow if input.tool.kind in {"fetch", "http"}
deny contains {"code": "mail", "message": "no addresses of people"} if {
    some finding in input.findings
    finding.kind == "email"
}
deny contains {"code": "drafts", "message": "no drafts"} if startswith(input.effect.path, "/drafts/")
"#;

/// Brings the network up and goes on as the test program in it. Every address is one of this machine,
/// so that what is sent to it arrives.
const SETUP: &str = r#"set -e
ip link set lo up
for a in 93.184.216.34 169.254.169.254 169.254.170.2 168.63.129.16 10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1; do
  ip addr add $a/32 dev lo
done
for a in fd00:ec2::254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1; do ip -6 addr add $a/128 dev lo nodad; done
mount --bind "$1" /etc/resolv.conf
shift
exec "$@""#;

/// The network, its resolver, its servers, and a gate that may fetch from some of them.
pub struct World {
    pub names: Names,
    pub servers: Servers,
    pub gate: Gate,
    pub agent: Agent,
}

/// Runs a test in a network of its own. `name`: as `--exact` wants it.
pub fn run(name: &str, body: impl AsyncFnOnce(&World)) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let world = World::begin().await;
            body(&world).await;
        });
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let resolver = dir.path().join("resolv.conf");
    std::fs::write(&resolver, "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n").unwrap();
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", SETUP, "sh"]);
        command.arg(&resolver);
        command
    };
    let probe = unshare().arg("true").output();
    if !probe.as_ref().is_ok_and(|done| done.status.success()) {
        let why = probe.map_or_else(
            |error| error.to_string(),
            |done| String::from_utf8_lossy(&done.stderr).into_owned(),
        );
        // Past the capture of the harness: nobody shall take this for a test that ran.
        let _ = writeln!(
            std::io::stderr(),
            "not tested here: {name}: this machine gives no network namespace: {}",
            why.trim()
        );
        return;
    }
    let mut again = unshare();
    again.arg(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    again.env(INSIDE, "1").process_group(0);
    // Proxies of the environment lead to canaries.
    for variable in
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    {
        again.env(variable, "http://10.0.0.1:8080");
    }
    let done = again.output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

fn fetch(name: &str, hosts: &[&str], ca: bool) -> Value {
    let mut tool = json!({
        "name": name, "description": "fetches", "kind": "fetch", "tier": "T0", "read_only": true,
        "result_bytes_max": 65536, "timeout_ms": 40000,
        "fetch": {"hosts": hosts, "ports": [80, 443], "schemes": ["https", "http"]},
    });
    if ca {
        tool["fetch"]["ca_file"] = json!("ca.pem");
    }
    tool
}

/// The tools of the gate.
fn tools() -> Vec<Value> {
    let lying = [
        "allowed.test",
        "*.cdn.test",
        "tools.test",
        "mixed.test",
        "mapped.test",
        "servfail.test",
        "nothing.test",
        "silent.test",
        "many.test",
        "rebind.test",
        "alias.test",
        "nat64.test",
        "sixtofour.test",
        "metadata.test",
        "unique-local.test",
    ];
    let mut pinned = fetch("web.pinned", &["tools.test", "allowed.test"], true);
    pinned["fetch"]["headers_allowed"] = json!(["accept", "if-none-match"]);
    pinned["credentials"] = json!([
        {"header": "authorization", "prefix": "Bearer ", "file": "secret", "origin": "https://tools.test"}
    ]);
    let orders = json!({
        "name": "api.orders", "description": "orders", "kind": "http", "tier": "T0", "read_only": true,
        "input_schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
        "credentials": [{"header": "authorization", "prefix": "Bearer ", "file": "secret"}],
        "http": {"method": "GET", "url": "https://tools.test/{id}", "ca_file": "ca.pem"},
    });
    // The public authorities only.
    let public = fetch("web.public", &["tools.test"], false);
    vec![fetch("web.fetch", &lying, true), pinned, orders, public]
}

impl World {
    async fn begin() -> Self {
        let names = Names::serve();
        let servers = Servers::listen();
        let ca = include_str!("../data/tls/ca.pem");
        let beside = [("ca.pem", ca), ("secret", SECRET)];
        let files = [("agent/main.rego", RULES)];
        let gate = Gate::around("enforce", "{}", &files, &beside, &tools());
        let agent = gate.open("").await;
        Self { names, servers, gate, agent }
    }

    /// What a tool says to these arguments.
    pub async fn call(&self, tool: &str, args: &Value) -> Result<Value, Refused> {
        let answer = self.agent.call(tool, "", &args.to_string()).await;
        answer.map(|text| serde_json::from_str(&text).unwrap())
    }

    /// What `web.fetch` says to this URL.
    pub async fn fetch(&self, url: &str) -> Result<Value, Refused> {
        self.call("web.fetch", &json!({"url": url})).await
    }

    /// Code and detail of what `web.fetch` says against this URL.
    pub async fn refused(&self, url: &str) -> (String, String) {
        let refused = self.fetch(url).await.expect_err(url);
        (refused.code, refused.detail)
    }

    /// That nobody but the public server was ever connected to.
    #[track_caller]
    pub fn untouched(&self) {
        let inside: Vec<_> =
            self.servers.reached().into_iter().filter(|(ip, _)| *ip != PUBLIC).collect();
        assert!(inside.is_empty(), "{inside:?}");
    }
}
