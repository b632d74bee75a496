//! Answers of models that leave piece by piece: in the chaos of a seed and, one story at a time, on
//! good days. Check (16): nothing of an answer leaves before what allows it is durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wicketgate::catalog::llm::ask::AskRules;
use wicketgate::catalog::model::{DeniedAs, ModelFace};
use wicketgate::domain::call::ToolCall;
use wicketgate::domain::decision::LayerReason;
use wicketgate::domain::dialect::{Dialect, Operation};
use wicketgate::domain::effect::Effect;
use wicketgate::domain::facts::ToolFacts;
use wicketgate::domain::json::Limits;
use wicketgate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use wicketgate::domain::sent::SentJson;
use wicketgate::domain::tier::Tier;
use wicketgate::enforce::{Answer, FlowPart, ModelFault, ModelReply, ModelRequest, Run};
use wicketgate::identity::client_tools::ClientTool;
use wicketgate::judge::prepared::PreparedResource;
use wicketgate::ledger::flow::{Clearance, Flow, FlowStopped, ProposedCall};
use wicketgate::ledger::permit::{Permit, Receipt};
use wicketgate::tool::scrub::Scrub;
use wicketgate::tool::{LEFT, Tool, ToolExecutor};

use crate::approvals::say;
use crate::checks::{Link, sha};
use crate::client::{Known, vanish};
use crate::faults::{Dice, Weather};
use crate::threads::on_a_good_day;
use crate::world::{Book, HOLD, Life, World};

/// The tool that is a model.
pub const MODEL: &str = "t.model";
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(4);
/// How long an answer waits for an approver.
const HOLD_WAIT: Duration = Duration::from_millis(300);

/// What must happen in some world, or its checks prove nothing.
pub const HAPPENS: [&str; 6] = [
    "a stream ended",
    "a stream broke",
    "an agent left a stream",
    "a process died in a stream",
    "a tool call left",
    "a tool call was denied",
];

/// The tool that the agent runs itself.
pub fn client_tool() -> ClientTool {
    ClientTool { name: "Bash".into(), tier: Tier::T1, definition: None }
}

/// The tool as a model whose requests say what it answers.
pub fn model(tool: Tool, (world, life, dead): (&Arc<World>, u64, &CancellationToken)) -> Tool {
    let pass_members = ["policy", "script"].map(str::to_owned).into();
    let face = ModelFace {
        dialects: [Dialect::Chat].into(),
        without_tools: [].into(),
        offered: vec![(Dialect::Chat, "m".into(), Some("none".into()))],
        rules: AskRules { pass_members, ..AskRules::default() },
        denied_as: DeniedAs::Call,
        hold_wait: HOLD_WAIT,
        betas: None,
        head_timeout: TIMEOUT,
        silence_timeout: TIMEOUT,
    };
    let facts =
        ToolFacts { kind: "model".into(), timeout: TIMEOUT, ..ToolFacts::clone(&tool.facts) };
    let (world, dead) = (Arc::clone(world), dead.clone());
    let executor = Arc::new(ScriptedModel { world, life, dead, face });
    Tool { facts: Arc::new(facts), executor, ..tool }
}

/// Answers what `script` says, piece by piece.
struct ScriptedModel {
    world: Arc<World>,
    life: u64,
    dead: CancellationToken,
    face: ModelFace,
}

/// Why an answer ends before its end.
fn stopped(why: FlowStopped) -> Unmasked {
    match why {
        FlowStopped::Left => Unmasked::Cancelled { reason: LEFT.into() },
        FlowStopped::Unrecorded => Unmasked::Unknown { cause: "unrecorded".into() },
    }
}

#[async_trait]
impl ToolExecutor for ScriptedModel {
    fn prepare(&self, _call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        Ok((Effect::None, Box::new(())))
    }

    fn model_face(&self) -> Option<&ModelFace> {
        Some(&self.face)
    }

    async fn execute(&self, _permit: &Permit) -> Unmasked {
        self.world.flaw("(16) a request to a model was not streamed");
        Unmasked::Unknown { cause: "not streamed".into() }
    }

