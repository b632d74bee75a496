//! The way out: what a tool answered is searched before it is recorded and released.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::excuse::{self, Excuses};
use super::{HitAction, finding, in_words, judged, masks, place, rendered};
use crate::domain::canonical;
use crate::domain::effect::ToolKind;
use crate::domain::guarded::{GuardAction, GuardFinding};
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{Ended, FailureClass, Outcome, Redaction, Unmasked};
use crate::domain::taint::Label;
use crate::firewall::{self, Class, Hit};
use crate::judge::exceptions::{CallExceptions, FindingException};
use crate::judge::guarding::{Direction, FindingMarks, ReadBefore, ToolGuard, secret_kinds};
use crate::ledger::outgoing::ClearedOutcome;
use crate::ledger::permit::Permit;
use crate::tool::{limit, text};

/// Why nothing of an answer is released.
type KeptBack = (FailureClass, String);

/// What may be recorded and released of an outcome: within the limits of its tool, masked as the policy
/// and the configuration say.
pub(in crate::tool) fn release(
    permit: &Permit,
    unmasked: Unmasked,
    (took, attempts): (Duration, u32),
) -> ClearedOutcome {
    let screening = permit.prepared().screening();
    let mut floor = Floor::of(&screening.guard, permit.has_left())
        .marking(&screening.marks)
        .excusing(&screening.exceptions, permit.prepared().call().tool().as_str())
        .after_reading(screening.read.clone());
    // A panic while limiting a result that exists: what may be released is unknown.
    let limited = AssertUnwindSafe(|| limit::apply(permit, &mut floor, unmasked));
    let outcome =
        catch_unwind(limited).unwrap_or_else(|_| Outcome::Unknown { cause: "panic".into() });
    let Floor { findings, masked, withholds, used, .. } = floor;
    let labels = labels(permit, &outcome, &findings);
    permit.observe(|seen| {
        seen.labels = labels;
        if masked > 0 {
            let done = seen.redaction.get_or_insert_with(Redaction::default);
            done.masked = done.masked.saturating_add(masked);
        }
        seen.findings = findings;
        seen.exceptions = excuse::signed(&used);
    });
    ClearedOutcome::of(Ended { outcome, took, attempts }, withholds)
}

/// What the configuration says about one answer, and what it did.
pub(in crate::tool) struct Floor {
    guard: ToolGuard,
    marks: FindingMarks,
    exceptions: CallExceptions,
    tool: String,
    /// The orders by which something of it passes.
    used: Vec<Arc<FindingException>>,
    /// A part of the answer left while the call ran: what left is what is recorded.
    has_left: bool,
    /// The private data that the run had read.
    read: Option<Arc<dyn ReadBefore>>,
    findings: Vec<GuardFinding>,
    masked: u64,
    /// The answer is released with something that is not stored.
    withholds: bool,
}

impl Floor {
    pub fn of(guard: &ToolGuard, has_left: bool) -> Self {
        let marks = FindingMarks::default();
        Self {
            guard: *guard,
            marks,
            exceptions: CallExceptions::default(),
            tool: String::new(),
            used: Vec::new(),
            has_left,
            read: None,
            findings: Vec::new(),
            masked: 0,
            withholds: false,
        }
    }

    /// The same, with marks of what is found.
    pub fn marking(self, marks: &FindingMarks) -> Self {
        Self { marks: marks.clone(), ..self }
    }

    /// The same, with the orders by which values of this tool pass.
    pub fn excusing(self, exceptions: &CallExceptions, tool: &str) -> Self {
        Self { exceptions: Arc::clone(exceptions), tool: tool.to_owned(), ..self }
    }

    /// The same, of a run that had read this.
    pub fn after_reading(self, read: Option<Arc<dyn ReadBefore>>) -> Self {
        Self { read, ..self }
    }

    /// The bytes of an answer as they may be released. A clean answer keeps its bytes.
    pub fn answer(&mut self, json: Vec<u8>) -> Result<Vec<u8>, KeptBack> {
        if self.guard.results.is_off() && !self.looks_at_addresses() {
            return Ok(json);
        }
        if u64::try_from(json.len()).unwrap_or(u64::MAX) > self.guard.results_bytes {
            return self.unsearched(json);
        }
        match Json::parse(&json, &Limits::FILE) {
            Ok(value) => self.value(json, value),
            Err(_) => self.loose(json),
        }
    }

    fn looks_at_addresses(&self) -> bool {
        self.guard.rendered > GuardAction::Off && self.read.is_some()
    }

