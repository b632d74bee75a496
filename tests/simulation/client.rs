//! Callers: they ask, ask again, ask something else under the same id, hang up, seal; and every answer
//! is held against the store at the moment it is given.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wicketgate::domain::call::CallerAuth;
use wicketgate::domain::code::Code;
use wicketgate::domain::tier::Face;
use wicketgate::enforce::{Answer, CallRequest, Fault, Opening, ParentClaim, Run, Thread};
use wicketgate::identity::{Caller, Peer};

use crate::approvals;
use crate::checks::Link;
use crate::faults::{Dice, Weather};
use crate::script::PLANTED;
use crate::world::{
    COMMIT_WAIT, HOLD, Life, QUEUE_WAIT, SETTLE_WAIT, TOOL_TIMEOUT, Track, World, since,
};

/// A run somebody has the token of.
#[derive(Clone, Debug)]
pub struct Known {
    pub run: String,
    pub token: String,
    /// The thread of an implicit run, which has no token.
    pub thread: Option<Thread>,
    /// The run that delegated to it.
    pub parent: Option<Box<Known>>,
}

/// Codes that promise nothing but that asking again is safe.
const TRANSIENT: [&str; 7] = [
    "ledger.unavailable",
    "ledger.unknown",
    "overloaded",
    "shutdown",
    "not_ready",
    "run.unknown",
    "call.not_found",
];

/// Longest anybody may wait: for a bundle's activation, the commit, the tool, the outcome.
const PATIENCE: Duration = Duration::from_millis(100)
    .saturating_add(QUEUE_WAIT)
    .saturating_add(COMMIT_WAIT)
    .saturating_add(COMMIT_WAIT)
    .saturating_add(TOOL_TIMEOUT)
    .saturating_add(SETTLE_WAIT);

/// With the faults off, how long it may take until a decision in doubt is over.
const DOUBT_ENDS: Duration = HOLD.saturating_add(Duration::from_secs(6));

impl World {
    pub async fn open(&self, life: &Life, hang_up: Option<Duration>) -> Option<Known> {
        self.open_below(life, hang_up, None).await
    }

    /// Opens a run, or a child of this one.
    async fn open_below(
        &self,
        life: &Life,
        hang_up: Option<Duration>,
        parent: Option<&Known>,
    ) -> Option<Known> {
        let mut caller = self.caller();
        let mut opening = Opening { model: "m".into(), ..Opening::default() };
        if let Some(parent) = parent {
            caller.manifest = Arc::clone(&self.helper);
            let (run, token) = (parent.run.clone(), parent.token.clone());
            opening.parent = Some(ParentClaim { run, token, delegate: String::new() });
        }
        if self.dice.lock().chance(30) {
            // Labels that grow sixfold when written.
            let value = "\u{1}".repeat(256);
            opening.labels = (0..32).map(|n| (format!("{:\u{2}>64}", n), value.clone())).collect();
        }
        let opened = tokio::select! {
            biased;
            opened = life.road.open_run(Face::Grpc, &caller, opening) => opened.ok()?,
            () = life.dead.cancelled() => return None,
            () = vanish(hang_up) => return None,
        };
        let mut book = self.book.lock();
        let book = &mut *book;
        book.shadow.refresh(&self.memory);
        book.opened.insert(opened.run.to_string());
        let link = book.shadow.at(&opened.receipt.chain, opened.receipt.seq);
        if link.is_none_or(|l| l.kind() != "run.opened" || l.text("run") != opened.run.to_string())
        {
            book.flaws.push("(6) a run was given away that is not on the books".into());
        }
        if parent.is_some() {
            *book.answers.entry("a child was opened".into()).or_default() += 1;
        }
        let parent = parent.cloned().map(Box::new);
        Some(Known { run: opened.run.to_string(), token: opened.token, thread: None, parent })
    }

    /// The agent that nobody delegates to.
    pub fn caller(&self) -> Caller {
        let auth = CallerAuth { method: "uds".into(), ..CallerAuth::default() };
        Caller { manifest: Arc::clone(&self.manifest), auth }
    }

