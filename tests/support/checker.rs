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

/// One stored payload.
#[derive(Clone, Debug)]
pub struct StoredPayload {
    /// The role.
    pub role: String,
    /// The bytes, as text.
    pub body: String,
    /// The commitment, in hex.
    pub commitment: String,
}

/// Every payload that a ledger in a file stores.
///
/// # Panics
/// The ledger is in a database, or cannot be read.
#[track_caller]
pub fn payloads(database: &Database) -> Vec<StoredPayload> {
    let Database::Sqlite(path) = database else { panic!("not a file") };
    let script = "import sqlite3, sys, json\n\
        rows = sqlite3.connect(sys.argv[1]).execute('SELECT role, body, commitment FROM payload')\n\
        print(json.dumps([[r[0], bytes(r[1]).decode(), bytes(r[2]).hex()] for r in rows]))";
    let done = Command::new(python()).args(["-c", script]).arg(path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows: Vec<[String; 3]> = serde_json::from_slice(&done.stdout).unwrap();
    let one = |[role, body, commitment]: [String; 3]| StoredPayload { role, body, commitment };
    rows.into_iter().map(one).collect()
}
