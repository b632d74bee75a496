//! Our own credentials in what a tool says: masked always, whatever a policy asks (I6, I9).

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::{ToolExecutor, text};
use crate::catalog::secret::Secret;
use crate::catalog::template;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::Reason;
use crate::domain::effect::Effect;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{FailureClass, Outcome};
use crate::domain::prepared::Hold;
use crate::firewall;
use crate::ledger::permit::Permit;

const MASK: &str = "[REDACTED:credential]";

/// Every credential of this process, in each form it could come back in.
#[derive(Clone, Default)]
pub struct Scrub {
    forms: Arc<[zeroize::Zeroizing<String>]>,
}

impl Scrub {
    /// Prepares to find these secrets: as they are, percent-encoded, in hex, backwards, and inside
    /// base64 of something longer.
    #[must_use]
    pub fn new(secrets: &[Secret]) -> Self {
        let mut forms: Vec<String> = secrets.iter().flat_map(|s| forms(s.expose())).collect();
        // Longest first, so that no part of a longer form is left over.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self { forms: forms.into_iter().map(zeroize::Zeroizing::new).collect() }
    }

    /// Whether any text in the value holds one of the secrets.
    #[must_use]
    pub fn finds(&self, value: &Json) -> bool {
        match value {
            Json::String(text) => self.mask(text).is_some(),
            Json::Int(_) | Json::Float(_) => self.mask(&canonical::text(value)).is_some(),
            Json::Array(items) => items.iter().any(|item| self.finds(item)),
            Json::Object(members) => {
                members.iter().any(|(name, v)| self.mask(name).is_some() || self.finds(v))
            }
            Json::Null | Json::Bool(_) => false,
        }
    }

    /// A text for the operator, with every form of every secret masked.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.mask(text).unwrap_or_else(|| text.to_owned())
    }

    /// Whether a secret stands in this JSON text, or may: as it is written, or in one of its strings.
    fn hides_in(&self, json: &[u8]) -> bool {
        let Ok(written) = std::str::from_utf8(json) else { return true };
        let hides = |text: &str| self.mask(text).is_some();
        hides(written)
            || text::strings(json).any(|string| string.is_none_or(|string| hides(&string)))
    }

    fn mask(&self, text: &str) -> Option<String> {
        let mut masked = None;
        for form in self.forms.iter() {
            let current = masked.as_deref().unwrap_or(text);
            if current.contains(form.as_str()) {
                masked = Some(current.replace(form.as_str(), MASK));
            }
        }
        masked
    }

    /// The outcome with every form of every secret masked.
    #[must_use]
    pub fn apply(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Completed { result, status } if !self.forms.is_empty() => {
                let status = self.text(&status);
                match (Json::parse(&result, &Limits::FILE), self.hides_in(&result)) {
                    (Ok(value), hides) if hides || self.finds(&value) => {
                        let clean = firewall::map_text(&value, &|text| self.mask(text));
                        Outcome::Completed { result: canonical::bytes(&clean), status }
                    }
                    // A clean result keeps its bytes.
                    (_, false) => Outcome::Completed { result, status },
                    (_, true) => Outcome::Failed {
                        class: FailureClass::Protocol,
                        started: true,
                        message: "the tool's result holds a credential and cannot be masked".into(),
                    },
                }
            }
            Outcome::Failed { class, started, message } => {
                let message = self.mask(&message).unwrap_or(message);
                Outcome::Failed { class, started, message }
            }
            Outcome::Completed { .. } | Outcome::Unknown { .. } | Outcome::Cancelled { .. } => {
                outcome
            }
        }
    }
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrub").field("forms", &self.forms.len()).finish()
    }
}

fn forms(secret: &str) -> Vec<String> {
    let mut percent = String::new();
    template::encode(secret, &mut percent);
    let mut percent_lower = String::new();
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            percent_lower.push(char::from(byte));
        } else {
            percent_lower.push_str(&format!("%{byte:02x}"));
        }
    }
    // As JSON inside a text writes it, with and without the escaped slash of some writers.
    let quoted = secret.replace('\\', "\\\\").replace('"', "\\\"");
    let mut out = vec![
        secret.to_owned(),
        quoted.replace('/', "\\/"),
        quoted,
        percent,
        percent_lower,
        hex::encode(secret),
        hex::encode_upper(secret),
        secret.chars().rev().collect(),
    ];
    for shift in 0..3_usize {
        out.extend(base64_core(&STANDARD_NO_PAD, secret, shift));
        out.extend(base64_core(&URL_SAFE_NO_PAD, secret, shift));
    }
    out
}

