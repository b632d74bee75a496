//! What the readers of the dialects share: places, closed objects, and the request as it grows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::unnamed::PendingCalls;
use super::{
    Ask, AskError, AskRules, EarlierCall, EarlierResult, Edits, HostedTools, Instruction,
    RemoteState,
};
use crate::domain::canonical;
use crate::domain::dialect::{Dialect, Operation, Place};
use crate::domain::json::Json;

/// A result of reading a part of a request.
pub(super) type AskResult<T> = Result<T, AskError>;

/// Members of an object by name.
pub(super) type ObjectMembers = BTreeMap<String, Json>;

/// Characters of a name or a type that a message shows: requests choose them.
const SHOWN: usize = 64;

/// What becomes of a member of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemberUse {
    /// The gate reads it.
    Read,
    /// It is sent as it is: it can neither act nor instruct.
    Pass,
    /// The provider would run something for it: `model.hosted_tool`, unless it is `null` or empty.
    Hosted,
    /// The provider would remember or add something for it: `model.remote_state`, unless it is
    /// `null` or `false`.
    State,
    /// It asks for several answers: `model.choices`, unless it is `null` or 1.
    Choices,
    /// The provider may answer with another model: refused, unless it is `null` or empty.
    OtherModel,
}

/// The members that a dialect has.
pub(super) type MemberTable = &'static [(&'static str, MemberUse)];

/// A place in the request. It is written only if something is wrong there.
#[derive(Clone, Copy)]
pub(super) struct RequestPath<'a> {
    above: Option<&'a Self>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> RequestPath<'a> {
    /// A member of the request.
    pub const fn top(name: &'a str) -> Self {
        Self { above: None, step: PathStep::Name(name) }
    }

    /// A member of the object here.
    pub const fn member(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), step: PathStep::Name(name) }
    }

    /// An item of the list here.
    pub const fn item(&'a self, index: usize) -> Self {
        Self { above: Some(self), step: PathStep::Index(index) }
    }

    /// The error that the value here has another form.
    pub fn shape(&self, expected: &'static str) -> AskError {
        AskError::Shape { at: self.to_string(), expected }
    }

    /// The error that content of this type is not read.
    pub fn content(&self, kind: &str) -> AskError {
        AskError::Content { at: self.to_string(), kind: shown(kind) }
    }
}

impl fmt::Display for RequestPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            write!(f, "{above}")?;
        }
        match self.step {
            PathStep::Index(index) => write!(f, "[{index}]"),
            PathStep::Name(name) if self.above.is_some() => write!(f, ".{}", shown(name)),
            PathStep::Name(name) => f.write_str(&shown(name)),
        }
    }
}

/// A text of the request, as a message shows it.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && *c != '`').take(SHOWN).collect()
}

/// The object here.
pub(super) fn object<'v>(value: &'v Json, at: &RequestPath<'_>) -> AskResult<&'v ObjectMembers> {
    value.as_object().ok_or_else(|| at.shape("an object"))
}

/// The list here.
pub(super) fn list<'v>(value: &'v Json, at: &RequestPath<'_>) -> AskResult<&'v [Json]> {
    value.as_array().ok_or_else(|| at.shape("a list"))
}

/// The text here.
pub(super) fn text<'v>(value: &'v Json, at: &RequestPath<'_>) -> AskResult<&'v str> {
    value.as_str().ok_or_else(|| at.shape("a string"))
}

/// What stands for a member that is absent.
pub(super) static NULL: Json = Json::Null;

/// A member; `null` if it is absent.
pub(super) fn value_of<'v>(members: &'v ObjectMembers, name: &str) -> &'v Json {
    members.get(name).unwrap_or(&NULL)
}

/// A member, unless it is absent or `null`.
pub(super) fn given<'v>(members: &'v ObjectMembers, name: &str) -> Option<&'v Json> {
    members.get(name).filter(|value| **value != Json::Null)
}

/// The text of a member that must be there.
pub(super) fn text_of<'v>(
    members: &'v ObjectMembers,
    name: &str,
    at: &RequestPath<'_>,
) -> AskResult<&'v str> {
    text(value_of(members, name), &at.member(name))
}

