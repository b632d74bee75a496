//! A conversation with a model, as the ledger keeps it: each message of a run once.
//!
//! An agent sends its whole conversation with every request. Stored as it comes, 60 requests hold
//! the first message 60 times. So the arguments of such a call are stored in parts: each new
//! message as a payload of its own (role `message`), the order of the messages as a list of
//! commitments that continues an earlier list (role `conversation`), the offered tools and the
//! instructions beside the conversation once per change (roles `offer` and `instructions`), and the
//! other arguments (role `args`). The last name the commitments of the others, so the digest that
//! approvers sign covers all of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::entry::Role;
use super::text::{HexDigest, Int};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};

/// The member of the arguments with the conversation.
const MESSAGES: &str = "messages";
/// The same in the `responses` dialect, where a list of items replaces the messages.
const INPUT: &str = "input";
/// The same in the `gemini` dialect.
const CONTENTS: &str = "contents";
/// The members that can have a conversation.
pub const LIST_MEMBERS: [&str; 3] = [MESSAGES, INPUT, CONTENTS];
/// The members that are stored apart from the other arguments, once per change, and the role of each.
/// They hold the tools that the model may ask for, and the instructions in the `responses`, the
/// `messages` and the `gemini` dialect. Other dialects have their instructions among the messages.
pub const APART: [(&str, Role); 4] = [
    ("instructions", Role::Instructions),
    ("system", Role::Instructions),
    ("systemInstruction", Role::Instructions),
    ("tools", Role::Offer),
];

/// The name of the member with the conversation: `messages`, unless the arguments have none and
/// their `input` or `contents` is a list of objects, or names a list that is stored elsewhere.
#[must_use]
pub fn list_member(args: &Json) -> &'static str {
    let is_list = |list: &Json| objects(list).is_some() || reference(list).is_some();
    let has = |name: &&str| args.get(name).is_some_and(is_list);
    let others = [INPUT, CONTENTS].into_iter().filter(|_| args.get(MESSAGES).is_none());
    others.into_iter().find(has).unwrap_or(MESSAGES)
}

/// The items of a list of objects.
fn objects(list: &Json) -> Option<&[Json]> {
    let items = list.as_array()?;
    items.iter().all(|item| item.as_object().is_some()).then_some(items)
}

/// The commitment of a conversation that is stored elsewhere.
fn reference(list: &Json) -> Option<Digest> {
    let reference: ConversationReference = list.read().ok()?;
    Some(reference.conversation.0)
}

/// The messages of arguments, if they are a list of objects.
#[must_use]
pub fn messages(args: &Json) -> Option<&[Json]> {
    objects(args.get(list_member(args))?)
}

/// The arguments with other messages.
#[must_use]
pub fn with_messages(args: &Json, messages: Vec<Json>) -> Json {
    let Json::Object(mut members) = without_messages(args) else { return args.clone() };
    members.insert(list_member(args).to_owned(), messages.into());
    Json::Object(members)
}

/// The arguments without their messages.
#[must_use]
pub fn without_messages(args: &Json) -> Json {
    let Some(members) = args.as_object() else { return args.clone() };
    let list = list_member(args);
    let others = members.iter().filter(|(name, _)| *name != list);
    Json::object(others.map(|(name, value)| (name.clone(), value.clone())))
}

/// The arguments with their messages in normal form, by which requests are compared; others as they
/// are.
#[must_use]
pub fn normal_args(args: &Json) -> Json {
    let normalised = messages(args).map(|messages| messages.iter().map(normal).collect());
    normalised.map_or_else(|| args.clone(), |messages| with_messages(args, messages))
}

/// The normal form of a message: the same for spellings that mean the same to a model. Clients
/// rewrite earlier messages between requests: they move cache marks, and write a text alone or as a
/// list of one block.
#[must_use]
pub fn normal(message: &Json) -> Json {
    let Some(members) = message.as_object() else { return message.clone() };
    let mut members = members.clone();
    let kind = members.get("type").and_then(Json::as_str).map(str::to_owned);
    // The id of a reference to an item is all that it says.
    if kind.as_deref() != Some("item_reference") {
        members.remove("id");
    }
    if kind.is_some() {
        members.remove("status");
    }
    members.remove("cache_control");
    members.retain(|_name, value| *value != Json::Null);
    if let Some(content) = members.get_mut("content") {
        *content = content_of(content);
    }
    if let Some(Json::Array(calls)) = members.get_mut("tool_calls") {
        for call in calls {
            if let Json::Object(call) = call
                && let Some(Json::Object(function)) = call.get_mut("function")
            {
                canonical_arguments(function);
            }
        }
    }
    if kind.as_deref() == Some("function_call") {
        canonical_arguments(&mut members);
    }
    Json::Object(members)
}

