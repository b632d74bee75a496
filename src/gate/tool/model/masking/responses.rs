//! Events of a response: items and their parts, whose texts go on from one to the next, and a last event
//! that repeats them all.

use std::collections::BTreeMap;

use super::{
    EventMask, MaskedDialect, TextPlace, at, drop_tokens, has_nested_text, is_call, is_kind, set,
};
use crate::domain::json::Json;
use crate::firewall::Unmaskable;

/// The pieces of the arguments of tool calls.
const ARGUMENTS: [&str; 2] =
    ["response.function_call_arguments.", "response.custom_tool_call_input."];

/// The events that end a response.
const ENDS: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

/// The dialect.
#[derive(Debug)]
pub(super) struct ResponsesMask;

impl MaskedDialect for ResponsesMask {
    fn event(&self, mask: &mut EventMask, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        mask.response_event(event)
    }

    fn is_end(&self, event: &Json) -> bool {
        ENDS.iter().any(|kind| is_kind(event, kind))
    }

    fn drop_tokens(&self, answer: &mut Json) {
        if let Some(Json::Array(items)) = at(answer, &["output"]) {
            items.iter_mut().filter(|item| !is_call(item)).for_each(drop_tokens);
        }
    }
}

impl EventMask {
    /// An event of a response.
    fn response_event(&mut self, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        let kind = event.get("type").and_then(Json::as_str).unwrap_or_default();
        if ARGUMENTS.iter().any(|stem| kind.starts_with(stem)) {
            return Ok(vec![event.clone()]);
        }
        let number = |name: &str| event.get(name).and_then(Json::as_u64);
        let (item, part) = (
            number("output_index"),
            number("content_index").or(number("summary_index")).unwrap_or_default(),
        );
        let piece = event.get("delta").and_then(Json::as_str);
        if let (Some(stem), Some(piece)) = (kind.strip_suffix(".delta"), piece) {
            return self.response_piece((stem, (item.unwrap_or_default(), part)), piece, event);
        }
        self.refuse(|| {
            kind.ends_with(".delta") && event.get("delta").is_some_and(has_nested_text)
        })?;
        let stem = kind.strip_suffix(".done");
        let ends = kind.starts_with("response.output_item.") || ENDS.contains(&kind);
        let is_over = |kind: &str, place: TextPlace| {
            let is_here = item.is_none_or(|item| item == place.0);
            is_here && (ends || stem == Some(kind) && place.1 == part)
        };
        let mut events = self.flush(is_over, with_rest)?;
        events.push(self.repeated(event)?);
        Ok(events)
    }

    /// An event with a piece of a text.
    fn response_piece(
        &mut self,
        (stem, place): (&str, TextPlace),
        piece: &str,
        event: &Json,
    ) -> Result<Vec<Json>, Unmaskable> {
        // Some servers begin a text without the end of the one before it.
        let mut events = self.flush(|kind, at| kind == stem && at != place, with_rest)?;
        let mut other = event.clone();
        set(&mut other, "delta", "".into());
        drop_tokens(&mut other);
        let text = self.push(stem, place, piece, &other)?;
        if !text.is_empty() || piece.is_empty() {
            let mut masked = self.value(&other)?;
            set(&mut masked, "delta", Json::from(text));
            events.push(masked);
        }
        Ok(events)
    }

    /// An event that repeats what came in pieces, masked but for its tool calls.
    fn repeated(&mut self, event: &Json) -> Result<Json, Unmaskable> {
        let mut other = event.clone();
        let mut calls = BTreeMap::new();
        if let Some(item) = at(&mut other, &["item"]).filter(|item| is_call(item)) {
            calls.insert(None, std::mem::take(item));
        }
        if let Some(Json::Array(items)) = at(&mut other, &["response", "output"]) {
            let found = items.iter_mut().enumerate().filter(|(_, item)| is_call(item));
            calls.extend(found.map(|(number, item)| (Some(number), std::mem::take(item))));
        }
        drop_tokens(&mut other);
        let mut masked = self.value(&other)?;
        for (number, call) in calls {
            let place = match number {
                None => at(&mut masked, &["item"]),
                Some(number) => match at(&mut masked, &["response", "output"]) {
                    Some(Json::Array(items)) => items.get_mut(number),
                    Some(_) | None => None,
                },
            };
            if let Some(place) = place {
                *place = call;
            }
        }
        Ok(masked)
    }
}

/// The rest of a text, as an event of its own.
fn with_rest(event: &mut Json, _: (&str, TextPlace), rest: Json) {
    set(event, "delta", rest);
}
