//! A decision in the form of entries, shared by the gate, the audit and the replay.

use super::call::{self, AgentHeader, Layer, Release};
use super::{List, TaggedDigest, Text, True};
use crate::domain::call::{CallerAuth, DialectRequest};
use crate::domain::decision::{CallRate, LayerDigest, LayerReason, PolicyObligation};
use crate::domain::effect::AskFacts;

impl From<&CallerAuth> for call::Auth {
    fn from(auth: &CallerAuth) -> Self {
        Self {
            account: auth.account.as_deref().map(Text::from),
            certificate: auth.certificate.as_deref().and_then(TaggedDigest::parse),
            method: auth.method.as_str().into(),
            spiffe: auth.spiffe.as_deref().map(Text::from),
            token: auth.token.as_deref().map(Text::from),
            uid: auth.uid.map(Into::into),
        }
    }
}

impl From<&call::Auth> for CallerAuth {
    fn from(auth: &call::Auth) -> Self {
        Self {
            method: auth.method.to_string(),
            uid: auth.uid.and_then(|uid| u32::try_from(uid.get()).ok()),
            token: auth.token.as_ref().map(ToString::to_string),
            certificate: auth.certificate.map(|digest| digest.to_string()),
            spiffe: auth.spiffe.as_ref().map(ToString::to_string),
            account: auth.account.as_ref().map(ToString::to_string),
        }
    }
}

impl From<&DialectRequest> for call::AskedIn {
    fn from(request: &DialectRequest) -> Self {
        let DialectRequest { dialect, operation, beta, headers, facts: _, reading: _ } = request;
        let header = |(name, value): &(String, String)| AgentHeader {
            name: name.into(),
            value: value.into(),
        };
        let headers = List::some(headers.iter().map(header));
        Self { beta: True::when(*beta), dialect: *dialect, headers, operation: *operation }
    }
}

impl From<&call::AskedIn> for DialectRequest {
    /// The same form. Facts are not recorded.
    fn from(form: &call::AskedIn) -> Self {
        let call::AskedIn { beta, dialect, headers, operation } = form;
        let header = |one: &AgentHeader| (one.name.to_string(), one.value.to_string());
        let headers = headers.iter().flat_map(|all| all.iter()).map(header).collect();
        let (beta, facts) = (beta.is_some(), AskFacts::default());
        Self { dialect: *dialect, operation: *operation, beta, headers, facts, reading: None }
    }
}

/// Reasons kept in an entry.
const REASONS_MAX: usize = 16;

/// The rule in an entry: that of the first reason.
pub fn rule(reasons: &[LayerReason]) -> Option<Text> {
    reasons.first().map(|reason| Text::clip(&reason.rule, 200))
}

/// The rule in the entry of an allow, which has no reasons.
pub fn ground(rule: &str) -> Text {
    Text::clip(rule, 200)
}

/// The reasons of a decision.
pub fn reasons(list: &[LayerReason]) -> List<call::Reason> {
    let one = |reason: &LayerReason| call::Reason {
        code: reason.code.as_str().into(),
        detail: Text::clip(&reason.detail, 128),
        message: Text::clip(&reason.message, 512),
        rule: Text::clip(&reason.rule, 200),
    };
    list.iter().take(REASONS_MAX).map(one).collect()
}

/// The obligations of a decision.
pub fn obligations(list: &[PolicyObligation]) -> List<call::Obligation> {
    list.iter().map(obligation).collect()
}

fn obligation(obligation: &PolicyObligation) -> call::Obligation {
    let own = call::Obligation { r#type: obligation.name().into(), ..call::Obligation::default() };
    match obligation {
        PolicyObligation::Redact { kinds, opaque } => call::Obligation {
            kinds: Some(kinds.iter().map(|kind| kind.as_str().into()).collect()),
            opaque: opaque.then_some(Release::Allow),
            ..own
        },
        PolicyObligation::RedactArguments { kinds } => call::Obligation {
            kinds: Some(kinds.iter().map(|kind| kind.as_str().into()).collect()),
            r#where: Some(call::RedactedPart::Arguments),
            ..own
        },
        PolicyObligation::CapBytes { bytes } => {
            call::Obligation { bytes: Some((*bytes).into()), ..own }
        }
        PolicyObligation::EnhancedAudit { days } => {
            call::Obligation { days: Some((*days).into()), ..own }
        }
        PolicyObligation::RateLimit(CallRate { calls, seconds }) => call::Obligation {
            calls: Some((*calls).into()),
            seconds: Some((*seconds).into()),
            ..own
        },
        PolicyObligation::Notify { to } => {
            call::Obligation { to: Some(to.iter().copied().collect()), ..own }
        }
        PolicyObligation::Justify => own,
    }
}

/// The layers of a policy bundle.
pub fn layers(list: &[LayerDigest]) -> List<Layer> {
    let one = |layer: &LayerDigest| Layer {
        digest: TaggedDigest(layer.digest),
        layer: layer.layer.as_str().into(),
    };
    list.iter().map(one).collect()
}

/// The first `most` bytes, cut at a character.
pub fn clip(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default().to_owned()
}