/// Text as text, blocks without their cache marks.
fn content_of(content: &Json) -> Json {
    let Json::Array(parts) = content else { return content.clone() };
    let parts: Vec<Json> = parts.iter().map(block_of).collect();
    if let [only] = parts.as_slice()
        && let (Some("text" | "input_text"), Some(text)) =
            (only.get("type").and_then(Json::as_str), only.get("text").and_then(Json::as_str))
        && only.as_object().is_some_and(|members| members.len() == 2)
    {
        return Json::from(text);
    }
    parts.into()
}

/// A block without its cache mark. The content of a tool's result is written as that of a message
/// is, and a result that is no error need not say so.
fn block_of(block: &Json) -> Json {
    let Json::Object(members) = block else { return block.clone() };
    let mut members = members.clone();
    members.remove("cache_control");
    if members.get("type").and_then(Json::as_str) == Some("tool_result") {
        if members.get("is_error") == Some(&Json::Bool(false)) {
            members.remove("is_error");
        }
        if let Some(content) = members.get("content").and_then(Json::as_array) {
            let content = content_of(&content.to_vec().into());
            members.insert("content".to_owned(), content);
        }
    }
    Json::Object(members)
}

/// The arguments of a function call as canonical JSON, if they are JSON.
fn canonical_arguments(call: &mut BTreeMap<String, Json>) {
    if let Some(text) = call.get("arguments").and_then(Json::as_str)
        && let Ok(arguments) = Json::parse(text.as_bytes(), &Limits::ARGUMENTS)
    {
        let written = canonical::text(&arguments);
        call.insert("arguments".to_owned(), Json::from(written));
    }
}

/// What a model says in its answer, as messages: a chat completion, a message, a response, the
/// contents of candidates or the message of Ollama, as its provider wrote it, or an answer as tools of kind `model` give it. `None`: the answer has another
/// form.
#[must_use]
pub fn said(answer: &Json) -> Option<Vec<Json>> {
    if let Some(choices) = answer.get("choices").and_then(Json::as_array) {
        let message = choices.iter().map(|choice| choice.get("message"));
        return message.map(|one| one.filter(|one| one.as_object().is_some()).cloned()).collect();
    }
    if let Some(items) = answer.get("output") {
        return objects(items).map(<[Json]>::to_vec);
    }
    if let Some(candidates) = answer.get("candidates").and_then(Json::as_array) {
        let contents = candidates.iter().map(|candidate| candidate.get("content"));
        return contents.map(|one| one.filter(|one| one.as_object().is_some()).cloned()).collect();
    }
    if let Some(message) = answer.get("message") {
        return message.as_object().map(|_| vec![message.clone()]);
    }
    let parts = ["role", "content"].map(|name| answer.get(name).map(|value| (name, value.clone())));
    let [Some(role), Some(content)] = parts else { return None };
    content.1.as_array().is_some().then(|| vec![Json::object([role, content])])
}

/// The payload of role `conversation`: an earlier list of messages continued.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// The commitments of the messages that follow.
    pub add: Vec<HexDigest>,
    /// The list that this one continues: the commitment of an earlier `conversation`, or of `args`
    /// that were stored whole. `null` if it begins here.
    pub base: Option<HexDigest>,
    /// How many messages of `base` come first.
    pub keep: Int,
}

impl Conversation {
    /// The stored bytes, which are canonical JSON.
    pub fn bytes(&self) -> Vec<u8> {
        canonical::bytes(&Json::of(self))
    }

    /// Reads the stored bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        canonical::read(bytes, &Limits::FILE).ok()??.read().ok()
    }
}

/// What arguments that are stored in parts name instead of their messages, tools and instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct References {
    /// The commitment of the conversation.
    pub conversation: Digest,
    /// The commitments of the members that are stored apart, by the name of the member.
    pub apart: BTreeMap<&'static str, Digest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConversationReference {
    conversation: HexDigest,
}

/// The commitment of a member that is stored apart: an object with its role as the only name.
fn apart_reference(member: &Json, role: Role) -> Option<Digest> {
    let only = member.as_object().filter(|members| members.len() == 1)?.get(role.as_str())?;
    Some(only.read::<HexDigest>().ok()?.0)
}

