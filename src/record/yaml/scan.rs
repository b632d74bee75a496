//! Refuses, event by event, what the typing library accepts, and notes the place of every field.

use std::collections::{BTreeMap, BTreeSet};

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span};

use super::{BYTES_MAX, DEPTH_MAX, Error, NODES_MAX, whole};
use crate::domain::pointer::step;

#[derive(Clone, Debug)]
pub(super) struct Position {
    pub(super) line: u64,
    pub(super) column: u64,
    shown: String,
}

/// The place of each field, by JSON pointer.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(BTreeMap<String, Position>);

impl Places {
    pub(super) fn of(&self, pointer: &str) -> Option<&Position> {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.0.get(pointer) {
                return Some(place);
            }
            pointer = pointer.rsplit_once('/')?.0;
        }
    }

    /// The field of this dotted name, or the nearest written one above it.
    pub(super) fn named(&self, name: &str) -> Option<&Position> {
        let mut name = name;
        loop {
            if let Some(place) = self.0.values().find(|place| place.shown == name) {
                return Some(place);
            }
            name = name.get(..name.rfind(['.', '['])?)?;
        }
    }

    /// The last field that begins at or before this place.
    pub(super) fn before(&self, at: (u64, u64)) -> String {
        self.0
            .values()
            .filter(|place| (place.line, place.column) <= at)
            .max_by_key(|place| (place.line, place.column, place.shown.len()))
            .map(|place| place.shown.clone())
            .unwrap_or_default()
    }
}

/// A collection that is being read.
enum Open {
    Sequence { next: usize },
    Mapping { key: Option<String>, seen: BTreeSet<String> },
}

struct Scan<'a> {
    name: &'a str,
    places: Places,
    /// Each open collection with its pointer and its dotted name.
    open: Vec<(Open, String, String)>,
    nodes: usize,
    documents: usize,
}

/// Walks the parser's events: refuses what the typing library accepts, and notes the places.
pub(super) fn scan(text: &str, name: &str) -> Result<Places, Error> {
    if text.len() > BYTES_MAX {
        return Err(whole(name, 1, &format!("{} bytes, at most {BYTES_MAX} are read", text.len())));
    }
    if text.starts_with('\u{feff}') {
        return Err(whole(name, 1, "byte order mark"));
    }
    let mut limits = granit_parser::Options::default();
    limits.disallow_directives = true;
    limits.emit_comments = false;
    limits.emit_unresolved_aliases = true;
    let mut scan =
        Scan { name, places: Places::default(), open: Vec::new(), nodes: 0, documents: 0 };
    for event in Parser::new_from_str_with_options(text, limits) {
        match event {
            Ok((event, span)) => scan.event(&event, &span)?,
            // The parser's own limit of nesting.
            Err(error) if error.info().contains("recursion limit") => {
                let message = format!("nested deeper than {DEPTH_MAX}");
                return Err(scan.refuse(at(error.marker()), &message));
            }
            Err(error) => {
                let (line, column) = at(error.marker());
                return Err(scan.refuse((line, column), &error.info().to_lowercase()));
            }
        }
    }
    if scan.documents == 0 || scan.nodes == 0 {
        return Err(whole(name, 1, "the file is empty"));
    }
    Ok(scan.places)
}

fn at(marker: &granit_parser::Marker) -> (u64, u64) {
    let number = |n: usize| u64::try_from(n).unwrap_or(0);
    (number(marker.line()), number(marker.col()).saturating_add(1))
}

impl Scan<'_> {
    fn refuse(&self, (line, column): (u64, u64), message: &str) -> Error {
        let key = self.places.before((line, column));
        Error { file: self.name.into(), line, column, key, message: message.into() }
    }

    fn event(&mut self, event: &Event<'_>, span: &Span) -> Result<(), Error> {
        let place = at(&span.start);
        if matches!(event, Event::Alias(_) | Event::UnresolvedAlias(_)) {
            return Err(self.refuse(place, "aliases are not allowed"));
        }
        if event.anchor_id().is_some_and(|id| id != 0) {
            return Err(self.refuse(place, "anchors are not allowed"));
        }
        if let Some(tag) = event.tag() {
            return Err(self.refuse(place, &format!("tags are not allowed: `{}`", tag.original())));
        }
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the enum is not ours and not exhaustive"
        )]
        match event {
            Event::DocumentStart(..) => {
                self.documents = self.documents.saturating_add(1);
                if self.documents > 1 {
                    return Err(self.refuse(place, "more than one document"));
                }
            }
            Event::Scalar(text, style, ..) => {
                self.count(place)?;
                if self.wants_key() {
                    return self.key(text, *style, place);
                }
                self.enter(place);
            }
            Event::SequenceStart(..) => self.push(Open::Sequence { next: 0 }, place)?,
            Event::MappingStart(..) => {
                self.push(Open::Mapping { key: None, seen: BTreeSet::new() }, place)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, place: (u64, u64)) -> Result<(), Error> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes > NODES_MAX {
            return Err(self.refuse(place, &format!("more than {NODES_MAX} values")));
        }
        Ok(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some((Open::Mapping { key: None, .. }, ..)))
    }

    fn key(&mut self, text: &str, style: ScalarStyle, place: (u64, u64)) -> Result<(), Error> {
        if text == "<<" && style == ScalarStyle::Plain {
            return Err(self.refuse(place, "merge keys are not allowed"));
        }
        let Some((Open::Mapping { key, seen }, pointer, shown)) = self.open.last_mut() else {
            return Ok(());
        };
        let duplicate = !seen.insert(text.to_owned());
        *key = Some(text.to_owned());
        let pointer = format!("{pointer}/{}", step(text));
        let shown = if shown.is_empty() { text.to_owned() } else { format!("{shown}.{text}") };
        let (line, column) = place;
        self.places.0.insert(pointer, Position { line, column, shown });
        if duplicate {
            return Err(self.refuse(place, &format!("duplicate key `{text}`")));
        }
        Ok(())
    }

    /// Takes the place of the next value: its pointer and dotted name.
    fn enter(&mut self, (line, column): (u64, u64)) -> (String, String) {
        let (pointer, shown) = match self.open.last_mut() {
            None => (String::new(), String::new()),
            Some((Open::Sequence { next }, pointer, shown)) => {
                let here = (format!("{pointer}/{next}"), format!("{shown}[{next}]"));
                *next = next.saturating_add(1);
                here
            }
            Some((Open::Mapping { key, .. }, pointer, shown)) => {
                let name = key.take().unwrap_or_default();
                let dot = if shown.is_empty() { "" } else { "." };
                (format!("{pointer}/{}", step(&name)), format!("{shown}{dot}{name}"))
            }
        };
        let place = Position { line, column, shown: shown.clone() };
        self.places.0.entry(pointer.clone()).or_insert(place);
        (pointer, shown)
    }

    fn push(&mut self, open: Open, place: (u64, u64)) -> Result<(), Error> {
        self.count(place)?;
        if self.wants_key() {
            return Err(self.refuse(place, "a key must be a plain string"));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(self.refuse(place, &format!("nested deeper than {DEPTH_MAX}")));
        }
        let (pointer, shown) = self.enter(place);
        self.open.push((open, pointer, shown));
        Ok(())
    }
}
