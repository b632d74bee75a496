//! The whole ledger after the end, against what callers were answered.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wicketgate::ledger::spool::{Journal as _, Spool};
use wicketgate::ledger::store::EntryRow;
use wicketgate_support::program;

use crate::callers::{Answer, RunSeen};
use crate::exports::ran;
use crate::gate::Gate;

/// Entries that are read at once.
const PAGE: u32 = 10_000;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Why `ledger verify` failed.
    pub damage: Option<String>,
    pub entries: u64,
    /// Entries of the runs whose callers saw them opened, and how many their answers ask for.
    pub of_callers: u64,
    pub expected: u64,
    /// Runs whose opening was never answered, and their entries.
    pub unseen_runs: u64,
    pub of_unseen: u64,
    /// Entries of no run, by kind.
    pub others: BTreeMap<String, u64>,
    /// Answers to callers.
    pub completed: u64,
    pub unknown: u64,
    /// Calls that the ledger has with an end.
    pub ended: u64,
    /// Versions of the policy that were put in force.
    pub policies: BTreeSet<String>,
    /// The first of what differs, and how much does.
    pub differs: Vec<String>,
    pub differences: u64,
    /// Logs whose last batch the spool holds without a note that the store has it.
    pub unsettled: u64,
}

/// One call in the ledger.
#[derive(Clone, Copy, Default)]
struct Call {
    authorized: u32,
    completed: u32,
    /// Ends of any kind.
    ends: u32,
    /// Whether an entry has the hash of the caller's receipt.
    receipt: bool,
}

/// One run in the ledger.
#[derive(Default)]
struct Run {
    entries: u64,
    sealed: bool,
    calls: Vec<Call>,
}

/// Verifies the ledger and compares it with what callers saw.
pub async fn read(gate: &Gate, runs: &[RunSeen]) -> Found {
    let mut found = Found::default();
    let verify = ["ledger", "verify", "--config", "beside.yaml", "--trust", "trust.txt"];
    found.damage = ran(gate.dir(), program::gate(), &verify).await.err();
    let seen: BTreeMap<&str, &RunSeen> = runs.iter().map(|run| (run.id.as_str(), run)).collect();
    let mut of: BTreeMap<String, Run> = BTreeMap::new();
    let reader = gate.reader().await;
    for chain in reader.chains().await.unwrap() {
        let mut from = 0;
        loop {
            let rows = reader.entries(&chain.chain, from, PAGE).await.unwrap();
            let Some(last) = rows.last() else { break };
            from = last.seq + 1;
            for row in &rows {
                found.take(row, &mut of, &seen);
            }
        }
        if let Some(dir) = gate.spool() {
            let spool = Spool::open(&dir).unwrap();
            found.unsettled += u64::from(spool.unsettled(&chain.chain).unwrap().is_some());
        }
    }
    for run in runs {
        found.compare(run, &of.remove(&run.id).unwrap_or_default());
    }
    found.unseen_runs = of.len() as u64;
    found.of_unseen = of.values().map(|run| run.entries).sum();
    found
}

impl Found {
    fn take(
        &mut self,
        row: &EntryRow,
        of: &mut BTreeMap<String, Run>,
        seen: &BTreeMap<&str, &RunSeen>,
    ) {
        self.entries += 1;
        let Some(id) = row.run.map(|run| run.to_string()) else {
            *self.others.entry(row.kind.clone()).or_default() += 1;
            if row.kind == "policy.activated" {
                let body: Value = serde_json::from_slice(&row.body).unwrap();
                self.policies.insert(body["data"]["version"].to_string());
            }
            return;
        };
        let answers = seen.get(id.as_str()).map_or(&[][..], |run| &run.answers);
        let run = of.entry(id).or_default();
        run.entries += 1;
        run.sealed |= row.kind == "run.sealed";
        let Some(n) = row
            .call
            .as_ref()
            .and_then(|call| call.to_string().strip_prefix('c')?.parse::<usize>().ok())
        else {
            return;
        };
        if run.calls.len() <= n {
            run.calls.resize(n + 1, Call::default());
        }
        let call = &mut run.calls[n];
        match row.kind.as_str() {
            "call.authorized" => call.authorized += 1,
            kind if kind.starts_with("call.") => {
                call.ends += 1;
                call.completed += u32::from(kind == "call.completed");
            }
            _ => {}
        }
        let leaf = row.leaf.as_bytes()[..8].try_into().unwrap();
        if let Some(Answer::Completed(receipt)) = answers.get(n) {
            call.receipt |= *receipt == u64::from_be_bytes(leaf);
        }
    }

    /// One run of a caller with the same in the ledger.
    fn compare(&mut self, seen: &RunSeen, run: &Run) {
        self.of_callers += run.entries;
        // It is opened and sealed, and each of its calls begins and ends.
        self.expected += 2 + 2 * seen.answers.len() as u64;
        if seen.entries.is_some_and(|counted| counted != run.entries) || !run.sealed {
            self.differ(format!(
                "run {}: {} entries, sealed {}, its seal counted {:?}",
                seen.id, run.entries, run.sealed, seen.entries
            ));
        }
        if run.calls.len() > seen.answers.len() {
            self.differ(format!("run {} has calls that nobody made", seen.id));
        }
        for (n, answer) in seen.answers.iter().enumerate() {
            let call = run.calls.get(n).copied().unwrap_or_default();
            self.ended += u64::from(call.ends);
            let once = call.authorized == 1 && call.ends == 1;
            let same = match answer {
                Answer::Completed(_) => {
                    self.completed += 1;
                    once && call.completed == 1 && call.receipt
                }
                Answer::Unknown => {
                    self.unknown += 1;
                    once && call.completed == 0
                }
                // Each is counted as a wrong answer already.
                Answer::Refused => true,
            };
            if !same {
                self.differ(format!(
                    "run {}, call c{n}: {answer:?}, but {} beginnings, {} ends, {} completed, receipt {}",
                    seen.id, call.authorized, call.ends, call.completed, call.receipt
                ));
            }
        }
    }

    fn differ(&mut self, what: String) {
        self.differences += 1;
        if self.differs.len() < 5 {
            self.differs.push(what);
        }
    }
}
