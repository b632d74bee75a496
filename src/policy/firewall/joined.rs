//! A credential that stands in several texts of a document, one behind the other.

use std::ops::Range;

use super::kinds::{Class, Confidence, class_of};
use super::plain::{self, ASSIGNED, AUTHORIZATION};
use super::rules::Mode;
use super::shape::TOKEN;
use crate::domain::json::Json;
use crate::domain::pointer;

/// Bytes of the end of a text that may begin something.
const TAIL: usize = 512;
/// Bytes of the beginning of a text that may end something.
const HEAD: usize = 1024;
/// Bytes of a chain of texts that is looked through at once.
const CHAIN_MAX: usize = 16 * 1024;

/// What stands in several texts.
#[derive(Debug)]
pub(super) struct Joint {
    /// What it is.
    pub kind: &'static str,
    /// How sure that is.
    pub confidence: Confidence,
    /// JSON pointer of the text in which it begins.
    pub path: String,
}

/// A text of a document, by its number in order, names of members included.
#[derive(Clone, Copy)]
struct Piece<'j> {
    number: usize,
    text: &'j str,
    is_name: bool,
}

/// What stands in neighbouring texts of a document: in values, and in values and names together.
pub(super) fn look(value: &Json) -> Vec<Joint> {
    let mut pieces = Vec::new();
    gather(value, &mut pieces);
    if pieces.len() < 2 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let has_names = pieces.iter().any(|piece| piece.is_name);
    chains(pieces.iter().copied().filter(|piece| !piece.is_name), &mut found);
    if has_names {
        chains(pieces.iter().copied(), &mut found);
    }
    let place = |(kind, confidence, number): (&'static str, Confidence, usize)| Joint {
        kind,
        confidence,
        path: path_of(value, number),
    };
    found.into_iter().take(super::hit::FINDINGS_MAX).map(place).collect()
}

fn gather<'j>(value: &'j Json, pieces: &mut Vec<Piece<'j>>) {
    let number = pieces.len();
    match value {
        Json::String(text) => pieces.push(Piece { number, text, is_name: false }),
        Json::Array(items) => items.iter().for_each(|item| gather(item, pieces)),
        Json::Object(members) => {
            for (name, item) in members {
                let number = pieces.len();
                pieces.push(Piece { number, text: name, is_name: true });
                gather(item, pieces);
            }
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => {}
    }
}

/// The path of the text with this number.
fn path_of(value: &Json, number: usize) -> String {
    let mut finder = Finder { left: number, path: String::new() };
    finder.is_in(value);
    finder.path
}

/// A walk to the text with a number.
struct Finder {
    left: usize,
    path: String,
}

impl Finder {
    /// Whether the next text is it.
    fn is_next(&mut self) -> bool {
        let less = self.left.checked_sub(1);
        self.left = less.unwrap_or_default();
        less.is_none()
    }

    /// Whether it is in a value; the path is its then.
    fn is_in(&mut self, value: &Json) -> bool {
        match value {
            Json::String(_) => self.is_next(),
            Json::Array(items) => {
                items.iter().enumerate().any(|(i, item)| self.enters(&i.to_string(), item, false))
            }
            Json::Object(members) => {
                members.iter().any(|(name, item)| self.enters(&pointer::step(name), item, true))
            }
            Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => false,
        }
    }

    fn enters(&mut self, name: &str, item: &Json, is_named: bool) -> bool {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(name);
        if is_named && self.is_next() || self.is_in(item) {
            return true;
        }
        self.path.truncate(length);
        false
    }
}

/// Texts one behind the other, each from where a token may begin to where it may end.
#[derive(Default)]
struct Chain {
    text: Vec<u8>,
    /// Where each text begins in it, and its number.
    cuts: Vec<(usize, usize)>,
}

fn chains<'j>(
    pieces: impl Iterator<Item = Piece<'j>>,
    found: &mut Vec<(&'static str, Confidence, usize)>,
) {
    let mut chain = Chain::default();
    for piece in pieces {
        let bytes = piece.text.as_bytes();
        let head = bytes.iter().take(HEAD).take_while(|byte| TOKEN.has(**byte)).count();
        if head > 0 && !chain.cuts.is_empty() {
            chain.add(bytes.get(..head).unwrap_or_default(), piece.number);
        }
        if head == bytes.len() && chain.text.len() <= CHAIN_MAX && !chain.cuts.is_empty() {
            continue;
        }
        chain.end(found);
        let tail = bytes.iter().rev().take(TAIL).take_while(|byte| TOKEN.has(**byte)).count();
        chain.add(bytes.get(bytes.len() - tail..).unwrap_or_default(), piece.number);
    }
    chain.end(found);
}

impl Chain {
    fn add(&mut self, part: &[u8], number: usize) {
        if !part.is_empty() {
            self.cuts.push((self.text.len(), number));
            self.text.extend_from_slice(part);
        }
    }

    /// Notes what reaches over a cut, and begins anew.
    fn end(&mut self, found: &mut Vec<(&'static str, Confidence, usize)>) {
        if self.cuts.len() > 1 {
            // WHY as if it were decoded: a text before it hides nothing that begins where its own text does.
            for one in plain::scan(&self.text, true, Mode::Written) {
                let is_secret = class_of(one.kind) == Some(Class::Secret);
                if is_secret
                    && self.begins(one.range.start)
                    && !matches!(one.kind, ASSIGNED | AUTHORIZATION)
                    && let Some(first) = self.crossing(&one.range)
                {
                    found.push((one.kind, one.confidence, first));
                }
            }
        }
        self.text.clear();
        self.cuts.clear();
    }

    /// Whether something can begin here: where a text does, or behind what no word has.
    fn begins(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.text.get(at));
        let is_in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        !is_in_word || self.cuts.iter().any(|(cut, _)| *cut == at)
    }

    /// The number of the text in which a stretch begins that goes on in the next one.
    fn crossing(&self, range: &Range<usize>) -> Option<usize> {
        let inside = |(at, _): &&(usize, usize)| range.start < *at && *at < range.end;
        self.cuts.iter().find(inside)?;
        self.cuts.iter().rev().find(|(at, _)| *at <= range.start).map(|(_, number)| *number)
    }
}