    /// Asks for the run of a thread; it must be on the books as one.
    pub async fn thread(&self, life: &Life, thread: &Thread) -> Option<Result<Arc<Run>, Fault>> {
        let (caller, opening) = (self.caller(), Opening::default());
        self.book.lock().threads.insert(thread.clone());
        let run = tokio::select! {
            biased;
            run = life.road.implicit_run(Face::Mcp, &caller, thread, opening) => run,
            () = life.dead.cancelled() => return None,
        };
        let run = match run {
            Ok(run) => run,
            Err(fault) => return Some(Err(fault)),
        };
        let mut book = self.book.lock();
        let book = &mut *book;
        book.shadow.refresh(&self.memory);
        book.opened.insert(run.id().to_string());
        let mut links = book.shadow.chains.values().flatten();
        let opened =
            links.find(|l| l.kind() == "run.opened" && l.text("run") == run.id().to_string());
        if opened.is_none_or(|l| l.json["data"]["implicit"] != thread.as_str()) {
            book.flaws.push("(6) a thread was given a run that is not on the books".into());
        }
        Some(Ok(run))
    }

    /// The run somebody has the token or the thread of.
    pub async fn find(&self, life: &Life, known: &Known) -> Option<Result<Arc<Run>, Fault>> {
        let peer = Peer { listener: "uds", ..Peer::default() };
        let Some(thread) = &known.thread else {
            return Some(life.road.find_run(&peer, &known.token));
        };
        match self.thread(life, thread).await? {
            Ok(run) if run.id().to_string() == known.run => Some(Ok(run)),
            // The thread goes on in another run.
            Ok(_) => Some(Err(Fault::new(Code::RunUnknown, "another run"))),
            Err(fault) => Some(Err(fault)),
        }
    }

    /// Asks once. `None`: the caller hung up, or the process died first.
    pub async fn ask(
        &self,
        life: &Life,
        known: &Known,
        request: &CallRequest,
        hang_up: Option<Duration>,
    ) -> Option<Answer> {
        self.ask_until(life, known, request, hang_up, None).await
    }

    /// The same, and asks the call to stop after a while.
    pub async fn ask_until(
        &self,
        life: &Life,
        known: &Known,
        request: &CallRequest,
        hang_up: Option<Duration>,
        cancel: Option<Duration>,
    ) -> Option<Answer> {
        let key = (known.run.clone(), request.call_id.clone());
        let bytes = canonical(request);
        let run = match self.find(life, known).await? {
            Ok(run) => run,
            Err(fault) => return Some(Err(fault)),
        };
        let cancelling = async {
            vanish(cancel).await;
            self.book.lock().tracks.entry(key.clone()).or_default().cancelled = true;
            life.road.cancel(&run, &key.1);
            std::future::pending::<()>().await;
        };
        {
            let mut book = self.book.lock();
            let track = book.tracks.entry(key.clone()).or_default();
            track.asked.insert(bytes.clone());
            *track.waiting.entry(life.number).or_default() += 1;
        }
        let start = Instant::now();
        let answer = tokio::select! {
            biased;
            answer = life.road.execute(&run, request.clone()) => answer,
            () = life.dead.cancelled() => return None,
            () = cancelling => return None,
            () = vanish(hang_up) => return None,
        };
        {
            let mut book = self.book.lock();
            let track = book.tracks.entry(key.clone()).or_default();
            *track.waiting.entry(life.number).or_default() -= 1;
        }
        if known.parent.is_some() && answer.is_ok() {
            let mut book = self.book.lock();
            *book.answers.entry("a child was answered".into()).or_default() += 1;
        }
        if since(start) > PATIENCE {
            self.flaw(format!("(8) call {} waited {:?}", key.1, since(start)));
        }
        self.told(&key, Some(&bytes), &answer);
        Some(answer)
    }

