//! The statement that an operator signs to take back a stop, to erase, to end a legal hold, or to let one
//! value pass the firewall, and its check.
//!
//! Stopping needs a role and a token; an order that loosens is signed with the operator's own SSH
//! key in the namespace [`NAMESPACE`]. The statement names the newest entry that its signer saw of
//! the list it is put on, by number and digest: it takes back what stood up to that one and nothing
//! later, so a replay of the same statement takes back nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize, Serializer};

use super::approvers::Purpose;
use super::statement::check_reason;
use super::{
    Approval, ApprovalRefusal, Approvers, MalformedStatement, RefusalReason, SignedApproval,
    Statement, VerifiedStatement,
};
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::record::payload::SignedOrder;
use crate::record::{Nonce, TaggedDigest};

/// The SSHSIG namespace of orders that loosen.
pub const NAMESPACE: &str = "wicketgate-order";
/// The role that a signer needs for an order that loosens.
pub const ROLE: &str = "operator";
/// Version of the statement (`v`).
pub const VERSION: &str = "wicketgate/order/1";
/// Payloads that one statement names.
pub const PAYLOADS_MAX: usize = 200;

/// Bytes of a tenant, a target's name and a reason.
const TEXT_MAX: usize = 1024;
/// Bytes of a payload's role and of a request.
const WORD_MAX: usize = 256;
/// How far the signer's clock may be ahead of the checker's.
const AHEAD: std::time::Duration = std::time::Duration::from_secs(300);
/// How long one value may pass.
const ALLOWED_FOR: std::time::Duration = std::time::Duration::from_secs(90 * 24 * 60 * 60);
/// How long an order to erase or to end a hold may lie between signing and obeying.
const VALID_FOR: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// What a statement orders (`order`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderKind {
    /// Takes back a stop: of `all`, or of an `agent`, `run`, `tool`, `manifest` or `key`.
    Reinstate,
    /// Erases payloads: those of a `run`, or `payloads` by their commitments.
    Erase,
    /// Ends a legal hold on a `run` or a `log`.
    Release,
    /// Lets one value pass the firewall, in one place of the calls of one `tool`.
    Allow,
}

impl OrderKind {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reinstate => "reinstate",
            Self::Erase => "erase",
            Self::Release => "release",
            Self::Allow => "allow",
        }
    }
}

/// The entry that a statement speaks after: of the list of orders, or of the fleet log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Previous {
    /// Its number, counted from 1.
    #[serde(rename = "previous_seq")]
    pub seq: u64,
    /// SHA-256 of the order's row, or the leaf hash of the entry.
    #[serde(rename = "previous", serialize_with = "Digest::serialize_prefixed")]
    pub digest: Digest,
}

impl Previous {
    /// The predecessor of the first entry: the number 0 and a digest of zeros.
    pub const NONE: Self = Self { seq: 0, digest: Digest::from_bytes([0; 32]) };
}

/// The finding that an order lets pass: one value, in one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedFinding {
    /// `arguments`, `results` or `prompts`.
    pub direction: String,
    /// What it was found to be: `github`, `card`, …
    pub kind: String,
    /// The keyed mark of the value, which entries and refusals name: 32 hex digits.
    pub mark: Nonce,
    /// JSON pointer of the text with it.
    pub path: String,
}

impl AllowedFinding {
    /// Whether its members can be those of a finding.
    fn is_bounded(&self) -> bool {
        let is_kind = (1..=64).contains(&self.kind.len());
        let is_path = self.path.is_empty() || self.path.starts_with('/');
        DIRECTIONS.contains(&self.direction.as_str())
            && is_kind
            && is_path
            && self.path.len() <= TEXT_MAX
    }
}

/// Where findings are, as an order names it.
pub const DIRECTIONS: [&str; 3] = ["arguments", "results", "prompts"];

/// The signed statement: the canonical form (RFC 8785) of exactly these members and `v`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OrderStatement {
    /// Whose gates it is for.
    pub tenant: String,
    /// What is ordered.
    pub order: OrderKind,
    /// What kind of thing it is about: see [`OrderKind`].
    pub target: String,
    /// The target's name; empty for `all` and `payloads`.
    pub name: String,
    /// What passes the firewall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<AllowedFinding>,
    /// Limits the order to payloads of a run with this role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The payloads, by their commitments.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty", serialize_with = "hex")]
    pub payloads: BTreeSet<Digest>,
    /// The request that an erasure follows, such as a ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Why, for later readers of the ledger.
    pub reason: String,
    /// When it was signed.
    pub at: Timestamp,
    /// When the stop applies again, if the order takes it back for a time only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The newest entry that the signer saw.
    #[serde(flatten)]
    pub previous: Previous,
}

impl Statement for OrderStatement {
    const PURPOSE: Purpose = Purpose::Order;
    /// 200 payloads and the other members.
    const BYTES_MAX: usize = 20 * 1024;
    const VERSION: Option<&'static str> = Some(VERSION);

    fn of(members: Json) -> Result<Self, MalformedStatement> {
        Ok(members.read()?)
    }

    fn members(&self) -> Json {
        Json::of(self)
    }

