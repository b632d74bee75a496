//! Arguments that are too long to be shown at once, in parts: each is shown whole or not at all.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layout::pretty;
use crate::approval::REVIEW_MAX;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::operator::escape::visible;
use crate::record::conversation::{list_member, messages, normal};

/// What the line of a part takes of the bytes that are shown. WHY counted: arguments may have many
/// small parts.
const LINE_BYTES: usize = 128;
/// Parts that are listed without their text, at most.
const UNSHOWN_MAX: usize = 200;

/// A call of the same run and tool that was allowed before, and what a held call repeats of it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EarlierCall {
    /// Its id.
    pub call: String,
    /// How many messages of its conversation this one begins with.
    pub messages: u64,
    /// The other members of the arguments that are the same.
    pub members: Vec<String>,
}

impl EarlierCall {
    /// What `now` repeats of `before`, the arguments of this earlier call.
    pub(in crate::operator) fn of(call: &str, before: &Json, now: &Json) -> Self {
        let of = |args| messages(args).unwrap_or_default();
        let both = of(before).iter().zip(of(now));
        let same = both.take_while(|(one, other)| normal(one) == normal(other)).count();
        let members = now.as_object().into_iter().flatten();
        let members = members
            .filter(|(name, value)| *name != list_member(now) && before.get(name) == Some(value));
        Self {
            call: call.to_owned(),
            messages: u64::try_from(same).unwrap_or(u64::MAX),
            members: members.map(|(name, _)| name.clone()).collect(),
        }
    }
}

/// One part of long arguments, or several of them that an earlier call had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where it stands, as a path; of several, the first.
    pub path: String,
    /// Where the last of several stands.
    pub until: Option<String>,
    /// What it is: the role of a message, the type of an item.
    pub about: String,
    /// Bytes of its canonical form.
    pub bytes: usize,
    /// SHA-256 of its canonical form; none of several parts.
    pub sha256: Option<String>,
    /// The call that had the same, if one was allowed.
    pub repeats: Option<String>,
    /// Its value, a line for each, if it is shown.
    pub text: Option<String>,
}

impl Part {
    /// The part in one line.
    pub fn line(&self) -> String {
        let about = if self.about.is_empty() { "" } else { " " };
        let until = self.until.as_ref().map(|until| format!(" to {until}")).unwrap_or_default();
        let (path, bytes) = (&self.path, many(self.bytes, "byte"));
        let mut line = format!("{path}{until}{about}{}: {bytes}", self.about);
        if let Some(sha256) = &self.sha256 {
            line.push_str(&format!(", sha256 {sha256}"));
        }
        match (&self.repeats, &self.text) {
            (Some(call), _) => line.push_str(&format!(", as in call {call}, which was allowed")),
            (None, Some(_)) => {}
            (None, None) => line.push_str(", NOT SHOWN HERE"),
        }
        line
    }
}

/// A member or a message of the arguments.
struct ArgumentPiece<'a> {
    path: String,
    about: String,
    value: &'a Json,
    body: Vec<u8>,
    /// Its number, of a message.
    message: Option<usize>,
    repeats: bool,
}

/// The parts in their order. The text that is shown is that of new messages, the last ones first,
/// then that of the other new members, the shortest first.
pub(super) fn parts(args: &Json, earlier: Option<&EarlierCall>) -> Vec<Part> {
    let pieces = pieces(args, earlier);
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|at| pieces.get(*at).map(|one| (Reverse(one.message), one.body.len())));
    let (mut left, mut shown) = (REVIEW_MAX, BTreeSet::new());
    for at in order {
        let Some(one) = pieces.get(at).filter(|one| !one.repeats) else { continue };
        if let Some(rest) = left.checked_sub(one.body.len().saturating_add(LINE_BYTES)) {
            left = rest;
            shown.insert(at);
        }
    }
    let call = earlier.map(|earlier| visible(&earlier.call));
    let mut parts: Vec<Part> = Vec::new();
    let mut unshown = 0_usize;
    for (at, one) in pieces.iter().enumerate() {
        let is_shown = shown.contains(&at);
        let last = parts.last_mut();
        if one.repeats
            && let Some(before) = last.filter(|last| last.repeats.is_some())
        {
            before.join(one);
            continue;
        }
        unshown = unshown.saturating_add(usize::from(!is_shown && !one.repeats));
        if !is_shown && unshown > UNSHOWN_MAX {
            match parts.last_mut().filter(|last| last.repeats.is_none() && last.text.is_none()) {
                Some(before) => before.join(one),
                None => parts.push(one.part(None, None)),
            }
            continue;
        }
        let text = is_shown.then(|| {
            let mut text = String::new();
            pretty(one.value, 2, &mut text);
            text
        });
        parts.push(one.part(call.clone().filter(|_| one.repeats), text));
    }
    parts
}

impl Part {
    /// Takes the next part into this one.
    fn join(&mut self, next: &ArgumentPiece<'_>) {
        self.until = Some(next.path.clone());
        self.about = String::new();
        self.bytes = self.bytes.saturating_add(next.body.len());
        self.sha256 = None;
    }
}

impl ArgumentPiece<'_> {
    fn part(&self, repeats: Option<String>, text: Option<String>) -> Part {
        Part {
            path: self.path.clone(),
            until: None,
            about: self.about.clone(),
            bytes: self.body.len(),
            sha256: Some(Digest::of(&[&self.body]).hex()),
            repeats,
            text,
        }
    }
}

/// Every member of the arguments, and in place of a conversation its messages.
fn pieces<'a>(args: &'a Json, earlier: Option<&EarlierCall>) -> Vec<ArgumentPiece<'a>> {
    let mut pieces = Vec::new();
    let known =
        earlier.map_or(0, |earlier| usize::try_from(earlier.messages).unwrap_or(usize::MAX));
    for (name, value) in args.as_object().into_iter().flatten() {
        let list = messages(args).filter(|_| name == list_member(args));
        let Some(list) = list else {
            let repeats = earlier.is_some_and(|earlier| earlier.members.contains(name));
            let (path, about) = (format!("/{}", visible(name)), String::new());
            let body = canonical::bytes(value);
            pieces.push(ArgumentPiece { path, about, value, body, message: None, repeats });
            continue;
        };
        pieces.extend(list.iter().enumerate().map(|(number, value)| ArgumentPiece {
            path: format!("/{}/{number}", visible(name)),
            about: about(value),
            value,
            body: canonical::bytes(value),
            message: Some(number),
            repeats: number < known,
        }));
    }
    pieces
}

/// The role of a message, or else the type of an item.
fn about(message: &Json) -> String {
    let text = ["role", "type"].into_iter().find_map(|name| message.get(name)?.as_str());
    visible(&text.unwrap_or_default().chars().take(32).collect::<String>())
}
