//! The log line of a decision: one per decision, once its entry is durable. It has names and codes,
//! never arguments.

use tracing::Span;

use super::Road;
use super::run::Run;
use crate::domain::decision::Decision;
use crate::domain::id::{CallId, ToolName};
use crate::ledger::permit::Committed;
use crate::telemetry::trace;

/// The fields that the line takes from a decision: its first reason and the deciding rule.
pub(super) struct DecisionLine {
    code: &'static str,
    detail: String,
    rule: String,
}

impl DecisionLine {
    pub(super) fn of(decision: &Decision) -> Self {
        let first = decision.reasons.first();
        let rule = first.map(|reason| reason.rule.as_str()).or(decision.ground.as_deref());
        Self {
            code: first.map_or("", |reason| reason.code.as_str()),
            detail: first.map(|reason| reason.detail.clone()).unwrap_or_default(),
            rule: rule.unwrap_or_default().to_owned(),
        }
    }

    /// The target `wicketgate::decision` distinguishes this line from other log lines.
    fn write(self, run: &Run, (call, tool): (&CallId, &ToolName), made: &Committed) {
        let Self { code, detail, rule } = self;
        let receipt = made.receipt();
        tracing::info!(
            target: "wicketgate::decision",
            run = %run.id(), agent = run.agent(), %call, %tool,
            verdict = made.verdict().as_str(), enforced = made.enforced(),
            code, detail, rule, chain = %receipt.chain, seq = receipt.seq,
            "call decided"
        );
    }
}

impl Road {
    /// Reports a decision to logs, metrics and traces.
    pub(super) fn made(
        &self,
        line: DecisionLine,
        made: &Committed,
        run: &Run,
        (call, tool): (&CallId, &ToolName),
        span: &Span,
    ) {
        line.write(run, (call, tool), made);
        let verdict = made.verdict().as_str();
        self.metrics.call(tool.as_str(), verdict, made.enforced());
        trace::verdict(span, verdict);
    }
}
