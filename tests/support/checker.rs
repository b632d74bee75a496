//! The reader of a ledger that shares no code with the product.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::agent::Receipts;
use crate::program::{python, top};
use crate::ran::Ran;
use crate::tool::Tool;

/// Where the ledger is.
#[derive(Clone, Debug)]
pub enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

/// Asserts every invariant, with every call closed and what the tool counted; gives the summary.
#[track_caller]
pub fn check(database: &Database, tool: &Tool, receipts: &Receipts) -> Value {
    assert_eq!(tool.repeated(), Vec::<String>::new(), "calls that ran twice");
    read(database, &["--counter", &tool.count().to_string()], receipts)
}

/// As [`check`], with calls that may still be under way.
#[track_caller]
pub fn check_running(database: &Database, tool: &Tool, receipts: &Receipts) -> Value {
    assert_eq!(tool.repeated(), Vec::<String>::new(), "calls that ran twice");
    read(database, &["--allow-open", "--counter", &tool.count().to_string()], receipts)
}

/// As [`check`], of calls whose tool counts for itself.
#[track_caller]
pub fn check_ledger(database: &Database, receipts: &Receipts) -> Value {
    read(database, &[], receipts)
}

#[track_caller]
fn read(database: &Database, more: &[&str], receipts: &Receipts) -> Value {
    let given = tempfile::NamedTempFile::new().unwrap();
    let lines: Vec<String> = receipts.lines();
    std::fs::write(given.path(), lines.join("\n")).unwrap();
    let mut command = Command::new(python());
    command.arg("-B").arg(top().join("tests/checker/check_ledger.py"));
    match database {
        Database::Sqlite(path) => command.arg("--sqlite").arg(path),
        Database::Postgres(url) => command.arg("--postgres").arg(url).arg("--psql").arg(psql()),
    };
    let done = command.args(more).arg("--acknowledged").arg(given.path()).output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "the checker found: {out}{err}");
    serde_json::from_str(&out).unwrap()
}

fn psql() -> PathBuf {
    let dir = std::env::var_os("PG_BIN").unwrap_or_else(|| "/usr/lib/postgresql/15/bin".into());
    PathBuf::from(dir).join("psql")
}

/// How many calls ended in that state.
pub fn calls(summary: &Value, state: &str) -> u64 {
    summary["calls"][state].as_u64().unwrap_or(0)
}

/// How many entries are of that kind.
pub fn kinds(summary: &Value, kind: &str) -> u64 {
    summary["kinds"][kind].as_u64().unwrap_or(0)
}

/// Every entry of this kind in a SQLite file, in order, read by code that is not ours.
pub fn entries(database: &Database, kind: &str) -> Vec<Value> {
    let Database::Sqlite(path) = database else { panic!("not a file") };
    let script = "import sqlite3, sys, json\n\
        rows = sqlite3.connect(sys.argv[1]).execute('SELECT body FROM entry WHERE kind = ? ORDER BY seq', (sys.argv[2],))\n\
        print(json.dumps([json.loads(r[0]) for r in rows]))";
    let mut command = Command::new(python());
    command.args(["-I", "-c", script]).arg(path).arg(kind);
    Ran::of(&mut command).ok().json().as_array().unwrap().clone()
}