    /// Notes images and links whose address would carry away what the run had read.
    fn addresses(&mut self, value: &Json) -> Result<(), KeptBack> {
        let Some(read) = self.read.clone().filter(|_| self.looks_at_addresses()) else {
            return Ok(());
        };
        let blocks = self.guard.rendered == GuardAction::Block && !self.has_left;
        // What a run read before a restart is not known: then every query may hold it.
        let any = self.guard.rendered == GuardAction::Block && read.is_unknown();
        let is_copy = |query: &str| any && !query.is_empty() || read.is_copied_in(query);
        let places = rendered::places(value, &is_copy);
        let action = if blocks { GuardAction::Block } else { GuardAction::Warn };
        self.findings.extend(places.iter().map(|path| GuardFinding {
            kind: rendered::KIND,
            class: Class::Injection.as_str(),
            confidence: firewall::Confidence::High.as_str(),
            mark: None,
            exception: None,
            path: place(path),
            action,
        }));
        if places.is_empty() || !blocks {
            return Ok(());
        }
        let message = "the tool answered, and nothing of that is released: an image or a link of the answer carries \
                       private data that the run read to its address (`firewall.rendered`)";
        Err((FailureClass::Withheld, message.to_owned()))
    }

    /// An answer that is searched as what it says.
    fn value(&mut self, json: Vec<u8>, value: Json) -> Result<Vec<u8>, KeptBack> {
        self.addresses(&value)?;
        let hits = firewall::scan(&value);
        let all = self.judge_in(&hits, &value);
        if all.is_empty() {
            return Ok(json);
        }
        // Before anything is kept back: an entry names the order of each finding that it says passes.
        self.used = excuse::used(&all);
        self.keep(&all, &value);
        if let Some(one) = all.iter().find(|one| one.action == GuardAction::Block) {
            return Err(self.kept_back(one, &value));
        }
        let spared = excuse::spared(&all);
        let kinds = masks(&all);
        let mut released = value;
        let mut changed = false;
        if let Some(first) = all.iter().find(|one| one.action == GuardAction::Redact) {
            let done = firewall::redact_sparing(&released, &kinds, &spared);
            let done = done.ok_or_else(|| kept_back(first))?;
            self.masked = self.masked.saturating_add(done.masked);
            (released, changed) = (done.value, true);
        }
        if all.iter().any(|one| one.action == GuardAction::Strip)
            && let Some((stripped, count)) = firewall::strip(&released)
        {
            self.masked = self.masked.saturating_add(count);
            (released, changed) = (stripped, true);
        }
        if !changed {
            self.withholds |= has_secret(&hits);
            return Ok(json);
        }
        // WHY again: a mask is exact, or nothing is released.
        let left = firewall::scan(&released);
        let still = self.judge_in(&left, &released);
        excuse::note(&mut self.used, &still);
        if let Some(one) = still.iter().find(|one| one.action >= GuardAction::Redact) {
            return Err(kept_back(one));
        }
        self.withholds |= has_secret(&left);
        Ok(canonical::bytes(&released))
    }

    /// An answer that the strict reader refuses, so that two readers could read it differently: nothing
    /// in it is masked.
    fn loose(&mut self, json: Vec<u8>) -> Result<Vec<u8>, KeptBack> {
        let whole = Json::from(String::from_utf8_lossy(&json).into_owned());
        let escaped = text::strings(&json).filter(|string| string.contains(&b'\\'));
        let texts = escaped.filter_map(text::read).map(Json::from);
        for value in std::iter::once(whole).chain(texts) {
            self.addresses(&value)?;
            let mut hits = firewall::scan(&value);
            // Such a text has no places.
            hits.iter_mut()
                .filter(|hit| hit.class != Class::Unscanned)
                .for_each(|hit| hit.path.clear());
            let all = self.judge(&hits);
            self.keep(&all, &value);
            if let Some(one) = all.iter().find(|one| one.action >= GuardAction::Redact) {
                return Err(kept_back(one));
            }
            self.withholds |= has_secret(&hits);
        }
        Ok(json)
    }

    /// An answer that is too long to be searched.
    fn unsearched(&mut self, json: Vec<u8>) -> Result<Vec<u8>, KeptBack> {
        let looks = self.guard.rendered == GuardAction::Block && self.read.is_some();
        let blocks = (looks || self.guard.results.secret >= GuardAction::Redact) && !self.has_left;
        let action = if blocks { GuardAction::Block } else { GuardAction::Warn };
        self.findings.push(GuardFinding {
            kind: "unscanned",
            class: Class::Unscanned.as_str(),
            confidence: firewall::Confidence::High.as_str(),
            mark: None,
            path: String::new(),
            action,
            exception: None,
        });
        if !blocks {
            return Ok(json);
        }
        let most = self.guard.results_bytes;
        let message = format!(
            "the tool answered, and nothing of that is released: the answer has more than the {most} bytes that are \
             searched for secrets (`firewall.work.results_bytes`)"
        );
        Err((FailureClass::Withheld, message))
    }

