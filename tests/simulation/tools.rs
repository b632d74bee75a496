//! Tools that are replaced while calls are on the road.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;
use wicketgate::catalog::schema::Schema;
use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::call::ToolCall;
use wicketgate::domain::decision::LayerReason;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::effect::Effect;
use wicketgate::domain::facts::ToolFacts;
use wicketgate::domain::guarded::GuardAction;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::outcome::{AnswerContent, Unmasked};
use wicketgate::domain::taint::ToolRoles;
use wicketgate::domain::tier::{Face, Tier};
use wicketgate::domain::time::Timestamp;
use wicketgate::enforce::{Agents, AgentsUpdate, CallRequest, Opening, Thread};
use wicketgate::identity::callers::{AgentModel, CallerConfig, Callers, Config, Trust};
use wicketgate::identity::token::RunTokens;
use wicketgate::identity::{Peer, envelope_path, sign};
use wicketgate::judge::guarding::{ClassActions, FindingMarks, ToolGuard};
use wicketgate::judge::prepared::PreparedResource;
use wicketgate::ledger::permit::Permit;
use wicketgate::tool::ToolExecutor;
use wicketgate::tool::guard::Guard;
use wicketgate::tool::scrub::Scrub;
use wicketgate::tool::toolbox::{Tool, Toolbox};

use crate::approvals::say;
use crate::faults::Weather;
use crate::threads::on_a_good_day;
use crate::world::TOOL_TIMEOUT;

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what it does under its name.
struct Signed(&'static str, Log);

#[async_trait]
impl ToolExecutor for Signed {
    fn prepare(&self, _call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        self.1.lock().push(format!("{} prepares", self.0));
        Ok((Effect::None, Box::new(())))
    }

    async fn execute(&self, _permit: &Permit) -> Unmasked {
        self.1.lock().push(format!("{} runs", self.0));
        Unmasked::Completed { result: AnswerContent::Text(b"{}".to_vec()), status: "ok".into() }
    }
}

/// One tool that is called `t.read`, of this definition, which brings nothing and carries nothing out.
pub fn toolbox(executor: impl ToolExecutor + 'static, definition: &str) -> Toolbox {
    playing(ToolRoles::NONE, executor, definition)
}

/// The same with these roles.
fn playing(roles: ToolRoles, executor: impl ToolExecutor + 'static, definition: &str) -> Toolbox {
    let schema = r#"{"type":"object","additionalProperties":true}"#;
    let schema = Arc::new(Schema::parse(schema.as_bytes()).unwrap());
    let tool = Tool {
        facts: Arc::new(ToolFacts {
            name: ToolName::parse("t.read").unwrap(),
            kind: "sim".into(),
            tier: Tier::T1,
            read_only: true,
            idempotent: true,
            definition: Digest::of(&[definition.as_bytes()]),
            timeout: TOOL_TIMEOUT,
            result_bytes_max: 1 << 20,
            cost_micro_usd: None,
            dedupe: None,
            roles,
        }),
        description: definition.into(),
        input_schema: schema.canonical().to_vec(),
        schema,
        shown: None,
        signers: Vec::new().into(),
        executor: Arc::new(executor),
    };
    Toolbox::of(vec![tool], Scrub::default())
}

/// A change to this tool and to nothing else.
fn to(executor: Signed, definition: &str) -> AgentsUpdate {
    AgentsUpdate { policy: None, toolbox: toolbox(executor, definition), agents: None }
}

/// The same tool, where this happens to secrets in arguments.
fn guarded(secret: GuardAction) -> AgentsUpdate {
    let default = ToolGuard::default();
    let arguments = ClassActions { secret, ..default.arguments };
    let guard =
        Guard::new(ToolGuard { arguments, ..default }, BTreeMap::new(), FindingMarks::default());
    let toolbox = toolbox(Signed("one", Log::default()), "a").guarded(guard);
    AgentsUpdate { policy: None, toolbox, agents: None }
}

#[test]
fn an_approval_is_void_once_the_gate_would_mask_what_was_approved() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        life.road.change(guarded(GuardAction::Off)).await.unwrap();
        let run = world.thread(&life, &Thread::Caller).await.unwrap().unwrap();
        let secret = ["ghp_", "b7Qk2Zr9Xw4Lm1Nc", "8Vd5Ht3Py6Js0Fg2Ra4e"].concat();
        let request = || CallRequest {
            tool: "t.read".into(),
            arguments: format!(r#"{{"policy":"hold","say":"{secret}"}}"#).into_bytes(),
            call_id: "c".into(),
            ..CallRequest::default()
        };
        let held = life.road.execute(&run, request()).await.unwrap_err();
        assert_eq!(held.code.as_str(), "call.held");
        life.road.change(guarded(GuardAction::Redact)).await.unwrap();
        assert_eq!(say(&life, &run, "c", "approve ann").await, "denied");
        let told = life.road.execute(&run, request()).await.unwrap_err();
        assert_eq!(told.detail, "approval.void.arguments");
    });
}

