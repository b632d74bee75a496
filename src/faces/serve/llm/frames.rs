//! What the gate itself writes into a stream: comments, signs of life, and the error that ends one.
//! All else is bytes of the road.

use hyper::body::Bytes;

use crate::domain::dialect::Dialect;
use crate::ledger::permit::Receipt;
use crate::serve::dialect::{BegunResponse, spoken};
use crate::serve::problem::{Problem, receipt_line};

/// Seconds of silence after which a client is shown more than a comment.
const PING_AFTER: u32 = 10;

/// What is sent after so many seconds without a part of the answer.
pub(super) fn beat(dialect: Dialect, seconds: u32) -> Bytes {
    let dialect = spoken(dialect);
    let is_long = seconds.is_multiple_of(PING_AFTER);
    Bytes::from_static(if is_long { dialect.ping() } else { dialect.beat() })
}

/// The comment with the receipt of the entry that allows the call, for a client whose headers were
/// sent before.
pub(super) fn authorized(dialect: Dialect, receipt: &str) -> Bytes {
    let comment =
        spoken(dialect).has_comments().then(|| format!(": wicketgate-authorized {receipt}\n\n"));
    comment.unwrap_or_default().into()
}

/// The comment with the receipt of the entry that records the outcome, and the end of the answer.
pub(super) fn last(dialect: Dialect, receipt: &Receipt, end: &[u8]) -> Bytes {
    let comment = || format!(": wicketgate-receipt {}\n\n", receipt_line(receipt));
    let comment = spoken(dialect).has_comments().then(comment);
    let mut bytes = comment.unwrap_or_default().into_bytes();
    bytes.extend_from_slice(end);
    bytes.into()
}

/// The event of an answer that breaks off.
pub(super) fn broken(problem: &Problem, dialect: Dialect, begun: &BegunResponse) -> Bytes {
    problem.llm_frame_of(dialect, begun).into()
}

/// The id of the response that these events begin.
pub(super) fn response_id(events: &[u8]) -> Option<String> {
    data(events).find_map(|event| Some(event.pointer("/response/id")?.as_str()?.to_owned()))
}

/// The number of the event behind these; 0 if they have no numbers.
pub(super) fn next_number(events: &[u8]) -> u64 {
    let numbers = data(events).filter_map(|event| event.get("sequence_number")?.as_u64());
    numbers.last().map_or(0, |number| number.saturating_add(1))
}

/// The data of events, as far as it is JSON.
pub(super) fn data(events: &[u8]) -> impl Iterator<Item = serde_json::Value> {
    let lines = events.split(|byte| *byte == b'\n');
    let data = lines.filter_map(|line| line.strip_prefix(b"data: ".as_slice()));
    data.filter_map(|data| serde_json::from_slice(data).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::dialect::COMMENT;

    #[test]
    fn a_client_of_anthropic_is_shown_a_ping_every_ten_seconds_and_comments_between() {
        let pings = |dialect| (1..=20).filter(|s| beat(dialect, *s) != COMMENT).count();
        assert_eq!(pings(Dialect::Messages), 2);
        assert_eq!(pings(Dialect::Chat) + pings(Dialect::Responses), 0);
        // Space, which is no frame in any of their forms.
        for dialect in [Dialect::Gemini, Dialect::Ollama] {
            assert!((1..=20).all(|s| beat(dialect, s).trim_ascii().is_empty()));
        }
    }

    #[test]
    fn the_event_behind_others_has_the_next_number() {
        let events =
            b"event: a\ndata: {\"sequence_number\":3}\n\ndata: {\"sequence_number\": 4}\n\n";
        assert_eq!(next_number(events), 5);
        assert_eq!(next_number(b"data: {\"delta\":\"x\"}\n\n"), 0);
        assert_eq!(next_number(b""), 0);
    }
}
