//! Trust: how often the calls of a tool, and of an agent with a tool, ended well. A pure fold of entries, which the gate,
//! the command line and the verifier use alike.
//!
//! The score is the lower bound of the Wilson interval (95 %) in thousandths, in whole numbers. For `n` ended calls of
//! which `s` ended well and `f = n - s` did not:
//!
//! ```text
//! r     = the least whole number with  r · r · n >= 38416000000 · (40000 · s · f + 38416 · n)
//! score = floor((1000 · (20000 · s + 38416) - r) / (20000 · n + 76832))
//! ```
//!
//! A call counts when it ends, by the definition of its tool at the decision. Completed counts as well; failed and unknown
//! do not. A call that was denied, cancelled or not approved in time never ran to an end and is not counted, and so is one
//! that the gate did not start.

use std::collections::BTreeMap;

use crate::call::{CallAuthorized, CallCompleted, CallFailed, CallUnknown};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::outcome::FailureClass;
use crate::domain::time::Timestamp;
use crate::run::{RunOpened, RunSealed};
use crate::{Body, Entry, Kind};

/// Fewer ended calls than this have no score.
pub const RATED_FROM: u64 = 20;
/// A score that falls by so much within a day is reported.
pub const DROP: u64 = 200;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Ended calls that are kept of one subject: the window, and what a day before it looked like.
const KEPT: usize = 4_000;
/// The square of 1.96, times 10,000.
const Z2: u128 = 38_416;

/// Which calls a score is about: the last `calls` that ended within `days`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrustWindow {
    /// Ended calls at most.
    pub calls: u64,
    /// How long a call counts.
    pub days: u64,
}

impl Default for TrustWindow {
    fn default() -> Self {
        Self { calls: 200, days: 30 }
    }
}

impl TrustWindow {
    /// The greatest window: more is not kept.
    pub const CALLS_MAX: u64 = 1_000;
    /// The longest window.
    pub const DAYS_MAX: u64 = 366;

    /// The first instant that does not count any more at this time.
    fn end(self, now: Timestamp) -> i64 {
        let days = i64::try_from(self.days).unwrap_or(i64::MAX);
        now.millis().saturating_sub(days.saturating_mul(DAY_MS))
    }

    fn places(self) -> usize {
        usize::try_from(self.calls.min(Self::CALLS_MAX)).unwrap_or(usize::MAX)
    }
}

/// The lower bound of the Wilson interval (95 %), in thousandths: 0 to 1000.
#[must_use]
pub fn wilson(well: u64, calls: u64) -> u64 {
    let (n, s) = (u128::from(calls), u128::from(well.min(calls)));
    if n == 0 {
        return 0;
    }
    let f = n.saturating_sub(s);
    let spread = s.saturating_mul(f).saturating_mul(40_000).saturating_add(Z2.saturating_mul(n));
    let square = spread.saturating_mul(Z2.saturating_mul(1_000_000)).div_ceil(n);
    let root = square.isqrt();
    let root = root.saturating_add(u128::from(root.saturating_mul(root) < square));
    let centre = s.saturating_mul(20_000).saturating_add(Z2).saturating_mul(1_000);
    let whole = n.saturating_mul(20_000).saturating_add(Z2.saturating_mul(2));
    let score = centre.saturating_sub(root).checked_div(whole).unwrap_or_default();
    u64::try_from(score).unwrap_or(1_000).min(1_000)
}

/// What a score is about: a tool by its definition, for every agent or for one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TrustSubject {
    /// The tool.
    pub tool: String,
    /// The definition that the calls were decided with. Another one begins anew.
    pub definition: Digest,
    /// The agent; `None`: the calls of every agent.
    pub agent: Option<String>,
}

/// How the calls of a subject ended, within a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrustCount {
    /// Calls that ended.
    pub calls: u64,
    /// Those of them that ended well.
    pub well: u64,
}

