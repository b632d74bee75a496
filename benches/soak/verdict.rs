//! What was promised, and whether it was kept.

use std::process::ExitCode;

use wicketgate_support::bench::load::short;

use crate::exports::Exports;
use crate::gate::Gate;
use crate::ledger::Found;
use crate::windows::{Windows, codes};

/// Most that the log of SQLite's writes may take: it is emptied every 4 MiB, unless somebody reads meanwhile.
const WAL: u64 = 64 << 20;
/// Most that the state directory may take beside the ledger: a spool has two files of 32 MiB and a batch.
const STATE: u64 = 80 << 20;
/// Growth of memory, and of the tail.
const MEMORY: f64 = 1.05;
const TAIL: f64 = 1.5;

/// One promise.
#[derive(Debug)]
pub struct Verdict {
    promise: String,
    measured: String,
    kept: bool,
}

/// Prints the windows of one store and judges them.
pub fn judge(gate: &Gate, windows: &Windows, exports: &Exports, found: &Found) -> Vec<Verdict> {
    windows.print();
    println!(
        "\nends of the gate: {} by SIGKILL, 1 by SIGTERM; shed: {}; refused while it ended or began: {}",
        gate.kills,
        none_or(codes([&windows.shed])),
        none_or(codes([&windows.around]))
    );
    let starts: Vec<String> = gate.starts.iter().map(|took| short(*took)).collect();
    let lives: Vec<String> = gate.lives.iter().map(|mib| format!("{mib:.1}")).collect();
    println!("from each start to ready: {}", starts.join(", "));
    println!("memory at the end of each life, MiB RSS: {}", lives.join(", "));
    println!(
        "ledger: {} entries, of them {} of {} answered calls ({} unknown) and their runs, {} of {} runs whose opening was never answered, others: {}",
        found.entries,
        found.of_callers,
        found.completed + found.unknown,
        found.unknown,
        found.of_unseen,
        found.unseen_runs,
        codes([&found.others])
    );
    let mut all = flat(windows);
    all.extend(honest(gate, windows, exports, found));
    all.extend(bounded(gate, windows, found));
    if all.iter().any(|verdict| !verdict.kept) {
        println!("\nthe end of the gate's log:\n{}", gate.log());
    }
    let name = gate.name();
    all.into_iter()
        .map(|verdict| Verdict { promise: format!("{name}: {}", verdict.promise), ..verdict })
        .collect()
}

fn verdict(promise: &str, measured: String, kept: bool) -> Verdict {
    Verdict { promise: promise.to_owned(), measured, kept }
}

fn none_or(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

/// Memory and latency of the calm half.
fn flat(windows: &Windows) -> Vec<Verdict> {
    let mut all = Vec::new();
    let (before, after) = windows.quarters(|window| window.memory);
    all.push(verdict(
        &format!("memory is flat: last over second quarter of the calm half ≤ {MEMORY} ×"),
        format!("{before:.1} → {after:.1} MiB, {:.3} ×", after / before),
        after <= before * MEMORY,
    ));
    let (before, after) = windows.quarters(|window| window.seen.p99.as_secs_f64());
    let [from, to] = [before, after].map(|s| short(std::time::Duration::from_secs_f64(s)));
    all.push(verdict(
        &format!("p99 is flat: the same ≤ {TAIL} ×"),
        format!("{from} → {to}, {:.2} ×", after / before),
        after > 0.0 && after <= before * TAIL,
    ));
    all
}

/// Answers, exports, reloads and the ledger.
fn honest(gate: &Gate, windows: &Windows, exports: &Exports, found: &Found) -> Vec<Verdict> {
    let (tool, ended) = (&gate.tool, found.ended);
    // The ends of a call: what the tool did, and calls that were lost before they reached it.
    let ran = tool.calls();
    let exported = exports.took.iter().max().map_or_else(String::new, |most| short(*most));
    let (answered, reloads) = (found.completed, gate.reloads as usize);
    vec![
        verdict(
            "no refusal that neither sheds load nor comes from an end of the gate",
            none_or(codes([&windows.wrong])),
            windows.wrong.is_empty() && answered > 0,
        ),
        verdict(
            "no call reaches its tool twice, and none without an entry",
            format!(
                "{ran} calls in the tool, {} of them again; {ended} ended in the ledger",
                tool.repeated()
            ),
            tool.repeated() == 0 && answered <= ran && ran <= ended,
        ),
        verdict(
            "`ledger verify` finds the whole ledger valid",
            found.damage.clone().unwrap_or_else(|| format!("{} entries", found.entries)),
            found.damage.is_none(),
        ),
        verdict(
            "the ledger has what callers were answered, and no other call",
            format!(
                "{} entries, {} expected; {} differences {}",
                found.of_callers,
                found.expected,
                found.differences,
                found.differs.join("; ")
            ),
            found.differences == 0 && found.of_callers == found.expected,
        ),
        verdict(
            "every export is verified",
            format!(
                "{} in at most {exported}; failed: {}",
                exports.took.len(),
                none_or(exports.failed.join("; "))
            ),
            exports.failed.is_empty() && !exports.took.is_empty(),
        ),
        verdict(
            "every reload is in force",
            format!("{} of {} bundles", found.policies.len(), reloads + 1),
            found.policies.len() == reloads + 1,
        ),
    ]
}

/// Files.
fn bounded(gate: &Gate, windows: &Windows, found: &Found) -> Vec<Verdict> {
    let mib = |bytes: u64| format!("{:.1} MiB at most", bytes as f64 / f64::from(1 << 20));
    let rest = windows.most(|window| window.sizes.spool + window.sizes.rest);
    let mut all = vec![verdict(
        &format!("the state directory beside the ledger takes ≤ {} MiB", STATE >> 20),
        mib(rest),
        rest <= STATE,
    )];
    if gate.spool().is_some() {
        // The log of a database is its administrator's.
        let unsettled = format!("{} batches without a note", found.unsettled);
        all.push(verdict("the spool is settled at rest", unsettled, found.unsettled == 0));
    } else {
        let wal = windows.most(|window| window.sizes.wal);
        all.push(verdict(&format!("the WAL takes ≤ {} MiB", WAL >> 20), mib(wal), wal <= WAL));
    }
    all
}

/// Prints all verdicts; a failure if one promise was not kept.
pub fn conclude(all: &[Verdict]) -> ExitCode {
    println!("\n| promise | measured | |\n|---|---|---|");
    for one in all {
        let kept = if one.kept { "kept" } else { "**not kept**" };
        println!("| {} | {} | {kept} |", one.promise, one.measured);
    }
    let missed: Vec<&str> =
        all.iter().filter(|one| !one.kept).map(|one| one.promise.as_str()).collect();
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nnot kept: {}", missed.join("; "));
    ExitCode::FAILURE
}