    async fn stream(&self, permit: &Permit, flow: Flow<'_>, _scrub: &Scrub) -> Unmasked {
        self.alive().await;
        let result = self.world.executed(self.life, permit.call());
        self.says(permit.call(), b"");
        match self.answer(permit.call(), flow).await {
            Ok(()) => {
                Unmasked::Completed { result: AnswerContent::Text(result), status: "200".into() }
            }
            Err(ended) => ended,
        }
    }
}

impl ScriptedModel {
    /// A dead process does nothing again.
    async fn alive(&self) {
        if self.dead.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// Notes what is said next.
    fn says(&self, call: &ToolCall, bytes: &[u8]) {
        let key = (call.run().to_string(), call.id().as_str().to_owned());
        let mut book = self.world.book.lock();
        let track = book.tracks.entry(key).or_default();
        track.stream.get_or_insert_default().extend_from_slice(bytes);
    }

    async fn answer(&self, call: &ToolCall, mut flow: Flow<'_>) -> Result<(), Unmasked> {
        let args: Value = serde_json::from_slice(call.canonical()).unwrap();
        let script = &args["script"];
        let pause = Duration::from_millis(script["ms"].as_u64().unwrap_or(0));
        let size = usize::try_from(script["size"].as_u64().unwrap_or(8)).unwrap();
        flow.head((200, true), Vec::new()).await.map_err(stopped)?;
        for number in 0..script["pieces"].as_u64().unwrap_or(0) {
            tokio::time::sleep(pause).await;
            self.alive().await;
            let text = format!("text {number} {}", "x".repeat(size));
            self.says(call, text.as_bytes());
            flow.piece(Bytes::from(text)).await.map_err(stopped)?;
        }
        self.calls(call, script, &mut flow).await?;
        self.alive().await;
        match script["do"].as_str() {
            Some("error") => Err(Unmasked::Failed {
                class: FailureClass::ToolError,
                started: true,
                message: "the script says error".into(),
            }),
            Some("hang") => std::future::pending().await,
            Some("panic") => panic!("scripted panic in a stream"),
            _ => {
                self.says(call, b"end");
                flow.end(Bytes::from_static(b"end")).await.map_err(stopped)
            }
        }
    }

    /// Has the tool calls of the answer judged, and sends what became of each.
    async fn calls(
        &self,
        call: &ToolCall,
        script: &Value,
        flow: &mut Flow<'_>,
    ) -> Result<(), Unmasked> {
        let wanted = script["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        let proposed = (0..).zip(wanted).map(|(index, arguments)| ProposedCall {
            index,
            id: format!("tc{index}"),
            name: "Bash".into(),
            arguments: arguments.to_string(),
            custom: false,
        });
        let cleared = flow.propose(proposed.collect()).await.map_err(stopped)?;
        for (index, clearance) in cleared.into_iter().enumerate() {
            self.alive().await;
            let (word, cleared) = match clearance {
                Clearance::Allowed(cleared) => ("call", Some(cleared)),
                Clearance::Denied(_) => ("denied", None),
                Clearance::Undecided => {
                    return Err(Unmasked::Unknown { cause: "unrecorded".into() });
                }
            };
            let text = format!("{word} {index}");
            self.says(call, text.as_bytes());
            match cleared {
                Some(cleared) => flow.cleared(cleared, Bytes::from(text)).await,
                None => flow.piece(Bytes::from(text)).await,
            }
            .map_err(stopped)?;
        }
        Ok(())
    }
}

/// When an agent stops to read, or its gate dies under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Never,
    /// It leaves before anything came, after this time.
    Early(Duration),
    /// It leaves after so many pieces.
    Leaves(usize),
    /// The process dies after so many pieces.
    Dies(usize),
}

/// What an agent saw of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StreamEnd {
    /// Its end.
    Last,
    /// An error in place of its end.
    Broken(String),
    /// An answer that is no stream: `ok`, or a code.
    Answered(String),
    /// Nothing more: the agent left, or the process died.
    Nothing,
}

