//! The closed decision document: exactly this shape, or no answer.

use std::collections::BTreeSet;

use regorus::Value;

use super::places::SpeakingRules;
use super::{Answer, EngineError};
use crate::domain::code::Code;
use crate::domain::decision::{CallRate, LayerReason, NotifyTarget, PolicyObligation, Verdict};

const REASONS_MAX: usize = 32;
const MESSAGE_CHARS_MAX: usize = 512;
const KINDS_MAX: usize = 64;

/// The rule name of the composition library's own decisions.
const LIBRARY: &str = "wicketgate.decision";
/// Its reason against a T3 call whose binding the manifest does not accept.
const TIER3_BINDING: &str = "tier3_binding";

fn malformed(why: impl Into<String>) -> EngineError {
    EngineError::Document(why.into())
}

/// Reads `data.wicketgate.decision` or `data.wicketgate.binding`.
///
/// Reasons beyond 32 and characters of a message beyond 512 are dropped: the verdict stands without
/// them and an entry stays small.
pub(super) fn read(
    document: &Value,
    speaking_rules: &SpeakingRules,
) -> Result<Answer, EngineError> {
    if document == &Value::Undefined {
        return Err(EngineError::Undefined);
    }
    let [verdict, reasons, obligations] =
        members(document, ["verdict", "reasons", "obligations"], "the decision")?;
    let verdict = match text(verdict, "`verdict`")? {
        "allow" => Verdict::Allow,
        "deny" => Verdict::Deny,
        "require_approval" => Verdict::RequireApproval,
        _ => return Err(malformed("unknown verdict")),
    };
    let listed = list(reasons, "`reasons`")?;
    let mut reasons = Vec::with_capacity(listed.len().min(REASONS_MAX));
    for reason in listed.into_iter().take(REASONS_MAX) {
        reasons.push(read_reason(reason, verdict, speaking_rules)?);
    }
    let obligations = read_obligations(list(obligations, "`obligations`")?)?;
    match verdict {
        Verdict::Allow if !reasons.is_empty() => Err(malformed("an allow with reasons")),
        Verdict::Deny if !obligations.is_empty() => Err(malformed("a deny with obligations")),
        Verdict::Deny | Verdict::RequireApproval if reasons.is_empty() => {
            Err(malformed("a refusal without a reason"))
        }
        Verdict::Allow | Verdict::Deny | Verdict::RequireApproval => {
            Ok(Answer { verdict, reasons, obligations, enforced: true })
        }
    }
}

fn read_reason(
    value: &Value,
    verdict: Verdict,
    speaking_rules: &SpeakingRules,
) -> Result<LayerReason, EngineError> {
    let [code, message, rule] = members(value, ["code", "message", "rule"], "a reason")?;
    let (detail, message) = (text(code, "`code`")?, text(message, "`message`")?);
    let rule = text(rule, "`rule`")?;
    if !is_word(detail) {
        return Err(malformed("the code of a reason is [a-z0-9_.-]{1,64}"));
    }
    let code = match verdict {
        // Only the library uses this rule name; a layer's reason names the layer's.
        Verdict::Deny if rule == LIBRARY && detail == TIER3_BINDING => Code::BindingInsufficient,
        Verdict::RequireApproval => Code::CallHeld,
        Verdict::Deny | Verdict::Allow => Code::PolicyDenied,
    };
    let rule = speaking_rules.name(rule, detail, message);
    let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
    Ok(LayerReason { code, detail: detail.to_owned(), message, rule })
}

/// What the obligations of a decision come to: of each kind the strictest.
#[derive(Default)]
struct Duties {
    redact: BTreeSet<String>,
    /// The same for the arguments.
    arguments: BTreeSet<String>,
    /// Whether a `redact` withholds results that cannot be scanned.
    closed: bool,
    cap: Option<u64>,
    days: Option<u64>,
    rates: BTreeSet<CallRate>,
    notify: BTreeSet<NotifyTarget>,
    justify: bool,
}

/// One obligation of each kind: every kind of finding named, the smallest size, the longest time,
/// every receiver. Unscannable results are released only if every `redact` says so. Rates are no
/// stricter or laxer than each other, so each stays.
fn read_obligations(values: Vec<&Value>) -> Result<Vec<PolicyObligation>, EngineError> {
    let mut duties = Duties::default();
    values.into_iter().try_for_each(|value| duties.add(value))?;
    Ok(duties.into_list())
}

