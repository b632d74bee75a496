//! The conversations of a run with models, put together again from entries and payloads.

use std::collections::BTreeMap;

use super::payloads::{Payload, Payloads};
use crate::domain::digest::Digest;
use crate::domain::id::CallId;
use crate::domain::json::{Json, Limits};
use crate::entries::EntryLine;
use crate::record::conversation::{
    APART, Conversation, Conversations, MessageAt, References, messages, normal, with_messages,
};
use crate::record::{Commitment, HexDigest, Role};

/// What the lines of a run say about conversations with models.
#[derive(Clone, Debug, Default)]
pub struct RunMessages<'a> {
    lists: Conversations,
    /// The messages and the instructions that the lines commit to.
    committed: BTreeMap<Digest, Commitment>,
    /// The call whose line commits to this list, or to these whole arguments.
    calls: BTreeMap<Digest, &'a CallId>,
}

/// The bytes of a payload that is disclosed completely.
fn opened<'p>(payloads: &'p Payloads, c: &Digest) -> Option<&'p [u8]> {
    match payloads.0.get(c)? {
        Payload::Opened { body, .. } => Some(body),
        Payload::Redacted { .. } | Payload::Erased { .. } | Payload::Withheld(_) => None,
    }
}

/// The document in a payload that is disclosed completely.
pub(crate) fn json(payloads: &Payloads, c: &Digest) -> Option<Json> {
    Json::parse(opened(payloads, c)?, &Limits::FILE).ok()
}

impl<'a> RunMessages<'a> {
    /// Reads them from the lines of one run.
    pub fn of(lines: impl Iterator<Item = &'a EntryLine>, payloads: &Payloads) -> Self {
        let mut all = Self::default();
        lines.for_each(|line| all.add(line, payloads));
        all
    }

    /// Adds the next line of the run.
    pub fn add(&mut self, line: &'a EntryLine, payloads: &Payloads) {
        let draft = &line.entry.draft;
        let Some(call) = &draft.call else { return };
        let is_part = |role| matches!(role, Role::Message | Role::Instructions);
        for commitment in draft.commit.iter().filter(|c| is_part(c.role)) {
            self.committed.insert(commitment.c.0, *commitment);
        }
        let in_parts = draft.body.decision().is_some_and(|made| made.args_bytes.is_some());
        let role = if in_parts { Role::Conversation } else { Role::Args };
        let Some(c) = draft.committed(role).map(|c| c.c.0) else { return };
        self.calls.entry(c).or_insert(call);
        if !in_parts {
            let count = json(payloads, &c).and_then(|args| Some(messages(&args)?.len()));
            count.into_iter().for_each(|count| self.lists.whole(c, count));
        } else if let Some(list) = opened(payloads, &c).and_then(Conversation::read) {
            self.lists.part(c, list);
        }
    }

    /// The first payload that is missing for the messages of a list: the list itself, one that it
    /// continues, or a message.
    #[must_use]
    pub fn missing(&self, list: &Digest, payloads: &Payloads) -> Option<Digest> {
        let Some(places) = self.lists.messages(list) else { return Some(*list) };
        let at = places.into_iter().map(|place| match place {
            MessageAt::Payload(c) | MessageAt::Within(c, _) => c,
        });
        let mut at = at.filter(|c| opened(payloads, c).is_none());
        at.next()
    }

    /// The messages of a list in order, as far as they are disclosed. `None`: the list is not.
    #[must_use]
    pub fn read(&self, list: &Digest, payloads: &Payloads) -> Option<Vec<Option<Json>>> {
        let mut whole: BTreeMap<Digest, Option<Json>> = BTreeMap::new();
        let mut one = |at: MessageAt| match at {
            MessageAt::Payload(c) => json(payloads, &c),
            MessageAt::Within(args, index) => {
                let args = whole.entry(args).or_insert_with(|| json(payloads, &args)).as_ref()?;
                messages(args)?.get(index).map(normal)
            }
        };
        Some(self.lists.messages(list)?.into_iter().map(&mut one).collect())
    }

    /// The arguments of a call with their messages, in normal form, their tools and their
    /// instructions, if all of it is disclosed. Arguments that were stored whole are as they are.
    #[must_use]
    pub fn whole(&self, args: &Json, payloads: &Payloads) -> Option<Json> {
        let Some(References { conversation, apart }) = References::of(args) else {
            return Some(args.clone());
        };
        let messages = self.read(&conversation, payloads)?;
        let messages = messages.into_iter().collect::<Option<Vec<Json>>>()?;
        let Json::Object(mut members) = with_messages(args, messages) else { return None };
        for (name, c) in apart {
            members.insert(name.to_owned(), json(payloads, &c)?);
        }
        Some(Json::Object(members))
    }

    /// The conversation of these lines of one call, as the transcript has it: what it continues,
    /// the messages that follow, and the instructions beside them. Messages that cannot be put in
    /// order are those that the lines commit to.
    #[must_use]
    pub fn shown(&self, lines: &[&EntryLine], payloads: &Payloads) -> Option<Json> {
        let commitments = || lines.iter().flat_map(|line| &line.entry.draft.commit);
        let list = commitments().find(|c| c.role == Role::Conversation)?;
        let read = opened(payloads, &list.c).and_then(Conversation::read);
        let mut members = vec![("list", payloads.shown(list))];
        let followed: Vec<Commitment> = match &read {
            None => commitments().filter(|c| c.role == Role::Message).copied().collect(),
            Some(read) => {
                let call = read.base.and_then(|base| self.calls.get(&base.0));
                members.extend(call.map(|call| ("continues", Json::from(call.as_str()))));
                members.push(("keep", Json::from(read.keep.get())));
                read.add.iter().map(|c| self.commitment(c.0, Role::Message)).collect()
            }
        };
        let args = commitments().find(|c| c.role == Role::Args);
        let references = args.and_then(|args| References::of(&json(payloads, &args.c.0)?));
        // WHY not the tools: earlier transcripts lack them, and are made again byte for byte. Earlier
        // entries have no instructions of their own.
        for (name, role) in APART.into_iter().filter(|(_, role)| *role == Role::Instructions) {
            let c = references.as_ref().and_then(|all| all.apart.get(name));
            members.extend(c.map(|c| (name, payloads.shown(&self.commitment(*c, role)))));
        }
        let followed: Vec<Json> = followed.iter().map(|c| payloads.shown(c)).collect();
        members.push(("messages", followed.into()));
        Some(Json::object(members))
    }

    /// The commitment of a part as a line has it.
    fn commitment(&self, c: Digest, role: Role) -> Commitment {
        let unknown = || Commitment { c: HexDigest(c), len: 0_u64.into(), role };
        self.committed.get(&c).copied().unwrap_or_else(unknown)
    }
}
