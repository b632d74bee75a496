//! What a model reads of a fault.

use std::fmt::Write as _;
use std::time::Duration;

use super::answer::Fault;
use crate::domain::code::{Code, Rule};
use crate::domain::decision::LayerReason;
use crate::domain::id::ChainId;
use crate::ledger::permit::Receipt;

/// Reasons after the first that the sentence contains.
const REASONS_MAX: usize = 4;

/// What stands before the number of an entry.
const RECEIPT: &str = " receipt: entry ";
/// What stands before the id of its chain.
const OF_CHAIN: &str = " of chain ";
/// Hex digits of that id.
const CHAIN_DIGITS: usize = 32;

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
            let _ = write!(text, "{RECEIPT}{}{OF_CHAIN}{}.", receipt.seq, receipt.chain);
        }
        text
    }
}

/// The text without the places in a ledger that [`ModelWords::text`] writes. A replay has a ledger of
/// its own, with other places.
#[must_use]
pub fn without_receipts(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(RECEIPT) {
        kept.push_str(before);
        rest = behind_receipt(after).unwrap_or_else(|| {
            kept.push_str(RECEIPT);
            after
        });
    }
    kept.push_str(rest);
    kept
}

/// What follows the place of an entry, if the text begins with one. WHY no search: a text of many
/// beginnings without an end would be searched to its end for each.
fn behind_receipt(text: &str) -> Option<&str> {
    let (seq, rest) = text.split_at_checked(text.find(|c: char| !c.is_ascii_digit())?)?;
    let (chain, rest) = rest.strip_prefix(OF_CHAIN)?.split_at_checked(CHAIN_DIGITS)?;
    let is_place = seq.parse::<u64>().is_ok() && ChainId::parse(chain).is_some();
    rest.strip_prefix('.').filter(|_| is_place)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_receipts_keeps_everything_else() {
        let place = " receipt: entry 12 of chain cec64784d02db0f8751e7fdad2d0e3be.";
        for (text, left) in [
            (format!("Denied.{place}"), "Denied."),
            (format!("a{place} b{place}"), "a b"),
            ("no place".to_owned(), "no place"),
            (" receipt: entry x of chain y.".to_owned(), " receipt: entry x of chain y."),
            (" receipt: entry 1".to_owned(), " receipt: entry 1"),
            (format!(" receipt: entry 1{place}"), " receipt: entry 1"),
        ] {
            assert_eq!(without_receipts(&text), left, "{text}");
        }
        // A long one takes no time that grows with the square of its length.
        let many = " receipt: entry 1 of chain ".repeat(1 << 16);
        assert_eq!(without_receipts(&many), many);
    }
}