/// A request whose script says what the model answers.
fn request(id: &str, policy: &str, script: &Value) -> ModelRequest {
    let body = json!({
        "model": "m",
        "stream": true,
        "policy": policy,
        "script": script,
        "messages": [{"role": "user", "content": format!("say {id}")}],
        "tools": [{"type": "function", "function": {
            "name": "Bash", "description": "runs", "parameters": {"type": "object"}}}],
    });
    ModelRequest {
        dialect: Dialect::Chat,
        operation: Operation::Generate,
        body: SentJson::read(body.to_string().as_bytes(), &Limits::MODEL).unwrap(),
        headers: Vec::new(),
        beta: false,
        call_id: id.into(),
        managed: None,
        traceparent: None,
    }
}

/// The answer of the road.
async fn asks(
    life: &Life,
    run: &Arc<Run>,
    request: ModelRequest,
) -> Result<ModelReply, Box<ModelFault>> {
    life.road.begin_ask(run, request).await?.reply().await
}

type Key = (String, String);

impl World {
    /// Counts something that happened.
    fn happens(&self, word: &str) {
        *self.book.lock().answers.entry(word.into()).or_default() += 1;
    }

    /// Asks once and reads to the end, or to the cut.
    async fn ask_model(
        &self,
        life: &Life,
        known: &Known,
        request: &ModelRequest,
        cut: Cut,
    ) -> StreamEnd {
        let key = (known.run.clone(), request.call_id.clone());
        let run = match self.find(life, known).await {
            Some(Ok(run)) => run,
            Some(Err(fault)) => return StreamEnd::Answered(fault.code.as_str().to_owned()),
            None => return StreamEnd::Nothing,
        };
        self.waiting(&key.0, &key.1, life);
        let early = match cut {
            Cut::Early(after) => Some(after),
            Cut::Never | Cut::Leaves(_) | Cut::Dies(_) => None,
        };
        let reply = tokio::select! {
            biased;
            reply = asks(life, &run, request.clone()) => reply,
            () = life.dead.cancelled() => return StreamEnd::Nothing,
            () = vanish(early) => return self.leaves(&key),
        };
        let mut flowing = match reply {
            Ok(ModelReply::Begun(flowing)) => flowing,
            Ok(ModelReply::Whole(released, _)) => {
                return self.answered(life, &key, &Ok(released));
            }
            Err(fault) => {
                let ModelFault { fault, .. } = *fault;
                return self.answered(life, &key, &Err(fault));
            }
        };
        self.recorded(&key, &flowing.head.receipt, "call.authorized");
        let mut received = Vec::new();
        for pieces in 0.. {
            if cut == Cut::Leaves(pieces) {
                drop(flowing);
                return self.leaves(&key);
            }
            if cut == Cut::Dies(pieces) {
                life.dead.cancel();
            }
            let part = tokio::select! {
                biased;
                () = life.dead.cancelled() => {
                    self.happens("a process died in a stream");
                    return StreamEnd::Nothing;
                }
                part = flowing.next() => part,
            };
            match part {
                FlowPart::Piece(piece) => {
                    let bytes = piece.into_bytes();
                    self.received(&key, &bytes);
                    received.extend_from_slice(&bytes);
                }
                FlowPart::Last(last) => {
                    let receipt = last.receipt().clone();
                    received.extend_from_slice(&last.into_bytes());
                    return self.ended(life, &key, &receipt, &received);
                }
                FlowPart::Broken(fault) => {
                    self.happens("a stream broke");
                    let code = fault.code.as_str().to_owned();
                    self.answered(life, &key, &Err(*fault));
                    return StreamEnd::Broken(code);
                }
            }
        }
        StreamEnd::Nothing
    }

    /// The agent left. That stops the call.
    fn leaves(&self, key: &Key) -> StreamEnd {
        self.happens("an agent left a stream");
        self.book.lock().tracks.entry(key.clone()).or_default().cancelled = true;
        StreamEnd::Nothing
    }

    /// No client waits any more.
    fn rests(&self, life: &Life, key: &Key) {
        let mut book = self.book.lock();
        let track = book.tracks.entry(key.clone()).or_default();
        *track.waiting.entry(life.number).or_default() -= 1;
    }

    fn answered(&self, life: &Life, key: &Key, answer: &Answer) -> StreamEnd {
        self.rests(life, key);
        self.told(key, None, answer);
        StreamEnd::Answered(match answer {
            Ok(_) => "ok".to_owned(),
            Err(fault) => fault.code.as_str().to_owned(),
        })
    }

