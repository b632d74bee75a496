//! What the firewall found in a call or in its answer, and what the gate did about it.

use super::closed::closed;
use super::digest::Digest;

closed! {
    /// What the gate does about a finding, from the mildest to the strictest.
    pub enum GuardAction {
        /// It is not looked for.
        Off = "off",
        /// It is recorded.
        Warn = "warn",
        /// It is left out of what goes on.
        Strip = "strip",
        /// It is masked in what goes on.
        Redact = "redact",
        /// Nothing goes on.
        Block = "block",
    }
}

closed! {
    /// Why the arguments of a call are committed to and not stored.
    pub enum Withheld {
        /// They hold a credential of this gate.
        Credential = "credential",
        /// They hold a secret of somewhere else.
        Secret = "secret",
        /// They hold personal data, and the gate refused the call for it.
        Personal = "personal",
        /// The gate refused the call for something else that the firewall found.
        Firewall = "firewall",
    }
}

/// One finding, without its value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GuardFinding {
    /// What it is: `github`, `card`, …
    pub kind: &'static str,
    /// What that is about: `secret`, `personal`, …
    pub class: &'static str,
    /// How sure it is: `high` or `low`.
    pub confidence: &'static str,
    /// Keyed mark of the value, which the same value always has. `None` without a key.
    pub mark: Option<[u8; 16]>,
    /// JSON pointer of the text with it. A member's name that is a finding itself is masked.
    pub path: String,
    /// What the gate did about it.
    pub action: GuardAction,
    /// The number of the signed order that let it pass.
    pub exception: Option<u64>,
}

/// A signed order that lets one value pass, as entries name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SignedException {
    /// The number of the order.
    pub order: u64,
    /// The statement that was signed.
    pub statement: String,
    /// The armored signature.
    pub signature: String,
    /// The signer's name in the list of approvers.
    pub subject: String,
    /// Id of the key that signed it.
    pub key: String,
    /// SHA-256 of the list of approvers by which it is valid.
    pub signers: Digest,
}
