//! The messages in a recording, compared with the commitments of the entries. A step has all messages
//! of its call; its own payloads bind those that were new, earlier steps bind the others.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::flaw::Flaw;
use super::step::RecordedCall;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::enforce::without_receipts;
use crate::record::conversation::{
    APART, Conversation, Conversations, MessageAt, References, messages, normal, normal_args,
};

/// Arguments that are stored in parts, as their entry commits to them.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct StoredParts {
    /// The payload of role `args`.
    pub args: Json,
    /// The payload of role `conversation`.
    pub conversation: Conversation,
    /// The tools, if the entry of this call has them and no earlier one.
    offer: Option<String>,
    /// The member `system`, the same.
    system: Option<String>,
    /// The member `systemInstruction`, the same.
    #[serde(rename = "systemInstruction")]
    system_instruction: Option<String>,
    /// The member `instructions`, the same.
    instructions: Option<String>,
}

/// The name that a recording has for a member that is stored apart.
pub(super) fn recorded_name(member: &'static str) -> &'static str {
    if member == "tools" { "offer" } else { member }
}

impl StoredParts {
    /// The members that are stored apart and that the entry of this call has.
    pub fn apart(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let text = |name: &str| match name {
            "tools" => &self.offer,
            "system" => &self.system,
            "systemInstruction" => &self.system_instruction,
            _ => &self.instructions,
        };
        APART.into_iter().filter_map(move |(name, _)| Some((name, text(name).as_deref()?)))
    }

    /// The member that this commitment is about.
    pub fn member(&self, c: &Digest) -> Option<&'static str> {
        let references = References::of(&self.args)?;
        references.apart.into_iter().find(|(_, of)| of == c).map(|(name, _)| name)
    }

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
    /// Digests of the members that are stored apart, by commitment.
    apart: BTreeMap<Digest, Digest>,
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
        self.follow_apart(step, stored, &references)?;
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

    /// Compares the members of a step that are stored apart with the payloads so far.
    fn follow_apart(
        &mut self,
        step: &RecordedCall,
        stored: &StoredParts,
        references: &References,
    ) -> Result<(), Flaw> {
        for (name, text) in stored.apart() {
            let member = Json::parse(text.as_bytes(), &Limits::FILE)?;
            let c = references.apart.get(name);
            let c = c.ok_or_else(|| Flaw::Unbound(recorded_name(name).to_owned()))?;
            self.apart.insert(*c, digest(&member));
        }
        for (name, c) in &references.apart {
            let member = step.args.get(name).map(digest);
            if member.is_none() || self.apart.get(c).copied() != member {
                return Err(Flaw::Payload(recorded_name(name).to_owned()));
            }
        }
        Ok(())
    }
}

/// Members of a request to a model that say who asks and what may be reused, and nothing about the
/// answer: clients write the ids of their own sessions there.
const ABOUT_CLIENT: [&str; 5] =
    ["client_metadata", "metadata", "prompt_cache_key", "safety_identifier", "user"];

/// The arguments by which a call is matched. Those of a model are compared in normal form, because
/// the ledger keeps no other, and clients rewrite earlier messages. They have no places in a ledger:
/// an agent that was denied a call shows its model that of the denial.
pub(super) fn matched(args: &Json, is_model: bool) -> Json {
    if !is_model {
        return args.clone();
    }
    let mut args = normal_args(args);
    if let Json::Object(members) = &mut args {
        members.retain(|name, _| !ABOUT_CLIENT.contains(&name.as_str()));
    }
    without_places(&mut args);
    args
}

fn without_places(value: &mut Json) {
    match value {
        Json::String(text) => *text = without_receipts(text),
        Json::Array(items) => items.iter_mut().for_each(without_places),
        Json::Object(members) => members.values_mut().for_each(without_places),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_a_model_is_matched_without_what_differs_from_run_to_run() {
        let json = |text: &str| Json::parse(text.as_bytes(), &Limits::FILE).unwrap();
        let asked = |session: &str, seq: u64, mark: &str| {
            json(&format!(
                r#"{{"model":"m","metadata":{{"user_id":"{session}"}},"user":"{session}","messages":[
                {{"role":"user","content":[{{"type":"text","text":"x"{mark}}}]}},
                {{"role":"tool","content":"Denied. receipt: entry {seq} of chain cec64784d02db0f8751e7fdad2d0e3be."}}]}}"#
            ))
        };
        let one = matched(&asked("a", 1, ""), true);
        let other = asked("b", 2, r#","cache_control":{"type":"ephemeral"}"#);
        assert_eq!(one, matched(&other, true));
        assert_ne!(one, matched(&json(r#"{"model":"m","messages":[]}"#), true));
        assert_eq!(matched(&other, false), other, "the arguments of another tool stay as they are");
    }
}