    /// Holds a receipt against the books: the entry of this call, of this kind.
    fn recorded(&self, key: &Key, receipt: &Receipt, kind: &str) -> Option<Link> {
        let mut book = self.book.lock();
        let book = &mut *book;
        book.shadow.refresh(&self.memory);
        let link = book.shadow.at(&receipt.chain, receipt.seq);
        let link = link.filter(|link| {
            link.leaf == *receipt.leaf.as_bytes()
                && link.kind() == kind
                && link.text("run") == key.0
                && link.text("call") == key.1
        });
        if link.is_none() {
            book.flaws.push(format!("(16) {}: no `{kind}` is on the books", key.1));
        }
        link.cloned()
    }

    /// A piece came: of a tool call only what is decided, and durable.
    fn received(&self, key: &Key, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let (word, index) = match text.split_once(' ') {
            Some(("call", index)) => ("a tool call left", index),
            Some(("denied", index)) => ("a tool call was denied", index),
            _ => return,
        };
        self.happens(word);
        let mut book = self.book.lock();
        let book = &mut *book;
        book.shadow.refresh(&self.memory);
        let proposal = format!("{}-p{index}", key.1);
        let links = book.shadow.of_call(&key.0, &proposal);
        let allowed = links.iter().any(|link| link.kind() == "call.authorized");
        if links.is_empty() || allowed != (word == "a tool call left") {
            let kinds: Vec<&str> = links.iter().map(|link| link.kind()).collect();
            book.flaws.push(format!("(16) {word}: {proposal}, with {kinds:?} on the books"));
        }
    }

    /// The end came: the outcome is durable, and covers exactly what was received.
    fn ended(&self, life: &Life, key: &Key, receipt: &Receipt, received: &[u8]) -> StreamEnd {
        self.happens("a stream ended");
        self.rests(life, key);
        let Some(link) = self.recorded(key, receipt, "call.completed") else {
            return StreamEnd::Last;
        };
        let mut book = self.book.lock();
        if !covers(&link.json["data"]["observed"]["stream"], received)
            || link.json["data"]["observed"]["stream"]["bytes"] != received.len()
        {
            book.flaws.push(format!("(16) {}: the outcome is of other bytes", key.1));
        }
        // The same question gets the same answer for ever.
        let now = format!("ok@{:?}", Some(receipt.seq));
        let track = book.tracks.entry(key.clone()).or_default();
        let before = track.told.get_or_insert_with(|| now.clone()).clone();
        if before != now {
            book.flaws.push(format!("(16) {} ended {before} and then {now}", key.1));
        }
        StreamEnd::Last
    }
}

