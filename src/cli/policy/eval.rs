//! `wicketgate policy eval`: a bundle's decision about one input, and its reasons.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::inputs;
use crate::app::call_input;
use crate::cli::reader::LedgerSource;
use crate::cli::{
    BundleError, Cause, Exit, Failure, ended, present, reader, report, runtime, say, say_json,
};
use crate::domain::canonical;
use crate::domain::decision::{LayerReason, Verdict};
use crate::domain::json::{self, Json, Limits};
use crate::policy::bundle::Bundle;
use crate::policy::explain::{Explained, explain};
use crate::policy::rego::{DEADLINE, RegoEngine};
use crate::policy::{Answer, PolicyEngine as _};
use crate::record::decided;

/// `policy eval`.
#[derive(clap::Args, Debug)]
// A ledger may be named here, and need not be.
#[command(mut_group("LedgerSource", |group| group.required(false)))]
pub struct Args {
    /// The bundle's directory
    dir: PathBuf,
    /// Input document (JSON)
    #[arg(long, value_name = "FILE", required_unless_present_any = ["entry", "call"])]
    input: Option<PathBuf>,
    /// Use the recorded input of this entry of a ledger
    #[arg(long, value_name = "SEQ", conflicts_with = "input")]
    entry: Option<u64>,
    /// Chain of that entry, by its origin, if the ledger has several
    #[arg(long, value_name = "ORIGIN", requires = "entry")]
    chain: Option<String>,
    /// Prepare a call of this tool of the configuration (`--config`) as the gate would; the call does not run
    #[arg(long, value_name = "TOOL", conflicts_with_all = ["input", "entry"], requires = "config")]
    call: Option<String>,
    /// Arguments of the call (a JSON object)
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "call")]
    args: String,
    /// Agent that makes the call, if the configuration has several: the name in its manifest
    #[arg(long, value_name = "NAME", requires = "call")]
    agent: Option<String>,
    #[command(flatten)]
    ledger: Option<LedgerSource>,
    /// Also print which rules fired, and at which condition the others stopped, with the values they read
    #[arg(long)]
    explain: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Decides and prints; 0 only for allow.
pub fn run(args: &Args) -> Exit {
    ended(evaluate(args))
}

fn evaluate(args: &Args) -> Result<Exit, Failure> {
    let bundle = Bundle::load(&args.dir).map_err(BundleError::at(&args.dir));
    let bundle = bundle.map_err(Failure::invalid)?;
    let engine = RegoEngine::new(&bundle, DEADLINE).map_err(Failure::invalid)?;
    let input = canonical::bytes(&input(args, &engine)?);
    let explained =
        if args.explain { Some(explain(&bundle, &input).map_err(Failure::invalid)?) } else { None };
    let answer = match engine.decide(&input) {
        Ok(answer) => answer,
        Err(why) => {
            match (&explained, args.json) {
                (Some(explained), true) => {
                    say_json(json!({"denied": why.to_string(), "explained": explained.to_json()}));
                }
                (Some(explained), false) => explained.lines().iter().for_each(say),
                (None, _) => {}
            }
            return Err(Failure::invalid(Denied(why.into())));
        }
    };
    let facts = facts(&answer, &bundle, explained.as_ref());
    report(facts, || print(&answer, explained.as_ref()));
    Ok(if answer.verdict == Verdict::Allow { Exit::Ok } else { Exit::Invalid })
}

/// An input that the engine does not decide about.
#[derive(Debug, thiserror::Error)]
#[error("denied: {0}")]
struct Denied(Cause);

/// The arguments are not strict JSON.
#[derive(Debug, thiserror::Error)]
#[error("`--args`: {0}")]
struct ArgsError(json::Error);

/// The document that is judged.
fn input(args: &Args, engine: &RegoEngine) -> Result<Json, Failure> {
    if let Some(file) = &args.input {
        return inputs::file(file).map_err(Failure::invalid);
    }
    if let Some(seq) = args.entry {
        let source = args.ledger.as_ref().ok_or(reader::Error::Nowhere);
        let source = source.map_err(Failure::usage)?;
        let read = runtime()?.block_on(inputs::entry(source, seq, args.chain.as_deref()));
        return read.map_err(Failure::unverifiable);
    }
    let config = args.ledger.as_ref().and_then(|source| source.config.as_ref());
    let (Some(call), Some(file)) = (&args.call, config) else {
        return Err(Failure::usage("name an input: `--input`, `--entry` or `--call`"));
    };
    let given = Json::parse(args.args.as_bytes(), &Limits::ARGUMENTS);
    let given = given.map_err(|error| Failure::usage(ArgsError(error)))?;
    let config = crate::cli::config::load(file).map_err(|all| Failure::config(all.join("\n")))?;
    let callers = crate::cli::config::manifests(&config);
    let callers = callers.map_err(|all| Failure::config(all.join("\n")))?;
    let request =
        call_input::ReplayRequest { tool: call, args: given, agent: args.agent.as_deref() };
    call_input::input(&config, callers.manifests(), &request, engine.by_hand())
        .map_err(Failure::invalid)
}

/// The decision and the explanation in one object.
fn print(answer: &Answer, explained: Option<&Explained>) {
    let how = if answer.enforced { "" } else { " (not enforced: observe mode)" };
    let by = explained.map(|all| format!(" by {}", all.layer)).unwrap_or_default();
    say(format!("{}{how}{by}", answer.verdict.as_str()));
    for reason in &answer.reasons {
        say(format!("  {}: {} ({})", reason.detail, reason.message, reason.rule));
    }
    for obligation in &obligation_facts(answer) {
        say(format!("  obligation: {}", canonical::text(obligation)));
    }
    if let Some(explained) = explained {
        say("");
        explained.lines().iter().for_each(say);
    }
}

fn facts(answer: &Answer, bundle: &Bundle, explained: Option<&Explained>) -> Value {
    let reason = |reason: &LayerReason| json!({"code": reason.detail, "message": reason.message, "rule": reason.rule});
    present(json!({
        "enforced": answer.enforced,
        "obligations": obligation_facts(answer),
        "policy": bundle.digest().prefixed(),
        "reasons": answer.reasons.iter().map(reason).collect::<Vec<_>>(),
        "verdict": answer.verdict,
        "explained": explained.map(Explained::to_json),
    }))
}

/// The obligations, as an entry records them.
fn obligation_facts(answer: &Answer) -> Vec<Json> {
    decided::obligations(&answer.obligations).iter().map(Json::of).collect()
}
