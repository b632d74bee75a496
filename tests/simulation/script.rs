//! Scripted tools and policies: the arguments say what happens, so that a seed says everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use wicketgate::catalog::schema::Schema;
use wicketgate::domain::call::ToolCall;
use wicketgate::domain::code::Code;
use wicketgate::domain::decision::{LayerDigest, LayerReason, Verdict};
use wicketgate::domain::digest::Digest;
use wicketgate::domain::effect::Effect;
use wicketgate::domain::facts::ToolFacts;
use wicketgate::domain::guarded::GuardAction;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use wicketgate::domain::tier::Tier;
use wicketgate::judge::guarding::{ClassActions, FindingMarks, ToolGuard};
use wicketgate::judge::prepared::PreparedResource;
use wicketgate::ledger::permit::Permit;
use wicketgate::policy::{Answer, EngineError, PolicyEngine};
use wicketgate::tool::ToolExecutor;
use wicketgate::tool::guard::Guard;
use wicketgate::tool::scrub::Scrub;
use wicketgate::tool::toolbox::{Tool, Toolbox};

use crate::streams;
use crate::world::{TOOL_TIMEOUT, World};

/// What no entry and no error may ever contain.
pub const PLANTED: &str = "PLANTED";

/// A bundle: `args.policy` says the verdict; `flip` depends on the version.
#[derive(Debug)]
pub struct Rules {
    version: u64,
    pub digest: Digest,
    layers: Vec<LayerDigest>,
}

impl Rules {
    pub fn of(version: u64) -> Self {
        let digest = Digest::of(&[b"rules", &version.to_be_bytes()]);
        let layers = vec![LayerDigest { layer: "agent".into(), digest }];
        Self { version, digest, layers }
    }

    /// The word of the verdict the bundle of this digest gives now.
    pub fn again(versions: u64, digest: &str, input: &[u8]) -> Option<String> {
        let rules = (0..versions).map(Self::of).find(|r| r.digest.prefixed() == digest)?;
        let args: Value = serde_json::from_slice(input).ok()?;
        if args["args"]["policy"] == "panic" {
            return Some("deny".into());
        }
        let verdict = rules.decide(input).map_or(Verdict::Deny, |answer| answer.verdict);
        Some(verdict.as_str().to_owned())
    }
}

impl PolicyEngine for Rules {
    fn decide(&self, input: &[u8]) -> Result<Answer, EngineError> {
        let input: Value = serde_json::from_slice(input)
            .map_err(|_| EngineError::Evaluation("not json".into()))?;
        let verdict = match input["args"]["policy"].as_str().unwrap_or("allow") {
            "allow" => Verdict::Allow,
            "deny" => Verdict::Deny,
            "shout" => Verdict::Deny,
            "hold" | "pair" => {
                let approvals = input["approvals"].as_array().map_or(0, Vec::len);
                let needed = if input["args"]["policy"] == "pair" { 2 } else { 1 };
                if approvals < needed { Verdict::RequireApproval } else { Verdict::Allow }
            }
            "flip" if self.version.is_multiple_of(2) => Verdict::Allow,
            "flip" => Verdict::Deny,
            "panic" => panic!("scripted panic in a policy"),
            _ => return Err(EngineError::Undefined),
        };
        let reason = LayerReason {
            code: Code::PolicyDenied,
            detail: "sim.rule".into(),
            message: format!("version {} says `{}`", self.version, verdict.as_str()),
            rule: "sim.rego:1".into(),
        };
        let mut reasons = if verdict == Verdict::Allow { Vec::new() } else { vec![reason] };
        if input["args"]["policy"] == "shout" {
            // Control characters grow sixfold when written: the entry would be too long.
            reasons = vec![LayerReason { message: "\u{1}".repeat(512), ..reasons[0].clone() }; 16];
            reasons.iter_mut().for_each(|r| r.rule = "\u{1}".repeat(200));
        }
        Ok(Answer { verdict, reasons, obligations: Vec::new(), enforced: true })
    }

    fn digest(&self) -> Digest {
        self.digest
    }

    fn layers(&self) -> &[LayerDigest] {
        &self.layers
    }

    fn engine(&self) -> &'static str {
        "scripted/1"
    }
}

