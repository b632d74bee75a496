//! The messages of one call to a model: what a policy is shown of them, and how they are stored.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::domain::commitment::commit;
use crate::domain::decision::Decision;
use crate::domain::digest::{Digest, Salt};
use crate::domain::effect::{Effect, EffectKind};
use crate::domain::facts::Finding;
use crate::domain::json::Json;
use crate::domain::sent::{MessageKey, SearchedFor};
use crate::firewall::Hit;
use crate::record::{Role, decided};

/// The messages of one call to a model, compared with those that its run sent before.
#[derive(Debug)]
pub struct ModelArgs {
    /// Canonical arguments as a policy sees them: without the messages that were judged before.
    pub shown: Vec<u8>,
    /// Messages that are shown.
    pub new_messages: u64,
    /// Shown messages whose text is left out.
    pub messages_cut: u64,
    /// The firewall's findings in what is shown, and in the messages that are not.
    pub findings: Vec<Finding>,
    /// The same, with every message as new.
    pub findings_of_all: Vec<Finding>,
    /// All that the firewall found in the whole conversation and beside it, whenever it came.
    pub hits: Vec<Hit>,
    /// Obligations under which messages that are not shown were allowed.
    pub carried: BTreeSet<String>,
    /// Every message of the call, in order.
    pub messages: Vec<KnownMessage>,
    /// The other arguments.
    pub rest: KnownRest,
    /// The basis of the judgement, by its number in the run.
    pub basis: usize,
    /// The form in which the arguments are stored; none if they are stored whole.
    pub parts: Option<ArgParts>,
    /// How the arguments were stored, once the entry is drafted.
    pub stored: OnceLock<StoredArgs>,
    /// The credentials of which all of the call is clean, once it was searched.
    pub clean_of: OnceLock<SearchedFor>,
}

/// One message, as its run knows it.
#[derive(Debug)]
pub struct KnownMessage {
    /// By its exact value.
    pub exact: MessageKey,
    /// By its normal form.
    pub normal: MessageKey,
    /// The firewall's findings, with places inside the message.
    pub findings: Box<[Hit]>,
}

/// The arguments beside the messages, as their run knows them.
#[derive(Debug)]
pub struct KnownRest {
    /// By their exact value.
    pub exact: MessageKey,
    /// The firewall's findings in them.
    pub findings: Box<[Hit]>,
}

/// Arguments in parts.
#[derive(Debug)]
pub struct ArgParts {
    /// The payload of role `args`, which names the others.
    pub args: Vec<u8>,
    /// The order of the messages.
    pub conversation: PartPayload,
    /// The tools and the instructions that the run did not send before.
    pub apart: Vec<ApartPayload>,
    /// New messages, with their index in the call.
    pub messages: Vec<(usize, PartPayload)>,
}

/// A member that is stored apart from the other arguments.
#[derive(Debug)]
pub struct ApartPayload {
    /// By its bytes.
    pub key: MessageKey,
    /// The role of the payload.
    pub role: Role,
    /// The bytes as they were sent.
    pub payload: PartPayload,
}

/// One payload, and what opens its commitment.
#[derive(Debug)]
pub struct PartPayload {
    /// The commitment.
    pub c: Digest,
    /// Its salt.
    pub salt: Salt,
    /// The bytes.
    pub body: Vec<u8>,
}

impl PartPayload {
    /// Commits to these bytes with this salt.
    pub fn of(salt: Salt, body: Vec<u8>) -> Self {
        Self { c: commit(&salt, &body), salt, body }
    }
}

/// The form in which arguments were stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredArgs {
    /// In parts.
    Parts,
    /// Whole, with this commitment.
    Whole(Digest),
}

impl ModelArgs {
    /// Adds to the effect of the call what only its run knows. `all`: every message is shown.
    pub fn complete(&self, effect: &mut Effect, all: bool) {
        let count = u64::try_from(self.messages.len()).unwrap_or(u64::MAX);
        let (new, cut) = if all { (count, 0) } else { (self.new_messages, self.messages_cut) };
        if let Effect::Model { new_messages, messages_cut, .. } = effect {
            (*new_messages, *messages_cut) = (new, cut);
        }
        // In a replay; an earlier version recorded no such members, and showed every message.
        if let Effect::Recorded { effect: Json::Object(members), .. } = effect
            && members.get("kind").and_then(Json::as_str) == Some(EffectKind::Model.as_str())
            && (!all || members.contains_key("new_messages"))
        {
            members.insert("new_messages".to_owned(), Json::from(new));
            members.insert("messages_cut".to_owned(), Json::from(cut));
        }
    }

    /// Whether a decision about what is shown lacks an obligation of a message that is not shown.
    /// Then the whole conversation must be judged: the policy may impose it because of that message.
    pub fn lacks(&self, decision: &Decision) -> bool {
        let given = obligations(decision);
        !self.carried.is_subset(&given)
    }
}

/// The obligations of a decision, each as canonical JSON.
pub fn obligations(decision: &Decision) -> BTreeSet<String> {
    let given = decided::obligations(&decision.obligations);
    given.iter().map(|one| crate::domain::canonical::text(&Json::of(one))).collect()
}
