//! A gate with agents that delegate to each other: each has a signed manifest, and a socket of its own.

use serde_json::{Value, json};
use wicketgate::control::Target;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::RunId;
use wicketgate::serve::pb;
use wicketgate::serve::pb::gate_client::GateClient;

use crate::agent::{Agent, Refused, channel, claims};
use crate::checker::Database;
use crate::control::Setup;
use crate::sidecar::{Estate, key, run};
use crate::tool::Tool;

/// The agent that nobody delegates to: `agent.yaml`, on the gate's own socket.
pub const LEAD: &str = "test-agent";

/// One agent below, before it is signed.
pub struct Member {
    pub name: &'static str,
    pub spec: Value,
}

/// An agent that is granted these tools.
pub fn member(name: &'static str, tools: &[&str]) -> Member {
    let tools: Vec<Value> = tools.iter().map(|name| json!({"name": name})).collect();
    let spec = json!({"status": "active",
        "binding": {"minimum": "unclaimed"},
                "model": {"provider": "example", "names": ["test-model"]},
        "tools": tools,
        "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}});
    Member { name, spec }
}

impl Member {
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Member {
        change(&mut self.spec);
        self
    }

    /// It delegates to the manifests with these digests.
    pub fn delegating(self, to: &[String]) -> Member {
        self.with(|spec| delegate(spec, to))
    }

    /// Signs it into `<name>.yaml`; its digest.
    pub fn sign(&self, estate: &Estate, version: &str) -> String {
        let manifest = json!({
            "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
            "metadata": {"name": self.name, "version": version, "owner": "tests@example.com"},
            "spec": self.spec});
        let file = estate.path(&format!("{}.yaml", self.name));
        let text = serde_json::to_string_pretty(&manifest).unwrap();
        std::fs::write(&file, &text).unwrap();
        let sign = ["manifest", "sign", file.to_str().unwrap(), "--key", &key("manifest")];
        run(&estate.path("."), &sign);
        Digest::of(&[text.as_bytes()]).prefixed()
    }
}

/// `delegates` of a manifest.
pub fn delegate(spec: &mut Value, to: &[String]) {
    spec["delegates"] = to.iter().map(|digest| json!({"manifest": digest})).collect();
}

/// The configured entry of one agent below.
pub fn agent_entry(name: &str) -> Value {
    let uid = rustix::process::getuid().as_raw();
    json!({"manifest": format!("{name}.yaml"),
        "callers": [{"socket": format!("s/{name}.sock"), "uid": uid}]})
}

/// A chain of agents: the lead delegates to the first, the first to the second, and so on.
pub struct Family {
    pub setup: Setup,
    /// Digests of those below the lead, in order.
    pub digests: Vec<String>,
}

impl Family {
    /// The lead's manifest is edited by `lead`, the configuration by `config`.
    pub async fn of(
        members: Vec<Member>,
        lead: impl FnOnce(&mut Value),
        config: impl FnOnce(&mut Value),
    ) -> Family {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        let mut digests: Vec<String> = Vec::new();
        for member in members.into_iter().rev() {
            let below: Vec<String> = digests.first().cloned().into_iter().collect();
            estate.configure(|config| {
                config["agents"].as_array_mut().unwrap().push(agent_entry(member.name));
            });
            digests.insert(0, member.delegating(&below).sign(&estate, "1.0.0"));
        }
        sign_lead(&estate, "1.0.0", |spec| {
            delegate(spec, &digests[..1]);
            lead(spec);
        });
        estate.configure(config);
        let sidecar = estate.serve().await;
        let Database::Sqlite(path) = &estate.database else { unreachable!() };
        let operator = wicketgate::control::sqlite::SqliteControl::open(path).await.unwrap();
        let operator = std::sync::Arc::new(operator);
        Family { setup: Setup { tool, estate, sidecar, operator, db: None }, digests }
    }

    /// A lead, and a helper that is granted `work.do` too.
    pub async fn pair(lead: impl FnOnce(&mut Value)) -> Family {
        Self::of(vec![member("helper", &["work.do"])], lead, |_| {}).await
    }

    pub async fn lead(&self) -> Agent {
        self.setup.sidecar.open().await
    }

    /// A child of this run, opened by its own caller.
    pub async fn child(&self, name: &str, parent: &Agent) -> Agent {
        self.try_child(name, below(parent)).await.unwrap()
    }

    /// Asks on the socket of this agent; `test-agent` is on the gate's own.
    pub async fn try_child(&self, name: &str, ask: pb::OpenRunRequest) -> Result<Agent, Refused> {
        let file = if name == LEAD { "agent" } else { name };
        let socket = self.setup.estate.path(&format!("s/{file}.sock"));
        let mut gate = GateClient::new(channel(&socket));
        let opened = gate.open_run(ask).await.map_err(|status| Refused::of(&status))?.into_inner();
        let receipts = self.setup.estate.receipts.clone();
        Ok(Agent { gate, token: opened.run_token, run: opened.run_id, receipts })
    }

    /// Every entry on the books, in order.
    pub fn entries(&self) -> Vec<Value> {
        let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "-n", "1000", "--json"];
        let said = run(&self.setup.estate.path("."), &tail);
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The entries of this kind of one run.
    pub fn of_run(&self, run: &str, kind: &str) -> Vec<Value> {
        let entries = self.entries().into_iter();
        entries.filter(|entry| entry["run"] == run && entry["kind"] == kind).collect()
    }

    /// Ends it in order; the checker reads the ledger, and our own verifier finds it whole.
    pub async fn close(self) -> Value {
        let dir = self.setup.estate.path(".");
        let Family { mut setup, .. } = self;
        setup.tool.release();
        setup.sidecar.stop().await;
        std::fs::write(dir.join("own.txt"), "enrolment-key state/enrolment.key.pub\n").unwrap();
        let verify = ["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "own.txt"];
        run(&dir, &verify);
        crate::checker::check(&setup.estate.database, &setup.tool, &setup.estate.receipts)
    }
}

/// Signs the lead's manifest anew.
pub fn sign_lead(estate: &Estate, version: &str, edit: impl FnOnce(&mut Value)) {
    estate.manifest(version, "manifest", |text| {
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        edit(&mut manifest["spec"]);
        serde_json::to_string_pretty(&manifest).unwrap()
    });
}

/// What an honest child of this run asks.
pub fn below(parent: &Agent) -> pb::OpenRunRequest {
    pb::OpenRunRequest {
        model: "test-model".to_owned(),
        parent_run: parent.run.clone(),
        parent_token: parent.token.clone(),
        ..pb::OpenRunRequest::default()
    }
}

/// What the parent's own caller asks for a sub-agent in its process.
pub fn claimed(parent: &Agent, digest: &str) -> pb::OpenRunRequest {
    pb::OpenRunRequest { delegate: digest.to_owned(), ..below(parent) }
}

/// An opening of nobody's child.
pub fn alone() -> pb::OpenRunRequest {
    pb::OpenRunRequest { instructions_sha256: Vec::new(), ..claims() }
}

pub fn the_run(agent: &Agent) -> Target {
    Target::Run(RunId::parse(&agent.run).unwrap())
}

#[track_caller]
pub fn refusal<T>(answer: Result<T, Refused>) -> (String, String, String) {
    match answer {
        Ok(_) => panic!("a refusal"),
        Err(refused) => (refused.code, refused.detail, refused.message),
    }
}
