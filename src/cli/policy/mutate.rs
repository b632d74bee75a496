//! `wicketgate policy mutate`.

use std::path::PathBuf;

use serde_json::json;

use super::inputs;
use crate::cli::progress::Progress;
use crate::cli::reader::LedgerSource;
use crate::cli::{BundleError, Exit, Failure, note, runtime, say, say_json};
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::policy::bundle::Bundle;
use crate::policy::mutate::{MutationOutcome, MutationPlaces, NewAllow, mutate};
use crate::policy::rego::{DEADLINE, RegoEngine};
use crate::policy::testing;

/// `policy mutate`.
#[derive(clap::Args, Debug)]
// A ledger may be named here, and need not be.
#[command(mut_group("LedgerSource", |group| group.required(false)))]
pub struct Args {
    /// The bundle's directory
    dir: PathBuf,
    /// Input document (JSON); repeat it for more. If omitted, and without a ledger: the inputs of the bundle's
    /// decision tables
    #[arg(long, value_name = "FILE")]
    input: Vec<PathBuf>,
    #[command(flatten)]
    ledger: Option<LedgerSource>,
    /// How many recorded inputs to try: the newest of each chain
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    last: usize,
    /// Mutate only this member and the members below it, such as `input.args`; repeat it for more
    #[arg(long, value_name = "PLACE")]
    below: Vec<String>,
    /// Leave out this member and the members below it, because its absence is meant to allow (`input.findings`)
    #[arg(long, value_name = "PLACE")]
    except: Vec<String>,
    /// Fail only for mutants that a gate could produce: those that match the input's schema
    #[arg(long)]
    possible: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Everything that was tried.
#[derive(Default)]
struct MutationReport {
    denied: usize,
    mutants: u64,
    /// The input's name and a mutant of it that the rules newly allow.
    failures: Vec<(String, NewAllow)>,
    cut: bool,
}

/// Tries the mutants; 1 if one of them is a new allow.
pub fn run(args: &Args) -> Exit {
    match found(args) {
        Ok((total, found)) => {
            print_report(args, total, &found);
            if found.failures.is_empty() { Exit::Ok } else { Exit::Invalid }
        }
        Err(failure) => failure.print(),
    }
}

fn found(args: &Args) -> Result<(usize, MutationReport), Failure> {
    let bundle = Bundle::load(&args.dir).map_err(BundleError::at(&args.dir));
    let bundle = bundle.map_err(Failure::invalid)?;
    let engine = RegoEngine::new(&bundle, DEADLINE).map_err(Failure::invalid)?;
    let inputs = gather(args, &bundle)?;
    if inputs.is_empty() {
        let why = "there is no input: give `--input`, a ledger, or decision tables in `tests/`";
        return Err(Failure::usage(why));
    }
    let wanted = MutationPlaces { below: args.below.clone(), except: args.except.clone() };
    let mut all = MutationReport::default();
    let progress = Progress::new("mutating inputs");
    let total = u64::try_from(inputs.len()).unwrap_or(u64::MAX);
    for (done, (name, input)) in (0..).zip(&inputs) {
        progress.at(done, total);
        let MutationOutcome { verdict, mutants, new_allows, cut } = mutate(&engine, input, &wanted);
        all.denied = all
            .denied
            .saturating_add(usize::from(verdict != crate::domain::decision::Verdict::Allow));
        all.mutants = all.mutants.saturating_add(mutants);
        all.cut |= cut;
        let counterexamples = new_allows.into_iter().filter(|one| one.possible || !args.possible);
        all.failures.extend(counterexamples.map(|one| (name.clone(), one)));
    }
    Ok((inputs.len(), all))
}

/// Inputs by their names.
fn gather(args: &Args, bundle: &Bundle) -> Result<Vec<(String, Json)>, Failure> {
    let mut all = Vec::new();
    for path in &args.input {
        let input = inputs::file(path).map_err(Failure::invalid)?;
        all.push((path.display().to_string(), input));
    }
    if let Some(source) = &args.ledger {
        let read = runtime()?.block_on(inputs::recorded(source, args.last));
        let recorded = read.map_err(Failure::unverifiable)?;
        if recorded.missing > 0 {
            note(format!(
                "note: the inputs of {} are not kept",
                many(recorded.missing, "decision")
            ));
        }
        all.extend(recorded.inputs);
    } else if args.input.is_empty() {
        let tables = testing::inputs(bundle, &args.dir);
        let tables = tables.map_err(BundleError::at(&args.dir));
        all.extend(tables.map_err(Failure::invalid)?);
    }
    Ok(all)
}

fn print_report(args: &Args, total: usize, found: &MutationReport) {
    let MutationReport { denied, mutants, failures, cut } = found;
    if args.json {
        let one = |(input, one): &(String, NewAllow)| {
            json!({"input": input, "place": one.place, "change": one.change.as_str(), "rules": one.rules,
                "possible": one.possible})
        };
        say_json(json!({
            "v": "wicketgate/mutants/1",
            "ok": failures.is_empty(),
            "inputs": total,
            "not_allowed": denied,
            "mutants": mutants,
            "new_allows": failures.iter().map(one).collect::<Vec<_>>(),
        }));
        return;
    }
    for (input, one) in failures {
        let impossible = if one.possible { "" } else { " (no gate makes this input)" };
        let change = one.change.as_str();
        say(format!("new allow: {change} {} of {input}{impossible}", one.place));
        one.rules.iter().for_each(|rule| say(format!("    no longer fires: {rule}")));
    }
    if *cut {
        note("note: an input has more than 4096 places; the first of them were tried");
    }
    let (total, mutants) = (many(total, "input"), many(mutants, "mutant"));
    let allows = many(failures.len(), "new allow");
    say(format!("{total}, {denied} of them not allowed, {mutants}, {allows}"));
}
