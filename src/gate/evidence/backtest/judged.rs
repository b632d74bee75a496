//! Evaluates one recorded decision again.

use std::sync::Arc;

use serde::Deserialize;

use super::change::{DecisionChange, Outcome};
use super::decide::Input;
use super::{Baseline, Comparison};
use crate::domain::commitment::open;
use crate::domain::decision::{RATE_LIMITED, Verdict};
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;
use crate::ledger::drafts::STORED_MAX;
use crate::ledger::store::PayloadRow;
use crate::ledger::vault::{self, Vault};
use crate::policy::input::{VERSION, is_known};
use crate::record::{Entry, Role};

/// One deciding entry, with its input as far as it is kept.
#[derive(Debug)]
pub(super) struct DecisionEntry {
    /// The log it is in.
    pub log: Arc<str>,
    /// The entry.
    pub entry: Entry,
    /// The agent of its run, if the run's opening was read.
    pub agent: Option<Arc<str>>,
    /// The agent that the query asks for, where only the input shows whose call it was.
    pub only: Option<Arc<str>>,
    /// Whether the gate keeps nothing of its run.
    pub incognito: bool,
    /// The input, if it is kept.
    pub input: Option<PayloadRow>,
}

/// Why a decision cannot be evaluated.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NotJudged {
    /// No bundle was active, so the gate made no input.
    NoPolicy,
    /// The policy required a hold, and the gate refused because its queue was full.
    NoPlace,
    /// The gate keeps nothing of its run.
    Incognito,
    /// Inputs over 1 MiB are not kept.
    TooLarge,
    /// The input was erased or has expired.
    Gone,
    /// The input is encrypted, and its key was not given.
    Sealed,
    /// The stored bytes do not match the entry's commitment.
    OtherBytes,
    /// The input is of another version.
    Version(String),
    /// This build cannot parse the input.
    Malformed,
    /// The entry cannot be read.
    Unread,
    /// The agent is unknown: the opening of its run was pruned.
    Agent,
    /// The bundle asks what the run had read, and the input is older than that.
    NoTaint,
    /// The bundle asks what the firewall knows of a finding or of its search, and the input is older.
    NoSearch,
}

impl NotJudged {
    /// For a person, and the key in JSON.
    pub fn text(&self) -> String {
        match self {
            Self::NoPolicy => "no policy was in force, so no input was recorded".to_owned(),
            Self::NoPlace => {
                "allowed or held by policy, and refused because too many calls waited or were made: its input is not kept"
                    .to_owned()
            }
            Self::Incognito => "the run was incognito: its inputs are not kept".to_owned(),
            Self::TooLarge => "the input is over 1 MiB and is not kept".to_owned(),
            Self::Gone => "the input was erased or has expired".to_owned(),
            Self::Sealed => "the input is encrypted, and its key was not given".to_owned(),
            Self::OtherBytes => "the kept input is not what the entry commits to".to_owned(),
            Self::Version(found) => {
                let found: String = found.chars().take(64).filter(|c| !c.is_control()).collect();
                format!("the input is of version `{found}`, this build judges `{VERSION}`")
            }
            Self::Malformed => "the input is not a document this build understands".to_owned(),
            Self::Unread => "the entry cannot be read".to_owned(),
            Self::NoTaint => {
                "the bundle reads `input.taint`, and the input is of a version without it"
                    .to_owned()
            }
            Self::NoSearch => {
                "the bundle reads `input.firewall` or more of `input.findings` than the input has"
                    .to_owned()
            }
            Self::Agent => {
                "whose agent it was is not known: the opening of its run is gone".to_owned()
            }
        }
    }
}

/// The result for one decision.
#[derive(Debug)]
pub(super) enum JudgedOutcome {
    /// Evaluated, and unchanged.
    Same,
    /// Evaluated, and changed.
    Changed(Box<(DecisionChange, Outcome, Outcome)>),
    /// No policy was evaluated: an earlier step refused the call.
    NotAsked,
    /// It belongs to another agent than the query asks for.
    Foreign,
    /// It cannot be evaluated.
    NotJudged(NotJudged),
}

/// One evaluated decision, ready to count.
#[derive(Debug)]
pub(super) struct JudgedDecision {
    pub log: Arc<str>,
    pub entry: EntryReference,
    pub agent: Option<Arc<str>>,
    pub result: JudgedOutcome,
    /// The error in the engine in this evaluation.
    pub fault: Option<String>,
}

