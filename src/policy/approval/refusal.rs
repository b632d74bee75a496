//! Why a signed statement does not count: one set of codes and messages for every kind.

use super::MalformedStatement;
use super::approvers::Purpose;
use crate::crypto::sshsig;
use crate::domain::time::Timestamp;
use crate::record::chain::SignerList;

/// What keeps a list of signers from being used, or the ledger from being written.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a signed statement does not count.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", self.code())]
pub struct ApprovalRefusal {
    /// What the statement is for.
    pub purpose: Purpose,
    /// What is wrong.
    pub why: RefusalReason,
}

impl ApprovalRefusal {
    /// Stable: `approval.signature`, `order.expired`, …
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.why.code(self.purpose)
    }

    /// Whether the only objection is that its time is over.
    #[must_use]
    pub const fn is_expired(&self) -> bool {
        matches!(self.why, RefusalReason::Expired(..))
    }

    /// The list of this purpose cannot be used.
    #[must_use]
    pub fn unusable(purpose: Purpose, why: impl Into<Cause>) -> Self {
        purpose.refusal(RefusalReason::Unusable(purpose.list(), why.into()))
    }

    /// The ledger did not record what the check of this purpose needs.
    #[must_use]
    pub fn unrecorded(purpose: Purpose, why: impl Into<Cause>) -> Self {
        purpose.refusal(RefusalReason::Unrecorded(why.into()))
    }
}

impl Purpose {
    /// The refusal of a statement for this purpose.
    #[must_use]
    pub const fn refusal(self, why: RefusalReason) -> ApprovalRefusal {
        ApprovalRefusal { purpose: self, why }
    }

    /// Refuses a statement for this purpose.
    pub(super) const fn refuse<T>(self, why: RefusalReason) -> Result<T, ApprovalRefusal> {
        Err(self.refusal(why))
    }
}

/// A code: `of` a statement's purpose, where keys and signatures under an amendment are judged as
/// those under an approval; a purpose's `own`; or what it `is` for every purpose.
macro_rules! code {
    ($purpose:ident of $word:literal) => {
        code!($purpose, $word, "approval.")
    };
    ($purpose:ident own $word:literal) => {
        code!($purpose, $word, "amendment.")
    };
    ($purpose:ident is $code:literal) => {
        $code
    };
    ($purpose:ident, $word:literal, $amendment:literal) => {
        match $purpose {
            Purpose::Approval => concat!("approval.", $word),
            Purpose::Amendment => concat!($amendment, $word),
            Purpose::Order => concat!("order.", $word),
            Purpose::BreakGlass => concat!("break_glass.", $word),
        }
    };
}

