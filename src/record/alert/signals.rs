//! What one entry asks an alert for.

use std::collections::BTreeMap;

use super::AlertKind;
use crate::call::{CallAuthorized, CallDenied, CallHeld, GuardedFinding, Reason};
use crate::domain::code::Code;
use crate::domain::guarded::GuardAction;
use crate::domain::taint::{Flow, FlowAction};
use crate::{Draft, Kind, Nonce};

/// What an entry asks an alert for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlertSignal {
    /// This alert, at once, with the mark of what was found.
    Alert(AlertKind, Option<Nonce>),
    /// A denied call: alerts count them.
    Denial,
    /// A text that could not be searched: an alert counts them.
    Unscanned,
}

/// Every finer code of `effect.refused` that the gate gives, and the alert that it asks for. The tidy test reads the
/// sources: a new code must be classified here.
pub const DETAILS: &[(&str, Option<AlertKind>)] = &[
    ("command.arg_not_allowed", None),
    ("command.binary_hash_mismatch", None),
    ("command.program", None),
    ("dlp.injection", Some(AlertKind::PromptInjection)),
    ("dlp.personal", None),
    ("dlp.secret", Some(AlertKind::SecretEgress)),
    ("dlp.unavailable", None),
    ("dlp.unicode", None),
    ("fetch.header", None),
    ("fetch.host", None),
    ("fetch.internal_name", None),
    ("fetch.method", None),
    ("fetch.path_traversal", Some(AlertKind::PathTraversal)),
    ("fetch.port", None),
    ("fetch.private_address", None),
    ("fetch.scheme", None),
    ("fetch.url", None),
    ("fetch.user_info", None),
    ("file.changed", None),
    ("file.content", None),
    ("file.depth", None),
    ("file.edit", None),
    ("file.exists", None),
    ("file.foreign_owner", None),
    ("file.if_match", None),
    ("file.mode", None),
    ("file.not_directory", None),
    ("file.not_found", None),
    ("file.not_regular", None),
    ("file.path", None),
    ("file.pre_image", None),
    ("file.protected_name", Some(AlertKind::PathTraversal)),
    ("file.span", None),
    ("file.special_mode", None),
    ("file.symlink", Some(AlertKind::PathTraversal)),
    ("file.too_large", None),
    ("file.traversal", Some(AlertKind::PathTraversal)),
    ("firewall.credential", Some(AlertKind::OwnCredential)),
    ("flow.label", Some(AlertKind::FlowLabel)),
    ("flow.trifecta", Some(AlertKind::Trifecta)),
    ("grpc.argument", None),
    ("grpc.request", None),
    ("grpc.too_large", None),
    ("http.argument", None),
    ("http.path_traversal", Some(AlertKind::PathTraversal)),
    ("http.request", None),
    ("http.too_large", None),
    ("mcp.header", None),
    ("mcp.meta", None),
    ("model.argument", None),
    ("model.choices", None),
    ("model.content", None),
    ("model.cut", None),
    ("model.dialect", None),
    ("model.error", None),
    ("model.hosted_tool", None),
    ("model.remote_content", None),
    ("model.remote_state", None),
    ("model.tool_call", None),
    ("model.unknown", None),
    ("pre_image.not_kept", None),
    ("prepare.panic", None),
    ("sql.attach", Some(AlertKind::SqlInjection)),
    ("sql.column", None),
    ("sql.function", Some(AlertKind::SqlInjection)),
    ("sql.multi_statement", Some(AlertKind::SqlInjection)),
    ("sql.not_select", Some(AlertKind::SqlInjection)),
    ("sql.params", None),
    ("sql.parse", None),
    ("sql.query", None),
    ("sql.relation", Some(AlertKind::SqlInjection)),
    ("sql.syntax", None),
    ("sql.too_large", None),
];

