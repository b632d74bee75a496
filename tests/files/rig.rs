//! A gate with tools over one directory, and a canary beside it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::agent::{Agent, Refused};
use crate::checker::check;
use crate::keeper::Keeper;
use crate::sidecar::Sidecar;

/// Everything that is granted: `file.write` twice, since only tier T1 keeps what was there.
const TOOLS: [(&str, &str, &str); 5] = [
    ("fs.read", "file.read", "T0"),
    ("fs.list", "file.list", "T0"),
    ("fs.write", "file.write", "T1"),
    ("fs.deep", "file.write", "T1"),
    ("fs.heavy", "file.write", "T2"),
];

const RULES: &str = r#"package wicketgate.agent
import rego.v1

allow if input.tool.name in {"fs.read", "fs.list", "fs.write", "fs.deep", "fs.heavy"}
deny contains "this one stays" if {
	input.effect.operation == "delete"
	input.effect.path == "stays.txt"
}
deny contains "not so much at once" if input.effect.bytes > 900000
deny contains "not over that" if input.effect.before_sha256 == data.precious
"#;

/// What the policy calls precious.
pub const PRECIOUS: &str = "precious";

pub struct Rig {
    pub keeper: Keeper,
    calls: AtomicU32,
}

impl Rig {
    pub async fn new() -> Rig {
        Self::with(|_| {}).await
    }

    /// With a configuration of its own.
    pub async fn with(edit: impl FnOnce(&mut Value)) -> Rig {
        let keeper = Keeper::sqlite().await;
        std::fs::create_dir(keeper.path("work")).unwrap();
        std::fs::create_dir(keeper.path("outside")).unwrap();
        std::fs::write(keeper.path("outside/canary"), "CANARY").unwrap();
        let bind = |(name, kind, tier): (&str, &str, &str)| {
            let mut file = json!({"root": "work", "name": "work"});
            match name {
                "fs.deep" => file["create_parents"] = true.into(),
                "fs.list" => file["depth_max"] = 3.into(),
                _ => {}
            }
            json!({"name": name, "description": "works on files", "kind": kind, "tier": tier,
                "read_only": tier == "T0", "file": file})
        };
        keeper.estate.configure(|config| {
            config["tools"] = TOOLS.into_iter().map(bind).collect();
            // Some of these tests are denied more often than an agent would be.
            config["limits"] = json!({"denials_max": null, "tool_denials_max": null});
            edit(config);
        });
        keeper.estate.manifest("1.0.1", "manifest", |text| {
            let mut manifest: Value = serde_json::from_str(&text).unwrap();
            let tools = TOOLS.map(|(name, ..)| json!({"name": name}));
            manifest["spec"]["tools"] = tools.into_iter().collect();
            manifest["spec"]["incognito"] = "allowed".into();
            manifest.to_string()
        });
        let rig = Rig { keeper, calls: AtomicU32::new(0) };
        rig.rules(RULES);
        rig
    }

    fn rules(&self, rules: &str) {
        let rules = rules.replace("data.precious", &format!("{:?}", sha256(PRECIOUS)));
        self.keeper.estate.bundle("1.0.1", &rules, "policy");
    }

    pub async fn serve(&self) -> (Sidecar, Agent) {
        let sidecar = self.keeper.estate.serve().await;
        let agent = sidecar.open().await;
        (sidecar, agent)
    }

    /// A path below the root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.keeper.path("work").join(name)
    }

    pub fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    #[track_caller]
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// One call with an id of its own.
    pub async fn call(&self, agent: &Agent, tool: &str, args: Value) -> Result<Value, Refused> {
        let id = format!("c{}", self.calls.fetch_add(1, Ordering::SeqCst));
        let answer = agent.call(tool, &id, &args.to_string()).await?;
        self.keeper.tool.did(1);
        Ok(serde_json::from_str(&answer).unwrap())
    }

    /// A write that has to work.
    pub async fn write(&self, agent: &Agent, path: &str, content: &str) -> Value {
        let args = json!({"path": path, "content": content});
        let done = self.call(agent, "fs.write", args).await;
        done.unwrap_or_else(|e| panic!("{path}: {e:?}"))
    }

    /// The detail of a refusal before anything ran.
    pub async fn denied(&self, agent: &Agent, tool: &str, args: Value) -> String {
        let refused = self.call(agent, tool, args.clone()).await;
        let refused = refused.expect_err(&format!("{tool} {args}"));
        let codes = ["effect.refused", "arguments.invalid"];
        assert!(codes.contains(&refused.code.as_str()), "{args}: {refused:?}");
        refused.detail
    }

    /// What lies outside is what it was.
    #[track_caller]
    pub fn canary(&self) {
        let outside = self.keeper.path("outside");
        let names: Vec<_> =
            std::fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["canary"], "something was made outside");
        assert_eq!(std::fs::read_to_string(outside.join("canary")).unwrap(), "CANARY");
    }

    /// Nothing of a write is left over.
    #[track_caller]
    pub fn tidy(&self) {
        for entry in std::fs::read_dir(self.path("")).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(!name.to_string_lossy().starts_with(".wicketgate"), "{name:?} is left over");
        }
    }

    /// The canary lives and nothing is left over; payloads that are encrypted no checker can open.
    pub async fn close(&self, mut sidecar: Sidecar, agent: &Agent) {
        agent.seal().await.unwrap();
        sidecar.stop().await;
        self.canary();
        self.tidy();
    }

    /// The ledger verifies, the canary lives, nothing is left over.
    pub async fn end(&self, sidecar: Sidecar, agent: &Agent) -> Value {
        self.close(sidecar, agent).await;
        check(&self.keeper.estate.database, &self.keeper.tool, &self.keeper.estate.receipts)
    }
}

pub fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}