#[test]
fn what_a_run_has_read_counts_after_a_death_as_before_it() {
    on_a_good_day(async |world| {
        let request = |id: &str| CallRequest {
            tool: "t.read".into(),
            arguments: br#"{"policy":"allow"}"#.to_vec(),
            call_id: id.into(),
            ..CallRequest::default()
        };
        let mut told = Vec::new();
        // Its answers are private, strangers write in them, and its arguments leave the house.
        for id in ["before", "after"] {
            let life = world.start(true).await;
            let toolbox = playing(ToolRoles::default(), Signed("one", Log::default()), "a");
            let update = AgentsUpdate { policy: None, toolbox, agents: None };
            life.road.change(update).await.unwrap();
            let run = world.thread(&life, &Thread::Caller).await.unwrap().unwrap();
            let answer = life.road.execute(&run, request(id)).await;
            told.push(answer.err().map(|fault| (fault.code.as_str(), fault.detail)));
            life.dead.cancel();
        }
        assert_eq!(told, [None, Some(("call.held", "flow.trifecta".into()))]);
    });
}

#[test]
fn a_call_runs_on_the_executor_that_prepared_it() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let log = Log::default();
        life.road.change(to(Signed("one", Arc::clone(&log)), "a")).await.unwrap();
        let run = world.thread(&life, &Thread::Caller).await.unwrap().unwrap();
        // Its decision takes a while to get on the books.
        world.sky.weather.lock().down_until = Some(Instant::now() + Duration::from_millis(300));
        let request = CallRequest {
            tool: "t.read".into(),
            arguments: b"{}".to_vec(),
            call_id: "c".into(),
            ..CallRequest::default()
        };
        let (answer, ()) = tokio::join!(life.road.execute(&run, request), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(*log.lock(), ["one prepares"]);
            let swapped = life.road.change(to(Signed("two", Arc::clone(&log)), "a"));
            assert_eq!(swapped.await.unwrap(), 0, "agents are shown nothing else");
        });
        answer.unwrap();
        assert_eq!(*log.lock(), ["one prepares", "one runs"]);
    });
}