    /// Asks a call to stop, whatever became of it.
    pub async fn cancel(&self, life: &Life, known: &Known, id: &str) {
        let Some(Ok(run)) = self.find(life, known).await else { return };
        let key = (known.run.clone(), id.to_owned());
        self.book.lock().tracks.entry(key).or_default().cancelled = true;
        life.road.cancel(&run, id);
    }

    /// Asks again until it is known whether the call ran: with the faults off, every doubt ends.
    async fn until_sure(&self, life: &Life, known: &Known, request: &CallRequest) {
        let mut clear = None;
        while !life.is_over() {
            tokio::time::sleep(Duration::from_millis(250)).await;
            if *self.sky.weather.lock() == Weather::default() {
                clear.get_or_insert_with(Instant::now);
            }
            let answer = self.ask(life, known, request, None).await;
            let Some(Err(fault)) = answer else { return };
            if !matches!(fault.code.as_str(), "ledger.unknown" | "ledger.unavailable" | "call.held")
            {
                return;
            }
            if clear.is_some_and(|clear| since(clear) > DOUBT_ENDS) && !life.is_over() {
                let (id, code) = (&request.call_id, fault.code);
                return self.flaw(format!("(4) the doubt about {id} never ends: `{code}`"));
            }
        }
    }

    /// Asks how far a call is.
    pub async fn look(&self, life: &Life, known: &Known, id: &str) -> Option<Answer> {
        let run = self.find(life, known).await?.ok()?;
        let answer = tokio::select! {
            biased;
            answer = life.road.call(&run, id) => answer,
            () = life.dead.cancelled() => return None,
        };
        self.told(&(known.run.clone(), id.to_owned()), None, &answer);
        Some(answer)
    }

    pub async fn seal(&self, life: &Life, known: &Known) -> Option<Result<(), Fault>> {
        if let Some(thread) = &known.thread {
            let caller = self.caller();
            let ending = life.road.end_implicit(&caller, thread);
            return tokio::select! {
                biased;
                () = ending => Some(Ok(())),
                () = life.over() => None,
            };
        }
        let run = match self.find(life, known).await? {
            Ok(run) => run,
            Err(fault) => return Some(Err(fault)),
        };
        let sealed = tokio::select! {
            biased;
            sealed = life.road.seal_run(&run) => sealed,
            () = life.dead.cancelled() => return None,
        };
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(fault) => return Some(Err(fault)),
        };
        let mut book = self.book.lock();
        let book = &mut *book;
        book.shadow.refresh(&self.memory);
        let link = book.shadow.at(&sealed.receipt.chain, sealed.receipt.seq);
        let right = link.is_some_and(|l| {
            l.kind() == "run.sealed"
                && l.text("run") == known.run
                && l.json["data"]["entries"] == sealed.entries
        });
        if !right {
            book.flaws.push(format!("(6) run {} was called sealed and is not", known.run));
        }
        Some(Ok(()))
    }

    /// Holds one answer against the books: checks (6), (7), (13).
    pub fn told(&self, key: &(String, String), bytes: Option<&[u8]>, answer: &Answer) {
        let mut book = self.book.lock();
        let book = &mut *book;
        book.shadow.refresh(&self.memory);
        let word = match answer {
            Ok(_) => "ok".to_owned(),
            Err(fault) => fault.code.as_str().to_owned(),
        };
        *book.answers.entry(word.clone()).or_default() += 1;
        let receipt = match answer {
            Ok(released) => Some(released.receipt()),
            Err(fault) => fault.receipt.as_ref(),
        };
        let track = book.tracks.entry(key.clone()).or_default();
        let id = &key.1;
        let links = book.shadow.of_call(&key.0, id);
        let mut flaws = Vec::new();
        let link = receipt.and_then(|r| {
            let link = book.shadow.at(&r.chain, r.seq).filter(|l| l.leaf == *r.leaf.as_bytes());
            let mine = link.filter(|l| {
                l.text("call") == *id && l.text("run") == key.0 && l.json["run_seq"] == r.run_seq
            });
            if mine.is_none() {
                flaws.push(format!("(6) the receipt of `{word}` for {id} is not on the books"));
            }
            mine
        });
        if let Some(link) = link {
            let wrong = match answer {
                Ok(released) => {
                    let same = link.payload(&self.memory, "result").as_deref()
                        == Some(released.result())
                        && link.json["data"]["status"] == released.status()
                        && track.result.as_deref() == Some(released.result());
                    link.kind() != "call.completed" || !same
                }
                Err(fault) => !says_the_same(link, fault),
            };
            if wrong {
                flaws.push(format!("(6) `{word}` for {id} is not what {} says", link.kind()));
            }
            let recorded = links.first().and_then(|l| l.payload(&self.memory, "args"));
            if bytes.is_some() && recorded.as_deref() != bytes {
                flaws.push(format!("(7) {id} was answered for other bytes"));
            }
        }
        flaws.extend(without_receipt(track, answer, receipt.is_some(), links.is_empty(), id));
        flaws.extend(answered_before(track, answer, link, bytes, &links, id, &self.memory));
        if let Err(fault) = answer {
            let texts =
                fault.reasons.iter().map(|r| format!("{}{}{}", r.detail, r.message, r.rule));
            let text = texts.collect::<String>() + &fault.message + &fault.detail;
            if text.contains(PLANTED) {
                flaws.push(format!("(13) the answer `{word}` gives away a payload"));
            }
        }
        book.flaws.extend(flaws);
    }
}

