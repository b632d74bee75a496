//! Evaluates a bundle on a recorded input, the way the gate does.

use std::time::Duration;

use super::change::Outcome;
use super::judged::NotJudged;
use crate::domain::canonical;
use crate::domain::decision::{Course, Verdict};
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;
use crate::policy::bundle::Bundle;
use crate::policy::fault::Error;
use crate::policy::flow::{TaintInput, floored, is_irreversible, is_released};
use crate::policy::input::Document;
use crate::policy::rego::RegoEngine;
use crate::policy::{self, PolicyEngine as _, input};

/// Deadline of one evaluation. Longer than the gate's own: a machine that only evaluates is slow,
/// and that must not flip a decision.
const DEADLINE: Duration = Duration::from_secs(5);

/// A bundle to evaluate on recorded inputs.
#[derive(Debug)]
pub struct Candidate {
    engine: RegoEngine,
    /// `name` of its `bundle.json`.
    pub name: String,
    /// `version` of its `bundle.json`.
    pub version: String,
    /// What it would pass to layers that count approvers (`input.quorum`).
    quorum: Json,
    /// What its rules name that earlier inputs do not have.
    reads: ReadMembers,
}

/// Members of an input that came later than the first ones.
#[derive(Clone, Copy, Default, Debug)]
struct ReadMembers {
    /// `input.taint`.
    taint: bool,
    /// `input.firewall`.
    firewall: bool,
    /// How sure a finding is, how it was written, and its mark.
    finding: bool,
}

impl ReadMembers {
    /// What this text of rules names.
    fn of(text: &str) -> Self {
        let names = |any: &[&str]| any.iter().any(|one| text.contains(one));
        let finding =
            names(&[".confidence", "\"confidence\"", ".how", "\"how\"", ".mark", "\"mark\""]);
        Self {
            taint: names(&["input.taint"]),
            firewall: names(&["input.firewall"]),
            finding: finding && names(&["input.findings"]),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            taint: self.taint || other.taint,
            firewall: self.firewall || other.firewall,
            finding: self.finding || other.finding,
        }
    }
}

/// A recorded input that this build can parse.
#[derive(Debug)]
pub(super) struct Input {
    /// Its canonical bytes.
    pub body: Vec<u8>,
    /// The same, parsed.
    pub json: Json,
    /// The agent that made the call.
    pub agent: String,
    /// When the policy was evaluated.
    at: Timestamp,
    /// `None`: an unknown tier, which counts as the worst one.
    tier: Option<Tier>,
    /// Whether it was evaluated under a break-glass order.
    under_break_glass: bool,
    is_approved: bool,
    /// The kind of the tool.
    kind: String,
    /// What the run had read; absent in version 1.
    taint: Option<TaintInput>,
    /// Whether it tells of the search of the arguments.
    tells_search: bool,
    /// Whether all that it says of its findings is what a gate says today.
    tells_findings: bool,
    /// Whether the agent gave a reason for the call.
    is_justified: bool,
}

impl Input {
    /// Takes a parsed input.
    pub(super) fn of(body: Vec<u8>, json: Json, is_justified: bool) -> Option<Self> {
        let document: Document = json.read().ok()?;
        let at = document.time.rfc3339?;
        let tier = document.tool.tier.as_deref().and_then(Tier::parse);
        let agent = document.agent.id;
        let under_break_glass = document.break_glass.is_some_and(|order| order.open);
        let (is_approved, taint) = (is_released(None, &document.approvals), document.taint);
        let kind = document.tool.kind;
        let tells_search = document.firewall.is_some();
        let tells_findings = document.findings.iter().all(|one| one.confidence.is_some());
        Some(Self {
            body,
            json,
            agent,
            at,
            tier,
            under_break_glass,
            is_approved,
            kind,
            taint,
            tells_search,
            tells_findings,
            is_justified,
        })
    }
}