    /// A text of the tool's own beside its answer.
    pub fn message(&mut self, message: String) -> String {
        if self.guard.results.is_off() {
            return message;
        }
        let value = Json::from(message.as_str());
        let hits = firewall::scan(&value);
        let all = self.judge(&hits);
        self.keep(&all, &value);
        let strict = all.iter().filter(|one| one.action >= GuardAction::Redact);
        let mut kinds: Vec<String> = strict.map(|one| one.hit.kind.to_owned()).collect();
        // WHY every secret: the message is in the entry itself, which no erasure reaches.
        if has_secret(&hits) {
            kinds.extend_from_slice(secret_kinds());
        }
        if kinds.is_empty() {
            return message;
        }
        let done = firewall::redact_text(&message, &kinds);
        done.map_or_else(|| "[REDACTED]".to_owned(), |done| done.value)
    }

    fn judge<'a>(&self, found: &'a [Hit]) -> Vec<HitAction<'a>> {
        let mut all = judged(&self.guard, Direction::Results, found);
        if self.has_left {
            all.iter_mut().for_each(|one| one.action = one.action.min(GuardAction::Warn));
        }
        all
    }

    /// The same of a document with places, where values pass by order.
    fn judge_in<'a>(&self, found: &'a [Hit], document: &Json) -> Vec<HitAction<'a>> {
        let mut all = self.judge(found);
        let Self { marks, exceptions, .. } = self;
        Excuses { direction: Direction::Results, marks, exceptions }.apply(&mut all, document);
        all
    }

    /// The same as [`kept_back`], with how a person lets the value pass.
    fn kept_back(&self, one: &HitAction<'_>, document: &Json) -> KeptBack {
        let Self { marks, exceptions, tool, .. } = self;
        let excuses = Excuses { direction: Direction::Results, marks, exceptions };
        let (class, message) = kept_back(one);
        // WHY no mark: an agent that sees the mark of a value it must not have could guess the value, call by
        // call.
        let way = excuses.way(one, document, tool).map(|_| {
            "; an operator can allow this one value: the entry of this call has its kind, place and mark \
             (`data.observed.findings`), see `wicketgate control finding allow --help`"
        });
        (class, message + way.unwrap_or_default())
    }

    fn keep(&mut self, all: &[HitAction<'_>], document: &Json) {
        let Self { findings, marks, .. } = self;
        findings.extend(all.iter().map(|one| finding(one, (marks, document))));
    }
}

/// The labels that an answer brings into its run: those of its tool, and those of what was found in it and
/// is released.
fn labels(permit: &Permit, outcome: &Outcome, findings: &[GuardFinding]) -> Vec<Label> {
    let is_of_tool = match outcome {
        Outcome::Completed { .. } => true,
        // The message of such a failure is the tool's own.
        Outcome::Failed { class, .. } => *class == FailureClass::ToolError,
        Outcome::Unknown { .. } | Outcome::Cancelled { .. } => false,
    };
    let Some(tool) = permit.prepared().tool().filter(|_| is_of_tool) else { return Vec::new() };
    let released = findings.iter().filter(|one| one.action <= GuardAction::Warn);
    let by_class = [
        (Class::Secret, Label::Secret),
        (Class::Personal, Label::Personal),
        (Class::Injection, Label::Untrusted),
    ];
    let found = released.filter_map(|one| {
        by_class.iter().find(|(class, _)| class.as_str() == one.class).map(|(_, label)| *label)
    });
    // What a model says follows from what its run has read.
    let found = found.filter(|_| tool.kind != ToolKind::Model.as_str());
    let all: BTreeSet<Label> = tool.roles.labels().chain(found).collect();
    all.into_iter().collect()
}

fn has_secret(hits: &[Hit]) -> bool {
    hits.iter().any(|hit| hit.class == Class::Secret)
}

fn kept_back(one: &HitAction<'_>) -> KeptBack {
    let message = format!(
        "the tool answered, and nothing of that is released: the answer holds {}, which the configuration keeps back \
         and no mask covers exactly",
        in_words(one)
    );
    (FailureClass::Withheld, message)
}
