//! Prints a backtest's result for a person: new allows first.

use crate::cli::observed::plain;
use crate::cli::say;
use crate::domain::plural::many;
use crate::evidence::backtest::change::DecisionChange;
use crate::evidence::backtest::tally::{BacktestTally, Group};
use crate::evidence::backtest::{BacktestResult, Baseline, Comparison};

/// Prints the whole of it.
pub(super) fn report(bench: &Comparison<'_>, found: &BacktestResult) {
    let BacktestResult { logs, limited, tally: counts } = found;
    let new = bench.new;
    say(format!("{} {} {}", new.name, new.version, new.digest().prefixed()));
    match bench.old {
        Baseline::Recorded => say("against the recorded decisions"),
        Baseline::Bundle(old) => {
            say(format!("against {} {} {}", old.name, old.version, old.digest().prefixed()));
        }
    }
    say(format!(
        "{} of {} evaluated: {} change, {} stay{}",
        many(counts.judged, "decision"),
        many(logs.len(), "log"),
        counts.flips(),
        counts.same,
        other_reasons(counts)
    ));
    if *limited {
        say("stopped at the limit: there may be more");
    }
    let several = logs.len() > 1;
    changes(counts, several);
    section("ENGINE FAULTS under the new bundle: each is a denial", counts.faults.iter(), several);
    if counts.not_asked > 0 {
        say(format!(
            "\n{} more were denied before the policy ran: no policy changes that",
            counts.not_asked
        ));
    }
    if counts.unjudged() > 0 {
        let left: Vec<_> =
            counts.not_judged.iter().map(|(why, group)| (why.text(), group)).collect();
        section("NOT EVALUATED", left.iter().map(|(why, group)| (why, *group)), several);
        if counts.pruned > 0 {
            say(format!("{:>8}  entries were pruned; some may have been decisions", counts.pruned));
        }
    }
}

fn other_reasons(counts: &BacktestTally) -> String {
    match counts.changes.get(&DecisionChange::Reasons) {
        None => String::new(),
        Some(count) => format!(", {count} for other reasons"),
    }
}

const fn title(change: DecisionChange) -> &'static str {
    match change {
        DecisionChange::DenyToAllow => "DENY -> ALLOW",
        DecisionChange::HoldToAllow => "HOLD -> ALLOW",
        DecisionChange::AllowToDeny => "ALLOW -> DENY",
        DecisionChange::HoldToDeny => "HOLD -> DENY",
        DecisionChange::AllowToHold => "ALLOW -> HOLD",
        DecisionChange::DenyToHold => "DENY -> HOLD",
        DecisionChange::Obligations => "OTHER OBLIGATIONS",
        DecisionChange::Reasons => "same, for other reasons",
    }
}

fn changes(counts: &BacktestTally, several: bool) {
    let mut last = None;
    for ((change, old, new), group) in counts.sorted() {
        if last != Some(*change) {
            let count = counts.changes.get(change).copied().unwrap_or_default();
            say(format!("\n{}: {count}", title(*change)));
            last = Some(*change);
        }
        say(format!("{:>8}  {} -> {}", group.count, plain(old), plain(new)));
        examples(group, several);
    }
}

fn section<'a>(title: &str, groups: impl Iterator<Item = (&'a String, &'a Group)>, several: bool) {
    for (index, (what, group)) in groups.enumerate() {
        if index == 0 {
            say(format!("\n{title}"));
        }
        say(format!("{:>8}  {}", group.count, plain(what)));
        examples(group, several);
    }
}

/// `          work.do entry 14, work.do entry 17, …`
fn examples(group: &Group, several: bool) {
    let named = group.examples.iter().map(|example| {
        let log = if several { format!(" of {}", example.log) } else { String::new() };
        let tool =
            if example.tool.is_empty() { String::new() } else { format!("{} ", example.tool) };
        format!("{tool}entry {}{log}", example.seq)
    });
    let named: Vec<String> = named.collect();
    let listed = u64::try_from(named.len()).unwrap_or(u64::MAX);
    let more = if group.count > listed { ", ..." } else { "" };
    say(format!("          {}{more}", named.join(", ")));
}