impl References {
    /// The references in stored arguments; none if these were stored whole.
    #[must_use]
    pub fn of(args: &Json) -> Option<Self> {
        let conversation = reference(args.get(list_member(args))?)?;
        let mut apart = BTreeMap::new();
        for (name, role) in APART {
            let Some(member) = args.get(name) else { continue };
            match apart_reference(member, role) {
                Some(c) => drop(apart.insert(name, c)),
                // An earlier version stored instructions with the other arguments.
                None if role == Role::Instructions => {}
                None => return None,
            }
        }
        Some(Self { conversation, apart })
    }

    /// The arguments with these references in place of what is stored apart from them.
    pub fn put(&self, args: &Json) -> Json {
        let list = list_member(args);
        let others = args.as_object().into_iter().flatten();
        let others =
            others.filter(|(name, _)| *name != list && !self.apart.contains_key(name.as_str()));
        let mut members: BTreeMap<String, Json> =
            others.map(|(name, value)| (name.clone(), value.clone())).collect();
        let refer = |name: &str, to: &Digest| Json::object([(name, Json::from(to.hex()))]);
        members.insert(list.to_owned(), refer("conversation", &self.conversation));
        for (name, role) in APART {
            if let Some(c) = self.apart.get(name) {
                members.insert(name.to_owned(), refer(role.as_str(), c));
            }
        }
        Json::Object(members)
    }
}

/// What a policy sees of a member that is stored apart, if it allowed the same in an earlier call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberDigest {
    /// The length of its canonical form.
    pub bytes: Int,
    /// SHA-256 of its canonical form.
    pub sha256: HexDigest,
}

impl MemberDigest {
    /// The digest of a member.
    #[must_use]
    pub fn of(member: &Json) -> Self {
        let written = canonical::bytes(member);
        let bytes = u64::try_from(written.len()).unwrap_or(u64::MAX);
        Self { bytes: bytes.into(), sha256: HexDigest(Digest::of(&[&written])) }
    }

    /// Whether a policy that saw this value saw the member; and then, whether in full.
    #[must_use]
    pub fn shows(seen: &Json, member: &Json) -> Option<bool> {
        if seen == member {
            return Some(true);
        }
        let digest: Self = seen.read().ok()?;
        (digest == Self::of(member)).then_some(false)
    }
}

/// The place of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageAt {
    /// A payload of role `message` with this commitment.
    Payload(Digest),
    /// The message of this index in `args` with this commitment, which were stored whole.
    Within(Digest, usize),
}

/// The conversations of a run, to follow what continues what.
#[derive(Clone, Debug, Default)]
pub struct Conversations(BTreeMap<Digest, Node>);

#[derive(Clone, Debug)]
enum Node {
    /// Arguments that were stored whole, with this many messages.
    Whole(usize),
    Part(Conversation),
}

impl Conversations {
    /// Adds arguments that were stored whole.
    pub fn whole(&mut self, args: Digest, messages: usize) {
        self.0.insert(args, Node::Whole(messages));
    }

    /// Adds a conversation by its commitment.
    pub fn part(&mut self, commitment: Digest, conversation: Conversation) {
        self.0.insert(commitment, Node::Part(conversation));
    }