    fn bounded(&self) -> Result<(), MalformedStatement> {
        let texts =
            [("tenant", &self.tenant), ("target", &self.target), ("name", &self.name)].into_iter();
        let names = [("role", &self.role), ("request", &self.request)].into_iter();
        let names = names.filter_map(|(name, value)| Some((name, value.as_ref()?, WORD_MAX)));
        let mut bounded = texts.map(|(name, text)| (name, text, TEXT_MAX)).chain(names);
        if let Some((name, ..)) = bounded.find(|(_, text, most)| text.len() > *most) {
            return Err(MalformedStatement::Member(name));
        }
        check_reason(&self.reason, TEXT_MAX)?;
        // Members that this order has no use for are refused.
        let of_erasures =
            self.role.is_some() || self.request.is_some() || !self.payloads.is_empty();
        let named = self.role.is_none() && self.name.is_empty();
        let is_allowed = self.finding.as_ref().is_some_and(AllowedFinding::is_bounded);
        let fits = match (self.order, self.target.as_str()) {
            (OrderKind::Allow, "tool") => {
                let has_end = self
                    .expires
                    .is_some_and(|end| self.at < end && end <= self.at.plus(ALLOWED_FOR));
                !of_erasures && !self.name.is_empty() && is_allowed && has_end
            }
            _ if self.finding.is_some() => false,
            (OrderKind::Reinstate, _) => !of_erasures,
            (OrderKind::Erase, "run") => self.expires.is_none() && self.payloads.is_empty(),
            (OrderKind::Erase, "payloads") => {
                let some = (1..=PAYLOADS_MAX).contains(&self.payloads.len());
                self.expires.is_none() && named && some
            }
            (OrderKind::Release, "run" | "log") => self.expires.is_none() && !of_erasures,
            (OrderKind::Erase | OrderKind::Release | OrderKind::Allow, _) => false,
        };
        if fits {
            Ok(())
        } else {
            Err(MalformedStatement::Order {
                order: self.order.as_str(),
                target: self.target.clone(),
            })
        }
    }
}

fn hex<S: Serializer>(digests: &BTreeSet<Digest>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(digests.iter().map(Digest::hex))
}

/// A loosening order with a valid signature. Only [`check()`] makes one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loosening {
    statement: OrderStatement,
    by: Approval,
    signers: Digest,
    version: u64,
    signed: SignedApproval,
}

impl Loosening {
    /// The statement.
    #[must_use]
    pub const fn statement(&self) -> &OrderStatement {
        &self.statement
    }

    /// Who signed it.
    #[must_use]
    pub const fn by(&self) -> &Approval {
        &self.by
    }

    /// SHA-256 of the list of approvers by which it is valid.
    #[must_use]
    pub const fn signers(&self) -> &Digest {
        &self.signers
    }

    /// The version of that list.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The statement and its signature, as the ledger records them.
    #[must_use]
    pub const fn signed(&self) -> &SignedApproval {
        &self.signed
    }

    /// The form in which the entry of its execution names this order.
    #[must_use]
    pub fn recorded(&self) -> SignedOrder {
        SignedOrder {
            key: self.by.key.as_str().into(),
            signature: self.signed.signature.as_str().into(),
            signers: TaggedDigest(self.signers),
            statement: self.signed.statement.as_str().into(),
            subject: self.by.subject.as_str().into(),
            version: self.version.into(),
        }
    }
}