/// A verdict or an outcome is never told without a receipt.
fn without_receipt(
    track: &Track,
    answer: &Answer,
    receipt: bool,
    unwritten: bool,
    id: &str,
) -> Option<String> {
    let Err(fault) = answer else { return None };
    let code = fault.code.as_str();
    if receipt {
        return None;
    }
    let free = TRANSIENT.contains(&code)
        // Somebody stopped it before there was anything to record.
        || (code == "call.cancelled" && track.cancelled && unwritten)
        || matches!(code, "call.unknown" | "call.conflict" | "run.sealed" | "request.malformed");
    if !free {
        return Some(format!("(6) `{code}` for {id} was told before it was durable"));
    }
    (code == "call.conflict" && track.asked.len() < 2)
        .then(|| format!("(7) {id} conflicts with itself"))
}

/// The same question gets the same answer for ever.
fn answered_before(
    track: &mut Track,
    answer: &Answer,
    link: Option<&Link>,
    bytes: Option<&[u8]>,
    links: &[&Link],
    id: &str,
    memory: &wicketgate_support::memory::MemoryStore,
) -> Option<String> {
    let (word, seq) = match answer {
        Ok(released) => ("ok", Some(released.receipt().seq)),
        Err(fault) => (fault.code.as_str(), fault.receipt.as_ref().map(|r| r.seq)),
    };
    let asked = links.first().and_then(|l| l.payload(memory, "args"));
    let other = bytes.is_some() && asked.is_some() && asked.as_deref() != bytes;
    if other && track.told.is_some() {
        let fine = word == "call.conflict" || TRANSIENT.contains(&word);
        return (!fine).then(|| format!("(7) other bytes under {id} were answered `{word}`"));
    }
    let finals = [
        "call.denied",
        "call.completed",
        "call.failed",
        "call.unknown",
        "call.cancelled",
        "call.expired",
    ];
    let now = link.filter(|l| finals.contains(&l.kind())).map(|_| format!("{word}@{seq:?}"));
    match (&track.told, now) {
        (None, now) => {
            track.told = now;
            None
        }
        (Some(before), Some(now)) if *before == now => None,
        (Some(_), None) if TRANSIENT.contains(&word) => None,
        (Some(before), now) => Some(format!(
            "(7) {id} was answered {before} and then {}",
            now.unwrap_or_else(|| word.to_owned())
        )),
    }
}