    /// The messages of a conversation in order; none if a conversation that it continues is
    /// unknown, or has fewer messages than are kept of it.
    #[must_use]
    pub fn messages(&self, commitment: &Digest) -> Option<Vec<MessageAt>> {
        let (mut at, mut parts, mut all) = (Some(*commitment), Vec::new(), Vec::new());
        // A commitment is made after its base, so there is no circle; the bound holds for input
        // that a liar wrote.
        for _ in 0..=self.0.len() {
            let Some(here) = at else { break };
            match self.0.get(&here)? {
                Node::Whole(count) => {
                    all = (0..*count).map(|index| MessageAt::Within(here, index)).collect();
                    at = None;
                }
                Node::Part(part) => {
                    parts.push(part);
                    at = part.base.map(|base| base.0);
                }
            }
        }
        for part in parts.into_iter().rev() {
            let keep = usize::try_from(part.keep.get()).ok().filter(|keep| *keep <= all.len())?;
            all.truncate(keep);
            all.extend(part.add.iter().map(|c| MessageAt::Payload(c.0)));
        }
        at.is_none().then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::json;

    #[test]
    fn spellings_that_mean_the_same_to_a_model_have_one_normal_form() {
        let one = json!({"role": "user", "content": "x"});
        for other in [
            json!({"role": "user", "content": [{"type": "text", "text": "x"}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}),
            json!({"role": "user", "content": "x", "id": "msg_1", "name": null}),
        ] {
            assert_eq!(normal(&other), one);
        }
        let call = |arguments: &str| {
            json!({"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
                "function": {"name": "f", "arguments": arguments}}]})
        };
        assert_eq!(normal(&call(r#"{"b":1, "a":2}"#)), call(r#"{"a":2,"b":1}"#));
        assert_eq!(normal(&call("no json")), call("no json"));
        for other in [
            json!({"role": "system", "content": "x"}),
            json!({"role": "user", "content": "y"}),
            json!({"role": "user", "content": [{"type": "text", "text": "x", "more": 1}]}),
            json!({"role": "user", "content": ["x"]}),
            json!({"role": "tool", "content": "x", "tool_call_id": "c"}),
        ] {
            assert_ne!(normal(&other), one);
        }
    }

    #[test]
    fn blocks_of_a_tools_result_have_one_normal_form() {
        let of = |result: Json| normal(&json!({"role": "user", "content": [result.to_serde()]}));
        let one = of(json!({"type": "tool_result", "tool_use_id": "c", "content": "x"}));
        let text = json!({"type": "text", "text": "x"}).to_serde();
        let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
        for other in [
            json!({"type": "tool_result", "tool_use_id": "c", "content": [text]}),
            json!({"type": "tool_result", "tool_use_id": "c", "content": [marked.to_serde()],
                "is_error": false, "cache_control": {"type": "ephemeral"}}),
        ] {
            assert_eq!(of(other), one);
        }
        for other in [
            json!({"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": true}),
            json!({"type": "tool_result", "tool_use_id": "d", "content": "x"}),
            json!({"type": "tool_result", "tool_use_id": "c", "content": [text, text]}),
        ] {
            assert_ne!(of(other), one);
        }
        let call = json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "c", "name": "f", "input": {"b": [1], "a": null}}]});
        assert_eq!(normal(&call), call);
    }

    #[test]
    fn items_have_one_normal_form_whatever_id_and_status_a_client_gives_them() {
        let one =
            json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\":1}"});
        for other in [
            json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\": 1}"}),
            json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\":1}",
                "id": "fc_1", "status": "completed"}),
        ] {
            assert_eq!(normal(&other), one);
        }
        let text = |content: Json| json!({"type": "message", "role": "user", "content": content.to_serde()});
        let parts = json!([{"type": "input_text", "text": "x"}]);
        assert_eq!(normal(&text(parts)), text(Json::from("x")));
        let item = |id: &str| normal(&json!({"type": "item_reference", "id": id}));
        assert_ne!(item("msg_1"), item("msg_2"));
    }

    #[test]
    fn the_conversation_is_in_messages_or_else_in_input() {
        let items = json!([{"role": "user", "content": "x"}]);
        let list = || items.to_serde();
        let input = json!({"model": "m", "input": list(), "tools": [1]});
        assert_eq!(messages(&input), items.as_array());
        assert_eq!(without_messages(&input), json!({"model": "m", "tools": [1]}));
        let none = with_messages(&input, Vec::new());
        assert_eq!(none, json!({"model": "m", "input": [], "tools": [1]}));
        assert_eq!(with_messages(&none, items.as_array().unwrap().to_vec()), input);

        let digest = Digest::of(&[b"c"]);
        let all = References { conversation: digest, apart: BTreeMap::from([("tools", digest)]) };
        let stored = all.put(&input);
        assert_eq!((References::of(&stored), messages(&stored)), (Some(all), None));
        assert!(stored.get("messages").is_none());
        assert_eq!(with_messages(&stored, Vec::new()).get("input"), Some(&json!([])));

        let contents = json!({"model": "m", "contents": list()});
        assert_eq!((messages(&contents), list_member(&contents)), (items.as_array(), "contents"));

        let both = json!({"messages": list(), "input": [{"role": "user", "content": "y"}]});
        assert_eq!(messages(&both), items.as_array());
        assert_eq!(without_messages(&both).get("input"), both.get("input"));
        for text in [json!({"input": "x"}), json!({"input": ["x"]}), json!({"input": {"a": 1}})] {
            assert_eq!(messages(&text), None);
            assert_eq!(without_messages(&text), text);
            assert!(with_messages(&text, Vec::new()).get("messages").is_some());
        }
    }

    #[test]
    fn an_answer_of_each_dialect_is_read_as_messages() {
        let message = json!({"role": "assistant", "content": "x"});
        let call = json!({"type": "function_call", "name": "f", "arguments": "{}"});
        let block = json!([{"type": "text", "text": "x"}]);
        let blocks = json!({"role": "assistant", "content": block});
        for (answer, said_there) in [
            (json!({"choices": [{"index": 0, "message": message}]}), vec![message.clone()]),
            (json!({"object": "response", "output": [message, call]}), vec![message, call]),
            (
                json!({"type": "message", "role": "assistant", "content": block}),
                vec![blocks.clone()],
            ),
            (json!({"model": "m", "message": blocks}), vec![blocks.clone()]),
            (json!({"candidates": [{"content": blocks, "finishReason": "STOP"}]}), vec![blocks]),
        ] {
            assert_eq!(said(&answer), Some(said_there));
        }
        for other in [json!({}), json!({"content": []}), json!({"choices": [{}]}), json!([])] {
            assert_eq!(said(&other), None);
        }
    }

    #[test]
    fn a_conversation_is_followed_to_its_beginning_and_never_beyond() {
        let digest = |name: &str| Digest::of(&[name.as_bytes()]);
        let part = |base: Option<&str>, keep: u64, add: &[&str]| Conversation {
            add: add.iter().map(|name| HexDigest(digest(name))).collect(),
            base: base.map(|name| HexDigest(digest(name))),
            keep: keep.into(),
        };
        let mut all = Conversations::default();
        all.whole(digest("args"), 2);
        all.part(digest("first"), part(None, 0, &["a", "b"]));
        all.part(digest("second"), part(Some("first"), 1, &["c"]));
        all.part(digest("third"), part(Some("args"), 1, &["c"]));
        all.part(digest("lost"), part(Some("nowhere"), 0, &[]));
        all.part(digest("long"), part(Some("first"), 3, &[]));
        all.part(digest("circle"), part(Some("circle"), 0, &["a"]));
        let payload = |name: &str| MessageAt::Payload(digest(name));
        let found = |name: &str| all.messages(&digest(name));
        assert_eq!(found("second"), Some(vec![payload("a"), payload("c")]));
        let within = MessageAt::Within(digest("args"), 0);
        assert_eq!(found("third"), Some(vec![within, payload("c")]));
        for none in ["lost", "long", "circle", "nowhere"] {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn stored_arguments_name_the_parts_and_nothing_else_does() {
        let digest = Digest::of(&[b"c"]);
        let args =
            json!({"model": "m", "messages": [{"role": "user"}], "tools": [1], "system": "s"});
        let of = |names: &[&'static str]| References {
            conversation: digest,
            apart: names.iter().map(|name| (*name, digest)).collect(),
        };
        let (all, old) = (of(&["system", "tools"]), of(&["tools"]));
        let hex = digest.hex();
        assert_eq!(
            all.put(&args),
            json!({"model": "m", "messages": {"conversation": hex}, "tools": {"offer": hex},
                "system": {"instructions": hex}})
        );
        for one in [&all, &old] {
            assert_eq!(References::of(&one.put(&args)).as_ref(), Some(one));
        }
        // Instructions stay where an earlier version stored them; tools never do.
        assert_eq!(old.put(&args).get("system"), Some(&Json::from("s")));
        assert_eq!(References::of(&of(&["system"]).put(&args)), None);
        assert_eq!(References::of(&args), None);
        assert_eq!(messages(&all.put(&args)), None);
    }

    #[test]
    fn a_policy_saw_a_member_in_full_or_by_its_digest_or_another_one() {
        let tools = json!([{"name": "f"}]);
        let digest = Json::of(&MemberDigest::of(&tools));
        assert_eq!(digest.get("bytes"), Some(&Json::from(14_u64)));
        assert_eq!(MemberDigest::shows(&tools, &tools), Some(true));
        assert_eq!(MemberDigest::shows(&digest, &tools), Some(false));
        let other = json!([{"name": "g"}]);
        for (seen, member) in [(&other, &tools), (&digest, &other), (&json!({"bytes": 14}), &tools)]
        {
            assert_eq!(MemberDigest::shows(seen, member), None, "{seen:?}");
        }
    }

    #[test]
    fn a_list_of_messages_is_stored_in_one_spelling() {
        let first = Conversation { add: Vec::new(), base: None, keep: 0_u64.into() };
        assert_eq!(first.bytes(), br#"{"add":[],"base":null,"keep":0}"#);
        assert_eq!(Conversation::read(&first.bytes()), Some(first));
        assert_eq!(Conversation::read(br#"{"add":[],"base":null,"keep":0,"x":1}"#), None);
        assert_eq!(Conversation::read(br#"{"add": [],"base":null,"keep":0}"#), None);
    }
}