/// The text of a member, if it is given.
pub(super) fn maybe_text<'v>(
    members: &'v ObjectMembers,
    name: &str,
    at: &RequestPath<'_>,
) -> AskResult<Option<&'v str>> {
    given(members, name).map(|value| text(value, &at.member(name))).transpose()
}

/// The `type` of an object; empty if it has none.
pub(super) fn kind_of<'v>(members: &'v ObjectMembers, at: &RequestPath<'_>) -> AskResult<&'v str> {
    Ok(maybe_text(members, "type", at)?.unwrap_or_default())
}

/// A count as our figures have it.
pub(super) fn number(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

/// A request while it is read.
pub(super) struct AskReader<'r> {
    pub rules: &'r AskRules,
    pub ask: Ask,
    /// Bytes of inline images and files.
    pub inline: u64,
    /// Whether a message that is no instructions was read.
    pub has_begun: bool,
    /// The index of the message that is being read.
    pub turn: usize,
    /// Names of the offered tools, to find one that is offered twice.
    pub names: BTreeSet<String>,
    /// Tool calls without a result, of a dialect in which calls may have no id.
    pending: PendingCalls,
}

impl<'r> AskReader<'r> {
    /// An empty request.
    pub fn of(dialect: Dialect, operation: Operation, rules: &'r AskRules) -> Self {
        let ask = Ask {
            dialect,
            operation,
            model: String::new(),
            stream: false,
            wants_usage: true,
            instructions: Vec::new(),
            offered: Vec::new(),
            tool_choice: None,
            output_tokens: None,
            images: 0,
            files: 0,
            messages: 0,
            text_bytes: 0,
            calls: Vec::new(),
            results: Vec::new(),
            remote_state: Vec::new(),
            edits: Edits::default(),
        };
        let (names, pending) = (BTreeSet::new(), PendingCalls::default());
        Self { rules, ask, inline: 0, has_begun: false, turn: 0, names, pending }
    }

    /// The request that was read.
    pub fn finish(mut self, sent: &[u8]) -> AskResult<Ask> {
        self.ask.text_bytes = number(sent.len()).saturating_sub(self.inline);
        Ok(self.ask)
    }