/// Whether the finer code below this one is the gate's own, so that it can ask for an alert.
const fn is_detailed(code: Code) -> bool {
    match code {
        Code::EffectRefused => true,
        // WHY not: these say what a caller did wrong in form, what a policy or a person decided, or how the gate is.
        Code::RequestMalformed
        | Code::IdentityMissing
        | Code::ManifestMismatch
        | Code::BindingInsufficient
        | Code::ToolNotGranted
        | Code::ArgumentsInvalid
        | Code::PolicyDenied
        | Code::PolicyError
        | Code::CallHeld
        | Code::LimitExceeded
        | Code::Overloaded
        | Code::Shutdown
        | Code::LedgerUnavailable
        | Code::LedgerUnknown
        | Code::ToolFailed
        | Code::CallUnknown
        | Code::CallConflict
        | Code::CallNotFound
        | Code::CallResultUnavailable
        | Code::RunUnknown
        | Code::RunSealed
        | Code::CallExpired
        | Code::CallCancelled
        | Code::OperatorForbidden
        | Code::ApprovalUnviewable
        | Code::NotReady
        | Code::RouteUnknown => false,
    }
}

/// The alert that a call of a labelled run asks for.
const fn of_flow(flow: Flow) -> AlertKind {
    match flow {
        Flow::Trifecta => AlertKind::Trifecta,
        // Labels alone: nothing that was read stands in what would be sent.
        Flow::Label => AlertKind::FlowLabel,
    }
}

/// The alert that a reason asks for.
fn of_reason(reason: &Reason) -> Option<AlertKind> {
    // A policy chooses its details freely: only the gate's own count. The flow of labels is the gate's own whatever it
    // does about it.
    let flows = matches!(reason.detail.as_str(), "flow.trifecta" | "flow.label");
    let own = flows || Code::parse(&reason.code).is_some_and(is_detailed);
    let at = DETAILS.binary_search_by(|(detail, _)| (*detail).cmp(&reason.detail)).ok()?;
    DETAILS.get(at).filter(|_| own).and_then(|(_, alert)| *alert)
}

/// Gathers the signals of one entry: each alert once, with the first mark.
#[derive(Default)]
struct SignalSet {
    alerts: BTreeMap<AlertKind, Option<Nonce>>,
    unscanned: bool,
}

impl SignalSet {
    fn add(&mut self, alert: AlertKind, mark: Option<Nonce>) {
        let known = self.alerts.entry(alert).or_default();
        *known = known.or(mark);
    }

    fn reasons(&mut self, reasons: &[Reason]) {
        for reason in reasons {
            self.unscanned |= reason.detail == "dlp.unavailable";
            if let Some(alert) = of_reason(reason) {
                self.add(alert, None);
            }
        }
    }

    /// Findings in arguments and prompts, or in an answer.
    fn findings<'a>(&mut self, all: impl Iterator<Item = &'a GuardedFinding>, sent: bool) {
        for one in all {
            let stopped = matches!(one.action, GuardAction::Redact | GuardAction::Block);
            match one.class.as_str() {
                // WHY only what was stopped: an operator opened the way for what passes with `warn`.
                "secret" if sent && stopped && one.confidence == "high" => {
                    self.add(AlertKind::SecretEgress, one.mark);
                }
                "injection" => self.add(AlertKind::PromptInjection, one.mark),
                "unscanned" => self.unscanned = true,
                _ => {}
            }
        }
    }
}

/// What this entry asks alerts for: its reasons, its findings, and whether it denies.
pub fn signals(draft: &Draft) -> Vec<AlertSignal> {
    let mut set = SignalSet::default();
    if let Some(decision) = draft.body.decision() {
        set.reasons(decision.reasons);
        // A call that is allowed although the configuration says `alert` has no reasons.
        let flow = decision.taint.filter(|taint| taint.action != Some(FlowAction::Off));
        if let Some(flow) = flow.and_then(|taint| taint.flow) {
            set.add(of_flow(flow), None);
        }
    }
    let sent = draft
        .get::<CallAuthorized>()
        .and_then(|call| call.findings.as_ref())
        .or_else(|| draft.get::<CallHeld>().and_then(|call| call.findings.as_ref()))
        .or_else(|| draft.get::<CallDenied>().and_then(|call| call.findings.as_ref()));
    set.findings(sent.into_iter().flat_map(|all| all.iter()), true);
    let observed = draft.body.observed().and_then(|seen| seen.findings.as_ref());
    set.findings(observed.into_iter().flat_map(|all| all.iter()), false);
    let alerts = set.alerts.into_iter().map(|(alert, mark)| AlertSignal::Alert(alert, mark));
    let denial = (draft.kind() == Kind::CallDenied).then_some(AlertSignal::Denial);
    alerts.chain(denial).chain(set.unscanned.then_some(AlertSignal::Unscanned)).collect()
}