/// Whether these members of an entry are about the beginning of these bytes.
fn covers(stream: &Value, sent: &[u8]) -> bool {
    let bytes = stream["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
    let beginning = bytes.and_then(|bytes| sent.get(..bytes));
    beginning.is_some_and(|beginning| stream["sha256"] == hex::encode(sha(&[beginning])))
}

/// Flaws of check 16 in the books: what they say of each stream is a beginning of it, one after the other.
pub fn flaws(book: &Book) -> Vec<String> {
    let mut flaws = Vec::new();
    for ((run, call), track) in &book.tracks {
        let Some(sent) = &track.stream else { continue };
        let mut before = 0;
        for link in book.shadow.of_call(run, call) {
            let (kind, data) = (link.kind(), &link.json["data"]);
            let mut flaw = |what: &str| flaws.push(format!("(16) `{kind}` of {call}: {what}"));
            if kind == "call.progress" {
                let bytes = data["bytes"].as_u64().unwrap_or_default();
                if bytes <= before || !covers(data, sent) {
                    flaw("no further beginning of the stream");
                }
                before = bytes;
                continue;
            }
            let covered = data["covered_bytes"].as_u64();
            if data["cause"] == "writer_lost" && covered != (before > 0).then_some(before) {
                flaw(&format!("covers {covered:?}, and {before} bytes are recorded"));
            }
            let seen = &data["observed"]["stream"];
            if seen.is_object() && (seen["bytes"].as_u64() < Some(before) || !covers(seen, sent)) {
                flaw("no beginning of the stream");
            }
        }
    }
    flaws
}

/// Any script.
fn script(dice: &mut Dice) -> Value {
    let pick = |dice: &mut Dice, all: &[&'static str]| {
        all[usize::try_from(dice.below(all.len() as u64)).unwrap()]
    };
    let verdicts = ["allow", "allow", "allow", "deny", "hold", "flip", "panic"];
    let calls: Vec<Value> = (0..dice.below(3))
        .map(|_| json!({"policy": pick(dice, &verdicts), "n": dice.below(1 << 40)}))
        .collect();
    json!({
        "do": pick(dice, &["ok", "ok", "ok", "ok", "error", "hang", "panic"]),
        "pieces": dice.below(6),
        "size": if dice.chance(200) { 200_000 } else { dice.below(400) },
        "ms": if dice.chance(300) { dice.below(500) } else { 0 },
        "calls": calls,
        "n": dice.below(1 << 40),
    })
}

/// One agent that asks a model. Gives back what it asked, for asking again.
pub async fn agent(world: Arc<World>) -> Vec<(Known, Vec<ModelRequest>)> {
    let mut dice = Dice::new(world.seed ^ 0x73_7472_6561_6d73);
    let mut made: Vec<(Known, Vec<ModelRequest>)> = Vec::new();
    for step in 0..6 + dice.below(10) {
        tokio::time::sleep(dice.millis(0, 150)).await;
        let life = world.life().await;
        if made.is_empty() || dice.chance(60) {
            match world.open(&life, None).await {
                Some(known) => made.push((known, Vec::new())),
                None => continue,
            }
        }
        let Some((known, asked)) = made.last_mut() else { continue };
        let old = asked.get(usize::try_from(dice.below(8)).unwrap()).cloned();
        let cut = match dice.below(8) {
            0 => Cut::Early(dice.millis(0, 60)),
            1 | 2 => Cut::Leaves(usize::try_from(dice.below(5)).unwrap()),
            _ => Cut::Never,
        };
        let request = match old.filter(|_| dice.chance(250)) {
            Some(old) => old,
            None => {
                let policy = if dice.chance(100) { "deny" } else { "allow" };
                let new = request(&format!("m-{step}"), policy, &script(&mut dice));
                asked.push(new.clone());
                new
            }
        };
        let end = world.ask_model(&life, known, &request, cut).await;
        let gone = matches!(&end, StreamEnd::Answered(code) if code == "run.unknown" || code == "run.sealed");
        if gone {
            made.extend(world.open(&life, None).await.map(|known| (known, Vec::new())));
        }
    }
    made
}

/// Every request made before gets its answer.
pub async fn ask_again(world: &World, life: &Life, made: &[(Known, Vec<ModelRequest>)]) {
    for (known, asked) in made {
        for request in asked {
            for _ in 0..2 {
                let end = world.ask_model(life, known, request, Cut::Never).await;
                if let StreamEnd::Answered(code) | StreamEnd::Broken(code) = &end
                    && code.starts_with("ledger.")
                {
                    let id = &request.call_id;
                    world.flaw(format!("(9) with the faults off, {id} was answered `{code}`"));
                }
            }
        }
    }
}

/// A run on a good day.
async fn opened(world: &World, life: &Life) -> Known {
    for _ in 0..4 {
        if let Some(known) = world.open(life, None).await {
            return known;
        }
    }
    panic!("a run could not be opened on a good day")
}

/// What the books say of a call at last, after what they say of its stream was checked.
fn last(world: &World, known: &Known, id: &str) -> Link {
    let mut book = world.book.lock();
    let book = &mut *book;
    book.shadow.refresh(&world.memory);
    let found = flaws(book);
    book.flaws.extend(found);
    let links = book.shadow.of_call(&known.run, id);
    Link::clone(links.last().unwrap_or_else(|| panic!("{id} is not on the books")))
}

/// How often each thing happened.
fn counts(world: &World) -> BTreeMap<String, u64> {
    world.book.lock().answers.clone()
}

#[test]
fn a_tool_call_leaves_once_it_is_recorded_and_the_end_once_the_outcome_is() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let known = opened(&world, &life).await;
        let calls = json!([{"policy": "allow"}, {"policy": "deny"}, {"policy": "hold", "n": 1}]);
        let asked = request("m", "allow", &json!({"pieces": 3, "ms": 5, "calls": calls}));
        for expected in [StreamEnd::Last, StreamEnd::Answered("ok".into())] {
            assert_eq!(world.ask_model(&life, &known, &asked, Cut::Never).await, expected);
        }
        let counts = counts(&world);
        let count = |word: &str| counts.get(word).copied().unwrap_or_default();
        assert_eq!((count("a tool call left"), count("a tool call was denied")), (1, 2));
        assert_eq!(last(&world, &known, "m").kind(), "call.completed");
        let denied = request("n", "deny", &json!({"pieces": 1}));
        let denied = world.ask_model(&life, &known, &denied, Cut::Never).await;
        assert_eq!(denied, StreamEnd::Answered("policy.denied".into()));
    });
}

