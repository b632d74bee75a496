//! What gates report of an order, as the operator API passes it on.

use serde::Deserialize;

use super::say;
use crate::operator::api::replies::{GateReport, SilentGate};
use crate::operator::visible;

/// What a gate did about an order. Members that reports of its kind do not have are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReportedAction {
    /// Why the order was not applied.
    pub error: Option<String>,
    /// The code of that.
    pub code: String,
    /// The finer code of a refusal.
    pub detail: String,
    /// Why it was not counted.
    pub message: String,
    /// Whether the gate knows the name that the order is about.
    pub known: Option<bool>,
    /// Names that are near to it.
    pub near: Vec<String>,
    /// The id of the call that was proposed.
    pub asked: Option<String>,
    /// The state of the call that was proposed or decided.
    pub call: String,
    /// Whether a signature was counted.
    pub counted: Option<bool>,
    /// How many approvals the bundle has.
    pub approvals: u64,
    /// How many it needs.
    pub needed: u64,
    /// Whether the bundle is in force.
    pub activated: bool,
    /// The bundle.
    pub bundle: String,
    /// The layers that the bundle changes.
    pub changed: Vec<String>,
    /// The agents that it is for.
    pub agents: Vec<String>,
    /// What speaks against it.
    pub findings: Vec<String>,
    /// How many calls were stopped.
    pub stopped_count: u64,
    /// The first of them.
    pub stopped: Vec<Stopped>,
    /// How many runs were ended.
    pub runs_sealed: u64,
    /// How many calls are still running.
    pub left: u64,
}

/// A call that an order stopped.
#[derive(Debug, Deserialize)]
pub struct Stopped {
    /// Its run.
    pub run: String,
    /// The call.
    pub call: String,
    /// How it was stopped.
    pub how: String,
}

impl ReportedAction {
    /// A gate's report; `None` if it has another form.
    pub fn of(report: &GateReport) -> Option<Self> {
        Self::deserialize(&report.done).ok()
    }

    /// Why a signature was not counted, or a call not decided.
    pub fn why(&self) -> String {
        visible([self.detail.as_str(), self.message.as_str()].join(" ").trim())
    }
}

/// Prints each gate's report, with this function.
pub fn print_each(gates: &[GateReport], print: impl Fn(&str, &ReportedAction)) {
    for report in gates {
        let origin = visible(&report.origin);
        match ReportedAction::of(report) {
            Some(done) => print(&origin, &done),
            None => say(format!("  {origin}: {}", visible(&report.done.to_string()))),
        }
    }
}

/// Prints the gates without a report.
pub fn print_silent(gates: &[SilentGate]) {
    for SilentGate { origin, last_seen } in gates {
        let (origin, seen) = (visible(origin), visible(last_seen));
        say(format!("  {origin}: NOT REACHED, last seen {seen}"));
    }
}

/// Texts in one line, safe to print on a terminal.
pub fn joined(texts: &[String]) -> String {
    texts.iter().map(|text| visible(text)).collect::<Vec<_>>().join(", ")
}

/// A text or an empty one, safe to print on a terminal.
pub fn shown(text: Option<&String>) -> String {
    text.map(|text| visible(text)).unwrap_or_default()
}