impl TrustCount {
    /// The score; `None`: too few calls ended.
    #[must_use]
    pub fn score(self) -> Option<u64> {
        (self.calls >= RATED_FROM).then(|| wilson(self.well, self.calls))
    }

    fn add(&mut self, outcome: &EndedCall) {
        self.calls = self.calls.saturating_add(1);
        self.well = self.well.saturating_add(u64::from(outcome.well));
    }
}

/// The trust in one subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustScore {
    /// The subject.
    pub subject: TrustSubject,
    /// Its calls in the window.
    pub count: TrustCount,
    /// When the first of them ended.
    pub first: Timestamp,
    /// When the last of them ended.
    pub last: Timestamp,
    /// Whether the tool was called by another definition since.
    pub replaced: bool,
}

/// A score that fell within a day.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustDrop {
    /// The subject.
    pub subject: TrustSubject,
    /// The highest score of the last 24 hours.
    pub from: u64,
    /// The score now.
    pub to: u64,
    /// When it last was the highest.
    pub since: Timestamp,
}

/// One ended call. Entries of several chains are in the order of their times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct EndedCall {
    at: Timestamp,
    chain: ChainId,
    seq: Seq,
    well: bool,
}

/// A call that may be running.
#[derive(Clone, Debug)]
struct RunningCall {
    tool: String,
    definition: Digest,
    agent: Option<String>,
}

/// The ended calls of each subject. The order in which chains are read changes nothing.
#[derive(Clone, Debug, Default)]
pub struct TrustFold {
    agents: BTreeMap<RunId, String>,
    running: BTreeMap<(RunId, CallId), RunningCall>,
    ended: BTreeMap<TrustSubject, Vec<EndedCall>>,
    /// The newest decision about each tool.
    newest: BTreeMap<String, (Timestamp, ChainId, Seq, Digest)>,
}

/// Whether a call that ended so ended well; `None`: it does not count.
fn ended_well(body: &Body) -> Option<bool> {
    if let Some(done) = body.get::<CallCompleted>() {
        // An MCP tool reports a failure inside a result that arrived.
        return Some(done.status.as_str() != "error");
    }
    if let Some(failed) = body.get::<CallFailed>() {
        return (*failed.class != *FailureClass::NotStarted.as_str()).then_some(false);
    }
    body.get::<CallUnknown>().is_some().then_some(false)
}

impl TrustFold {
    /// Moves past one entry. The entries of a chain come in their order. Returns the agent and its tool whose call ended
    /// badly with it.
    pub fn take(&mut self, entry: &Entry) -> Option<TrustSubject> {
        let draft = &entry.draft;
        let link = entry.run.as_ref()?;
        if let Some(opened) = draft.get::<RunOpened>() {
            self.agents.insert(link.run, opened.agent.to_string());
        } else if draft.get::<RunSealed>().is_some() {
            self.agents.remove(&link.run);
        }
        let call = draft.call.as_ref()?;
        if let Some(decided) = draft.get::<CallAuthorized>() {
            let (tool, definition) = draft.tool.as_ref().zip(decided.definition)?;
            let (tool, definition) = (tool.to_string(), definition.0);
            self.note(&tool, (entry.ts, entry.chain, entry.seq, definition));
            let agent = self.agents.get(&link.run).cloned();
            let running = RunningCall { tool, definition, agent };
            self.running.insert((link.run, call.clone()), running);
        } else if draft.kind().ends_call() {
            let running = self.running.remove(&(link.run, call.clone()))?;
            let well = ended_well(&draft.body)?;
            let RunningCall { tool, definition, agent } = running.clone();
            self.end(running, EndedCall { at: entry.ts, chain: entry.chain, seq: entry.seq, well });
            return (!well).then_some(TrustSubject { tool, definition, agent });
        }
        None
    }

    /// Notes the definition that a tool was called by.
    fn note(&mut self, tool: &str, decided: (Timestamp, ChainId, Seq, Digest)) {
        match self.newest.get_mut(tool) {
            Some(newest) => *newest = (*newest).max(decided),
            None => drop(self.newest.insert(tool.to_owned(), decided)),
        }
    }