impl Duties {
    fn add(&mut self, value: &Value) -> Result<(), EngineError> {
        let kind = value.as_object().ok().and_then(|o| o.get(&Value::from("type")));
        match text(kind.unwrap_or(&Value::Undefined), "the `type` of an obligation")? {
            "redact" => self.add_redact(value)?,
            "cap_bytes" => {
                let [_, bytes] = members(value, ["type", "bytes"], "`cap_bytes`")?;
                let bytes = bytes.as_u64().map_err(|_| malformed("`bytes` is no whole number"))?;
                self.cap = Some(self.cap.map_or(bytes, |least| least.min(bytes)));
            }
            "enhanced_audit" => {
                let [_, days] = members(value, ["type", "days"], "`enhanced_audit`")?;
                let days = whole(days, "days", PolicyObligation::DAYS_MAX)?;
                self.days = self.days.max(Some(days));
            }
            "rate_limit" => {
                let [_, calls, seconds] =
                    members(value, ["type", "calls", "seconds"], "`rate_limit`")?;
                let calls = whole(calls, "calls", PolicyObligation::CALLS_MAX)?;
                let seconds = whole(seconds, "seconds", PolicyObligation::SECONDS_MAX)?;
                self.rates.insert(CallRate { calls, seconds });
                if self.rates.len() > PolicyObligation::RATES_MAX {
                    return Err(malformed("more than 8 different `rate_limit` obligations"));
                }
            }
            "notify" => {
                let [_, to] = members(value, ["type", "to"], "`notify`")?;
                let to = NotifyTarget::parse(text(to, "`to`")?);
                let to = to.ok_or_else(|| malformed("`to` of `notify` is `owner` or `webhook`"))?;
                self.notify.insert(to);
            }
            "justify" => {
                let [_] = members(value, ["type"], "`justify`")?;
                self.justify = true;
            }
            _ => return Err(malformed("unknown obligation")),
        }
        Ok(())
    }

    fn add_redact(&mut self, value: &Value) -> Result<(), EngineError> {
        let RedactDuty { kinds, opaque, arguments } = RedactDuty::read(value)?;
        self.closed |= !arguments && !opaque;
        let all = if arguments { &mut self.arguments } else { &mut self.redact };
        for kind in list(kinds, "`kinds`")? {
            all.insert(text(kind, "a kind")?.to_owned());
        }
        let fits = (1..=KINDS_MAX).contains(&all.len());
        if !fits || !all.iter().all(|k| is_word(k)) {
            return Err(malformed("the kinds of `redact` are one to 64 of [a-z0-9_.-]{1,64}"));
        }
        Ok(())
    }

    /// In the order of entries.
    fn into_list(self) -> Vec<PolicyObligation> {
        let Self { redact, arguments, closed, cap, days, rates, notify, justify } = self;
        let redact = (!redact.is_empty()).then(|| PolicyObligation::Redact {
            kinds: redact.into_iter().collect(),
            opaque: !closed,
        });
        let notify = (!notify.is_empty())
            .then(|| PolicyObligation::Notify { to: notify.into_iter().collect() });
        let arguments = (!arguments.is_empty())
            .then(|| PolicyObligation::RedactArguments { kinds: arguments.into_iter().collect() });
        redact
            .into_iter()
            .chain(arguments)
            .chain(cap.map(|bytes| PolicyObligation::CapBytes { bytes }))
            .chain(days.map(|days| PolicyObligation::EnhancedAudit { days }))
            .chain(rates.into_iter().map(PolicyObligation::RateLimit))
            .chain(notify)
            .chain(justify.then_some(PolicyObligation::Justify))
            .collect()
    }
}

/// A whole number from 1 to `most`.
fn whole(value: &Value, name: &str, most: u64) -> Result<u64, EngineError> {
    let number = value.as_u64().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| malformed(format!("`{name}` is no whole number from 1 to {most}")))
}

/// What a `redact` says.
struct RedactDuty<'a> {
    kinds: &'a Value,
    /// Whether it releases results that cannot be scanned.
    opaque: bool,
    /// Whether it masks the arguments.
    arguments: bool,
}

