//! What a command prints: results on standard output, everything else on standard error.
//!
//! With `--json` an error is one JSON object with `code`, `message` and `hint`; notes are objects, too.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Exit;
use crate::domain::canonical;
use crate::domain::json::Json;

/// Whether this process was called with `--json`. Set once, before a command runs.
static JSON: AtomicBool = AtomicBool::new(false);

/// What [`tell`] has collected for `--json`.
static FACTS: Mutex<BTreeMap<String, Value>> = Mutex::new(BTreeMap::new());

/// The flag of commands that print with [`tell`]. The program looks for it before clap does: errors of clap are JSON, too.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct JsonArg {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// From here on errors and notes are JSON.
pub(super) fn be_json() {
    JSON.store(true, Ordering::Relaxed);
}

pub(super) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Prints a line of the result.
pub(super) fn say(line: impl AsRef<str>) {
    // A closed pipe (`| head`) must not fail the command.
    let _ = writeln!(std::io::stdout(), "{}", line.as_ref());
}

/// Prints a result that has its own line ends.
pub(super) fn say_bytes(bytes: &[u8]) {
    // As above.
    let _ = std::io::stdout().write_all(bytes);
}

/// Prints a line of the result, or collects the facts of it: with `--json` one object follows at the end. Members of
/// one name are joined if they are lists.
pub(super) fn print_facts(facts: Value, line: impl AsRef<str>) {
    if !is_json() {
        return say(line);
    }
    let Value::Object(facts) = facts else { return };
    let mut all = FACTS.lock();
    for (name, fact) in facts {
        match (all.get_mut(&name), fact) {
            (Some(Value::Array(before)), Value::Array(more)) => before.extend(more),
            (_, fact) => drop(all.insert(name, fact)),
        }
    }
}

/// Prints the facts that were collected, if there are any.
pub(super) fn finish() {
    let facts = std::mem::take(&mut *FACTS.lock());
    if !facts.is_empty() {
        say(json!(facts).to_string());
    }
}

/// Prints facts as one line of canonical JSON.
pub(super) fn say_json(facts: Value) {
    say(canonical::text(&Json::from(facts)));
}

/// Prints facts as JSON with `--json`, otherwise for people.
pub(super) fn report(facts: Value, print: impl FnOnce()) {
    if is_json() { say_json(facts) } else { print() }
}

/// The members that have a value: what is not known is left out.
pub(super) fn present(mut facts: Value) -> Value {
    if let Value::Object(members) = &mut facts {
        members.retain(|_, fact| !fact.is_null());
    }
    facts
}

/// Prints a warning or a note: the command goes on.
pub(super) fn note(line: impl Display) {
    write(&match is_json() {
        true => json!({"note": line.to_string()}).to_string(),
        false => line.to_string(),
    });
}

/// Prints why a command fails, and returns how it ends.
pub(super) fn fail(exit: Exit, why: impl Display) -> Exit {
    write(&match is_json() {
        true => object(exit.code(), &why, exit.hint()),
        false => format!("error: {why}"),
    });
    exit
}

/// Prints why the command line is refused, as clap explains it.
pub(super) fn refuse(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // A closed pipe must not fail the command.
        let _ = error.print();
        return Exit::Ok;
    }
    if is_json() {
        let text = error.to_string();
        let (why, _usage) = text.split_once("\n\nUsage:").unwrap_or((&text, ""));
        let why = why.trim_start_matches("error: ").trim_end();
        write(&object(Exit::Usage.code(), &why, Exit::Usage.hint()));
    } else {
        let _ = error.print();
    }
    Exit::Usage
}

/// Prints a refusal of the operator API, with its own code.
pub(super) fn fail_as(code: &str, why: impl Display) -> Exit {
    write(&match is_json() {
        true => object(code, &why, None),
        false => format!("error: {why}"),
    });
    Exit::Invalid
}

/// Prints everything that is wrong with a file, one problem a line, and returns how the command ends.
pub(super) fn fail_all(exit: Exit, problems: &[String]) -> Exit {
    write(&match is_json() {
        true => object(exit.code(), &problems.join("\n"), exit.hint()),
        false => problems.join("\n"),
    });
    exit
}

fn object(code: &str, why: &dyn Display, hint: Option<&str>) -> String {
    let hint = hint.map_or(Value::Null, Value::from);
    json!({"code": code, "message": why.to_string(), "hint": hint}).to_string()
}

fn write(line: &str) {
    // A closed terminal must not fail the command.
    let _ = writeln!(std::io::stderr(), "{line}");
}
