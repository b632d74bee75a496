//! Obligations and caps, applied to the bytes that will be released and before they are recorded.
//!
//! Without a mask a result is released as the tool wrote it, byte for byte. With one it is read
//! strictly and written canonically: what two readers could read differently cannot be masked.

use crate::domain::canonical;
use crate::domain::decision::Obligation;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{FailureClass, Outcome};
use crate::firewall;
use crate::ledger::permit::Permit;
use crate::tool::text;

/// The outcome as it may be released: capped and redacted. Over a cap it is a failure, never a cut.
#[must_use]
pub fn apply(permit: &Permit, outcome: Outcome) -> Outcome {
    let cap = permit.prepared().tool().map_or(0, |tool| tool.result_bytes_max);
    apply_to(cap, permit.obligations(), outcome)
}

fn apply_to(cap: u64, obligations: &[Obligation], outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Completed { result, status } => match release(cap, obligations, result) {
            Ok(result) => Outcome::Completed { result, status },
            Err((class, message)) => Outcome::Failed { class, started: true, message },
        },
        Outcome::Failed { .. } | Outcome::Unknown { .. } | Outcome::Cancelled { .. } => outcome,
    }
}

fn release(
    cap: u64,
    obligations: &[Obligation],
    result: Vec<u8>,
) -> Result<Vec<u8>, (FailureClass, String)> {
    let protocol = |message: &str| (FailureClass::Protocol, message.to_owned());
    if !text::is_json(&result) {
        return Err(protocol("the tool's result is not json"));
    }
    let mut masked: Option<Json> = None;
    let mut cap = cap;
    for obligation in obligations {
        match obligation {
            Obligation::Redact { kinds } => {
                if let Some(kind) = kinds.iter().find(|kind| !firewall::is_kind(kind)) {
                    // Nobody can mask what nobody can find; the result stays here.
                    let message = format!("the result must be masked of `{kind}`, an unknown kind");
                    return Err((FailureClass::Protocol, message));
                }
                let value = match masked.take() {
                    Some(value) => value,
                    None => Json::parse(&result, &Limits::FILE).map_err(|_error| {
                        protocol("the result must be masked and is not strict json")
                    })?,
                };
                masked = Some(firewall::redact(&value, kinds));
            }
            Obligation::CapBytes { bytes } => cap = cap.min(*bytes),
        }
    }
    let released = masked.map_or(result, |value| canonical::bytes(&value));
    if u64::try_from(released.len()).unwrap_or(u64::MAX) > cap {
        let message = format!("the result has {} bytes, at most {cap} are allowed", released.len());
        return Err((FailureClass::TooLarge, message));
    }
    Ok(released)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str) -> Outcome {
        Outcome::Completed { result: text.into(), status: "200".into() }
    }

    fn class(outcome: &Outcome) -> Option<FailureClass> {
        if let Outcome::Failed { class, .. } = outcome { Some(*class) } else { None }
    }

    #[test]
    fn over_a_cap_is_a_failure_and_never_a_cut() {
        let text = r#"{"a":"xxxxxxxx"}"#;
        assert_eq!(apply_to(16, &[], completed(text)), completed(text));
        assert_eq!(class(&apply_to(15, &[], completed(text))), Some(FailureClass::TooLarge));
        let cap = [Obligation::CapBytes { bytes: 15 }];
        assert_eq!(class(&apply_to(99, &cap, completed(text))), Some(FailureClass::TooLarge));
        let wider = [Obligation::CapBytes { bytes: 99 }];
        assert_eq!(class(&apply_to(15, &wider, completed(text))), Some(FailureClass::TooLarge));
    }

    #[test]
    fn what_must_be_masked_is_masked_before_it_is_measured() {
        let mail =
            completed(r#"{ "a" : "ann@a-very-long-host-name-of-some-example.example.com" }"#);
        let redact = [Obligation::Redact { kinds: vec!["email".into()] }];
        assert_eq!(apply_to(24, &redact, mail.clone()), completed(r#"{"a":"[REDACTED:email]"}"#));
        let unknown = [Obligation::Redact { kinds: vec!["tarot".into()] }];
        assert_eq!(class(&apply_to(999, &unknown, mail)), Some(FailureClass::Protocol));
    }

    #[test]
    fn without_a_mask_a_result_keeps_its_bytes_and_with_one_it_must_be_strict() {
        let odd = completed(r#"{ "b":1e400, "a":1,"a":2 ,"A":123456789012345678901}"#);
        assert_eq!(apply_to(99, &[], odd.clone()), odd);
        assert_eq!(apply_to(99, &[Obligation::CapBytes { bytes: 99 }], odd.clone()), odd);
        let redact = [Obligation::Redact { kinds: vec!["email".into()] }];
        assert_eq!(class(&apply_to(99, &redact, odd)), Some(FailureClass::Protocol));
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
}
