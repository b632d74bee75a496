//! The labels of runs: each comes from an earlier entry, and none of those that an agent could know of is
//! missing in a decision.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::id::{CallId, RunId};
use crate::domain::taint::Label;
use crate::entries::{Damage, EntryLine};
use crate::record::Kind;
use crate::record::call::{CallUnknown, TaintLabel};
use crate::record::run::RunOpened;
use crate::scope::ChainSlice;

/// The check that such damage belongs to.
const CHECK: &str = "S3";

/// One run, as far as the entries have been read.
#[derive(Default)]
struct RunLabels {
    brought: BTreeSet<(Label, CallId)>,
    /// Calls whose answer was lost with the writer: which labels it had is not known.
    lost: BTreeSet<CallId>,
    /// Authorised calls without an end so far.
    open: BTreeSet<CallId>,
    /// Labels of those in decisions: the gate brings a label before it records the answer.
    owed: BTreeSet<(Label, CallId)>,
    /// The labels of its own calls that were not taken away, with the place of the entry in the run.
    standing: Vec<(u64, Label)>,
}

/// Checks every label of these entries.
pub(super) fn check(slice: &ChainSlice) -> Result<(), Damage> {
    let mut runs: BTreeMap<RunId, RunLabels> = BTreeMap::new();
    for line in &slice.lines {
        one(line, &mut runs)
            .map_err(|why| Damage::new(CHECK, format!("seq {}: {why}", line.entry.seq)))?;
    }
    Ok(())
}

fn one(line: &EntryLine, runs: &mut BTreeMap<RunId, RunLabels>) -> Result<(), String> {
    let Some(link) = &line.entry.run else { return Ok(()) };
    if let Some(opened) = line.get::<RunOpened>() {
        for label in opened.taint.iter().flat_map(|list| list.iter()) {
            came(label, &link.run, runs)?;
        }
        runs.insert(link.run, RunLabels::default());
        return Ok(());
    }
    if let Some(decision) = line.decision() {
        let labels = decision.taint.map(|taint| &*taint.labels).unwrap_or_default();
        for label in labels {
            came(label, &link.run, runs)?;
        }
        let standing = runs.get(&link.run).map(|run| run.standing.as_slice()).unwrap_or_default();
        let missing = standing.iter().find(|(seq, label)| {
            *seq <= decision.after && !labels.iter().any(|one| one.label == *label)
        });
        if let Some((_, label)) = missing {
            return Err(format!(
                "the decision lacks the label `{label}` that an answer brought before"
            ));
        }
    }
    let Some(run) = runs.get_mut(&link.run) else { return Ok(()) };
    if line.is(Kind::TaintCleared) {
        run.standing.clear();
    }
    let Some(call) = &line.entry.draft.call else { return Ok(()) };
    let kind = line.entry.draft.kind();
    if kind == Kind::CallAuthorized {
        run.open.insert(call.clone());
    }
    let is_lost = line.get::<CallUnknown>().is_some();
    if is_lost {
        run.lost.insert(call.clone());
    }
    let observed = line.entry.draft.body.observed().and_then(|observed| observed.labels.as_ref());
    for label in observed.iter().flat_map(|list| list.iter()) {
        run.brought.insert((*label, call.clone()));
        run.standing.push((link.seq, *label));
    }
    if kind.ends_call() { run.ended(call, is_lost) } else { Ok(()) }
}

impl RunLabels {
    /// A call has its end: what decisions named of it before has to be there.
    fn ended(&mut self, call: &CallId, is_lost: bool) -> Result<(), String> {
        self.open.remove(call);
        let lacks = |(label, of): &&(Label, CallId)| {
            of == call && !is_lost && !self.brought.contains(&(*label, of.clone()))
        };
        if let Some((label, _)) = self.owed.iter().find(lacks) {
            return Err(format!(
                "a decision names the label `{label}` of the call `{call}`, whose end lacks it"
            ));
        }
        self.owed.retain(|(_, of)| of != call);
        Ok(())
    }
}