impl<'a> RedactDuty<'a> {
    fn read(value: &'a Value) -> Result<Self, EngineError> {
        let (kinds, opaque, part) = match (has(value, "opaque"), has(value, "where")) {
            (false, false) => {
                let [_, kinds] = members(value, ["type", "kinds"], "`redact`")?;
                (kinds, None, None)
            }
            (true, false) => {
                let [_, kinds, opaque] = members(value, ["type", "kinds", "opaque"], "`redact`")?;
                (kinds, Some(opaque), None)
            }
            (false, true) => {
                let [_, kinds, part] = members(value, ["type", "kinds", "where"], "`redact`")?;
                (kinds, None, Some(part))
            }
            (true, true) => {
                let names = ["type", "kinds", "opaque", "where"];
                let [_, kinds, opaque, part] = members(value, names, "`redact`")?;
                (kinds, Some(opaque), Some(part))
            }
        };
        let arguments = match part.map(|part| text(part, "`where`")).transpose()? {
            None | Some("result") => false,
            Some("arguments") => true,
            Some(_) => {
                let why = "`where` of `redact` is `arguments`, `result` or absent";
                return Err(malformed(why));
            }
        };
        let opaque = match opaque.map(|opaque| text(opaque, "`opaque`")).transpose()? {
            None => false,
            Some("allow") if !arguments => true,
            Some("allow") => {
                let why = "`opaque` of `redact` is about results, and `where` is `arguments`";
                return Err(malformed(why));
            }
            Some(_) => return Err(malformed("`opaque` of `redact` is `allow` or absent")),
        };
        Ok(Self { kinds, opaque, arguments })
    }
}

fn has(value: &Value, member: &str) -> bool {
    value.as_object().is_ok_and(|object| object.contains_key(&Value::from(member)))
}

/// The values of exactly these members.
fn members<'a, const N: usize>(
    value: &'a Value,
    names: [&str; N],
    what: &str,
) -> Result<[&'a Value; N], EngineError> {
    let object = value.as_object().map_err(|_| malformed(format!("{what} is no object")))?;
    if object.len() != N {
        return Err(malformed(format!("{what} has other members than `{}`", names.join("`, `"))));
    }
    let mut found = [value; N];
    for (slot, name) in found.iter_mut().zip(names) {
        let member = object.get(&Value::from(name));
        *slot = member.ok_or_else(|| malformed(format!("{what} has no `{name}`")))?;
    }
    Ok(found)
}

fn text<'a>(value: &'a Value, what: &str) -> Result<&'a str, EngineError> {
    if let Value::String(text) = value {
        Ok(text)
    } else {
        Err(malformed(format!("{what} is no text")))
    }
}

fn list<'a>(value: &'a Value, what: &str) -> Result<Vec<&'a Value>, EngineError> {
    match value {
        Value::Array(items) => Ok(items.iter().collect()),
        Value::Set(items) => Ok(items.iter_sorted().collect()),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)
        | Value::Undefined => Err(malformed(format!("{what} is no list"))),
    }
}

