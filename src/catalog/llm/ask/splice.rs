//! What is sent to the provider: the agent's bytes with a few edits. All other bytes stay as they
//! were, so the provider reads them as the agent meant them.

use std::collections::BTreeSet;
use std::ops::Range;

use super::members::AskResult;
use super::offered::{choice_of, name_of};
use super::restore::{Restored, restore};
use super::{AskError, ToolPlace, form};
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, Limits};
use crate::llm::cursor::{Cursor, SentMember};

/// What is changed of a request before it is sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edits {
    /// The provider's id of the model.
    pub model: Option<String>,
    /// Whether the stream of a chat answer is to end with usage figures.
    pub include_usage: bool,
    /// The offered tools that are taken out. If none is left, the choice among them goes too.
    pub strip_tools: BTreeSet<ToolPlace>,
    /// Members of the request that are taken out.
    pub strip_members: BTreeSet<&'static str>,
    /// Denied tool calls that are shown to the model as what it asked for.
    pub restore: Vec<Restored>,
    /// Whether the provider is asked to keep nothing (`store: false`); not in the messages dialect.
    pub store_false: bool,
    /// The bound of the answer in tokens, and the member that has it. A lower bound stays.
    pub output_tokens: Option<(&'static str, u64)>,
}

/// The bytes that are sent to the provider: those of the request with these edits.
///
/// # Errors
/// The bytes are not those that were read, or a tool that must be stripped cannot be.
pub fn upstream_body(sent: &[u8], dialect: Dialect, edits: &Edits) -> AskResult<Vec<u8>> {
    if *edits == Edits::default() {
        return Ok(sent.to_vec());
    }
    let mut splices = Splices::default();
    let mut request = ObjectEdit::of(sent, outer(sent))?;
    if let Some(model) = &edits.model {
        request.set("model", canonical::bytes(&Json::from(model.as_str())));
    }
    if edits.include_usage && dialect == Dialect::Chat {
        usage(sent, &mut request, &mut splices)?;
    }
    if edits.store_false && matches!(dialect, Dialect::Chat | Dialect::Responses) {
        request.set("store", b"false".to_vec());
    }
    if let Some(bound) = edits.output_tokens {
        bounded(sent, dialect, &mut request, bound, &mut splices)?;
    }
    edits.strip_members.iter().for_each(|member| request.remove(member));
    strip(sent, &mut request, &edits.strip_tools, &mut splices)?;
    if !edits.restore.is_empty() {
        restore(sent, dialect, &request, &edits.restore, &mut splices)?;
    }
    request.finish(&mut splices);
    splices.apply(sent)
}