/// How examples name an entry.
#[derive(Debug)]
pub(super) struct EntryReference {
    pub seq: u64,
    pub at: Timestamp,
    pub run: Option<String>,
    pub call: Option<String>,
    pub tool: String,
    pub policy: Option<Digest>,
}

impl EntryReference {
    fn of(entry: &Entry) -> Self {
        let draft = &entry.draft;
        Self {
            seq: entry.seq,
            at: entry.ts,
            run: entry.run.as_ref().map(|link| link.run.to_string()),
            call: draft.call.as_ref().map(ToString::to_string),
            tool: draft.tool.as_ref().map(ToString::to_string).unwrap_or_default(),
            policy: draft.policy,
        }
    }
}

/// Evaluates one decision.
pub(super) fn judge(comparison: &Comparison<'_>, mut item: DecisionEntry) -> JudgedDecision {
    let (mut fault, place) = (None, EntryReference::of(&item.entry));
    let is_whole = |input: Input| match comparison.new.lacks(&input) {
        Some(lacking) => Err(JudgedOutcome::NotJudged(lacking)),
        None => Ok(input),
    };
    let result = match read(comparison.vault, &mut item).and_then(is_whole) {
        Err(result) => result,
        Ok(input) => {
            let old = match &comparison.old {
                Baseline::Recorded => Outcome::recorded(&item.entry),
                Baseline::Bundle(old) => Some(old.decide(&input)),
            };
            let new = comparison.new.decide(&input);
            fault.clone_from(&new.fault);
            match old {
                None => JudgedOutcome::NotJudged(NotJudged::Unread),
                Some(old) => match DecisionChange::between(&old, &new) {
                    None => JudgedOutcome::Same,
                    Some(change) => JudgedOutcome::Changed(Box::new((change, old, new))),
                },
            }
        }
    };
    let DecisionEntry { log, agent, .. } = item;
    JudgedDecision { log, entry: place, agent, result, fault }
}

/// Shows whether this build knows the other members.
#[derive(Deserialize)]
struct InputVersion {
    v: String,
}

