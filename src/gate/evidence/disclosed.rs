//! Which payloads a bundle discloses, and which parts of each: looks them up in the ledger by their
//! commitments.

use std::collections::{BTreeMap, BTreeSet};

use super::payloads::{Payload, Payloads, WithheldReason};
use crate::domain::commitment::Parts;
use crate::ledger::retention::Records;
use crate::ledger::store::{ChainRow, LedgerReader, PayloadRef, PayloadRow, StoreError};
use crate::ledger::vault::{self, Vault};
use crate::ledger::verify::EntryLine;
use crate::record::run::RunOpened;
use crate::record::{Commitment, Role, conversation};

/// Members of the policy's input that reveal arguments.
const OF_ARGUMENTS: [&str; 3] = ["args", "effect", "findings"];
/// Members of a pre-image that reveal a file which the arguments named.
const OF_FILES: [&str; 3] = ["after", "before", "path"];

/// Which part of the payloads of one role is disclosed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DisclosedPart {
    /// All but these members.
    Hide(BTreeSet<String>),
    /// These members and no others.
    Open(BTreeSet<String>),
}

/// Why a `ROLE:member,member` text is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RedactionError {
    /// A text of another form.
    #[error("`{0}`: expected a role and members, such as `args:iban,note`")]
    Form(String),
    /// A role that no payload has.
    #[error("`{0}`: no such role")]
    Role(String),
    /// A role that an earlier text names.
    #[error("`{text}`: `{role}` is named twice")]
    Twice {
        /// The text.
        text: String,
        /// The role.
        role: String,
    },
}

/// Which part of the payloads is disclosed, by role. Other roles are disclosed completely.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Redactions(BTreeMap<String, DisclosedPart>);

impl Redactions {
    /// Parses `ROLE:member,member`: what to hide, and what to open of roles that are otherwise
    /// hidden.
    ///
    /// Hiding any of the arguments also hides all of them in the policy's input, unless a text for
    /// that role says otherwise.
    ///
    /// # Errors
    /// A text of another form, or a role named twice.
    pub fn parse(hide: &[String], open: &[String]) -> Result<Self, RedactionError> {
        let mut parts = BTreeMap::new();
        let hidden = hide.iter().map(|text| (text, true));
        for (text, hides) in hidden.chain(open.iter().map(|text| (text, false))) {
            let form = || RedactionError::Form(text.clone());
            let (role, members) = text.split_once(':').ok_or_else(form)?;
            if Role::parse(role).is_none() {
                return Err(RedactionError::Role(text.clone()));
            }
            let members: BTreeSet<String> =
                members.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            if hides && members.is_empty() {
                return Err(form());
            }
            let part =
                if hides { DisclosedPart::Hide(members) } else { DisclosedPart::Open(members) };
            if parts.insert(role.to_owned(), part).is_some() {
                let (text, role) = (text.clone(), role.to_owned());
                return Err(RedactionError::Twice { text, role });
            }
        }
        // A streamed answer has the members of its result, in pieces.
        if parts.contains_key(Role::Result.as_str()) {
            let nothing = DisclosedPart::Open(BTreeSet::new());
            parts.entry(Role::Stream.as_str().to_owned()).or_insert(nothing);
        }
        // The same members in the arguments as sent.
        if let Some(same) = parts.get(Role::Args.as_str()).cloned() {
            parts.entry("raw".to_owned()).or_insert_with(|| same.clone());
            let all = OF_ARGUMENTS.into_iter().map(str::to_owned).collect();
            parts.entry("policy_input".to_owned()).or_insert(DisclosedPart::Hide(all));
            let before = OF_FILES.into_iter().map(str::to_owned).collect();
            parts.entry("pre_image".to_owned()).or_insert(DisclosedPart::Hide(before));
            // Arguments of a call to a model are stored in parts.
            let mut none = |role: Role| {
                let nothing = DisclosedPart::Open(BTreeSet::new());
                parts.entry(role.as_str().to_owned()).or_insert(nothing);
            };
            if conversation::LIST_MEMBERS.iter().any(|name| hides(&same, name)) {
                none(Role::Message);
                none(Role::Conversation);
            }
            for (name, role) in conversation::APART {
                if hides(&same, name) {
                    none(role);
                }
            }
        }
        Ok(Self(parts))
    }