/// Pieces of this size are recorded one by one.
const LONG: u64 = 300_000;

#[test]
fn after_a_crash_at_any_piece_the_ledger_says_how_much_of_the_answer_it_covers() {
    for pieces in 0..5 {
        on_a_good_day(async |world| {
            let life = world.start(true).await;
            let known = opened(&world, &life).await;
            let script = json!({"pieces": 5, "size": LONG, "ms": 20, "do": "hang"});
            let asked = request("m", "allow", &script);
            let end = world.ask_model(&life, &known, &asked, Cut::Dies(pieces)).await;
            assert_eq!(end, StreamEnd::Nothing);
            let life = world.start(true).await;
            let end = world.ask_model(&life, &known, &asked, Cut::Never).await;
            assert_eq!(end, StreamEnd::Answered("call.unknown".into()));
            let last = last(&world, &known, "m");
            assert_eq!(last.kind(), "call.unknown");
            // One record may be under way while the next bytes leave.
            let covered = last.json["data"]["covered_bytes"].as_u64().unwrap_or_default();
            let least = (pieces as u64).saturating_sub(2) * LONG;
            assert!(covered >= least, "{covered} bytes are covered after {pieces} pieces");
        });
    }
}

#[test]
fn an_agent_that_leaves_at_any_piece_stops_the_call() {
    for pieces in 0..4 {
        on_a_good_day(async |world| {
            let life = world.start(true).await;
            let known = opened(&world, &life).await;
            let asked = request("m", "allow", &json!({"pieces": 4, "ms": 20, "do": "hang"}));
            let end = world.ask_model(&life, &known, &asked, Cut::Leaves(pieces)).await;
            assert_eq!(end, StreamEnd::Nothing);
            tokio::time::sleep(Duration::from_millis(100)).await;
            let last = last(&world, &known, "m");
            assert_eq!(
                (last.kind(), &last.json["data"]["reason"]),
                ("call.cancelled", &json!(LEFT))
            );
        });
    }
}

#[test]
fn an_answer_whose_outcome_is_not_recorded_has_no_end() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let known = opened(&world, &life).await;
        let asked = request("m", "allow", &json!({"pieces": 4, "ms": 100}));
        let ask = world.ask_model(&life, &known, &asked, Cut::Never);
        let (end, ()) = tokio::join!(ask, async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let until = Instant::now() + Duration::from_millis(900);
            *world.sky.weather.lock() = Weather { down_until: Some(until), ..Weather::default() };
        });
        assert_eq!(end, StreamEnd::Broken("call.unknown".into()));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(last(&world, &known, "m").kind(), "call.completed");
        let end = world.ask_model(&life, &known, &asked, Cut::Never).await;
        assert_eq!(end, StreamEnd::Answered("ok".into()));
    });
}

/// Asks, and meanwhile, one after the other, approvers say this of the request.
async fn with_words(
    world: &World,
    life: &Life,
    known: &Known,
    (asked, words): (&ModelRequest, &[&str]),
) -> (StreamEnd, Vec<String>) {
    let run = world.find(life, known).await.unwrap().unwrap();
    let saying = async {
        let mut said = Vec::new();
        for word in words {
            tokio::time::sleep(Duration::from_millis(50)).await;
            said.push(say(life, &run, &asked.call_id, word).await);
        }
        said
    };
    tokio::join!(world.ask_model(life, known, asked, Cut::Never), saying)
}

