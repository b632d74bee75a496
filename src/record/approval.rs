//! Entries about what people signed: approvals, refusals and amendments of policy.

use super::call::Layer;
use super::text::{HexDigest, List, Nonce, TaggedDigest, Text};
use crate::domain::closed::{closed, members};
use crate::domain::time::Timestamp;

closed! {
    /// The kind of an approver's key.
    pub enum KeyKind {
        /// A key that a file or an agent holds.
        File = "file",
        /// A security key, which signs in its owner's own terminal.
        Hardware = "hardware",
        /// A passkey, which signs in a browser what a console shows.
        Passkey = "passkey",
    }
}

members! {
    /// `approval.granted`: an approver signed a held call.
    pub struct ApprovalGranted {
        /// Digest of the call that was signed.
        pub call_digest: HexDigest,
        /// When the hold expires.
        pub expires: Timestamp,
        /// Id of the approver's key.
        pub key: Text,
        /// The kind of that key; absent in entries of gates that knew no passkeys.
        pub key_kind: Option<KeyKind>,
        /// Nonce of the hold.
        pub nonce: Nonce,
        /// Where a passkey signed what that console showed.
        pub origin: Option<Text>,
        /// The approver's reason.
        pub reason: Option<Text>,
        /// The approver's roles.
        pub roles: List<Text>,
        /// Digest of the list of approvers that the signature was checked against.
        pub signers: Option<TaggedDigest>,
        /// The approver's name in that list.
        pub subject: Text,
    }

    /// `approval.refused`: an approver refused a held call.
    pub struct ApprovalRefused {
        /// Digest of the call that was refused.
        pub call_digest: HexDigest,
        /// Id of the approver's key.
        pub key: Text,
        /// The kind of that key; absent in entries of gates that knew no passkeys.
        pub key_kind: Option<KeyKind>,
        /// Nonce of the hold.
        pub nonce: Nonce,
        /// Where a passkey signed what that console showed.
        pub origin: Option<Text>,
        /// The approver's reason.
        pub reason: Option<Text>,
        /// The approver's roles.
        pub roles: List<Text>,
        /// Digest of the list of approvers that the signature was checked against.
        pub signers: Option<TaggedDigest>,
        /// The approver's name in that list.
        pub subject: Text,
    }

    /// `amendment.proposed`: an author proposed another policy bundle.
    pub struct AmendmentProposed {
        /// Agents whose calls the bundle may decide differently.
        pub agents: List<Text>,
        /// Digest of the bundle that it replaces.
        pub base: Option<TaggedDigest>,
        /// Digest of the proposed bundle.
        pub bundle: TaggedDigest,
        /// When the proposal expires.
        pub expires: Option<Timestamp>,
        /// What the checks of the bundle found.
        pub findings: List<Text>,
        /// Layers of the proposed bundle.
        pub layers: List<Layer>,
        /// The proposal's nonce, which approvals sign.
        pub nonce: Option<Nonce>,
        /// The author's reason.
        pub reason: Option<Text>,
        /// The author.
        pub subject: Text,
        /// Version of the proposed bundle.
        pub version: Text,
    }

    /// `amendment.approved`: a publisher signed a proposed bundle.
    pub struct AmendmentApproved {
        /// The author of the proposal.
        pub author: Option<Text>,
        /// Digest of the bundle that it replaces.
        pub base: Option<TaggedDigest>,
        /// Digest of the proposed bundle.
        pub bundle: TaggedDigest,
        /// When the proposal expires.
        pub expires: Option<Timestamp>,
        /// Id of the publisher's key.
        pub key: Text,
        /// The proposal's nonce.
        pub nonce: Option<Nonce>,
        /// The publisher's roles.
        pub roles: List<Text>,
        /// The publisher's signature, armored.
        pub signature: Option<Text>,
        /// Digest of the list of signers that it was checked against.
        pub signers: Option<TaggedDigest>,
        /// The publisher.
        pub subject: Text,
    }
}

closed! {
    /// The step of an amendment.
    pub enum Step {
        /// It was proposed.
        Proposal = "proposal",
        /// A publisher signed it or refused it.
        Approval = "approval",
        /// A gate activates it.
        Activation = "activation",
    }
}

members! {
    /// `amendment.refused`: a step of an amendment was refused.
    pub struct AmendmentRefused {
        /// The author of the proposal.
        pub author: Option<Text>,
        /// Digest of the bundle that it would have replaced.
        pub base: Option<TaggedDigest>,
        /// Digest of the proposed bundle.
        pub bundle: TaggedDigest,
        /// The stable code of the refusal.
        pub code: Text,
        /// When the proposal expires.
        pub expires: Option<Timestamp>,
        /// Id of the publisher's key.
        pub key: Option<Text>,
        /// The refusal as text.
        pub message: Text,
        /// The proposal's nonce.
        pub nonce: Option<Nonce>,
        /// The publisher's roles.
        pub roles: Option<List<Text>>,
        /// The publisher's signature, armored.
        pub signature: Option<Text>,
        /// Digest of the list of signers that it was checked against.
        pub signers: Option<TaggedDigest>,
        /// The step that was refused.
        pub step: Step,
        /// The author or publisher.
        pub subject: Text,
    }
}