/// The input, or the result if there is none.
fn read(vault: Option<&Vault>, item: &mut DecisionEntry) -> Result<Input, JudgedOutcome> {
    let left = |why| Err(JudgedOutcome::NotJudged(why));
    let draft = &item.entry.draft;
    let Some(committed) = draft.committed(Role::PolicyInput) else {
        let decision = draft.body.decision();
        let reasons = decision.map_or(&[][..], |decision| decision.reasons);
        let of = |known: &[&str]| reasons.iter().any(|reason| known.contains(&&*reason.detail));
        if of(&["limit.pending", RATE_LIMITED]) {
            return left(NotJudged::NoPlace);
        }
        // The refusal came from a step before any policy, which would refuse the call again.
        let asked = draft.verdict != Some(Verdict::Deny) || of(&["no_policy", "policy_ended"]);
        return if asked { left(NotJudged::NoPolicy) } else { Err(JudgedOutcome::NotAsked) };
    };
    let Some(row) = item.input.take() else {
        if item.only.is_some() {
            return left(NotJudged::Agent);
        }
        let large = usize::try_from(committed.len.get()).is_ok_and(|len| len > STORED_MAX);
        return left(match (item.incognito, large) {
            (true, _) => NotJudged::Incognito,
            (false, true) => NotJudged::TooLarge,
            (false, false) => NotJudged::Gone,
        });
    };
    let row = match vault::open(vault, &item.entry.chain, row) {
        Ok(row) => row,
        Err(vault::Error::NoKey(_)) => return left(NotJudged::Sealed),
        Err(vault::Error::Changed(_) | vault::Error::Key { .. }) => {
            return left(NotJudged::OtherBytes);
        }
    };
    let Some((_, read)) = open(&committed.c, &row.salt, &row.body) else {
        return left(NotJudged::OtherBytes);
    };
    let read = read.map_or_else(|| Json::parse(&row.body, &Limits::FILE), Ok);
    let Ok(json) = read else { return left(NotJudged::Malformed) };
    let version = json.read().map_or_else(|_| "none".to_owned(), |InputVersion { v }| v);
    if !is_known(&version) {
        return left(NotJudged::Version(version));
    }
    let is_justified = draft.body.decision().is_some_and(|one| one.justification.is_some());
    let Some(input) = Input::of(row.body, json, is_justified) else {
        return left(NotJudged::Malformed);
    };
    if item.only.as_deref().is_some_and(|only| input.agent != only) {
        return Err(JudgedOutcome::Foreign);
    }
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::commitment::commit;
    use crate::domain::id::ChainId;
    use crate::domain::tier::Binding;
    use crate::domain::time::Timestamp;
    use crate::evidence::backtest::Candidate;
    use crate::policy::bundle::Bundle;
    use crate::record::call::{Absent, CallDenied, Executor};
    use crate::record::{self, Boot, Commitment, Draft, HexDigest, List};

    const INPUT: &str = r#"{"agent":{"id":"a"},"args":{},"time":{"rfc3339":"2026-11-20T10:00:00.000Z"},"tool":{"name":"t","tier":"T0"},"v":"wicketgate/input/1"}"#;

    /// A denial of this reason.
    fn denied(detail: &str) -> CallDenied {
        let (code, detail) = ("policy.denied".into(), detail.into());
        CallDenied {
            after: 0_u64.into(),
            approvals: Absent,
            args_bytes: None,
            args_withheld: None,
            asked_by: None,
            asked_in: Absent,
            auth: record::call::Auth::default(),
            binding: Binding::Claimed,
            break_glass: Absent,
            call_digest: None,
            definition: None,
            effect: None,
            enforced: true,
            engine: "e".into(),
            exceptions: None,
            executor: Executor::Sidecar,
            expires: None,
            findings: None,
            findings_more: None,
            firewall: None,
            gate_of: None,
            hosts: None,
            justification: None,
            layers: List::default(),
            mark: None,
            masked: None,
            nonce: Absent,
            obligations: List::default(),
            parent: None,
            proposed_by: None,
            reasons: [record::call::Reason { code, detail, message: "m".into(), rule: "r".into() }]
                .into_iter()
                .collect(),
            taint: None,
            tier: None,
            tools_text: None,
            traceparent: None,
        }
    }

    /// A denial of this reason about this input; `kept`: the stored bytes.
    fn item(detail: &str, input: Option<&str>, kept: Option<&str>) -> DecisionEntry {
        let salt = [7; 32];
        let of = |text: &str| commit(&salt, text.as_bytes());
        let commitment = |text: &str| Commitment {
            c: HexDigest(of(text)),
            len: text.len().into(),
            role: Role::PolicyInput,
        };
        let draft = Draft {
            verdict: Some(Verdict::Deny),
            commit: input.map(commitment).into_iter().collect(),
            ..Draft::of(denied(detail))
        };
        let entry = Entry {
            chain: ChainId::from_bytes([1; 16]),
            epoch: 1,
            seq: 9,
            prev: Digest::of(&[]),
            ts: Timestamp::from_millis(0),
            boot: Boot::from_random([0; 4]),
            mono: 0,
            run: None,
            draft,
        };
        let row = |text: &str| PayloadRow {
            commitment: of(input.unwrap_or_default()),
            salt,
            role: "policy_input".into(),
            media_type: "application/json".into(),
            body: text.as_bytes().to_vec(),
        };
        let (log, agent) = ("log".into(), None);
        DecisionEntry { log, entry, agent, only: None, incognito: false, input: kept.map(row) }
    }

    fn judged(item: DecisionEntry) -> JudgedOutcome {
        judged_by(item, "")
    }

    /// By a bundle that has this beside its rule.
    fn judged_by(item: DecisionEntry, more: &str) -> JudgedOutcome {
        let meta = r#"{"name":"t","version":"1.0.0"}"#;
        let rules = "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"t\"\n";
        let rules = format!("{rules}{more}");
        let files = [("bundle.json", meta), ("agent/main.rego", &rules)];
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        let new = Candidate::new(&Bundle::of_files(files.into()).unwrap()).unwrap();
        let comparison = Comparison { new: &new, old: Baseline::Recorded, vault: None, jobs: 1 };
        judge(&comparison, item).result
    }

    fn not_judged(item: DecisionEntry) -> NotJudged {
        let outcome = judged(item);
        let JudgedOutcome::NotJudged(why) = outcome else { panic!("{outcome:?}") };
        why
    }

    #[test]
    fn a_kept_input_is_judged_and_what_flips_is_a_change() {
        let outcome = judged(item("d", Some(INPUT), Some(INPUT)));
        let JudgedOutcome::Changed(changed) = outcome else { panic!("{outcome:?}") };
        assert_eq!(changed.0, DecisionChange::DenyToAllow);
    }

    #[test]
    fn every_reason_not_to_judge_is_distinguished() {
        assert!(matches!(judged(item("schema.required", None, None)), JudgedOutcome::NotAsked));
        assert_eq!(not_judged(item("no_policy", None, None)), NotJudged::NoPolicy);
        assert_eq!(not_judged(item("policy_ended", None, None)), NotJudged::NoPolicy);
        assert_eq!(not_judged(item("limit.pending", None, None)), NotJudged::NoPlace);
        assert_eq!(not_judged(item("d", Some(INPUT), None)), NotJudged::Gone);
        let other = INPUT.replace("\"T0\"", "\"T1\"");
        assert_eq!(not_judged(item("d", Some(INPUT), Some(&other))), NotJudged::OtherBytes);
        let newer = INPUT.replace("input/1", "input/3");
        let version = NotJudged::Version("wicketgate/input/3".into());
        assert_eq!(not_judged(item("d", Some(&newer), Some(&newer))), version);
        let timeless = INPUT.replace("rfc3339", "when");
        assert_eq!(not_judged(item("d", Some(&timeless), Some(&timeless))), NotJudged::Malformed);
        assert_eq!(not_judged(item("d", Some("[1"), Some("[1"))), NotJudged::Malformed);
        let mut large = item("d", Some(INPUT), None);
        large.entry.draft.commit[0].len = (2_u64 << 20).into();
        assert_eq!(not_judged(large), NotJudged::TooLarge);
        let mut hidden = item("d", Some(INPUT), None);
        hidden.incognito = true;
        assert_eq!(not_judged(hidden), NotJudged::Incognito);
    }

    #[test]
    fn an_input_that_lacks_what_a_rule_reads_is_not_judged() {
        let old = INPUT.replace("\"args\"", r#""findings":[{"kind":"card","path":"/a"}],"args""#);
        let new = old.replace("\"path\"", r#""confidence":"high","path""#);
        let searched = r#""firewall":{"complete":true,"masked":false,"rules":"sha256:"#;
        let searched = format!(r#"{searched}{}"}},"args""#, "0".repeat(64));
        let searched = INPUT.replace("\"args\"", &searched);
        let one = |input: &str, rule: &str| {
            let rule = format!("deny contains \"no\" if {rule}\n");
            judged_by(item("d", Some(input), Some(input)), &rule)
        };
        let lacks = |input: &str, rule: &str| match one(input, rule) {
            JudgedOutcome::NotJudged(why) => Some(why),
            JudgedOutcome::Same
            | JudgedOutcome::Changed(_)
            | JudgedOutcome::NotAsked
            | JudgedOutcome::Foreign => None,
        };
        let (sure, kind) =
            (r#"input.findings[_].confidence == "high""#, r#"input.findings[_].kind == "iban""#);
        assert_eq!(lacks(&old, sure), Some(NotJudged::NoSearch));
        assert_eq!((lacks(&new, sure), lacks(&old, kind), lacks(INPUT, sure)), (None, None, None));
        assert_eq!(lacks(&old, "input.firewall.masked"), Some(NotJudged::NoSearch));
        assert_eq!(lacks(&searched, "input.firewall.masked"), None);
        assert_eq!(lacks(&searched, "input.taint.trifecta"), Some(NotJudged::NoTaint));
    }

    #[test]
    fn a_call_is_attributed_by_its_policy_input_if_nothing_else_names_the_agent() {
        let mut foreign = item("d", Some(INPUT), Some(INPUT));
        foreign.only = Some("b".into());
        assert!(matches!(judged(foreign), JudgedOutcome::Foreign));
        let mut own = item("d", Some(INPUT), Some(INPUT));
        own.only = Some("a".into());
        assert!(matches!(judged(own), JudgedOutcome::Changed(_)));
        let mut unknown = item("d", Some(INPUT), None);
        unknown.only = Some("a".into());
        assert_eq!(not_judged(unknown), NotJudged::Agent);
    }
}
