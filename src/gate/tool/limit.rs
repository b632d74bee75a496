//! Obligations and size limits, applied to the bytes that will be released, before they are
//! recorded.
//!
//! Without a mask a result is released byte for byte. With a mask it is parsed strictly and written
//! canonically, because text that two readers could read differently cannot be masked. Content that
//! the firewall cannot scan is then withheld, unless the policy allows it by name; a tool's failure
//! message is no exception.

use crate::domain::canonical;
use crate::domain::decision::PolicyObligation;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{AnswerContent, FailureClass, Opaque, Outcome, Redaction, Unmasked};
use crate::firewall;
use crate::ledger::permit::Permit;
use crate::tool::guard::Floor;
use crate::tool::text;

/// Characters of a failure message that are passed on.
pub(super) const MESSAGE_CHARS_MAX: usize = 512;
/// The message that an agent receives in place of a tool's own.
const WITHHELD: &str = "the tool's own words are withheld: the policy masks personal data, and they cannot be looked \
                        through for it";

/// All `redact` obligations of a decision together.
struct Redactor {
    kinds: Vec<String>,
    /// Whether content that cannot be scanned is released too.
    opaque: bool,
}

/// The outcome as it may be released: limited in size and redacted. A result over the limit is a
/// failure, never a cut.
pub(super) fn apply(permit: &Permit, floor: &mut Floor, outcome: Unmasked) -> Outcome {
    let cap = permit.prepared().tool().map_or(0, |tool| tool.result_bytes_max);
    let (outcome, done) = apply_to(cap, (permit.obligations(), floor), outcome);
    permit.observe(|seen| {
        // What left while the call ran was masked before.
        let before = seen.redaction.take().map_or(0, |left| left.masked);
        seen.redaction =
            done.map(|done| Redaction { masked: done.masked.saturating_add(before), ..done });
    });
    outcome
}

fn apply_to(
    cap: u64,
    (obligations, floor): (&[PolicyObligation], &mut Floor),
    outcome: Unmasked,
) -> (Outcome, Option<Redaction>) {
    let redactor = Redactor::of(obligations);
    let mut done = redactor.as_ref().map(|_| Redaction::default());
    let mut masked = |text: String| match (&redactor, &mut done) {
        (Some(redactor), Some(done)) => {
            redactor.masked_message(&text, done).unwrap_or_else(|| WITHHELD.to_owned())
        }
        (_, _) => text,
    };
    let outcome = match outcome {
        Outcome::Completed { result, status } => {
            let status = floor.message(masked(status));
            let released = released(redactor.as_ref(), result, done.as_mut());
            // The configuration is a floor under what the policy masks.
            let released = released.and_then(|bytes| floor.answer(bytes));
            match released.and_then(|bytes| capped(cap, obligations, bytes)) {
                Ok(result) => Outcome::Completed { result, status },
                Err((class, message)) => Outcome::Failed { class, started: true, message },
            }
        }
        Outcome::Failed { class, started, message } => {
            Outcome::Failed { class, started, message: cut(&floor.message(masked(message))) }
        }
        Outcome::Unknown { cause } => Outcome::Unknown { cause: floor.message(masked(cause)) },
        Outcome::Cancelled { reason } => Outcome::Cancelled { reason },
    };
    (outcome, done)
}

type Withheld = (FailureClass, String);

fn protocol(message: &str) -> Withheld {
    (FailureClass::Protocol, message.to_owned())
}

/// The bytes of a result, masked where required.
fn released(
    redactor: Option<&Redactor>,
    content: AnswerContent,
    done: Option<&mut Redaction>,
) -> Result<Vec<u8>, Withheld> {
    let (json, opaque) = content.into_parts();
    if !text::is_json(&json) {
        return Err(protocol("the tool's result is not json"));
    }
    match (redactor, done) {
        (Some(redactor), Some(done)) => redactor.answer(&json, opaque, done),
        (_, _) => Ok(json),
    }
}

fn capped(cap: u64, obligations: &[PolicyObligation], bytes: Vec<u8>) -> Result<Vec<u8>, Withheld> {
    let cap = obligations.iter().filter_map(PolicyObligation::cap).fold(cap, u64::min);
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > cap {
        let message = format!("the result has {} bytes, at most {cap} are allowed", bytes.len());
        return Err((FailureClass::TooLarge, message));
    }
    Ok(bytes)
}