/// The one place that makes the product's toolbox.
pub fn toolbox(world: &Arc<World>, life: u64, dead: &CancellationToken) -> Toolbox {
    let schema = r#"{"type":"object","additionalProperties":true}"#;
    let schema = Arc::new(Schema::parse(schema.as_bytes()).unwrap());
    let tool = |name: &str, read_only| Tool {
        facts: Arc::new(ToolFacts {
            name: ToolName::parse(name).unwrap(),
            kind: "sim".into(),
            tier: Tier::T1,
            read_only,
            idempotent: read_only,
            definition: Digest::of(&[name.as_bytes()]),
            timeout: TOOL_TIMEOUT,
            result_bytes_max: 1 << 20,
            cost_micro_usd: None,
            dedupe: None,
            roles: wicketgate::domain::taint::ToolRoles::NONE,
        }),
        description: "scripted".into(),
        input_schema: schema.canonical().to_vec(),
        schema: Arc::clone(&schema),
        shown: None,
        signers: Vec::new().into(),
        executor: Arc::new(Scripted { world: Arc::clone(world), life, dead: dead.clone() }),
    };
    let mut tools = vec![tool("t.read", true), tool("t.write", false), tool("t.other", false)];
    tools.push(streams::model(tool(streams::MODEL, false), (world, life, dead)));
    let default = ToolGuard::default();
    let arguments = ClassActions { secret: GuardAction::Redact, ..default.arguments };
    let guard =
        Guard::new(ToolGuard { arguments, ..default }, BTreeMap::new(), FindingMarks::default());
    Toolbox::of(tools, Scrub::default()).guarded(guard)
}

/// Does what `args.do` says, and reports every execution to the world.
struct Scripted {
    world: Arc<World>,
    life: u64,
    dead: CancellationToken,
}

#[async_trait]
impl ToolExecutor for Scripted {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let args: Value = serde_json::from_slice(call.canonical()).unwrap();
        match args["prepare"].as_str() {
            Some("panic") => panic!("scripted panic in prepare"),
            Some(_) => Err(vec![LayerReason {
                code: Code::EffectRefused,
                detail: "sim.refused".into(),
                message: "the script refuses it".into(),
                rule: "sim".into(),
            }]),
            None => Ok((Effect::None, Box::new(()))),
        }
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        if self.dead.is_cancelled() {
            std::future::pending::<()>().await;
        }
        let result = self.world.executed(self.life, permit.call());
        let args: Value = serde_json::from_slice(permit.call().canonical()).unwrap();
        let pause = Duration::from_millis(args["ms"].as_u64().unwrap_or(0));
        tokio::time::sleep(pause).await;
        if self.dead.is_cancelled() {
            std::future::pending::<()>().await;
        }
        match args["do"].as_str() {
            Some("error") => Unmasked::Failed {
                class: FailureClass::ToolError,
                started: true,
                message: "the script says error".into(),
            },
            Some("hang") => std::future::pending().await,
            Some("panic") => panic!("scripted panic in a tool"),
            _ => Unmasked::Completed { result: AnswerContent::Text(result), status: "ok".into() },
        }
    }
}

impl World {
    /// A tool was reached: checks (1), (2), (5), and gives the bytes to answer with.
    pub fn executed(&self, life: u64, call: &ToolCall) -> Vec<u8> {
        let key = (call.run().to_string(), call.id().as_str().to_owned());
        let mut book = self.book.lock();
        let book = &mut *book;
        book.shadow.refresh(&self.memory);
        let links = book.shadow.of_call(&key.0, &key.1);
        let kinds: Vec<&str> = links.iter().map(|l| l.kind()).collect();
        if kinds.contains(&"call.denied") {
            book.flaws.push(format!("(5) denied call {} ran", key.1));
        }
        let approved = matches!(kinds.as_slice(), ["call.held", words @ .., "call.authorized"]
            if !words.is_empty() && words.iter().all(|word| *word == "approval.granted"));
        if kinds != ["call.authorized"] && !approved {
            book.flaws.push(format!("(1) call {} ran on {kinds:?}", key.1));
        }
        let judged = links.first().and_then(|l| l.payload(&self.memory, "args"));
        // A conversation with a model is stored in parts.
        if call.dialect().is_none() && judged.as_deref() != Some(call.canonical()) {
            book.flaws.push(format!("(1) call {} ran on other bytes than recorded", key.1));
        }
        let track = book.tracks.entry(key.clone()).or_default();
        track.executions += 1;
        if track.executions > 1 {
            book.flaws.push(format!("(2) call {} ran {} times", key.1, track.executions));
        }
        // Whoever asked for a held call has had an answer, and an approval lets it run all the same.
        if !approved && track.waiting.get(&life).copied().unwrap_or(0) <= 0 {
            book.flaws.push(format!("(1) call {} ran after its caller was answered", key.1));
        }
        let args: Value = serde_json::from_slice(call.canonical()).unwrap();
        let pad = if args["do"] == "flood" { 40_000 } else { 3 };
        let secret = self.dice.lock().next();
        let result = serde_json::json!({
            "planted": format!("{PLANTED}-{secret:016x}"),
            "times": track.executions,
            "pad": "x".repeat(pad),
        });
        let bytes = serde_json_canonicalizer::to_vec(&result).unwrap();
        track.result = Some(bytes.clone());
        bytes
    }
}