#[test]
fn changed_tools_are_recorded_before_they_are_shown() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = world.thread(&life, &Thread::Caller).await.unwrap().unwrap();
        let mut version = life.road.toolbox_version();
        version.mark_unchanged();
        let shown = || life.road.list_tools(&run).unwrap().pop().map(|tool| tool.description);
        let changed = life.road.change(to(Signed("one", Log::default()), "other"));
        assert_eq!(changed.await.unwrap(), 1);
        assert!(version.has_changed().unwrap());
        assert_eq!(shown().as_deref(), Some("other"));
        {
            let mut book = world.book.lock();
            book.shadow.refresh(&world.memory);
            let mut links = book.shadow.chains.values().flatten();
            let link = links.find(|link| link.kind() == "config.changed").unwrap();
            assert_eq!(
                (&link.json["data"]["what"], &link.json["data"]["tools"]),
                (&"tools".into(), &1.into())
            );
        }
        // Without books nothing changes.
        version.mark_unchanged();
        *world.sky.weather.lock() = Weather {
            down_until: Some(Instant::now() + Duration::from_secs(2)),
            ..Weather::default()
        };
        drop(world.open(&life, Some(Duration::from_millis(20))).await);
        let refused = life.road.change(to(Signed("two", Log::default()), "third")).await;
        assert!(refused.is_err());
        assert!(!version.has_changed().unwrap());
        assert_eq!(shown().as_deref(), Some("other"));
    });
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// One agent that holds the token and is granted this tool.
fn granted(tool: &str) -> Arc<Callers> {
    let dir = tempfile::tempdir().unwrap();
    let (path, token) = (dir.path().join("agent.yaml"), dir.path().join("token"));
    let text = format!(
        "apiVersion: wicketgate.dev/v1\nkind: AgentManifest\n\
         metadata: {{name: agent, version: 1.0.0, owner: tests@example.com}}\n\
         spec:\n  status: active\n  model: {{provider: none, names: [m]}}\n  instructions: []\n\
         \x20 binding: {{minimum: unclaimed}}\n\
         \x20 tools: [{{name: {tool}, tier: T1}}]\n\
         \x20 validity: {{not_before: 1970-01-01T00:00:00Z, not_after: 2090-01-01T00:00:00Z}}\n"
    );
    let key = SecretKey::generate(&SystemEntropy);
    std::fs::write(&path, &text).unwrap();
    std::fs::write(envelope_path(&path), sign(text.as_bytes(), "agent", &[&key]).unwrap()).unwrap();
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let held = CallerConfig { token_file: Some(token), ..CallerConfig::default() };
    let agents = [Config {
        manifest: path,
        ordered: false,
        model: AgentModel::default(),
        callers: vec![held],
    }];
    let trust = Trust { keys: &[key.public()], threshold: 1, socket: None, kubernetes: None };
    let tokens = Arc::new(RunTokens::new([1; 32]));
    Arc::new(Callers::load(&agents, &trust, &tokens, Timestamp::from_millis(1)).unwrap())
}

#[test]
fn who_was_identified_before_a_change_and_asks_after_it_is_shown_what_it_changed() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let callers = [granted("t.read"), granted("t.other")];
        let who = [&callers[0], &callers[1]].map(|callers| {
            let peer = Peer { listener: "tcp", ..Peer::default() };
            callers.identify(&peer, Some(TOKEN), Timestamp::from_millis(1)).unwrap()
        });
        let change = |callers: &Arc<Callers>| AgentsUpdate {
            agents: Some(Agents::from(callers)),
            ..to(Signed("one", Log::default()), "a")
        };
        let asked = async |caller| {
            let run =
                life.road.implicit_run(Face::Mcp, caller, &Thread::Caller, Opening::default());
            let run = run.await.unwrap();
            (run.id().to_string(), life.road.list_tools(&run).unwrap().len())
        };
        life.road.change(change(&callers[0])).await.unwrap();
        let before = asked(&who[0]).await;
        assert_eq!(before.1, 1);
        life.road.change(change(&callers[1])).await.unwrap();
        let after = asked(&who[0]).await;
        assert_eq!((after.0 != before.0, after.1), (true, 0));
        assert_eq!(asked(&who[1]).await, after, "one agent has one run");
        life.road.end_implicit(&who[0], &Thread::Caller).await;
        assert_ne!(asked(&who[1]).await.0, after.0, "and both names of it end it");
    });
}

#[test]
fn a_decision_is_recorded_under_the_bundle_that_made_it() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = world.thread(&life, &Thread::Caller).await.unwrap().unwrap();
        world.waiting(&run.id().to_string(), "c", &life);
        // Large arguments, and the input that has them, are stored before the decision is queued:
        // another bundle is put in force meanwhile.
        let request = CallRequest {
            tool: "t.read".into(),
            arguments: format!(r#"{{"text":"{}"}}"#, "x".repeat(20_000)).into_bytes(),
            call_id: "c".into(),
            ..CallRequest::default()
        };
        let (_answer, activated) = tokio::join!(life.road.execute(&run, request), async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            world.activate(&life).await
        });
        assert!(activated);
        let mut book = world.book.lock();
        book.shadow.refresh(&world.memory);
        let (mut current, mut decisions) = (String::new(), 0);
        for link in book.shadow.chains.values().flatten() {
            if link.kind() == "policy.activated" {
                link.text("policy").clone_into(&mut current);
            } else if link.json.get("verdict").is_some() {
                decisions += 1;
                assert_eq!(link.text("policy"), current, "entry {}", link.seq);
            }
        }
        assert_eq!(decisions, 1);
    });
}
