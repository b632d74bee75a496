//! Obligations and caps, applied to the bytes that will be released and before they are recorded.

use crate::domain::canonical;
use crate::domain::decision::Obligation;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{FailureClass, Outcome};
use crate::firewall;
use crate::ledger::permit::Permit;

/// The outcome as it may be released: capped and redacted. Over a cap it is a failure, never a cut.
#[must_use]
pub fn apply(permit: &Permit, outcome: Outcome) -> Outcome {
    let cap = permit.prepared().tool().map_or(0, |tool| tool.result_bytes_max);
    apply_to(cap, permit.obligations(), outcome)
}

fn apply_to(cap: u64, obligations: &[Obligation], outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Completed { result, status } => match release(cap, obligations, &result) {
            Ok(result) => Outcome::Completed { result, status },
            Err((class, message)) => Outcome::Failed { class, started: true, message },
        },
        Outcome::Failed { .. } | Outcome::Unknown { .. } | Outcome::Cancelled { .. } => outcome,
    }
}

fn release(
    cap: u64,
    obligations: &[Obligation],
    result: &[u8],
) -> Result<Vec<u8>, (FailureClass, String)> {
    let mut value = Json::parse(result, &Limits::FILE).map_err(|_error| {
        (FailureClass::Protocol, "the tool's result is not strict json".to_owned())
    })?;
    let mut cap = cap;
    for obligation in obligations {
        match obligation {
            Obligation::Redact { kinds } => {
                if let Some(kind) = kinds.iter().find(|kind| !firewall::is_kind(kind)) {
                    // Nobody can mask what nobody can find; the result stays here.
                    let message = format!("the result must be masked of `{kind}`, an unknown kind");
                    return Err((FailureClass::Protocol, message));
                }
                value = firewall::redact(&value, kinds);
            }
            Obligation::CapBytes { bytes } => cap = cap.min(*bytes),
        }
    }
    let released = canonical::bytes(&value);
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
    fn what_is_not_json_is_not_released() {
        assert_eq!(
            class(&apply_to(99, &[], completed("{\"a\":1,\"a\":2}"))),
            Some(FailureClass::Protocol)
        );
        let lost = Outcome::Unknown { cause: "connection_lost".into() };
        assert_eq!(apply_to(0, &[], lost.clone()), lost);
    }
}