fn says_the_same(link: &Link, fault: &Fault) -> bool {
    let data = &link.json["data"];
    let kind = link.kind();
    let reasons = || {
        let told: Vec<Value> = fault
            .reasons
            .iter()
            .map(|r| {
                json!({"code": r.code.as_str(), "detail": r.detail, "message": r.message, "rule": r.rule})
            })
            .collect();
        !told.is_empty() && data["reasons"] == Value::from(told)
    };
    match fault.code.as_str() {
        "policy.denied" | "policy.error" | "limit.exceeded" | "tool.not_granted"
        | "arguments.invalid" | "effect.refused" => kind == "call.denied" && reasons(),
        "call.held" => {
            let expires = fault.expires.map(|e| e.to_string());
            kind == "call.held" && reasons() && data["expires"].as_str() == expires.as_deref()
        }
        "tool.failed" => kind == "call.failed" && data["class"] == fault.detail.as_str(),
        "call.unknown" => {
            kind == "call.authorized"
                || (kind == "call.unknown" && data["cause"] == fault.detail.as_str())
        }
        "call.cancelled" => kind == "call.cancelled",
        "call.expired" => kind == "call.expired",
        _ => false,
    }
}

fn canonical(request: &CallRequest) -> Vec<u8> {
    let args: Value = serde_json::from_slice(&request.arguments).unwrap();
    let mut bytes = serde_json_canonicalizer::to_vec(&args).unwrap();
    // The tool is part of what is asked; only its arguments are stored under `args`.
    if request.tool.is_empty() {
        bytes.clear();
    }
    bytes
}