impl Redactor {
    fn of(obligations: &[PolicyObligation]) -> Option<Self> {
        let redacts = obligations.iter().filter_map(PolicyObligation::redacts);
        redacts.fold(None, |redactor: Option<Self>, (kinds, opaque)| {
            let mut redactor = redactor.unwrap_or(Self { kinds: Vec::new(), opaque: true });
            redactor.kinds.extend(kinds.iter().cloned());
            redactor.opaque &= opaque;
            Some(redactor)
        })
    }

    /// A kind that the firewall cannot detect, and therefore cannot mask.
    fn unknown(&self) -> Option<&String> {
        self.kinds.iter().find(|kind| !firewall::is_kind(kind))
    }

    /// The result as it may be released.
    fn answer(
        &self,
        json: &[u8],
        opaque: Option<Opaque>,
        done: &mut Redaction,
    ) -> Result<Vec<u8>, Withheld> {
        if let Some(kind) = self.unknown() {
            let message = format!("the result must be masked of `{kind}`, an unknown kind");
            return Err((FailureClass::Protocol, message));
        }
        done.unscanned = opaque;
        self.pass(done)?;
        let value = Json::parse(json, &Limits::FILE)
            .map_err(|_error| protocol("the result must be masked and is not strict json"))?;
        let Some(masked) = firewall::redact(&value, &self.kinds) else {
            done.unscanned = Some(Opaque::Encoded);
            return Err(withheld(Opaque::Encoded));
        };
        done.unscanned = opaque.or(masked.unscanned.then_some(Opaque::Encoded));
        self.pass(done)?;
        done.masked = masked.masked;
        Ok(canonical::bytes(&masked.value))
    }

    /// Checks whether content that was not scanned may be released.
    fn pass(&self, done: &Redaction) -> Result<(), Withheld> {
        match done.unscanned {
            Some(why) if !self.opaque => Err(withheld(why)),
            Some(_) | None => Ok(()),
        }
    }

    /// The message as it may be passed on; `None` if it may not.
    fn masked_message(&self, text: &str, done: &mut Redaction) -> Option<String> {
        let masked = match self.unknown() {
            Some(_) => None,
            None => firewall::redact_text(text, &self.kinds),
        };
        // The replacement character marks bytes that were not text on arrival.
        let lossy = text.contains(char::REPLACEMENT_CHARACTER);
        let unscanned = lossy || masked.as_ref().is_none_or(|masked| masked.unscanned);
        if unscanned {
            done.unscanned = Some(Opaque::Encoded);
        }
        let masked = masked.filter(|_| self.opaque || !unscanned)?;
        done.masked = done.masked.saturating_add(masked.masked);
        Some(masked.value)
    }
}

fn withheld(why: Opaque) -> Withheld {
    let what = match why {
        Opaque::Binary => "it holds bytes that are no text that the gate reads",
        Opaque::Span => {
            "it is a part of something, and where that begins or ends a finding may be cut in half"
        }
        Opaque::Cut => "its text is cut where there was no more room",
        Opaque::Media => "it holds an image, a sound or a part of an unknown kind",
        Opaque::Encoded => "it holds something encoded that is no text",
    };
    let message = format!(
        "the tool answered, and nothing of that is released: the policy masks personal data, and the answer cannot \
         be looked through: {what}"
    );
    (FailureClass::Opaque, message)
}