pub(super) fn is_word(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_json(text: &str) -> Result<Answer, EngineError> {
        read(&Value::from_json_str(text).unwrap(), &SpeakingRules::default())
    }

    #[test]
    fn anything_but_the_exact_document_is_no_answer() {
        for text in [
            "[]",
            "null",
            "true",
            "{}",
            r#"{"verdict":"allow"}"#,
            r#"{"verdict":"Allow","reasons":[],"obligations":[]}"#,
            r#"{"verdict":true,"reasons":[],"obligations":[]}"#,
            r#"{"verdict":"allow","reasons":[],"obligations":[],"extra":1}"#,
            r#"{"verdict":"allow","reasons":{},"obligations":[]}"#,
            r#"{"verdict":"deny","reasons":[],"obligations":[]}"#,
            r#"{"verdict":"require_approval","reasons":[],"obligations":[]}"#,
            r#"{"verdict":"allow","reasons":[],"obligations":[{"type":"email"}]}"#,
            r#"{"verdict":"allow","reasons":[],"obligations":[{"type":"cap_bytes","bytes":"1"}]}"#,
            r#"{"verdict":"allow","reasons":[],"obligations":[{"type":"cap_bytes","bytes":-1}]}"#,
            r#"{"verdict":"allow","reasons":[],"obligations":[{"type":"cap_bytes","bytes":1,"x":1}]}"#,
            r#"{"verdict":"allow","reasons":[],"obligations":[{"type":"redact","kinds":[]}]}"#,
            r#"{"verdict":"allow","reasons":[],"obligations":[{"type":"redact","kinds":[1]}]}"#,
            r#"{"verdict":"deny","reasons":[{"code":"A B","message":"m","rule":"r"}],"obligations":[]}"#,
        ] {
            assert!(matches!(read_json(text), Err(EngineError::Document(_))), "{text}");
        }
        assert_eq!(read(&Value::Undefined, &SpeakingRules::default()), Err(EngineError::Undefined));
    }

    #[test]
    fn other_obligations_of_one_kind_become_the_strictest_too_and_rates_all_stay() {
        let answer = read_json(
            r#"{"verdict":"allow","reasons":[],"obligations":[
                {"type":"justify"},{"type":"notify","to":"webhook"},{"type":"notify","to":"owner"},
                {"type":"enhanced_audit","days":9},{"type":"enhanced_audit","days":400},{"type":"justify"},
                {"type":"rate_limit","calls":2,"seconds":60},{"type":"rate_limit","calls":1,"seconds":5},
                {"type":"rate_limit","calls":2,"seconds":60}]}"#,
        );
        let rate = |calls, seconds| PolicyObligation::RateLimit(CallRate { calls, seconds });
        let to = vec![NotifyTarget::Owner, NotifyTarget::Webhook];
        let wanted = [
            PolicyObligation::EnhancedAudit { days: 400 },
            rate(1, 5),
            rate(2, 60),
            PolicyObligation::Notify { to },
            PolicyObligation::Justify,
        ];
        assert_eq!(answer.unwrap().obligations, wanted);
    }

    #[test]
    fn obligations_of_one_kind_become_the_strictest_one() {
        let answer = read_json(
            r#"{"verdict":"allow","reasons":[],"obligations":[
                {"type":"cap_bytes","bytes":9},{"type":"redact","kinds":["iban"]},
                {"type":"cap_bytes","bytes":5},{"type":"redact","kinds":["email","iban"]}]}"#,
        )
        .unwrap();
        let kinds = vec!["email".to_owned(), "iban".to_owned()];
        assert_eq!(
            answer.obligations,
            [
                PolicyObligation::Redact { kinds, opaque: false },
                PolicyObligation::CapBytes { bytes: 5 }
            ]
        );
    }

    #[test]
    fn what_is_masked_in_arguments_is_an_obligation_of_its_own() {
        let answer = read_json(
            r#"{"verdict":"allow","reasons":[],"obligations":[
                {"type":"redact","kinds":["iban"],"where":"arguments"},
                {"type":"redact","kinds":["card"],"where":"result","opaque":"allow"},
                {"type":"redact","kinds":["email"],"where":"arguments"}]}"#,
        )
        .unwrap();
        let named = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let wanted = [
            PolicyObligation::Redact { kinds: named(&["card"]), opaque: true },
            PolicyObligation::RedactArguments { kinds: named(&["email", "iban"]) },
        ];
        assert_eq!(answer.obligations, wanted);
        for wrong in [
            r#""where":"both""#,
            r#""where":1"#,
            r#""where":"arguments","opaque":"allow""#,
            r#""where":"arguments","x":1"#,
        ] {
            let duty = format!(r#"{{"type":"redact","kinds":["iban"],{wrong}}}"#);
            let text = format!(r#"{{"verdict":"allow","reasons":[],"obligations":[{duty}]}}"#);
            assert!(matches!(read_json(&text), Err(EngineError::Document(_))), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_looked_through_is_allowed_by_every_redact_or_not_at_all() {
        let opaque = |obligations: &str| {
            let text =
                format!(r#"{{"verdict":"allow","reasons":[],"obligations":[{obligations}]}}"#);
            match read_json(&text).map(|answer| answer.obligations) {
                Ok(obligations) => match obligations.as_slice() {
                    [PolicyObligation::Redact { opaque, .. }] => Some(*opaque),
                    other => panic!("{other:?}"),
                },
                Err(EngineError::Document(_)) => None,
                Err(other) => panic!("{other:?}"),
            }
        };
        let allows = r#"{"type":"redact","kinds":["email"],"opaque":"allow"}"#;
        let strict = r#"{"type":"redact","kinds":["iban"]}"#;
        assert_eq!(opaque(allows), Some(true));
        assert_eq!(opaque(strict), Some(false));
        assert_eq!(opaque(&format!("{allows},{strict}")), Some(false));
        assert_eq!(opaque(&format!("{strict},{allows}")), Some(false));
        for value in ["\"deny\"", "true", "null", "[\"allow\"]", "\"allow\",\"x\":1"] {
            let arguments = format!(r#"{{"type":"redact","kinds":["email"],"opaque":{value}}}"#);
            assert_eq!(opaque(&arguments), None, "{arguments}");
        }
    }
}
