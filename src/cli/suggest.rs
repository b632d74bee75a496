//! `wicketgate policy suggest`: least-privilege rules from a run's real calls.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::error::LookupError;
use super::policy::archive::{free, write_all};
use super::reader::{self, LedgerSource};
use super::{Cause, Exit, Failure, note, say, wait};
use crate::domain::canonical;
use crate::domain::commitment::opens;
use crate::domain::decision::{LayerReason, Verdict};
use crate::domain::id::{CallId, ChainId, RunId};
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::SIMULATED;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::enforce::CANARY_TOOL;
use crate::ledger::store::{EntryRow, LedgerReader, PayloadRef, StoreError};
use crate::policy::PolicyEngine as _;
use crate::policy::bundle::Bundle;
use crate::policy::fault::LoadError;
use crate::policy::rego::{DEADLINE, RegoEngine};
use crate::policy::suggest::{self, RequiredCall, UncoveredCall};
use crate::record::call::CallCancelled;
use crate::record::chain::PolicyActivated;
use crate::record::run::RunOpened;
use crate::record::{Entry, Kind, Role};

const META: &str = "bundle.json";
const RULES: &str = "agent/suggested.rego";

/// `policy suggest`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate policy suggest --config wicketgate.yaml\n  \
    wicketgate policy suggest --config wicketgate.yaml --run RUN --out policy")]
pub struct Args {
    #[command(flatten)]
    source: LedgerSource,
    /// Run to learn from; if omitted, the newest run that made a call
    #[arg(long, value_name = "ID", value_parser = super::evidence::run_id)]
    run: Option<RunId>,
    /// Also allow the calls that were denied
    #[arg(long)]
    include_denied: bool,
    /// Leave out the calls that a rule of an observing layer would have denied
    #[arg(long, conflicts_with = "include_denied")]
    leave_observed: bool,
    /// Write a bundle to this directory instead of printing the rules; it must be empty or not exist
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

/// One call of the run, from its entries.
struct SuggestedCall {
    tool: String,
    decided: Entry,
    last: Entry,
}

/// What the run did.
#[derive(Default)]
struct Study {
    calls: Vec<RequiredCall>,
    uncovered: Vec<UncoveredCall>,
    /// Inputs of calls that a rule spoke against.
    refused: Vec<RequiredCall>,
    /// Calls that count although a rule spoke against them, and that rule: its layer only observed.
    observed: Vec<(String, String)>,
    run: Option<RunId>,
    agent: String,
    /// Name and version of the bundle in force.
    bundle: Option<(String, String)>,
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    wait(async {
        let study = study(args).await?;
        finish(args, &study).map(|()| Exit::Ok)
    })
}

async fn study(args: &Args) -> Result<Study, Failure> {
    let reader = reader::open_reader(&args.source).await?;
    let (chain, run) = match args.run {
        Some(run) => {
            let found = reader.find_run(&run).await?;
            let no_run = || Failure::usage(LookupError::Run(run));
            (found.ok_or_else(no_run)?, run)
        }
        None => newest(reader.as_ref())
            .await?
            .ok_or_else(|| Failure::invalid("no run was ever opened here: use the agent first"))?,
    };
    let rows = reader.run_entries(&chain, &run).await?;
    let mut calls: BTreeMap<CallId, SuggestedCall> = BTreeMap::new();
    let mut order = Vec::new();
    let mut study = Study { run: Some(run), ..Study::default() };
    for row in &rows {
        let Ok(entry) = Entry::parse(&row.body) else { continue };
        if let Some(opened) = entry.draft.get::<RunOpened>() {
            study.agent = opened.agent.to_string();
        }
        let Some(id) = entry.draft.call.clone() else { continue };
        if let Some(call) = calls.get_mut(&id) {
            call.last = entry;
        } else {
            let tool = entry.draft.tool.as_ref().map(ToString::to_string).unwrap_or_default();
            order.push(id.clone());
            calls.insert(id, SuggestedCall { tool, decided: entry.clone(), last: entry });
        }
    }
    for (id, call) in order.iter().filter_map(|id| calls.get(id).map(|call| (id, call))) {
        let input = input_of(reader.as_ref(), &chain, &call.decided).await?;
        study.sort(id, call, input, args);
    }
    let policy = calls.values().find_map(|call| call.decided.draft.policy);
    for row in reader.entries_of(&chain, &[Kind::PolicyActivated.as_str()]).await? {
        let Ok(entry) = Entry::parse(&row.body) else { continue };
        if let Some(one) = entry.draft.get::<PolicyActivated>()
            && entry.draft.policy == policy
        {
            study.bundle = Some((one.name.to_string(), one.version.to_string()));
        }
    }
    Ok(study)
}

/// Entries that are read at once, on the way back to the newest run.
const PAGE: u32 = 500;

/// The newest run, over all chains, with a call of an agent: the gate's own tests do not count.
async fn newest(reader: &dyn LedgerReader) -> Result<Option<(ChainId, RunId)>, StoreError> {
    let mut found: Option<(Timestamp, ChainId, RunId)> = None;
    for row in reader.chains().await? {
        let mut end = row.head.size;
        'chain: while end > 0 {
            let from = end.saturating_sub(u64::from(PAGE));
            let rows = reader.entries(&row.chain, from, PAGE).await?;
            let opened = Kind::RunOpened.as_str();
            for entry in rows.iter().rev().filter(|one| one.seq < end && one.kind == opened) {
                let at = Entry::parse(&entry.body).ok().map(|entry| entry.ts);
                let (Some(at), Some(run)) = (at, entry.run) else { continue };
                if found.as_ref().is_some_and(|(newest, ..)| at <= *newest) {
                    break 'chain;
                }
                if is_an_agents(&reader.run_entries(&row.chain, &run).await?) {
                    found = Some((at, row.chain, run));
                    break 'chain;
                }
            }
            end = from;
        }
    }
    Ok(found.map(|(_, chain, run)| (chain, run)))
}