/// Cuts a message to the length that is passed on.
///
/// WHY only here, after every mask: a message cut before masking may end within a secret. If
/// masking then removed such an end, an agent could test guesses of how a secret begins.
pub(super) fn cut(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::guarding::ToolGuard;

    fn completed(text: &str) -> Outcome {
        Outcome::Completed { result: text.into(), status: "200".into() }
    }

    fn floor() -> Floor {
        Floor::of(&ToolGuard::default(), false)
    }

    fn apply_to(cap: u64, obligations: &[PolicyObligation], outcome: Outcome) -> Outcome {
        super::apply_to(cap, (obligations, &mut floor()), outcome.again()).0
    }

    fn masking(kind: &str, opaque: bool) -> [PolicyObligation; 1] {
        [PolicyObligation::Redact { kinds: vec![kind.into()], opaque }]
    }

    fn class(outcome: &Outcome) -> Option<FailureClass> {
        if let Outcome::Failed { class, .. } = outcome { Some(*class) } else { None }
    }

    #[test]
    fn over_a_cap_is_a_failure_and_never_a_cut() {
        let text = r#"{"a":"xxxxxxxx"}"#;
        assert_eq!(apply_to(16, &[], completed(text)), completed(text));
        assert_eq!(class(&apply_to(15, &[], completed(text))), Some(FailureClass::TooLarge));
        let cap = [PolicyObligation::CapBytes { bytes: 15 }];
        assert_eq!(class(&apply_to(99, &cap, completed(text))), Some(FailureClass::TooLarge));
        let wider = [PolicyObligation::CapBytes { bytes: 99 }];
        assert_eq!(class(&apply_to(15, &wider, completed(text))), Some(FailureClass::TooLarge));
    }

    #[test]
    fn a_result_is_masked_before_its_size_is_checked() {
        let mail =
            completed(r#"{ "a" : "ann@a-very-long-host-name-of-some-example.example.com" }"#);
        let redact = masking("email", false);
        assert_eq!(apply_to(24, &redact, mail.clone()), completed(r#"{"a":"[REDACTED:email]"}"#));
        let unknown = masking("tarot", false);
        assert_eq!(class(&apply_to(999, &unknown, mail)), Some(FailureClass::Protocol));
    }

    #[test]
    fn without_a_mask_a_result_keeps_its_bytes_and_with_one_it_must_be_strict() {
        let lenient = completed(r#"{ "b":1e400, "a":1,"a":2 ,"A":123456789012345678901}"#);
        assert_eq!(apply_to(99, &[], lenient.clone()), lenient);
        assert_eq!(
            apply_to(99, &[PolicyObligation::CapBytes { bytes: 99 }], lenient.clone()),
            lenient
        );
        let redact = masking("email", false);
        assert_eq!(class(&apply_to(99, &redact, lenient)), Some(FailureClass::Protocol));
        assert_eq!(apply_to(99, &redact, completed(r#"{ "b":1.0 }"#)), completed(r#"{"b":1}"#));
    }

    #[test]
    fn what_is_not_json_is_not_released() {
        for text in ["", "plain", "{\"a\":1}{}"] {
            assert_eq!(class(&apply_to(99, &[], completed(text))), Some(FailureClass::Protocol));
        }
        let lost = Outcome::Unknown { cause: "connection_lost".into() };
        assert_eq!(apply_to(0, &[], lost.clone()), lost);
    }

    #[test]
    fn what_cannot_be_looked_through_is_released_only_by_name_and_the_entry_says_it() {
        let all = [Opaque::Binary, Opaque::Span, Opaque::Cut, Opaque::Media, Opaque::Encoded];
        for why in all {
            let answer = |opaque: bool| {
                let result = AnswerContent::Opaque(br#"{"a":"ann@example.com"}"#.to_vec(), why);
                let outcome = Outcome::Completed { result, status: "ok".into() };
                super::apply_to(999, (&masking("email", opaque), &mut floor()), outcome)
            };
            let (failed, done) = answer(false);
            assert_eq!(class(&failed), Some(FailureClass::Opaque), "{why:?}");
            assert_eq!(done, Some(Redaction { masked: 0, unscanned: Some(why) }));
            let (released, done) = answer(true);
            let masked = br#"{"a":"[REDACTED:email]"}"#.to_vec();
            assert_eq!(released, Outcome::Completed { result: masked, status: "ok".into() });
            assert_eq!(done, Some(Redaction { masked: 1, unscanned: Some(why) }));
        }
    }

    #[test]
    fn a_tools_error_message_is_masked_before_it_is_cut_or_is_withheld() {
        let message_of = |message: &str, opaque: bool| {
            let (class, message) = (FailureClass::ToolError, message.to_owned());
            let failed = Outcome::Failed { class, started: true, message };
            match super::apply_to(999, (&masking("email", opaque), &mut floor()), failed) {
                (Outcome::Failed { message, .. }, Some(done)) => (message, done.unscanned),
                other => panic!("{other:?}"),
            }
        };
        for before in 480..MESSAGE_CHARS_MAX {
            let (shown, unscanned) =
                message_of(&format!("{}ann@example.com", " ".repeat(before)), false);
            assert!(!shown.contains("ann") && unscanned.is_none(), "{shown}");
        }
        let broken = message_of("no \u{fffd} such", false);
        assert_eq!(broken, (WITHHELD.to_owned(), Some(Opaque::Encoded)));
        assert_eq!(message_of("no \u{fffd} such", true).0, "no \u{fffd} such");
        assert_eq!(message_of("no such row", false), ("no such row".to_owned(), None));
    }
}
