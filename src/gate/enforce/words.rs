//! What a model reads of a fault.

use std::fmt::Write as _;
use std::time::Duration;

use super::answer::Fault;
use crate::domain::code::{Code, Rule};
use crate::domain::decision::LayerReason;
use crate::ledger::permit::Receipt;

/// Reasons after the first that the sentence contains.
const REASONS_MAX: usize = 4;

/// What the sentence for a model is made from.
#[derive(Clone, Copy, Debug)]
pub struct ModelWords<'a> {
    /// The code.
    pub code: Code,
    /// The finer code; may be empty.
    pub detail: &'a str,
    /// What happened this time.
    pub message: &'a str,
    /// Every reason.
    pub reasons: &'a [LayerReason],
    /// When trying again makes sense.
    pub retry_after: Option<Duration>,
    /// Where the ledger records it.
    pub receipt: Option<&'a Receipt>,
}

impl ModelWords<'_> {
    /// What happened, the rule that decided, whether anything ran, and what the model can do now.
    #[must_use]
    pub fn text(&self) -> String {
        let Rule { title, execution, .. } = self.code.rule();
        let mut text = if self.message == self.code.message() {
            title.to_owned()
        } else if self.message.starts_with(title) {
            self.message.to_owned()
        } else {
            format!("{title}: {}", self.message)
        };
        text.push_str(" (");
        let first = self.reasons.first();
        if let Some(reason) = first.filter(|reason| !reason.rule.is_empty()) {
            let _ = write!(text, "rule {}, ", reason.rule);
        }
        let _ = write!(text, "code {}", self.code);
        if !self.detail.is_empty() {
            let _ = write!(text, "/{}", self.detail);
        }
        // Rounded up, so that a caller that waits exactly this long does not come back too early.
        let seconds =
            |wait: Duration| wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        let advice = self.code.advice(self.retry_after.map(seconds));
        let _ = write!(text, "). {}. {}.", execution.as_str(), advice);
        for reason in self.reasons.iter().skip(1).take(REASONS_MAX) {
            let _ = write!(text, " also: {} ({}).", reason.message, reason.rule);
        }
        if let Some(receipt) = self.receipt {
            let _ = write!(text, " receipt: entry {} of chain {}.", receipt.seq, receipt.chain);
        }
        text
    }
}

impl Fault {
    /// As the text of a tool error.
    #[must_use]
    pub fn tool_text(&self) -> String {
        let words = ModelWords {
            code: self.code,
            detail: &self.detail,
            message: &self.message,
            reasons: &self.reasons,
            retry_after: self.retry_after,
            receipt: self.receipt.as_ref(),
        };
        words.text()
    }
}
