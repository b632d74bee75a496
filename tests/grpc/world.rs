//! A gate with gRPC tools, and the service behind them as its owner sees it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::{Agent, Refused};
use crate::checker::Database;
use crate::keeper::Keeper;
use crate::private::private;
use crate::sidecar::Sidecar;
pub use wicketgate_support::grpc_service::GrpcService as Service;
use wicketgate_support::program::python;

/// What the service is sent, and nobody else.
pub const SECRET: &str = "grpc-secret-0123456789abcdef";

const RULES: &str = r#"package wicketgate.agent
import rego.v1

allow if {
	startswith(input.tool.name, "orders.")
	input.effect.kind == "grpc"
	input.effect.service == "shop.v1.Orders"
	input.effect.method in {"Echo", "Act", "Change", "Open"}
	input.effect.host in {"127.0.0.1", "localhost"}
}
deny contains "only small messages are sent here" if {
	input.tool.name == "orders.small"
	input.effect.request_bytes > 8
}
deny contains "nothing is changed here" if {
	input.tool.name == "orders.judged"
	input.effect.method == "Change"
}
"#;

/// A tool of kind `grpc`.
pub fn tool(name: &str, port: u16, method: &str) -> Value {
    json!({"name": name, "description": "asks the orders", "kind": "grpc", "tier": "T0", "read_only": true,
        "timeout_ms": 8000, "result_bytes_max": 65536,
        "grpc": {"url": format!("http://127.0.0.1:{port}"), "descriptor_set": "shop.pb",
            "service": "shop.v1.Orders", "method": method, "private_addresses": ["127.0.0.0/8"]}})
}

/// The same, changing something.
pub fn writer(name: &str, port: u16, method: &str) -> Value {
    let mut tool = tool(name, port, method);
    tool["read_only"] = json!(false);
    tool["tier"] = json!("T1");
    tool
}

/// Everything of one test.
pub struct World {
    pub keeper: Keeper,
    pub sidecar: Sidecar,
    pub agent: Agent,
    calls: std::sync::atomic::AtomicU32,
}

impl World {
    /// A gate before this service, with a tool for each method.
    pub async fn before(service: &Service) -> World {
        let port = service.port;
        let mut keyed = tool("orders.keyed", port, "Act");
        keyed["credentials"] =
            json!([{"header": "authorization", "prefix": "Bearer ", "file": "secret"}]);
        keyed["grpc"]["metadata"] = json!({"x-tenant": "acme"});
        let mut brief = tool("orders.brief", port, "Act");
        brief["timeout_ms"] = json!(700);
        let mut brief_change = writer("orders.brief_change", port, "Change");
        brief_change["timeout_ms"] = json!(700);
        let mut narrow = tool("orders.narrow", port, "Act");
        narrow["grpc"]["request_bytes_max"] = json!(64);
        let tools = vec![
            tool("orders.echo", port, "Echo"),
            tool("orders.act", port, "Act"),
            tool("orders.open", port, "Open"),
            tool("orders.small", port, "Act"),
            tool("orders.judged", port, "Change"),
            writer("orders.change", port, "Change"),
            keyed,
            brief,
            brief_change,
            narrow,
        ];
        Self::with(&service.descriptors(), tools).await
    }

    /// With these tools.
    pub async fn with(descriptors: &Path, tools: Vec<Value>) -> World {
        let keeper = Self::keeper(descriptors, tools).await;
        let sidecar = keeper.estate.serve().await;
        let agent = sidecar.open().await;
        World { keeper, sidecar, agent, calls: 0.into() }
    }

    /// The files of a gate with these tools.
    pub async fn keeper(descriptors: &Path, tools: Vec<Value>) -> Keeper {
        let keeper = Keeper::sqlite().await;
        std::fs::copy(descriptors, keeper.path("shop.pb")).unwrap();
        private(keeper.path("secret"), SECRET);
        let granted: Vec<Value> =
            tools.iter().map(|tool| json!({"name": tool["name"], "tier": "T0"})).collect();
        keeper.estate.manifest("1.0.1", "manifest", |text| {
            let mut manifest: Value = serde_json::from_str(&text).unwrap();
            manifest["spec"]["tools"] = json!(granted);
            serde_json::to_string_pretty(&manifest).unwrap()
        });
        keeper.estate.bundle("1.0.1", RULES, "policy");
        keeper.estate.configure(|config| config["tools"] = json!(tools));
        keeper
    }

    /// One call.
    pub async fn call(&self, tool: &str, args: Value) -> Result<Value, Refused> {
        let number = self.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let answer = self.agent.call(tool, &format!("c{number}"), &args.to_string()).await;
        answer.map(|text| serde_json::from_str(&text).unwrap())
    }

    /// One order to the service.
    pub async fn act(&self, tool: &str, act: &str, message: &str) -> Result<Value, Refused> {
        self.call(tool, json!({"act": act, "message": message})).await
    }

    /// Ends the gate in order; the books hold.
    pub async fn close(mut self) -> Value {
        self.sidecar.stop().await;
        let Database::Sqlite(path) = &self.keeper.estate.database else { unreachable!() };
        let given = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(given.path(), self.keeper.estate.receipts.lines().join("\n")).unwrap();
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut checker = Command::new(python());
        checker.arg("-B").arg(top.join("tests/checker/check_ledger.py")).arg("--sqlite").arg(path);
        let done = checker.arg("--acknowledged").arg(given.path()).output().unwrap();
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{out}{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_str(&out).unwrap()
    }
}