/// Whether an operator on the list signed one of these orders, for this tenant. The key is judged
/// as of `now`.
///
/// # Errors
/// The first thing that is wrong, under its code: `order.unsigned`, `order.statement`, `order.signature`,
/// `order.namespace`, `order.signer`, `order.revoked`, `order.early`, `order.lapsed`, `order.role`, `order.tenant`,
/// `order.kind` (another order), `order.future` (signed later than `now`), `order.expired` (a value that passed until
/// then), `order.old` (to erase or to end a hold, and
/// signed more than a day ago).
pub fn check(
    approvers: &Approvers,
    (tenant, kinds): (&str, &[OrderKind]),
    signed: &SignedApproval,
    now: Timestamp,
) -> Result<Loosening, ApprovalRefusal> {
    if signed.signature.is_empty() {
        return Purpose::Order.refuse(RefusalReason::Unsigned);
    }
    let given = (signed.statement.as_bytes(), signed.signature.as_str());
    let VerifiedStatement { statement, by, .. } =
        VerifiedStatement::<OrderStatement>::check(approvers, given, now)?;
    let OrderStatement { order, at, .. } = statement;
    Purpose::Order.refuse(if statement.tenant != tenant {
        RefusalReason::Tenant
    } else if !kinds.contains(&order) {
        RefusalReason::OtherOrder(order.as_str())
    } else if matches!(order, OrderKind::Erase | OrderKind::Release) && at.plus(VALID_FOR) < now {
        RefusalReason::Old(at)
    } else if let Some(end) =
        statement.expires.filter(|end| order == OrderKind::Allow && *end <= now)
    {
        RefusalReason::Expired("the exception", end)
    } else if at > now.plus(AHEAD) {
        RefusalReason::Future(at)
    } else {
        let (signers, version) = (*approvers.digest(), approvers.edition().version);
        return Ok(Loosening { statement, by, signers, version, signed: signed.clone() });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> OrderStatement {
        OrderStatement {
            tenant: "default".into(),
            order: OrderKind::Reinstate,
            target: "agent".into(),
            name: "refund-agent".into(),
            finding: None,
            role: None,
            payloads: BTreeSet::new(),
            request: None,
            reason: "provider is back".into(),
            at: Timestamp::from_millis(1_000),
            expires: None,
            previous: Previous { seq: 7, digest: Digest::of(&[b"row"]) },
        }
    }

    fn allowing() -> OrderStatement {
        OrderStatement {
            order: OrderKind::Allow,
            target: "tool".into(),
            name: "repo.write".into(),
            finding: Some(AllowedFinding {
                direction: "arguments".into(),
                kind: "github".into(),
                mark: Nonce([7; 16]),
                path: "/content".into(),
            }),
            expires: Some(Timestamp::from_millis(9_000)),
            ..statement()
        }
    }

    #[test]
    fn an_order_lets_one_value_pass_in_one_place_for_ninety_days_at_most() {
        let change = |change: fn(&mut AllowedFinding)| {
            let mut all = allowing();
            all.finding.iter_mut().for_each(change);
            all
        };
        let days = |days: i64| Some(Timestamp::from_millis(1_000 + days * 86_400_000));
        let longest = OrderStatement { expires: days(90), ..allowing() };
        assert!(OrderStatement::parse(&longest.bytes()).is_ok());
        for wrong in [
            OrderStatement { expires: None, ..allowing() },
            OrderStatement { expires: days(0), ..allowing() },
            OrderStatement { expires: days(91), ..allowing() },
            OrderStatement { finding: None, ..allowing() },
            OrderStatement { target: "all".into(), name: String::new(), ..allowing() },
            OrderStatement { name: String::new(), ..allowing() },
            OrderStatement { role: Some("args".into()), ..allowing() },
            OrderStatement { finding: allowing().finding, ..statement() },
            change(|one| one.direction = "both".into()),
            change(|one| one.kind = String::new()),
            change(|one| one.path = "content".into()),
        ] {
            assert!(OrderStatement::parse(&wrong.bytes()).is_err(), "{wrong:?}");
        }
    }

    fn payloads(count: u8) -> BTreeSet<Digest> {
        (0..count).map(|n| Digest::of(&[&[n]])).collect()
    }

    #[test]
    fn a_statement_reads_back_and_no_other_spelling_of_it_is_one() {
        let later = OrderStatement { expires: Some(Timestamp::from_millis(9_000)), ..statement() };
        let run = OrderStatement { order: OrderKind::Erase, target: "run".into(), ..statement() };
        let args = OrderStatement {
            role: Some("args".into()),
            request: Some("T-17".into()),
            ..run.clone()
        };
        let some = OrderStatement {
            target: "payloads".into(),
            name: String::new(),
            payloads: payloads(200),
            ..run.clone()
        };
        let held =
            OrderStatement { order: OrderKind::Release, target: "log".into(), ..statement() };
        for statement in [statement(), later, run, args, some, held, allowing()] {
            let bytes = statement.bytes();
            assert_eq!(OrderStatement::parse(&bytes), Ok(statement));
            let text = String::from_utf8(bytes).unwrap();
            for other in [
                text.replace(':', ": "),
                text.replace("order\":\"", "order\":\"un"),
                text.replace('}', ",\"z\":1}"),
                text.replace("\"previous_seq\":7", "\"previous_seq\":-7"),
                text.replace("sha256:", ""),
                text.replace("provider is back", "  "),
            ] {
                assert!(OrderStatement::parse(other.as_bytes()).is_err(), "{other}");
            }
        }
    }

    #[test]
    fn no_order_has_members_of_another() {
        let run = OrderStatement { order: OrderKind::Erase, target: "run".into(), ..statement() };
        let some = OrderStatement {
            target: "payloads".into(),
            name: String::new(),
            payloads: payloads(2),
            ..run.clone()
        };
        let held =
            OrderStatement { order: OrderKind::Release, target: "run".into(), ..statement() };
        let end = Some(Timestamp::from_millis(9_000));
        for statement in [
            OrderStatement { role: Some("args".into()), ..statement() },
            OrderStatement { payloads: payloads(1), ..statement() },
            OrderStatement { request: Some("T".into()), ..held.clone() },
            OrderStatement { expires: end, ..held.clone() },
            OrderStatement { target: "all".into(), ..held },
            OrderStatement { expires: end, ..run.clone() },
            OrderStatement { target: "log".into(), ..run.clone() },
            OrderStatement { payloads: payloads(1), ..run },
            OrderStatement { payloads: payloads(0), ..some.clone() },
            OrderStatement { payloads: payloads(201), ..some.clone() },
            OrderStatement { name: "x".into(), ..some.clone() },
            OrderStatement { role: Some("args".into()), ..some },
        ] {
            assert!(OrderStatement::parse(&statement.bytes()).is_err(), "{statement:?}");
        }
    }
}
