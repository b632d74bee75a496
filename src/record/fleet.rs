//! Entries of a fleet log: its chains, their heads, and its keys.

use super::text::{Base64, HexDigest, Int, Text};
use crate::domain::closed::{closed, members};
use crate::domain::id::ChainId;
use crate::domain::time::Timestamp;

members! {
    /// `chain.enrolled`: a chain belongs to the fleet.
    pub struct ChainEnrolled {
        /// Id of the chain.
        pub chain: ChainId,
        /// The key that certifies its writers (Ed25519).
        pub enrolment_key: Base64<32>,
        /// Name of its log.
        pub log: Text,
        /// Its slot.
        pub slot: Text,
    }

    /// `chain.checkpoint`: the head of a chain.
    pub struct ChainCheckpoint {
        /// Id of the chain.
        pub chain: ChainId,
        /// The epoch of the writer that signed the head.
        pub epoch: Int,
        /// Name of its log.
        pub log: Text,
        /// Root of its tree.
        pub root: HexDigest,
        /// Number of its entries.
        pub size: Int,
    }

    /// `chain.retired`: a chain ends.
    pub struct ChainRetired {
        /// The person who ordered it.
        pub by: Option<Text>,
        /// Id of the chain.
        pub chain: ChainId,
        /// Name of its log.
        pub log: Text,
        /// Index of the first lost entry.
        pub lost_from: Option<Int>,
        /// The index after the last lost entry.
        pub lost_to: Option<Int>,
        /// Why.
        pub reason: Text,
        /// Root of its tree.
        pub root: HexDigest,
        /// Number of its entries.
        pub size: Int,
    }
}

closed! {
    /// What a key is for.
    pub enum KeyUse {
        /// Heads of the fleet's log.
        Fleet = "fleet",
        /// Certificates of writers.
        Enrolment = "enrolment",
        /// Bundles of evidence.
        Evidence = "evidence",
        /// Cosignatures of a witness.
        Witness = "witness",
    }
}

members! {
    /// `key.rotated`: a key was replaced.
    pub struct KeyRotated {
        /// The new key (Ed25519).
        pub new: Base64<32>,
        /// The old key (Ed25519).
        pub old: Base64<32>,
        /// What the key signs.
        pub r#use: KeyUse,
    }

    /// `key.revoked`: a key is no longer trusted.
    pub struct KeyRevoked {
        /// Heads of `log` up to this size are still trusted.
        pub good_size: Option<Int>,
        /// The key (Ed25519).
        pub key: Base64<32>,
        /// The log for which the key is revoked; if absent, the key is revoked for all logs.
        pub log: Option<Text>,
        /// Why.
        pub reason: Text,
        /// What the key signed.
        pub r#use: KeyUse,
    }

    /// `writer.enrolled`: a gate was given a slot and a certificate.
    pub struct WriterEnrolled {
        /// How the gate proved who it is: `kubernetes` or `token`.
        pub auth: Text,
        /// The epoch of its certificate.
        pub epoch: Int,
        /// Digest of its container image; may be empty.
        pub image_digest: Text,
        /// Its writer key (Ed25519).
        pub key: Base64<32>,
        /// Name of the fleet's log.
        pub log: Text,
        /// When its certificate ends.
        pub not_after: Timestamp,
        /// Its pod; may be empty.
        pub pod: Text,
        /// Its pool of slots.
        pub pool: Text,
        /// Its slot.
        pub slot: Text,
    }
}