/// Whether these entries of a run contain a call that is not the gate's own.
fn is_an_agents(rows: &[EntryRow]) -> bool {
    let entries = rows.iter().filter_map(|row| Entry::parse(&row.body).ok());
    let mut tools = entries.filter_map(|entry| entry.draft.tool);
    tools.any(|tool| tool.as_str() != CANARY_TOOL)
}

/// The input document of a decision, if it is stored.
pub(super) async fn input_of(
    reader: &dyn LedgerReader,
    chain: &ChainId,
    decided: &Entry,
) -> Result<Option<Json>, StoreError> {
    let Some(commitment) = decided.draft.committed(Role::PolicyInput) else { return Ok(None) };
    let at = PayloadRef::of(decided.seq, &commitment.c);
    let Some(row) = reader.payload(chain, &at).await? else { return Ok(None) };
    let opens = opens(&commitment.c, &row.salt, &row.body).is_some();
    Ok(opens.then(|| Json::parse(&row.body, &Limits::FILE).ok()).flatten())
}

impl Study {
    /// Sorts a call: the rules are for completed calls, whether or not a rule that only observed
    /// spoke against it.
    fn sort(&mut self, id: &CallId, call: &SuggestedCall, input: Option<Json>, args: &Args) {
        let draft = &call.decided.draft;
        let cancelled = call.last.draft.get::<CallCancelled>();
        let simulated = cancelled.is_some_and(|cancelled| cancelled.reason == SIMULATED);
        let done = call.last.draft.kind() == Kind::CallCompleted || simulated;
        let against = denying_rule(&call.decided);
        let enforced = draft.body.decision().is_none_or(|decision| decision.enforced);
        let counts = !enforced && !args.leave_observed;
        let why = match (&input, &against) {
            (None, Some(rule)) => Some(format!("{rule}, and its input is not stored")),
            (None, None) => Some("its input is not kept".to_owned()),
            (Some(_), Some(_)) if args.include_denied => None,
            (Some(_), Some(rule)) if !counts => {
                let how = if enforced { "" } else { " (not enforced)" };
                Some(format!("{}{how} by {rule}", draft.verdict.map_or("denied", Verdict::as_str)))
            }
            (Some(_), Some(_) | None) if done => None,
            (Some(_), Some(_) | None) => {
                Some(format!("the call did not complete ({})", call.last.draft.kind().as_str()))
            }
        };
        let call_id = id.to_string();
        match (input, why) {
            (Some(input), None) => {
                let unenforced = against.filter(|_| !enforced);
                self.observed.extend(unenforced.map(|rule| (call_id.clone(), rule)));
                self.calls.push(RequiredCall { call: call_id, input });
            }
            (input, why) => {
                if against.is_some() {
                    let seen = input.map(|input| RequiredCall { call: call_id.clone(), input });
                    self.refused.extend(seen);
                }
                let why = why.unwrap_or_default();
                self.uncovered.push(UncoveredCall { call: call_id, tool: call.tool.clone(), why });
            }
        }
    }
}

/// The rule that denied a call. `no_allow` is not counted as one: it names no rule of the bundle.
fn denying_rule(decided: &Entry) -> Option<String> {
    let decision = decided.draft.body.decision()?;
    let denying = decision.reasons.iter().find(|reason| {
        // The rule is the library's alone: a layer may name its own reason as it likes.
        let is_default = reason.rule == "wicketgate.decision" && reason.detail == "no_allow";
        decision.enforced || !is_default
    })?;
    Some(denying.rule.to_string())
}

/// Why no rules are suggested.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The run has no call to derive rules from.
    #[error("every call of this run was denied by a rule; try `--include-denied`")]
    NothingAllowed,
    /// The rules are wrong.
    #[error("the suggested rules do not load:{}", .0.iter().map(|error| format!("\n  {error}")).collect::<String>())]
    Load(Vec<LoadError>),
    /// The rules do not decide a call they were derived from.
    #[error("{call}: {cause}")]
    Undecided { call: String, cause: Cause },
    /// The rules do not allow a call they were derived from.
    #[error("the suggested rules do not allow `{call}`: {reason}")]
    NotAllowed { call: String, reason: String },
}