    /// Whether anything of the payloads of this role is hidden.
    #[must_use]
    pub fn names(&self, role: &str) -> bool {
        self.0.contains_key(role)
    }

    fn apply(&self, row: PayloadRow) -> Payload {
        let Some(part) = self.0.get(&row.role) else {
            return Payload::Opened {
                salt: row.salt,
                role: row.role,
                media_type: row.media_type,
                body: row.body,
            };
        };
        // WHY: a payload that was committed to as one piece cannot be opened in part, so none of it
        // is.
        let parts = Parts::of(&row.salt, &row.body);
        let Some(parts) = parts.filter(|parts| parts.commitment() == row.commitment) else {
            return Payload::Withheld(WithheldReason::Unsaid);
        };
        let open = match part {
            DisclosedPart::Open(open) => open.clone(),
            DisclosedPart::Hide(hide) => {
                let names = parts.members.iter().map(|member| member.name.clone());
                names.filter(|name| !hide.contains(name)).collect()
            }
        };
        Payload::Redacted { role: row.role, parts: parts.redacted(&open) }
    }
}

fn hides(part: &DisclosedPart, member: &str) -> bool {
    match part {
        DisclosedPart::Hide(hidden) => hidden.contains(member),
        DisclosedPart::Open(open) => !open.contains(member),
    }
}

/// What is needed to open payloads.
#[derive(Clone, Copy, Debug)]
pub struct DisclosureKeys<'a> {
    /// Keys of payloads that are stored encrypted.
    pub vault: Option<&'a Vault>,
    /// Which part of them is disclosed.
    pub redactions: &'a Redactions,
    /// The erasures that the fleet log records.
    pub records: &'a Records,
}

impl DisclosureKeys<'_> {
    fn of(&self, chain: &ChainRow, commitment: &Commitment, row: Option<PayloadRow>) -> Payload {
        // The fleet log decides what is erased, even if a crash left the row behind.
        if let Some(place) = self.records.erased.get(&(chain.origin.clone(), commitment.c.0)) {
            return Payload::Erased { log: place.fleet.clone(), seq: place.seq };
        }
        let Some(row) = row else { return Payload::Withheld(WithheldReason::Unsaid) };
        match vault::open(self.vault, &chain.chain, row) {
            Ok(row) => self.redactions.apply(row),
            Err(vault::Error::NoKey(_)) => Payload::Withheld(WithheldReason::Encrypted),
            Err(vault::Error::Changed(_) | vault::Error::Key { .. }) => {
                Payload::Withheld(WithheldReason::Damaged)
            }
        }
    }
}

/// Adds the stored payload for every commitment of these lines. Unless `all` is set, only approvals
/// are looked up: without them a verifier cannot see who released a call.
///
/// # Errors
/// The ledger cannot be read.
pub async fn disclose<'l>(
    reader: &dyn LedgerReader,
    chain: &ChainRow,
    lines: impl Iterator<Item = &'l EntryLine>,
    (opening, all): (&DisclosureKeys<'_>, bool),
    payloads: &mut Payloads,
) -> Result<(), StoreError> {
    let mut incognito = BTreeSet::new();
    for line in lines {
        let run = line.entry.run.as_ref().map(|link| link.run);
        if line.get::<RunOpened>().is_some_and(|opened| opened.incognito.is_some()) {
            incognito.extend(run);
        }
        for commitment in &line.entry.draft.commit {
            let payload = if !all && commitment.role != Role::Approval {
                Payload::Withheld(WithheldReason::Unsaid)
            } else if run.is_some_and(|run| incognito.contains(&run)) {
                Payload::Withheld(WithheldReason::Incognito)
            } else {
                let at = PayloadRef::of(line.entry.seq, &commitment.c.0);
                opening.of(chain, commitment, reader.payload(&chain.chain, &at).await?)
            };
            payloads.0.insert(commitment.c.0, payload);
        }
    }
    Ok(())
}