pub async fn vanish(after: Option<Duration>) {
    match after {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}

/// A request whose arguments say what happens.
pub fn request(dice: &mut Dice, id: String) -> CallRequest {
    let act = ["ok", "ok", "ok", "slow", "error", "hang", "panic", "flood"];
    let verdict =
        ["allow", "allow", "allow", "allow", "allow", "flip", "deny", "hold", "error", "panic"];
    let act = act[usize::try_from(dice.below(8)).unwrap()];
    let verdict = verdict[usize::try_from(dice.below(10)).unwrap()];
    let mut args = json!({
        "do": act,
        "policy": verdict,
        "planted": format!("{PLANTED}-{:016x}", dice.next()),
        "n": dice.below(1 << 40),
    });
    if verdict == "hold" && args["n"].as_u64().unwrap().is_multiple_of(2) {
        args["policy"] = json!("pair");
    }
    if dice.chance(300) || act == "slow" {
        args["ms"] = json!(dice.below(350));
    }
    if dice.chance(20) {
        args["policy"] = json!("shout");
    }
    if dice.chance(60) {
        args["pad"] = json!("y".repeat(20_000));
    }
    if dice.chance(50) {
        args["prepare"] = json!(if dice.chance(300) { "panic" } else { "refuse" });
    }
    let tool = match dice.below(20) {
        0 => "t.ghost",
        1 => "t.other",
        n if n < 10 => "t.read",
        _ => "t.write",
    };
    CallRequest {
        tool: tool.into(),
        arguments: args.to_string().into_bytes(),
        call_id: id,
        ..CallRequest::default()
    }
}

/// The same id with other bytes.
pub fn twisted(request: &CallRequest) -> CallRequest {
    let mut args: Value = serde_json::from_slice(&request.arguments).unwrap();
    args["twisted"] = json!(true);
    CallRequest { arguments: args.to_string().into_bytes(), ..request.clone() }
}

/// One agent's work. Gives back what it asked, for asking again.
pub async fn client(
    world: Arc<World>,
    mut dice: Dice,
    number: u64,
    steps: u64,
) -> Vec<(Known, Vec<CallRequest>)> {
    let mut made: Vec<(Known, Vec<CallRequest>)> = Vec::new();
    let mut step = 0;
    while step < steps {
        step += 1;
        tokio::time::sleep(dice.millis(0, 90)).await;
        let life = world.life().await;
        if made.is_empty() || dice.chance(60) {
            let hang_up = dice.chance(100).then(|| dice.millis(0, 40));
            // Without a roll of the dice: worlds without children stay what they were.
            let below = made.iter().rev().find(|(known, _)| known.thread.is_none());
            let below =
                below.filter(|_| (number + step).is_multiple_of(2)).map(|(known, _)| known.clone());
            let opened = if let Some(parent) = &below {
                world.open_below(&life, hang_up, Some(parent)).await
            } else if dice.chance(400) {
                open_thread(&world, &life, number).await
            } else {
                world.open(&life, hang_up).await
            };
            match opened {
                Some(known) => made.push((known, Vec::new())),
                None => continue,
            }
        }
        let Some((known, asked)) = made.last_mut() else { continue };
        let old = asked
            .len()
            .checked_sub(1)
            .map(|_| asked[usize::try_from(dice.below(asked.len() as u64)).unwrap()].clone());
        let hang_up = dice.chance(120).then(|| dice.millis(0, 300));
        let answer = match (dice.below(14), old) {
            (0 | 1, Some(old)) => world.ask(&life, known, &old, hang_up).await,
            (2, Some(old)) => world.ask(&life, known, &twisted(&old), None).await,
            (3, Some(old)) => world.look(&life, known, &old.call_id).await,
            (4, _) => {
                let new = request(&mut dice, format!("c{number}-{step}"));
                asked.push(new.clone());
                let (one, other) = tokio::join!(
                    world.ask(&life, known, &new, hang_up),
                    world.ask(&life, known, &new, None)
                );
                one.or(other)
            }
            (12, Some(old)) => {
                world.cancel(&life, known, &old.call_id).await;
                world.look(&life, known, &old.call_id).await
            }
            (13, _) => {
                let new = request(&mut dice, format!("c{number}-{step}"));
                asked.push(new.clone());
                let cancel = if dice.chance(300) { Duration::ZERO } else { dice.millis(0, 450) };
                world.ask_until(&life, known, &new, hang_up, Some(cancel)).await
            }
            (5, _) if known.parent.is_some() => {
                // The parent is sealed while its child calls.
                let new = request(&mut dice, format!("c{number}-{step}"));
                asked.push(new.clone());
                let parent = known.parent.as_deref().unwrap_or(known);
                let (_, answer) =
                    tokio::join!(world.seal(&life, parent), world.ask(&life, known, &new, hang_up));
                answer
            }
            (5, _) if dice.chance(500) => {
                drop(world.seal(&life, known).await);
                None
            }
            _ => {
                let new = request(&mut dice, format!("c{number}-{step}"));
                asked.push(new.clone());
                let answer = world.ask(&life, known, &new, hang_up).await;
                if in_doubt(&answer) {
                    world.until_sure(&life, known, &new).await;
                }
                answer
            }
        };
        if matches!(&answer, Some(Err(f)) if f.code.as_str() == "call.held")
            && let Some(asked) = asked.last()
        {
            approvals::some(&world, &mut dice, known, &asked.call_id).await;
        }
        let gone = matches!(&answer, Some(Err(f)) if matches!(f.code.as_str(), "run.unknown" | "run.sealed"));
        if gone {
            match world.open(&life, None).await {
                Some(known) => made.push((known, Vec::new())),
                None => tokio::time::sleep(Duration::from_millis(30)).await,
            }
        }
    }
    made
}

fn in_doubt(answer: &Option<Answer>) -> bool {
    matches!(answer, Some(Err(fault)) if fault.code.as_str() == "ledger.unknown")
}

/// The implicit run of one client, or of all of them.
async fn open_thread(world: &World, life: &Life, number: u64) -> Option<Known> {
    let thread = match world.dice.lock().below(3) {
        0 => Thread::Caller,
        1 => Thread::Session(format!("s{number}")),
        _ => Thread::Named(format!("n{number}")),
    };
    let run = world.thread(life, &thread).await?.ok()?;
    Some(Known {
        run: run.id().to_string(),
        token: String::new(),
        thread: Some(thread),
        parent: None,
    })
}
