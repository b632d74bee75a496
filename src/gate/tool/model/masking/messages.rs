//! Events of a message: blocks one after the other, whose texts go on from one to the next.

use std::collections::BTreeMap;

use super::{EventMask, MaskedDialect, TEXTS, TextPlace, at, has_nested_text, is_kind};
use crate::domain::json::Json;
use crate::firewall::Unmaskable;

/// The dialect.
#[derive(Debug)]
pub(super) struct MessagesMask;

impl MaskedDialect for MessagesMask {
    fn event(&self, mask: &mut EventMask, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        mask.message_event(event)
    }

    fn is_end(&self, event: &Json) -> bool {
        is_kind(event, "message_stop")
    }
}

impl EventMask {
    /// An event of a message.
    fn message_event(&mut self, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        let kind = event.get("type").and_then(Json::as_str).unwrap_or_default();
        let index = event.get("index").and_then(Json::as_u64).unwrap_or_default();
        let member = match kind {
            "content_block_start" => "content_block",
            "content_block_delta" => "delta",
            "content_block_stop" => {
                let mut events = self.flush(|_, place| place.0 == index, delta_of_block)?;
                events.push(self.value(event)?);
                return Ok(events);
            }
            _other => {
                self.refuse(|| has_nested_text(event))?;
                return Ok(vec![self.value(event)?]);
            }
        };
        let block = event.get(member);
        if kind == "content_block_start" && block.is_some_and(|block| is_kind(block, "tool_use")) {
            self.tool_uses.insert(index);
        }
        if self.tool_uses.contains(&index) {
            return Ok(vec![event.clone()]);
        }
        let (mut other, mut said, mut given) = (event.clone(), BTreeMap::new(), false);
        for (name, piece) in block.and_then(Json::as_object).into_iter().flatten() {
            // A block begins with names and ids beside its texts; a delta has its piece alone.
            let is_piece = match kind {
                "content_block_start" => TEXTS.contains(&name.as_str()),
                _delta => !["type", "signature"].contains(&name.as_str()),
            };
            let Some(piece) = piece.as_str().filter(|_| is_piece) else { continue };
            let text = self.push(name, (index, 0), piece, event)?;
            given |= !piece.is_empty();
            if let Some(place) = at(&mut other, &[member, name.as_str()]) {
                *place = Json::from("");
            }
            said.insert(name.as_str(), text);
        }
        if kind == "content_block_delta" && given && said.values().all(String::is_empty) {
            return Ok(Vec::new());
        }
        let mut masked = self.value(&other)?;
        for (name, text) in said {
            if let Some(place) = at(&mut masked, &[member, name]) {
                *place = Json::from(text);
            }
        }
        Ok(vec![masked])
    }
}

/// The rest of a text of a block, as an event of its own.
fn delta_of_block(event: &mut Json, (member, place): (&str, TextPlace), rest: Json) {
    let kind = event.get("delta").and_then(|delta| delta.get("type")).and_then(Json::as_str);
    let kind = kind.map_or_else(|| format!("{member}_delta"), str::to_owned);
    let delta = Json::object([("type", Json::from(kind)), (member, rest)]);
    *event = Json::object([
        ("type", Json::from("content_block_delta")),
        ("index", Json::from(place.0)),
        ("delta", delta),
    ]);
}