/// Writes the bound of the answer, where the dialect has it.
fn bounded(
    sent: &[u8],
    dialect: Dialect,
    request: &mut ObjectEdit,
    (member, most): (&'static str, u64),
    splices: &mut Splices,
) -> AskResult<()> {
    let bound = |object: &mut ObjectEdit| {
        let given = object.json(sent, member)?.and_then(|value| value.as_u64());
        if given.is_none_or(|given| given > most) {
            object.set(member, most.to_string().into_bytes());
        }
        Ok(())
    };
    let Some(holder) = form(dialect).holder else { return bound(request) };
    match (request.json(sent, holder)?, request.value(holder)) {
        (Some(Json::Object(_)), Some(at)) => {
            let mut object = ObjectEdit::of(sent, at)?;
            bound(&mut object)?;
            object.finish(splices);
        }
        _none => request.set(holder, format!("{{\"{member}\":{most}}}").into_bytes()),
    }
    Ok(())
}

/// The place of the request: it was read, so nothing but space stands around it.
fn outer(sent: &[u8]) -> Range<usize> {
    let start = sent.len().saturating_sub(sent.trim_ascii_start().len());
    start..sent.trim_ascii_end().len()
}

fn usage(sent: &[u8], request: &mut ObjectEdit, splices: &mut Splices) -> AskResult<()> {
    match request.json(sent, "stream_options")? {
        Some(Json::Object(_)) => {
            let Some(at) = request.value("stream_options") else { return Ok(()) };
            let mut options = ObjectEdit::of(sent, at)?;
            options.set("include_usage", b"true".to_vec());
            options.finish(splices);
        }
        _none => request.set("stream_options", br#"{"include_usage":true}"#.to_vec()),
    }
    Ok(())
}

/// Takes tools out of `tools` and `functions`.
fn strip(
    sent: &[u8],
    request: &mut ObjectEdit,
    places: &BTreeSet<ToolPlace>,
    splices: &mut Splices,
) -> AskResult<()> {
    if places.is_empty() {
        return Ok(());
    }
    if places.contains(&ToolPlace::Conversation) {
        return Err(AskError::Sent);
    }
    let functions: BTreeSet<usize> = places
        .iter()
        .filter_map(|place| match place {
            ToolPlace::Functions(index) => Some(*index),
            ToolPlace::Tools(..) | ToolPlace::Conversation => None,
        })
        .collect();
    let mut whole = BTreeSet::new();
    let mut within: Vec<(usize, BTreeSet<usize>)> = Vec::new();
    for place in places {
        match place {
            ToolPlace::Tools(index, None) => {
                whole.insert(*index);
            }
            ToolPlace::Tools(index, Some(inner)) => match within.last_mut() {
                Some((last, inners)) if *last == *index => {
                    inners.insert(*inner);
                }
                _other => within.push((*index, BTreeSet::from([*inner]))),
            },
            ToolPlace::Functions(_) | ToolPlace::Conversation => {}
        }
    }
    if !functions.is_empty() {
        let list = StrippedList { list: "functions", choice: "function_call" };
        list.strip(sent, request, &functions, splices)?;
    }
    if let Some(tools) = request.value("tools") {
        let items = Cursor::items(sent, &tools)?;
        for (index, inners) in within {
            if whole.contains(&index) {
                continue;
            }
            let item = items.get(index).cloned().ok_or(AskError::Sent)?;
            let namespace = ObjectEdit::of(sent, item)?;
            let inner = namespace.value("tools");
            let inner = inner.or_else(|| namespace.value("functionDeclarations"));
            let inner = inner.ok_or(AskError::Sent)?;
            let inner = Cursor::items(sent, &inner)?;
            if inners.len() >= inner.len() {
                whole.insert(index);
            } else {
                splices.remove(&inner, &inners)?;
            }
        }
    }
    if whole.is_empty() {
        return Ok(());
    }
    let is_config = request.value("tool_choice").is_none() && request.value("toolConfig").is_some();
    let choice = if is_config { "toolConfig" } else { "tool_choice" };
    StrippedList { list: "tools", choice }.strip(sent, request, &whole, splices)
}

/// A list of offered tools, and the member that chooses among them.
struct StrippedList {
    list: &'static str,
    choice: &'static str,
}

impl StrippedList {
    /// Takes items out of the list. A choice that names one of them goes too, and with the last
    /// tool goes all that is allowed beside tools only.
    fn strip(
        &self,
        sent: &[u8],
        request: &mut ObjectEdit,
        removed: &BTreeSet<usize>,
        splices: &mut Splices,
    ) -> AskResult<()> {
        let at = request.value(self.list).ok_or(AskError::Sent)?;
        let items = Cursor::items(sent, &at)?;
        if removed.last().is_some_and(|last| *last >= items.len()) {
            return Err(AskError::Sent);
        }
        if removed.len() == items.len() {
            request.remove(self.list);
            request.remove(self.choice);
            request.remove("parallel_tool_calls");
            return Ok(());
        }
        let choice = request.json(sent, self.choice)?;
        let chosen = choice.as_ref().and_then(choice_of);
        for index in removed {
            let tool = items.get(*index).and_then(|at| sent.get(at.clone()));
            let tool = json(tool.ok_or(AskError::Sent)?)?;
            if chosen.is_some() && chosen == name_of(&tool) {
                request.remove(self.choice);
            }
        }
        splices.remove(&items, removed)
    }
}

/// The value of these bytes.
fn json(text: &[u8]) -> AskResult<Json> {
    Json::parse(text, &Limits::MODEL).map_err(|_other| AskError::Sent)
}

/// Edits of one object in the bytes.
pub(super) struct ObjectEdit {
    at: Range<usize>,
    members: Vec<SentMember>,
    replaced: Vec<(Range<usize>, Vec<u8>)>,
    added: Vec<(String, Vec<u8>)>,
    removed: BTreeSet<usize>,
}

impl ObjectEdit {
    /// The object at this place.
    pub fn of(sent: &[u8], at: Range<usize>) -> AskResult<Self> {
        let members = Cursor::members(sent, &at)?;
        Ok(Self { at, members, replaced: Vec::new(), added: Vec::new(), removed: BTreeSet::new() })
    }

    fn find(&self, name: &str) -> Option<(usize, &SentMember)> {
        self.members.iter().enumerate().find(|(_, member)| member.name == name)
    }

    /// The place of a member's value.
    pub fn value(&self, name: &str) -> Option<Range<usize>> {
        Some(self.find(name)?.1.value.clone())
    }

    /// A member's value.
    pub fn json(&self, sent: &[u8], name: &str) -> AskResult<Option<Json>> {
        let Some(at) = self.value(name) else { return Ok(None) };
        json(sent.get(at).ok_or(AskError::Sent)?).map(Some)
    }

    /// A member's value, if it is a string.
    pub fn text(&self, sent: &[u8], name: &str) -> Option<String> {
        let at = self.value(name)?;
        let text = sent.get(at).filter(|text| text.starts_with(b"\""))?;
        serde_json::from_slice(text).ok()
    }

    /// Gives a member this value.
    pub fn set(&mut self, name: &str, value: Vec<u8>) {
        match self.value(name) {
            Some(at) => self.replaced.push((at, value)),
            None => self.added.push((name.to_owned(), value)),
        }
    }

    /// Gives a member another name and this value.
    pub fn rename(&mut self, name: &str, to: &str, value: Vec<u8>) {
        if self.find(name).is_none() {
            return self.set(to, value);
        }
        if name != to {
            self.rename_key(name, to);
        }
        self.set(name, value);
    }

    /// Gives a member another name.
    pub fn rename_key(&mut self, name: &str, to: &str) {
        if let Some((_, member)) = self.find(name) {
            let place = member.name_at.clone();
            self.replaced.push((place, canonical::bytes(&Json::from(to))));
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, name: &str) {
        let found = self.find(name).map(|(index, _)| index);
        self.removed.extend(found);
    }

    /// Hands the edits over.
    pub fn finish(self, splices: &mut Splices) {
        let Self { at, members, replaced, added, removed } = self;
        let spans: Vec<Range<usize>> =
            members.iter().map(|member| member.name_at.start..member.value.end).collect();
        let is_removed = |place: &Range<usize>| {
            removed
                .iter()
                .filter_map(|index| spans.get(*index))
                .any(|span| span.contains(&place.start))
        };
        splices.0.extend(replaced.into_iter().filter(|(place, _)| !is_removed(place)));
        let mut is_first = removed.len() == members.len();
        let mut text = Vec::new();
        for (name, value) in added {
            if !is_first {
                text.push(b',');
            }
            is_first = false;
            text.extend(canonical::bytes(&Json::from(name)));
            text.push(b':');
            text.extend(value);
        }
        splices.cut(&spans, &removed);
        if !text.is_empty() {
            let end = at.end.saturating_sub(1);
            splices.0.push((end..end, text));
        }
    }
}

/// Replacements of bytes by others.
#[derive(Default)]
pub(super) struct Splices(Vec<(Range<usize>, Vec<u8>)>);

impl Splices {
    /// Takes items out of a list that keeps at least one.
    fn remove(&mut self, items: &[Range<usize>], removed: &BTreeSet<usize>) -> AskResult<()> {
        let are_there = removed.last().is_none_or(|last| *last < items.len());
        if !are_there || removed.len() >= items.len() {
            return Err(AskError::Sent);
        }
        self.cut(items, removed);
        Ok(())
    }

    /// Takes out each run of neighbours with one comma: the one behind it, or the one before it if
    /// nothing follows.
    fn cut(&mut self, spans: &[Range<usize>], removed: &BTreeSet<usize>) {
        let mut kept_end: Option<usize> = None;
        let mut run_start: Option<usize> = None;
        for (index, span) in spans.iter().enumerate() {
            if removed.contains(&index) {
                run_start = run_start.or(Some(span.start));
                continue;
            }
            if let Some(start) = run_start.take() {
                self.0.push((start..span.start, Vec::new()));
            }
            kept_end = Some(span.end);
        }
        if let (Some(start), Some(last)) = (run_start, spans.last()) {
            self.0.push((kept_end.unwrap_or(start)..last.end, Vec::new()));
        }
    }

    /// The bytes with all replacements made.
    fn apply(mut self, sent: &[u8]) -> AskResult<Vec<u8>> {
        self.0.sort_by_key(|(place, _)| (place.start, place.end));
        let grown: usize = self.0.iter().map(|(_, text)| text.len()).sum();
        let mut out = Vec::with_capacity(sent.len().saturating_add(grown));
        let mut at = 0;
        for (place, text) in self.0 {
            out.extend_from_slice(sent.get(at..place.start).ok_or(AskError::Sent)?);
            out.extend(text);
            at = place.end;
        }
        out.extend_from_slice(sent.get(at..).ok_or(AskError::Sent)?);
        Ok(out)
    }
}