    fn end(&mut self, call: RunningCall, outcome: EndedCall) {
        let RunningCall { tool, definition, agent } = call;
        let of_agent =
            agent.map(|agent| TrustSubject { tool: tool.clone(), definition, agent: Some(agent) });
        let of_tool = TrustSubject { tool, definition, agent: None };
        for subject in of_agent.into_iter().chain([of_tool]) {
            let all = self.ended.entry(subject).or_default();
            let place = all.partition_point(|other| *other < outcome);
            all.insert(place, outcome);
            // WHY twice as many: the first half is taken away at once, and not one with each call.
            if all.len() > KEPT.saturating_mul(2) {
                all.drain(..all.len().saturating_sub(KEPT));
            }
        }
    }

    /// The scores at this time, by tool, definition and agent.
    #[must_use]
    pub fn scores(&self, window: TrustWindow, now: Timestamp) -> Vec<TrustScore> {
        let score = |(subject, all): (&TrustSubject, &Vec<EndedCall>)| {
            let within = within(all, window, now);
            let (first, last) = within.first().zip(within.last())?;
            let newest = self.newest.get(&subject.tool);
            Some(TrustScore {
                subject: subject.clone(),
                count: counted(within),
                first: first.at,
                last: last.at,
                replaced: newest.is_some_and(|(.., newest)| *newest != subject.definition),
            })
        };
        self.ended.iter().filter_map(score).collect()
    }

    /// The scores that fell by [`DROP`] or more within the 24 hours before this time, the deepest fall first.
    #[must_use]
    pub fn trust_drops(&self, window: TrustWindow, now: Timestamp) -> Vec<TrustDrop> {
        let all = self.ended.iter();
        let mut drops: Vec<TrustDrop> =
            all.filter_map(|(subject, all)| fallen(subject, all, window, now)).collect();
        drops
            .sort_by_key(|drop| (std::cmp::Reverse(drop.from.saturating_sub(drop.to)), drop.since));
        drops
    }

    /// The fall of one score, if it fell so far.
    #[must_use]
    pub fn trust_drop(
        &self,
        subject: &TrustSubject,
        window: TrustWindow,
        now: Timestamp,
    ) -> Option<TrustDrop> {
        fallen(subject, self.ended.get(subject)?, window, now)
    }

    /// The calls of a tool, as far as this chain had recorded them before entry `before`, at this time.
    #[must_use]
    pub fn standing(
        &self,
        (tool, definition): (&str, &Digest),
        (window, now): (TrustWindow, Timestamp),
        (chain, before): (&ChainId, Seq),
    ) -> TrustCount {
        let subject = TrustSubject { tool: tool.to_owned(), definition: *definition, agent: None };
        let Some(all) = self.ended.get(&subject) else { return TrustCount::default() };
        let known = |one: &&EndedCall| one.chain == *chain && one.seq < before;
        let known: Vec<EndedCall> = all.iter().filter(known).copied().collect();
        counted(within(&known, window, now))
    }
}

/// The newest of these calls that count at this time.
fn within(all: &[EndedCall], window: TrustWindow, now: Timestamp) -> &[EndedCall] {
    let to = all.partition_point(|one| one.at <= now);
    let from = all.partition_point(|one| one.at.millis() <= window.end(now));
    let from = from.max(to.saturating_sub(window.places()));
    all.get(from..to).unwrap_or_default()
}

fn counted(calls: &[EndedCall]) -> TrustCount {
    let mut count = TrustCount::default();
    calls.iter().for_each(|call| count.add(call));
    count
}