/// What base64 of any text has in it when the secret starts `shift` bytes after a group of three:
/// the characters that depend on the secret alone.
fn base64_core(
    engine: &base64::engine::GeneralPurpose,
    secret: &str,
    shift: usize,
) -> Option<String> {
    let padded = [vec![0; shift], secret.as_bytes().to_vec()].concat();
    let text = engine.encode(&padded);
    let first = match shift {
        0 => 0,
        1 => 2,
        _ => 3,
    };
    let last = padded.len().checked_mul(8)?.checked_div(6)?;
    text.get(first..last).map(str::to_owned)
}

/// An executor whose every outcome is scrubbed, whoever wrote it.
pub(super) struct Scrubbed {
    pub(super) inner: Arc<dyn ToolExecutor>,
    pub(super) scrub: Scrub,
}

#[async_trait]
impl ToolExecutor for Scrubbed {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, Hold), Vec<Reason>> {
        self.inner.prepare(call)
    }

    async fn execute(&self, permit: &Permit) -> Outcome {
        self.scrub.apply(self.inner.execute(permit).await)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::wildcard_enum_match_arm, reason = "tests may stop at the first surprise")]

    use super::*;
    use proptest::prelude::*;

    const TOKEN: &str = "sk-live/Abc+123=xyz";

    fn scrubbed(value: &Json) -> String {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        let result = canonical::bytes(value);
        match scrub.apply(Outcome::Completed { result, status: "200".into() }) {
            Outcome::Completed { result, .. } => String::from_utf8(result).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_echo_is_masked_in_values_and_names() {
        let echo = Json::object([
            ("body", Json::from(format!("you sent Bearer {TOKEN}!"))),
            (TOKEN, Json::from(1_u64)),
        ]);
        assert_eq!(
            scrubbed(&echo),
            r#"{"[REDACTED:credential]":1,"body":"you sent Bearer [REDACTED:credential]!"}"#
        );
    }

    #[test]
    fn written_for_a_url_or_as_json_in_a_text_it_is_still_found() {
        for form in [
            "k=sk-live%2FAbc%2B123%3Dxyz&",
            "k=sk-live%2fAbc%2b123%3dxyz&",
            r#"{"k":"sk-live\/Abc+123=xyz"}"#,
            "zyx=321+cbA/evil-ks",
        ] {
            let masked = scrubbed(&Json::from(form));
            assert!(
                masked.contains("[REDACTED:credential]") && !masked.contains("Abc"),
                "{masked}"
            );
        }
    }

    #[test]
    fn a_clean_result_keeps_its_bytes_and_one_that_cannot_be_masked_is_a_failure() {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        let apply = |text: &str| {
            scrub.apply(Outcome::Completed { result: text.into(), status: "ok".into() })
        };
        for clean in [r#"{ "b":1.0,"a":1 }"#, r#"{"a":1,"a":1e400}"#] {
            let expected = Outcome::Completed { result: clean.into(), status: "ok".into() };
            assert_eq!(apply(clean), expected);
        }
        let escaped = TOKEN.replace('s', "\\u0073");
        for held in [
            format!(r#"{{"a":1,"a":"{TOKEN}"}}"#),
            format!(r#"{{"a":1,"a":2,"{escaped}":2}}"#),
            r#"{"a":"\ud800"}"#.to_owned(),
        ] {
            assert!(matches!(apply(&held), Outcome::Failed { .. }), "{held}");
        }
    }

    #[test]
    fn clean_text_is_left_alone() {
        let value = Json::object([("a", Json::from("sk-live")), ("n", Json::from(5_u64))]);
        assert_eq!(scrubbed(&value), canonical::text(&value));
        assert!(!Scrub::default().finds(&value));
    }

    proptest! {
        #[test]
        fn base64_of_anything_around_the_secret_is_found(before in "[ -~]{0,9}", after in "[ -~]{0,9}") {
            for encoded in [
                base64::engine::general_purpose::STANDARD.encode(format!("{before}{TOKEN}{after}")),
                URL_SAFE_NO_PAD.encode(format!("{before}{TOKEN}{after}")),
                hex::encode(format!("{before}{TOKEN}{after}")),
            ] {
                let masked = scrubbed(&Json::from(encoded.as_str()));
                prop_assert!(masked.contains("[REDACTED:credential]"), "{}", encoded);
            }
        }
    }
}
