//! The messages in a recording, compared with the commitments of the entries. A step has all messages
//! of its call; its own payloads bind those that were new, earlier steps bind the others.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::flaw::Flaw;
use super::step::RecordedCall;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::record::conversation::{
    Conversation, Conversations, MessageAt, References, messages, normal, normal_args,
};

/// Arguments that are stored in parts, as their entry commits to them.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct StoredParts {
    /// The payload of role `args`.
    pub args: Json,
    /// The payload of role `conversation`.
    pub conversation: Conversation,
    /// The payload of role `offer`, if the call offered other tools than those before.
    pub offer: Option<String>,
}

impl StoredParts {
    /// The message of the whole arguments that this commitment is about.
    pub fn message(&self, args: &Json, c: &Digest) -> Option<Json> {
        let at = self.conversation.add.iter().position(|add| add.0 == *c)?;
        let keep = usize::try_from(self.conversation.keep.get()).ok()?;
        messages(args)?.get(keep.checked_add(at)?).cloned()
    }
}

/// The messages of the steps so far.
#[derive(Default)]
pub(super) struct StepMessages {
    lists: Conversations,
    /// Digests of the messages, by commitment.
    messages: BTreeMap<Digest, Digest>,
    /// Digests of the messages of arguments that were stored whole.
    whole: BTreeMap<Digest, Vec<Digest>>,
}

fn digest(message: &Json) -> Digest {
    Digest::of(&[&canonical::bytes(message)])
}

impl StepMessages {
    /// Compares the messages of a step, whose own payloads were compared, with those before.
    pub fn follow(&mut self, step: &RecordedCall) -> Result<(), Flaw> {
        let flaw = || Flaw::Payload("conversation".to_owned());
        let said = messages(&step.args);
        let Some(stored) = &step.stored else {
            if let Some((said, c)) = said.zip(step.committed("args")) {
                let digests: Vec<Digest> = said.iter().map(|one| digest(&normal(one))).collect();
                self.lists.whole(c, digests.len());
                self.whole.insert(c, digests);
            }
            return Ok(());
        };
        let references = References::of(&stored.args).ok_or_else(flaw)?;
        let list = step.committed("conversation").filter(|c| *c == references.conversation);
        let list = list.ok_or_else(flaw)?;
        if references.put(&step.args) != stored.args {
            return Err(flaw());
        }
        let said = said.ok_or_else(flaw)?;
        for c in step.all_committed("message") {
            let message = stored.message(&step.args, &c).ok_or_else(flaw)?;
            self.messages.insert(c, digest(&message));
        }
        self.lists.part(list, stored.conversation.clone());
        let places = self.lists.messages(&list).ok_or_else(flaw)?;
        let is_it = |(place, message): (&MessageAt, &Json)| {
            let known = match place {
                MessageAt::Payload(c) => self.messages.get(c),
                MessageAt::Within(args, at) => self.whole.get(args).and_then(|all| all.get(*at)),
            };
            known == Some(&digest(message))
        };
        let all = places.len() == said.len() && places.iter().zip(said).all(is_it);
        if all { Ok(()) } else { Err(flaw()) }
    }
}

/// The arguments by which a call is matched. Those of a model are compared in normal form, because
/// the ledger keeps no other, and clients rewrite earlier messages.
pub(super) fn matched(args: &Json, is_model: bool) -> Json {
    if is_model { normal_args(args) } else { args.clone() }
}