/// Makes the rules, and writes them only after a trial on every input.
fn finish(args: &Args, study: &Study) -> Result<(), Failure> {
    if study.calls.is_empty() {
        left_out(study);
        return Err(Failure::invalid(Error::NothingAllowed));
    }
    let run = study.run.as_ref().map(ToString::to_string).unwrap_or_default();
    let about = format!("run {run} of agent {}", study.agent);
    let text = suggest::rego(&about, &study.calls, &study.uncovered);
    let (name, version) = named(study);
    let files = BTreeMap::from([
        (META.to_owned(), suggest::meta(&name, &version)),
        (RULES.to_owned(), text.clone().into_bytes()),
    ]);
    let bundle = Bundle::of_files(files.clone());
    let bundle = bundle.map_err(|errors| Failure::invalid(Error::Load(errors)))?;
    let engine = RegoEngine::new(&bundle, DEADLINE).map_err(Failure::invalid)?;
    for RequiredCall { call, input } in &study.calls {
        let answer = engine.decide(&canonical::bytes(input)).map_err(|error| {
            Failure::invalid(Error::Undecided { call: call.clone(), cause: error.into() })
        })?;
        // What is irreversible waits for a person whatever rules allow it.
        let tier =
            |r: &LayerReason| r.rule == "wicketgate.decision" && r.detail.starts_with("tier3");
        if answer.verdict != Verdict::Allow && !answer.reasons.iter().all(tier) {
            let reason = answer.reasons.first().map(|r| r.message.clone()).unwrap_or_default();
            return Err(Failure::invalid(Error::NotAllowed { call: call.clone(), reason }));
        }
    }
    let open = study.refused.iter().filter(|seen| {
        let answer = engine.decide(&canonical::bytes(&seen.input));
        answer.is_ok_and(|answer| answer.verdict == Verdict::Allow)
    });
    let open: Vec<&str> = open.map(|seen| seen.call.as_str()).collect();
    match &args.out {
        Some(dir) => {
            free(dir).map_err(Failure::usage)?;
            write_all(dir, &files)?;
        }
        None => say(text.trim_end()),
    }
    note(format!(
        "tested: these rules allow the inputs of {} of run {run}",
        many(study.calls.len(), "call")
    ));
    print_notes(study, &text);
    if !study.refused.is_empty() {
        let stay = study.refused.len().saturating_sub(open.len());
        note(format!(
            "tested: of {}, {stay} stay denied",
            many(study.refused.len(), "denied call")
        ));
    }
    if !open.is_empty() {
        note(format!("note: these denied calls look like allowed ones: {}", open.join(", ")));
    }
    if let Some(dir) = &args.out {
        let dir = dir.display();
        note(format!(
            "wrote {dir}: rules of the agent layer; `org/`, `team/` and `data/` are yours to add"
        ));
    }
    Ok(())
}

/// Calls that are printed one by one; of the rest, only the number.
const TOLD_MAX: usize = 20;

/// What the rules do not allow, and why.
fn left_out(study: &Study) {
    for UncoveredCall { call, tool, why } in study.uncovered.iter().take(TOLD_MAX) {
        note(format!("left out: {call} of {tool}: {why}"));
    }
    let more = study.uncovered.len().saturating_sub(TOLD_MAX);
    if more > 0 {
        note(format!("left out: {more} more; the comments of the rules name them"));
    }
}

/// What an author should know about the origin of these rules before signing them.
fn print_notes(study: &Study, text: &str) {
    for (call, rule) in study.observed.iter().take(TOLD_MAX) {
        note(format!(
            "note: {call} is allowed; {rule} would have denied it, but only observed (--leave-observed leaves it out)"
        ));
    }
    let more = study.observed.len().saturating_sub(TOLD_MAX);
    if more > 0 {
        note(format!("note: and {more} more"));
    }
    left_out(study);
    let open = text.lines().filter(|line| line.trim_start().starts_with('#'));
    let open = open.filter(|line| line.contains("not constrained")).count();
    if open > 0 {
        note(format!(
            "note: {} not constrained; the comments of the rules name them",
            many(open, "value")
        ));
    }
}

/// The bundle that may follow the one in force.
fn named(study: &Study) -> (String, String) {
    let next = study.bundle.as_ref().and_then(|(name, version)| {
        let mut version: semver::Version = version.parse().ok()?;
        version.patch = version.patch.checked_add(1)?;
        (version.pre, version.build) = (semver::Prerelease::EMPTY, semver::BuildMetadata::EMPTY);
        Some((name.clone(), version.to_string()))
    });
    next.unwrap_or_else(|| ("suggested".to_owned(), "1.0.0".to_owned()))
}