/// How often the model answered this request.
fn runs(world: &World, known: &Known, id: &str) -> u32 {
    let key = (known.run.clone(), id.to_owned());
    world.book.lock().tracks.get(&key).map_or(0, |track| track.executions)
}

#[test]
fn a_held_request_runs_once_for_the_client_that_waits_when_enough_people_approved() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let known = opened(&world, &life).await;
        let asked = request("m", "pair", &json!({"pieces": 2}));
        let words = ["approve ann", "approve bob"];
        let (end, said) = with_words(&world, &life, &known, (&asked, &words)).await;
        assert_eq!((end, said), (StreamEnd::Last, vec!["held".to_owned(), "authorized".into()]));
        assert_eq!(runs(&world, &known, "m"), 1);
        assert_eq!(last(&world, &known, "m").kind(), "call.completed");
        let asked = request("n", "hold", &json!({"pieces": 2}));
        let (end, said) = with_words(&world, &life, &known, (&asked, &["refuse ann"])).await;
        let denied = StreamEnd::Answered("policy.denied".into());
        assert_eq!((end, said), (denied, vec!["denied".to_owned()]));
        assert_eq!(runs(&world, &known, "n"), 0);
    });
}

#[test]
fn a_held_request_runs_for_no_client_that_left_and_once_for_one_that_comes_again() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let known = opened(&world, &life).await;
        let run = world.find(&life, &known).await.unwrap().unwrap();
        let held = StreamEnd::Answered("call.held".into());
        let asked = request("m", "hold", &json!({"pieces": 2}));
        // It waits to the end of its time.
        assert_eq!(world.ask_model(&life, &known, &asked, Cut::Never).await, held);
        assert_eq!(say(&life, &run, "m", "approve ann").await, "awaited");
        // Or it hangs up while it waits.
        let left = request("n", "hold", &json!({"pieces": 2}));
        let waiting = asks(&life, &run, left.clone());
        let waited = tokio::time::timeout(Duration::from_millis(100), waiting).await;
        assert!(waited.is_err(), "it waits for an approver");
        assert_eq!(say(&life, &run, "n", "approve ann").await, "awaited");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!((runs(&world, &known, "m"), runs(&world, &known, "n")), (0, 0));
        for (asked, id) in [(&asked, "m"), (&left, "n")] {
            let end = world.ask_model(&life, &known, asked, Cut::Never).await;
            assert_eq!((end, runs(&world, &known, id)), (StreamEnd::Last, 1));
            let end = world.ask_model(&life, &known, asked, Cut::Never).await;
            assert_eq!((end, runs(&world, &known, id)), (StreamEnd::Answered("ok".into()), 1));
        }
    });
}

#[test]
fn a_held_request_outlives_its_gate_and_ends_with_its_time() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let known = opened(&world, &life).await;
        let run = world.find(&life, &known).await.unwrap().unwrap();
        let script = json!({"pieces": 1});
        let [m, n, o] = ["m", "n", "o"].map(|id| request(id, "hold", &script));
        let waiting = [&m, &n, &o].map(|asked| {
            tokio::time::timeout(Duration::from_millis(50), asks(&life, &run, asked.clone()))
        });
        assert!(join_all(waiting).await.iter().all(Result::is_err), "they wait for an approver");
        life.dead.cancel();
        // The same policy again: under another one the approval would be void.
        world.version.fetch_sub(1, Ordering::Relaxed);
        let life = world.start(true).await;
        let run = world.find(&life, &known).await.unwrap().unwrap();
        assert_eq!(say(&life, &run, "m", "approve ann").await, "awaited");
        assert_eq!(say(&life, &run, "n", "refuse ann").await, "denied");
        assert_eq!(world.ask_model(&life, &known, &m, Cut::Never).await, StreamEnd::Last);
        let denied = StreamEnd::Answered("policy.denied".into());
        assert_eq!(world.ask_model(&life, &known, &n, Cut::Never).await, denied);
        tokio::time::sleep(HOLD).await;
        let expired = StreamEnd::Answered("call.expired".into());
        assert_eq!(world.ask_model(&life, &known, &o, Cut::Never).await, expired);
        let times = ["m", "n", "o"].map(|id| runs(&world, &known, id));
        assert_eq!(times, [1, 0, 0]);
    });
}