impl Candidate {
    /// Prepares a bundle.
    ///
    /// # Errors
    /// The engine refuses it.
    pub fn new(bundle: &Bundle) -> Result<Self, Error> {
        let engine = RegoEngine::new(bundle, DEADLINE)?;
        let quorum = input::quorum_json(engine.by_hand());
        let (name, version) = (bundle.name().to_owned(), bundle.version().to_string());
        let is_rule = |name: &str| name.ends_with(".rego") && !name.ends_with("_test.rego");
        let rules = bundle.as_written().filter(|(name, _)| is_rule(name));
        let reads = rules.fold(ReadMembers::default(), |reads, (_, text)| {
            reads.and(ReadMembers::of(&String::from_utf8_lossy(text)))
        });
        Ok(Self { engine, name, version, quorum, reads })
    }

    /// What its rules read and this input is too old to have.
    pub(super) const fn lacks(&self, input: &Input) -> Option<NotJudged> {
        if self.reads.taint && input.taint.is_none() {
            return Some(NotJudged::NoTaint);
        }
        let search = self.reads.firewall && !input.tells_search;
        let finding = self.reads.finding && !input.tells_findings;
        if search || finding { Some(NotJudged::NoSearch) } else { None }
    }

    /// Digest of the bundle, composition library included.
    pub fn digest(&self) -> Digest {
        self.engine.digest()
    }

    /// As a statement names it.
    pub fn to_json(&self) -> Json {
        Json::object([
            ("digest", Json::from(self.digest().prefixed())),
            ("name", Json::from(self.name.as_str())),
            ("version", Json::from(self.version.as_str())),
        ])
    }

    /// The decision of this bundle.
    ///
    /// Under break-glass the gate evaluates twice, and the second answer counts only if it turns a
    /// hold into an allow. This does the same.
    pub(super) fn decide(&self, input: &Input) -> Outcome {
        if !input.under_break_glass {
            return self.ask(input, None);
        }
        let whole = self.ask(input, Some(&input::break_glass_json(None)));
        if whole.course == Course::Wait {
            let broken = self.ask(input, None);
            if broken.verdict == Verdict::Allow {
                return broken;
            }
        }
        whole
    }

    fn ask(&self, input: &Input, break_glass: Option<&Json>) -> Outcome {
        let layers = match input.tier {
            Some(Tier::T0 | Tier::T1 | Tier::T2) => self.engine.observing(input.at),
            Some(Tier::T3) | None => Vec::new(),
        };
        let observe: Json =
            layers.iter().map(|(layer, _)| Json::from(*layer)).collect::<Vec<_>>().into();
        let own = [
            ("observe", Some(&observe)),
            ("quorum", Some(&self.quorum)),
            ("break_glass", break_glass),
        ];
        let own = own.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        let other: Vec<(&str, &Json)> =
            own.filter(|(name, value)| input.json.get(name) != Some(value)).collect();
        let with_members = (!other.is_empty()).then(|| with_members(&input.json, &other));
        let body = with_members.as_deref().unwrap_or(&input.body);
        let answered = policy::ask(&self.engine, body, !layers.is_empty());
        let fault = answered.as_ref().err().map(|e| format!("{}: {e}", e.detail()));
        // An order of break-glass that is asked for releases as an approver does.
        let released = input.is_approved || break_glass.is_none() && input.under_break_glass;
        let irreversible = is_irreversible(input.tier.unwrap_or(Tier::T3), &input.kind);
        let (answer, taint) = (policy::or_denial(answered), input.taint.as_ref());
        let answer = floored(answer, taint, irreversible, released);
        let answer = policy::justified(answer, input.is_justified);
        Outcome::now(&answer, fault)
    }
}

/// The canonical bytes of the document with these members replaced.
fn with_members(json: &Json, other: &[(&str, &Json)]) -> Vec<u8> {
    let mut json = json.clone();
    if let Json::Object(members) = &mut json {
        for (name, value) in other {
            members.insert((*name).to_owned(), (*value).clone());
        }
    }
    canonical::bytes(&json)
}