    /// The members of the request, each of which the table has or the operator passes; also reads
    /// `model` and `stream`.
    pub fn top<'v>(&mut self, body: &'v Json, table: MemberTable) -> AskResult<&'v ObjectMembers> {
        let expected = "an object";
        let members = body.as_object();
        let members =
            members.ok_or_else(|| AskError::Shape { at: "the request".to_owned(), expected })?;
        for (name, value) in members {
            let at = RequestPath::top(name);
            match table.iter().find(|(known, _)| known == name) {
                Some((known, used)) => self.member(known, *used, value, &at)?,
                None if self.rules.pass_members.contains(name) => {}
                None => return Err(AskError::Unknown(at.to_string())),
            }
        }
        let at = RequestPath::top("model");
        let model = text(value_of(members, "model"), &at)?;
        if !(1..=256).contains(&model.len()) {
            return Err(at.shape("an id of 1 to 256 bytes"));
        }
        model.clone_into(&mut self.ask.model);
        let at = RequestPath::top("stream");
        let stream = given(members, "stream")
            .map(|stream| stream.as_bool().ok_or_else(|| at.shape("`true` or `false`")));
        self.ask.stream = stream.transpose()?.unwrap_or_default();
        Ok(members)
    }

    fn member(
        &mut self,
        name: &'static str,
        used: MemberUse,
        value: &Json,
        at: &RequestPath<'_>,
    ) -> AskResult<()> {
        let is_empty = value.as_array().is_some_and(<[Json]>::is_empty) || *value == Json::Null;
        match used {
            MemberUse::Read | MemberUse::Pass => Ok(()),
            MemberUse::Hosted if is_empty => Ok(()),
            MemberUse::Hosted => match self.rules.hosted_tools {
                HostedTools::Deny => {
                    Err(AskError::HostedTool { at: at.to_string(), kind: name.to_owned() })
                }
                HostedTools::Strip => {
                    self.ask.edits.strip_members.insert(name);
                    Ok(())
                }
                HostedTools::Allow => Ok(()),
            },
            MemberUse::State if is_empty || *value == Json::Bool(false) => Ok(()),
            MemberUse::State => Err(AskError::RemoteState(at.to_string())),
            MemberUse::Choices if *value == Json::Null || *value == Json::Int(1) => Ok(()),
            MemberUse::Choices => Err(AskError::Choices(at.to_string())),
            MemberUse::OtherModel if is_empty => Ok(()),
            MemberUse::OtherModel => Err(AskError::OtherModel(at.to_string())),
        }
    }

    /// An object whose members are all known, or passed by the operator.
    pub fn closed<'v>(
        &self,
        value: &'v Json,
        at: &RequestPath<'_>,
        known: &[&str],
    ) -> AskResult<&'v ObjectMembers> {
        let members = object(value, at)?;
        self.only(members, at, known)?;
        Ok(members)
    }

    /// Refuses members that are neither known nor passed by the operator.
    pub fn only(
        &self,
        members: &ObjectMembers,
        at: &RequestPath<'_>,
        known: &[&str],
    ) -> AskResult<()> {
        let is_known = |name: &String| {
            known.contains(&name.as_str()) || self.rules.pass_members.contains(name)
        };
        match members.keys().find(|name| !is_known(name)) {
            Some(name) => Err(AskError::Unknown(at.member(name).to_string())),
            None => Ok(()),
        }
    }

    /// Adds instructions that stand here.
    pub fn instruct(&mut self, text: &str) {
        let place = if self.has_begun { Place::Mid } else { Place::Leading };
        self.ask.instructions.push(Instruction { place, text: text.to_owned() });
    }

    /// Adds a tool call of the conversation.
    pub fn called(&mut self, id: &str, name: String, arguments: String) {
        self.ask.calls.push(EarlierCall { id: id.to_owned(), name, arguments });
    }

    /// Adds a tool call that may have no id.
    pub fn called_unnamed(&mut self, id: Option<&str>, name: &str, arguments: String) {
        let id = self.pending.called(id, name, &arguments);
        self.called(&id, name.to_owned(), arguments);
    }

    /// Adds the result of such a call.
    pub fn resulted_unnamed(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        is_error: Option<bool>,
    ) {
        let id = self.pending.answered(id, name);
        self.resulted(&id, is_error);
    }

    /// Adds the result of a tool call.
    pub fn resulted(&mut self, id: &str, is_error: Option<bool>) {
        let call = self.ask.calls.iter().rposition(|call| call.id == id);
        let (id, message) = (id.to_owned(), self.turn);
        self.ask.results.push(EarlierResult { id, is_error, message, call });
    }

    /// Adds a reference to what the provider remembers.
    pub fn refers(&mut self, member: &'static str, id: &str) {
        self.ask.remote_state.push(RemoteState { member, id: id.to_owned() });
    }

    /// Adds the earlier messages that only the provider can read: they may be those of another run.
    pub fn sealed(&mut self, members: &ObjectMembers, at: &RequestPath<'_>) -> AskResult<()> {
        if let Some(sealed) = maybe_text(members, "encrypted_content", at)? {
            self.refers("compaction", sealed);
        }
        Ok(())
    }

    /// Reads the bound of the answer, which stands in one of these members, and lowers it to that of
    /// the rules.
    pub fn bound(&mut self, members: &ObjectMembers, names: &[&'static str]) -> AskResult<()> {
        let mut bounds = names.iter().filter_map(|name| Some((*name, given(members, name)?)));
        let Some((name, value)) = bounds.next() else { return Ok(()) };
        let at = RequestPath::top(name);
        if bounds.next().is_some() {
            return Err(at.shape("one bound of the answer, not two"));
        }
        let tokens = value.as_u64().ok_or_else(|| at.shape("a number of tokens"))?;
        self.ask.output_tokens = Some((name, tokens));
        if tokens > self.rules.output_tokens_max {
            self.ask.edits.output_tokens = Some((name, self.rules.output_tokens_max));
        }
        Ok(())
    }
}

/// The arguments of a custom tool, whose input is a text, as JSON.
pub(super) fn custom_arguments(input: &str) -> String {
    canonical::text(&Json::object([("input", Json::from(input))]))
}