fn fallen(
    subject: &TrustSubject,
    all: &[EndedCall],
    window: TrustWindow,
    now: Timestamp,
) -> Option<TrustDrop> {
    let to = counted(within(all, window, now)).score()?;
    // No score is above 1000: most falls are ruled out without a look at the day.
    if to.saturating_add(DROP) > 1_000 {
        return None;
    }
    let before = Timestamp::from_millis(now.millis().saturating_sub(DAY_MS));
    let times = all.iter().map(|call| call.at).filter(|at| before < *at && *at <= now);
    let score = |at: Timestamp| Some((counted(within(all, window, at)).score()?, at));
    let (from, since) = [before].into_iter().chain(times).filter_map(score).max()?;
    (from.saturating_sub(to) >= DROP).then(|| TrustDrop {
        subject: subject.clone(),
        from,
        to,
        since,
    })
}

/// Whether entries of this kind change a fold: others need not be read.
#[must_use]
pub fn counts(kind: &str) -> bool {
    kind.starts_with("run.") || (kind.starts_with("call.") && kind != Kind::CallHeld.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::ToolName;
    use crate::domain::json::Json;
    use crate::sample::body;
    use crate::{Boot, Draft, RunLink};

    const NOW: Timestamp = Timestamp::from_millis(100 * DAY_MS);

    fn definition(text: &str) -> Digest {
        Digest::of(&[text.as_bytes()])
    }

    /// Entries of one chain.
    struct Book {
        fold: TrustFold,
        chain: ChainId,
        seq: Seq,
        at: i64,
    }

    impl Book {
        fn new() -> Self {
            let chain = ChainId::from_bytes([7; 16]);
            let mut book =
                Self { fold: TrustFold::default(), chain, seq: 0, at: NOW.millis() - 1_000_000 };
            let opened = body(Kind::RunOpened, [("agent", Json::from("triage"))]);
            book.take(Draft::of(opened));
            book
        }

        fn take(&mut self, draft: Draft) {
            self.seq += 1;
            self.at += 1;
            let run = RunId::from_random([1; 16]);
            self.fold.take(&Entry {
                chain: self.chain,
                epoch: 1,
                seq: self.seq,
                prev: definition("prev"),
                ts: Timestamp::from_millis(self.at),
                boot: Boot::from_random([1; 4]),
                mono: 0,
                run: Some(RunLink { run, seq: self.seq, prev: None }),
                draft: Draft { run: Some(run), ..draft },
            });
        }

        fn call(&mut self, definition: &Digest, end: Body) {
            let call = CallId::parse(&format!("c-{}", self.seq));
            let tool = ToolName::parse("pay.send");
            let decided =
                body(Kind::CallAuthorized, [("definition", Json::from(definition.prefixed()))]);
            self.take(Draft { call: call.clone(), tool: tool.clone(), ..Draft::of(decided) });
            self.take(Draft { call, tool, ..Draft::of(end) });
        }

        fn well(&mut self, definition: &Digest, times: usize) {
            (0..times).for_each(|_| self.call(definition, body(Kind::CallCompleted, [])));
        }

        fn failed(&mut self, definition: &Digest, times: usize) {
            let failed = || body(Kind::CallFailed, [("class", Json::from("timeout"))]);
            (0..times).for_each(|_| self.call(definition, failed()));
        }

        fn tool(&self) -> Vec<(u64, u64, Option<u64>, bool)> {
            let all = self.fold.scores(TrustWindow::default(), NOW).into_iter();
            let of_tool = all.filter(|one| one.subject.agent.is_none());
            of_tool
                .map(|one| (one.count.calls, one.count.well, one.count.score(), one.replaced))
                .collect()
        }
    }

    #[test]
    fn the_score_is_the_lower_wilson_bound() {
        // By hand: 20 of 20: (1000 · 438416 - 38416000) / 476832 = 838.8…
        for (well, calls, score) in
            [(0, 0, 0), (0, 20, 0), (20, 20, 838), (10, 20, 299), (19, 20, 763), (200, 200, 981)]
        {
            assert_eq!(wilson(well, calls), score, "{well} of {calls}");
        }
    }

    #[test]
    fn fewer_than_twenty_calls_are_unrated_and_a_denial_is_no_call() {
        let (mut book, one) = (Book::new(), definition("one"));
        book.well(&one, 19);
        for kind in [Kind::CallCancelled, Kind::CallExpired] {
            book.call(&one, body(kind, []));
        }
        book.call(&one, body(Kind::CallFailed, [("class", Json::from("not_started"))]));
        let denied = Draft { call: CallId::parse("no"), ..Draft::of(body(Kind::CallDenied, [])) };
        book.take(denied);
        assert_eq!(book.tool(), [(19, 19, None, false)]);
        book.well(&one, 1);
        assert_eq!(book.tool(), [(20, 20, Some(838), false)]);
        let scores = book.fold.scores(TrustWindow::default(), NOW);
        let agents: Vec<_> = scores.into_iter().map(|one| one.subject.agent).collect();
        assert_eq!(agents, [None, Some("triage".to_owned())]);
    }

    #[test]
    fn another_definition_begins_anew() {
        let (mut book, one, two) = (Book::new(), definition("one"), definition("two"));
        book.well(&one, 30);
        book.failed(&two, 1);
        let mut all = book.tool();
        all.sort_unstable();
        assert_eq!(all, [(1, 0, None, false), (30, 30, Some(886), true)]);
    }

    #[test]
    fn only_the_window_counts() {
        let (mut book, one) = (Book::new(), definition("one"));
        book.failed(&one, 50);
        book.well(&one, 200);
        assert_eq!(book.tool(), [(200, 200, Some(981), false)]);
        let later = Timestamp::from_millis(NOW.millis() + 30 * DAY_MS);
        assert_eq!(book.fold.scores(TrustWindow::default(), later), []);
        let short = TrustWindow { calls: 20, days: 30 };
        let scores = book.fold.scores(short, NOW);
        assert!(scores.iter().all(|one| one.count == TrustCount { calls: 20, well: 20 }));
    }

    #[test]
    fn a_fall_within_a_day_is_a_drop_and_a_slow_one_is_not() {
        let (mut book, one) = (Book::new(), definition("one"));
        book.well(&one, 60);
        assert_eq!(book.fold.trust_drops(TrustWindow::default(), NOW), []);
        book.failed(&one, 15);
        let drops = book.fold.trust_drops(TrustWindow::default(), NOW);
        let found: Vec<_> =
            drops.iter().map(|one| (one.subject.agent.as_deref(), one.from, one.to)).collect();
        assert_eq!(found, [(None, 939, 695), (Some("triage"), 939, 695)]);
        let next_day = Timestamp::from_millis(NOW.millis() + DAY_MS);
        assert_eq!(book.fold.trust_drops(TrustWindow::default(), next_day), []);
    }

    #[test]
    fn what_stood_before_an_entry_is_found_again_later() {
        let (mut book, one) = (Book::new(), definition("one"));
        book.well(&one, 25);
        let (before, chain) = (book.seq + 1, book.chain);
        let at = Timestamp::from_millis(book.at);
        let standing = |book: &Book| {
            let window = (TrustWindow::default(), at);
            book.fold.standing(("pay.send", &one), window, (&chain, before))
        };
        let then = standing(&book);
        assert_eq!(then, TrustCount { calls: 25, well: 25 });
        book.failed(&one, 5);
        assert_eq!(standing(&book), then);
    }

    proptest! {
        #[test]
        fn the_bound_is_within_its_range_and_grows_with_every_call_that_ends_well(
            calls in 1_u64..=10_000, share in 0_u64..=1_000,
        ) {
            let well = calls * share / 1_000;
            let score = wilson(well, calls);
            prop_assert!(score <= 1_000);
            prop_assert!(score * calls <= well * 1_000, "the bound is not above the share");
            if well < calls {
                prop_assert!(wilson(well + 1, calls) >= score);
                prop_assert!(wilson(well, calls + 1) <= score);
            }
            prop_assert!(wilson(well + 1, calls + 1) >= score);
        }
    }
}