/// Each reason with its code and its message.
macro_rules! reasons {
    ($(#[doc = $doc:literal] $reason:ident $(($($data:tt)*))?, $how:ident $code:literal, $text:literal;)*) => {
        /// What is wrong with a signed statement, its signers, or the gate that is to count it.
        #[derive(Debug, thiserror::Error)]
        pub enum RefusalReason {
            $(#[doc = $doc] #[error($text)] $reason $(($($data)*))?,)*
        }

        impl RefusalReason {
            /// The code of this reason, for a statement of this purpose.
            #[must_use]
            pub const fn code(&self, purpose: Purpose) -> &'static str {
                if let Self::Other(code, _) = self {
                    return code;
                }
                if let Self::Signature(sshsig::Error::Namespace(_)) = self {
                    return code!(purpose of "namespace");
                }
                if let Self::Signature(sshsig::Error::Unverified) = self {
                    return code!(purpose of "unverified");
                }
                match self { $(Self::$reason { .. } => code!(purpose $how $code),)* }
            }
        }
    };
}

reasons! {
    /// The bytes are no statement.
    Statement(#[from] MalformedStatement), of "statement", "the statement: {0}";
    /// The signature is invalid, or made in another namespace.
    Signature(#[from] sshsig::Error), of "signature", "{0}";
    /// The key (first) is not in the list (second).
    Unlisted(String, SignerList), of "signer", "{0} is not in the list of {1}";
    /// The list has the key (first), without this namespace (second).
    OtherNamespace(String, &'static str), of "signer", "{0} is in the list, but not for `{1}`";
    /// The list of signers cannot be used.
    Unusable(SignerList, #[source] Cause), of "signer", "the list of {0} cannot be used: {1}";
    /// An operator revoked the key.
    Revoked(String), of "revoked", "{0} is revoked";
    /// The key counts from a later time on.
    Early(String, Timestamp), of "early", "{0} is valid only from {1} on";
    /// The key counted until an earlier time.
    Lapsed(String, Timestamp), of "lapsed", "{0} was valid only until {1}";
    /// The subject (first) lacks the role (second).
    Role(String, &'static str), of "role", "`{0}` has no role `{1}`";
    /// Passkeys do not count at this gate.
    NoPasskeys, of "passkey", "approvals by passkey are off: see `approvals.passkeys` and `approvals.passkey_origins`";
    /// Passkeys do not sign in this namespace.
    PasskeyPurpose(&'static str), of "passkey",
        "a passkey signs approvals of calls only: sign `{0}` with a key of a file or an agent";
    /// The passkey signed at a console that is not trusted.
    Origin(String), of "origin", "the passkey signed at {0}, which `approvals.passkey_origins` does not list";
    /// The passkey may be on several devices.
    SyncedPasskey, of "synced", "the passkey may be copied to other devices, which `approvals.synced_passkeys` forbids";
    /// The statement names something else (second); the code (first) says which member differs.
    Other(&'static str, &'static str), of "other", "the statement is about {1}";
    /// What the statement is about (first) has ended.
    Expired(&'static str, Timestamp), own "expired", "{0} ended at {1}";
    /// The subject (first) takes part in what it approves, in this way (second).
    Barred(String, &'static str), own "self", "`{0}` {1}";
    /// The subject (first) has approved this (second) before.
    Again(String, &'static str), own "again", "`{0}` already approved {1}";
    /// The subject has approved the call, as the gate records.
    Repeated(String), is "approval.repeated", "`{0}` already approved this call";
    /// No list of approvers is configured.
    NoApprovers, is "approval.signer", "no approvers are configured";
    /// The statement names another tenant.
    Tenant, of "tenant", "the statement is for a different tenant";
    /// One key made two of the signatures.
    Twice(String), is "break_glass.again", "{0} signed twice";
    /// More signatures than are read.
    Many(usize), is "break_glass.quorum", "more than {0} signatures";
    /// Fewer different people (first) than are needed (second).
    Quorum(usize, usize), is "break_glass.quorum", "{0} people signed, but {1} are needed";
    /// It spans more minutes than the configuration allows.
    Span(String), is "break_glass.span", "it spans more than {0}";
    /// It is for a later time.
    NotYet(Timestamp), is "break_glass.not_yet", "it is not valid before {0}";
    /// It opened something before.
    Used, is "break_glass.used", "the statement was used before";
    /// No list of break-glass signers is configured.
    NoBreakGlass, is "break_glass.none", "no break-glass signers are configured at this gate";
    /// No signature is there.
    Unsigned, is "order.unsigned", "this order must be signed";
    /// It orders this, and another order is expected.
    OtherOrder(&'static str), is "order.kind", "it orders to {0}, which is not what the request does";
    /// It was signed too long ago.
    Old(Timestamp), is "order.old", "it was signed at {0}, more than a day ago: sign a new one";
    /// It was signed in the future.
    Future(Timestamp), is "order.future", "it was signed at {0}, later than now";
    /// It is about something that orders are not about.
    Target, is "order.target", "unknown kind of target";
    /// The gate marks no findings, so none of them can have the mark of the order.
    NoMarks, is "order.marks",
        "this gate marks no findings: set `firewall.marks`, and allow the value by the mark of its next refusal";
    /// More values pass already than a gate keeps.
    ManyExceptions(usize), is "order.many",
        "{0} values pass the firewall already: revoke some, or open the class for the tool in `firewall.tools`";
    /// It follows an order that the gate does not know.
    Previous, is "order.previous",
        "the order that the statement names as the newest is unknown to this gate or too old: sign the statement again";
    /// It follows an entry that the fleet log lacks.
    NoEntry, is "order.previous",
        "the entry that the statement names as the newest is not in the fleet log: sign the statement again";
    /// It ends a hold that its signer did not see.
    LaterHold, is "order.previous", "the hold was placed after the order was signed";
    /// It is about a run, and names none.
    NoRun(String), is "order.target", "`{0}` is not a run id";
    /// The version of the list (first) is lower than one (second) that counted before.
    OldList(u64, u64), is "order.list",
        "the list of approvers has version {0}, but version {1} was already in force";
    /// It was used before.
    UsedOrder, is "order.used", "the statement was used before: sign a new one";
    /// No list of operators is configured.
    NoOperators, is "order.none",
        "no list names the operators: set `approvals.signers`, and give operators' keys the role \
         `operator` and the namespace `wicketgate-order`";
    /// The ledger did not record the list of signers.
    Unrecorded(#[source] Cause), is "ledger.unavailable", "{0}";
}
