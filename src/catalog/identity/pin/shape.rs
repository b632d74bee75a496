//! One template for several texts: what they have in common stays, the rest becomes holes by its
//! shape.

use std::collections::BTreeSet;

use super::super::templates::holes::{Hole, class, is_path};
use super::super::templates::{
    HEX_DIGITS_MAX, HOLES_MAX, InstructionTemplate, TEXT_BYTES_MAX, WORD_BYTES_MAX, date_bytes,
    is_hole,
};
use super::diff::common;
use super::tokens::tokens;

/// Fixed text between two holes that is shorter than this, and than what fills both, is equal by
/// chance.
const CHANCE_BYTES: usize = 8;
/// Bytes of separators inside one value: `1.2`, `a-b`.
const SEPARATOR_BYTES: usize = 2;

/// A place where the texts differ, and the literal behind it.
#[derive(Clone)]
struct Gap {
    /// What each text has there.
    values: Vec<String>,
    literal: String,
}

/// The template that all these texts fit, if there is one.
pub fn template(texts: &[&str]) -> Option<String> {
    let (head, gaps) = gaps(texts)?;
    let gaps = merged(gaps);
    let parts: Vec<(Hole, String)> = gaps
        .into_iter()
        .map(|gap| Some((hole(&gap.values)?, gap.literal)))
        .collect::<Option<_>>()?;
    let text = InstructionTemplate::of(&head, &parts).ok()?;
    // What was read otherwise than it was meant fits no longer.
    let read = InstructionTemplate::parse(text.as_bytes()).ok()?;
    texts.iter().all(|text| read.loose_bytes(text).is_some()).then_some(text)
}

/// The literal before the first difference, and the differences.
fn gaps(texts: &[&str]) -> Option<(String, Vec<Gap>)> {
    let pieces: Vec<Vec<&str>> = texts.iter().map(|text| tokens(text)).collect();
    let (first, others) = pieces.split_first()?;
    // A text that would be read as a hole cannot be literal.
    let mut shared: Vec<&str> =
        first.iter().copied().filter(|piece| is_hole(piece).is_none()).collect();
    for other in others {
        let pairs = common(&shared, other)?;
        shared = pairs.into_iter().filter_map(|(x, _)| shared.get(x).copied()).collect();
    }
    // For each text, what stands before each shared piece and behind the last one.
    let mut between: Vec<Vec<String>> = Vec::new();
    for text in &pieces {
        let mut slots = vec![String::new()];
        let mut pairs = common(&shared, text)?.into_iter().peekable();
        for (y, piece) in text.iter().enumerate() {
            if pairs.next_if(|(_, at)| *at == y).is_some() {
                slots.push(String::new());
            } else if let Some(slot) = slots.last_mut() {
                slot.push_str(piece);
            }
        }
        if slots.len() != shared.len().saturating_add(1) {
            return None;
        }
        between.push(slots);
    }
    let (mut head, mut gaps): (String, Vec<Gap>) = (String::new(), Vec::new());
    let literals = shared.iter().copied().chain([""]);
    for (at, literal) in literals.enumerate() {
        let values: Vec<String> =
            between.iter().filter_map(|slots| slots.get(at)).cloned().collect();
        if values.iter().any(|value| !value.is_empty()) {
            gaps.push(Gap { values, literal: literal.to_owned() });
        } else {
            gaps.last_mut().map_or(&mut head, |gap| &mut gap.literal).push_str(literal);
        }
    }
    Some((head, gaps))
}

/// Makes one difference of neighbours that are one value, that share text only by chance, or that
/// are too many.
fn merged(mut gaps: Vec<Gap>) -> Vec<Gap> {
    while let Some(at) = (0..gaps.len()).find(|at| is_one(&gaps, *at)) {
        merge(&mut gaps, at);
    }
    while gaps.len() > HOLES_MAX {
        let behind = gaps.len().saturating_sub(1);
        let shortest = gaps.iter().take(behind).enumerate();
        let Some((at, _)) = shortest.min_by_key(|(_, gap)| gap.literal.len()) else { break };
        merge(&mut gaps, at);
    }
    gaps
}

/// Whether this difference and the next one are better filled by one hole.
fn is_one(gaps: &[Gap], at: usize) -> bool {
    let (Some(gap), Some(next)) = (gaps.get(at), gaps.get(at.saturating_add(1))) else {
        return false;
    };
    let literal = gap.literal.as_str();
    let firm = |gap: &Gap| matches!(hole(&gap.values), Some(Hole::Date | Hole::Path));
    if firm(gap) || firm(next) {
        return false;
    }
    let separates = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
    if literal.len() <= SEPARATOR_BYTES && literal.chars().all(separates) {
        return true;
    }
    let least = |gap: &Gap| gap.values.iter().map(String::len).max().unwrap_or(0);
    literal.len() < CHANCE_BYTES
        && !literal.contains('\n')
        && literal.len() < least(gap).min(least(next))
}

fn merge(gaps: &mut Vec<Gap>, at: usize) {
    let next = at.saturating_add(1);
    if next >= gaps.len() {
        return;
    }
    let behind = gaps.remove(next);
    let Some(gap) = gaps.get_mut(at) else { return };
    for (value, more) in gap.values.iter_mut().zip(&behind.values) {
        value.push_str(&gap.literal);
        value.push_str(more);
    }
    gap.literal = behind.literal;
}

/// The narrowest hole that all these values fill, and others of their shape.
fn hole(values: &[String]) -> Option<Hole> {
    let all = |fits: &dyn Fn(&str) -> bool| values.iter().all(|value| fits(value));
    let of = |class: u8| move |value: &str| value.chars().all(|c| class::of(c) & class != 0);
    let has = |most: usize| move |value: &str| (1..=most).contains(&value.len());
    if all(&|value| date_bytes(value).any(|bytes| bytes == value.len())) {
        return Some(Hole::Date);
    }
    if all(&is_path) && all(&of(class::PATH)) && all(&has(TEXT_BYTES_MAX)) {
        return Some(Hole::Path);
    }
    let lengths: BTreeSet<usize> = values.iter().map(String::len).collect();
    // Numbers are words: the next one may be longer.
    let letters = values.iter().any(|value| value.bytes().any(|b| b.is_ascii_alphabetic()));
    let digits = values.iter().any(|value| value.bytes().any(|b| b.is_ascii_digit()));
    if all(&of(class::HEX)) && all(&has(HEX_DIGITS_MAX)) && lengths.len() == 1 && letters && digits
    {
        return lengths.first().copied().map(Hole::Hex);
    }
    if all(&of(class::WORD)) && all(&has(WORD_BYTES_MAX)) {
        return Some(Hole::Word);
    }
    let longest = lengths.last().copied().unwrap_or(0);
    if all(&of(class::LINE)) && longest <= TEXT_BYTES_MAX {
        return Some(Hole::Line);
    }
    let room = longest.saturating_mul(2).next_power_of_two().min(TEXT_BYTES_MAX);
    (longest <= TEXT_BYTES_MAX).then_some(Hole::Text(room.max(1)))
}