/// Whether an earlier entry brought this label. Runs whose opening is not here are not checked.
fn came(
    label: &TaintLabel,
    own: &RunId,
    runs: &mut BTreeMap<RunId, RunLabels>,
) -> Result<(), String> {
    let from = label.run.as_ref().unwrap_or(own);
    let Some(run) = runs.get_mut(from) else { return Ok(()) };
    let TaintLabel { label, call, .. } = label;
    if run.brought.contains(&(*label, call.clone())) || run.lost.contains(call) {
        return Ok(());
    }
    if run.open.contains(call) {
        run.owed.insert((*label, call.clone()));
        return Ok(());
    }
    Err(format!(
        "no earlier entry says that the call `{call}` of run {from} brought the label `{label}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::digest::Digest;
    use crate::domain::id::ChainId;
    use crate::domain::json::{Json, json};
    use crate::domain::time::Timestamp;
    use crate::record::sample::body;
    use crate::record::{Boot, Draft, Entry, RunLink};

    fn run(n: u8) -> RunId {
        RunId::from_random([n; 16])
    }

    /// Entry `seq` of run `n`, about this call.
    fn line(n: u8, seq: u64, kind: Kind, call: Option<&str>, data: Vec<(&str, Json)>) -> EntryLine {
        let leaf = Digest::of(&[&[n], &seq.to_be_bytes()]);
        let entry = Entry {
            chain: ChainId::from_bytes([0; 16]),
            epoch: 1,
            seq,
            prev: leaf,
            ts: Timestamp::from_millis(1),
            boot: Boot::from_random([0; 4]),
            mono: 0,
            run: Some(RunLink { run: run(n), seq, prev: None }),
            draft: Draft {
                run: Some(run(n)),
                call: call.and_then(CallId::parse),
                ..Draft::of(body(kind, data))
            },
        };
        EntryLine { bytes: Vec::new(), entry, leaf, unknown: None }
    }

    fn opened(n: u8) -> EntryLine {
        line(n, 0, Kind::RunOpened, None, vec![])
    }

    fn read(n: u8, seq: u64, label: &str) -> EntryLine {
        let observed = json!({"labels": [label]});
        line(n, seq, Kind::CallCompleted, Some("read"), vec![("observed", observed)])
    }

    /// A decision with these labels, made when the agent knew the entries up to `after`.
    fn decided(n: u8, seq: u64, after: u64, labels: &[(&str, &str, Option<u8>)]) -> EntryLine {
        let one = |(label, call, of): &(&str, &str, Option<u8>)| {
            let mut members = vec![("call", Json::from(*call)), ("label", Json::from(*label))];
            members.extend(of.map(|of| ("run", Json::from(run(of).to_string()))));
            Json::object(members)
        };
        let labels: Json = labels.iter().map(one).collect::<Vec<_>>().into();
        let mut data = vec![("after", Json::from(after))];
        if labels.as_array().is_some_and(|all| !all.is_empty()) {
            data.push(("taint", json!({"labels": labels})));
        }
        line(n, seq, Kind::CallAuthorized, Some("next"), data)
    }

    fn damage(lines: &[EntryLine]) -> Option<String> {
        let mut runs = BTreeMap::new();
        lines.iter().find_map(|line| one(line, &mut runs).err())
    }

    #[test]
    fn a_label_that_no_earlier_entry_brought_is_damage() {
        let honest =
            [opened(1), read(1, 2, "private"), decided(1, 3, 2, &[("private", "read", None)])];
        assert_eq!(damage(&honest), None);
        let early =
            [opened(1), decided(1, 1, 0, &[("private", "read", None)]), read(1, 2, "private")];
        assert!(damage(&early).is_some_and(|why| why.contains("brought the label `private`")));
        let other =
            [opened(1), read(1, 2, "private"), decided(1, 3, 2, &[("private", "other", None)])];
        assert!(damage(&other).is_some());
        let below = [
            opened(1),
            opened(2),
            read(2, 2, "secret"),
            decided(1, 3, 0, &[("secret", "read", Some(2))]),
        ];
        assert_eq!(damage(&below), None);
        let not_below = [opened(1), opened(2), decided(1, 3, 0, &[("secret", "read", Some(2))])];
        assert!(damage(&not_below).is_some());
        let unread = [opened(1), decided(1, 3, 0, &[("secret", "read", Some(9))])];
        assert_eq!(damage(&unread), None, "the other run is not in the bundle");
    }

    #[test]
    fn a_label_of_an_answer_that_is_not_recorded_yet_has_to_be_in_it() {
        let authorized = |seq| line(1, seq, Kind::CallAuthorized, Some("read"), vec![]);
        let decided = || decided(1, 2, 1, &[("private", "read", None)]);
        let honest = [opened(1), authorized(1), decided(), read(1, 3, "private")];
        assert_eq!(damage(&honest), None);
        let other = [opened(1), authorized(1), decided(), read(1, 3, "untrusted")];
        assert!(damage(&other).is_some_and(|why| why.contains("whose end lacks it")));
    }

    #[test]
    fn a_decision_that_lacks_a_label_its_agent_could_know_of_is_damage() {
        let lacks = [opened(1), read(1, 2, "private"), decided(1, 3, 2, &[])];
        assert!(damage(&lacks).is_some_and(|why| why.contains("lacks the label `private`")));
        let unaware = [opened(1), read(1, 2, "private"), decided(1, 3, 1, &[])];
        assert_eq!(damage(&unaware), None, "it was asked for before the answer");
        let cleared = line(1, 3, Kind::TaintCleared, None, vec![]);
        let after = [opened(1), read(1, 2, "private"), cleared, decided(1, 4, 2, &[])];
        assert_eq!(damage(&after), None);
    }
}
