//! Entries about payloads and old entries: erasure, legal holds, pruning.

use super::text::{HexDigest, Int, List, TaggedDigest, Text};
use crate::domain::closed::members;
use crate::domain::id::{CallId, RunId};
use crate::domain::time::Timestamp;

members! {
    /// An order that its operator signed.
    #[cfg_attr(test, schemars(rename = "signed_order"))]
    pub struct SignedOrder {
        /// Id of the operator's key.
        pub key: Text,
        /// The signature, armored.
        pub signature: Text,
        /// Digest of the list of signers that it was checked against.
        pub signers: TaggedDigest,
        /// The statement that was signed.
        pub statement: Text<20480>,
        /// The operator's name in that list.
        pub subject: Text,
        /// Version of that list.
        pub version: Int,
    }

    /// How long payloads of one role are kept.
    #[cfg_attr(test, schemars(rename = "term"))]
    pub struct Term {
        /// The role: `args`, `result`, …
        pub role: Text,
        /// Seconds.
        pub seconds: Int,
    }

    /// How long payloads are kept.
    #[cfg_attr(test, schemars(rename = "terms"))]
    pub struct Terms {
        /// Seconds for every other role.
        pub other: Int,
        /// Roles with a term of their own.
        pub roles: List<Term, 64>,
    }

    /// `payload.erased`: payloads were erased, by an order or because of their age.
    pub struct PayloadErased {
        /// When the last backup that holds the payloads has expired.
        pub backups_expire_by: Timestamp,
        /// Reason of the erasure; `retention` if the payloads were kept for longer than their term.
        pub basis: Text,
        /// Who erased them.
        pub by: Text,
        /// Their commitments.
        pub c: List<HexDigest, 200, 1>,
        /// Name of the log of their chain.
        pub log: Text,
        /// The signed order, if the erasure has one.
        pub order: Option<SignedOrder>,
        /// Number of the request that the order fulfils, such as a data subject's.
        pub request: Option<Text>,
        /// The retention terms, if the age of the payloads was the reason.
        pub terms: Option<Terms>,
    }

    /// `payload.viewed`: the operator API showed payloads of a call to an operator.
    pub struct PayloadViewed {
        /// How the operator logged in.
        pub auth: Text,
        /// The operator.
        pub by: Text,
        /// Commitments to the payloads that were shown.
        pub c: List<HexDigest, 16, 1>,
        /// The call.
        pub call: CallId,
        /// Name of the log of their chain.
        pub log: Text,
        /// Roles of the operator.
        pub roles: List<Text>,
        /// The run of the call.
        pub run: RunId,
    }

    /// `hold.placed`: payloads may not be erased.
    pub struct HoldPlaced {
        /// Who placed it.
        pub by: Text,
        /// Name of the log of the chain.
        pub log: Text,
        /// Why.
        pub reason: Text,
        /// The run whose payloads are held; if absent, all payloads of the log.
        pub run: Option<RunId>,
    }

    /// `hold.lifted`: payloads may be erased again.
    pub struct HoldLifted {
        /// Who lifted it.
        pub by: Text,
        /// Name of the log of the chain.
        pub log: Text,
        /// The order.
        pub order: SignedOrder,
        /// Why.
        pub reason: Text,
        /// The run that the hold covered, if it covered one.
        pub run: Option<RunId>,
    }

    /// `retention.pruned`: the oldest entries of a chain are no longer stored.
    pub struct RetentionPruned {
        /// Who pruned them.
        pub by: Text,
        /// Index of the first entry that was removed.
        pub from: Int,
        /// Name of the log of the chain.
        pub log: Text,
        /// Root of the tree of all entries before `to`.
        pub root: HexDigest,
        /// Index of the first entry that remains.
        pub to: Int,
    }
}
