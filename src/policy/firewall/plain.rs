//! Finds credentials in a text as it stands: one pass, and a walk where a prefix stands.

use std::ops::Range;

use super::kinds::Confidence;
use super::own::{self, LeakRule};
use super::patterns::{PATTERNS, Special, WIDTH, What, pushed};
use super::rules::{self, DigitGroup, Mode};
use super::shape::{self, Alphabet, Edge, KeyShape, Look, Part, Sort, URL};
use super::{address, personal, special, steering};

/// One place in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PlainFinding {
    /// What it is.
    pub kind: &'static str,
    /// How sure that is.
    pub confidence: Confidence,
    /// Where.
    pub range: Range<usize>,
}

/// A value that is assigned to a name; whatever else is found in it says more.
pub(super) const ASSIGNED: &str = "assigned";
/// Letters of the shortest first part of a token of Discord.
const DISCORD_MIN: usize = 23;
/// The value of a header.
pub(super) const AUTHORIZATION: &str = "authorization";

/// Prefixes that are words of longer names too: `cache-key-…`, `rest-api-…`.
const WORDS: [&[u8]; 7] = [b"key-", b"key_", b"api-", b"sdk-", b"secret-", b"secret_", b"token-"];

/// A pass over one text.
#[derive(Debug)]
pub(super) struct Pass<'t> {
    /// The text.
    pub text: &'t [u8],
    /// Whether the text was made from another one: what stands before a finding may be anything.
    pub is_made: bool,
    runs: Vec<(Alphabet, Range<usize>)>,
    found: Vec<PlainFinding>,
    /// Rules of the operator of which a word stands in the text.
    leaks: Vec<&'static LeakRule>,
}

/// What a name of a member says about its value: that of a credential, or of a number of a person.
pub(super) fn names_something(name: &str) -> bool {
    let text = name.as_bytes();
    let mut key = 0_u32;
    let says = text.iter().enumerate().any(|(last, byte)| {
        key = pushed(key, *byte);
        let rest = (last + 1).checked_sub(WIDTH).and_then(|at| text.get(at..)).unwrap_or_default();
        PATTERNS.may_begin(key)
            && PATTERNS.beginning(key).any(|pattern| {
                let is_name = matches!(
                    pattern.what,
                    What::Keyed(_)
                        | What::Leak(_)
                        | What::Special(Special::Assigned | Special::Authorization)
                );
                is_name && pattern.begins(rest).is_some()
            })
    });
    says || personal::names_number(text)
}

/// Every credential and every number of a person in a text. `is_made`: whether it was decoded from
/// another one, so that the byte before a finding says nothing. `mode`: how, for numbers and addresses.
pub(super) fn scan(text: &[u8], is_made: bool, mode: Mode) -> Vec<PlainFinding> {
    scan_groups(text, &rules::groups(text), is_made, mode)
}

/// The same, with the groups of digits of the text.
pub(super) fn scan_groups(
    text: &[u8],
    groups: &[DigitGroup],
    is_made: bool,
    mode: Mode,
) -> Vec<PlainFinding> {
    let mut pass = Pass { text, is_made, runs: Vec::new(), found: Vec::new(), leaks: Vec::new() };
    pass.patterns();
    for rule in std::mem::take(&mut pass.leaks) {
        own::find(&mut pass, rule);
    }
    pass.dotted();
    personal::numbers(&mut pass, groups);
    for hit in rules::scan_groups(text, groups, mode) {
        pass.note(hit.kind, Confidence::High, hit.start..hit.end);
    }
    tidied(pass.found)
}

/// Those without the ones that another finding says better.
fn tidied(mut found: Vec<PlainFinding>) -> Vec<PlainFinding> {
    let rank = |one: &PlainFinding| match one.kind {
        ASSIGNED => 2,
        AUTHORIZATION => 1,
        _ => 0_u8,
    };
    for weak in [1, 2] {
        let mut better: Vec<Range<usize>> =
            found.iter().filter(|one| rank(one) < weak).map(|one| one.range.clone()).collect();
        outermost(&mut better, |range| range);
        found.retain(|one| {
            let next = better.partition_point(|other| other.end <= one.range.start);
            let overlaps = better.get(next).is_some_and(|other| other.start < one.range.end);
            rank(one) != weak || !overlaps
        });
    }
    outermost(&mut found, |one| &one.range);
    found
}

/// Those that are not inside another one, in order: the longest says more than what is inside it.
fn outermost<T>(all: &mut Vec<T>, range: impl Fn(&T) -> &Range<usize>) {
    all.sort_by_key(|one| (range(one).start, std::cmp::Reverse(range(one).end)));
    let mut end = 0;
    all.retain(|one| {
        let is_inside = range(one).end <= end;
        end = end.max(range(one).end);
        !is_inside
    });
}

impl Pass<'_> {
    fn patterns(&mut self) {
        let text = self.text;
        let mut key = 0_u32;
        for (last, byte) in text.iter().enumerate() {
            key = pushed(key, *byte);
            if !PATTERNS.may_begin(key) {
                continue;
            }
            let Some(at) = (last + 1).checked_sub(WIDTH) else { continue };
            let rest = text.get(at..).unwrap_or_default();
            for pattern in PATTERNS.beginning(key) {
                let Some(length) = pattern.begins(rest) else { continue };
                let behind = at + length;
                match pattern.what {
                    What::Shape(vendor, shape) => self.shape(vendor.kind, shape, at, behind),
                    What::Keyed(keyed) => special::keyed(self, keyed, behind),
                    What::Leak(rule) => self.leak(rule),
                    What::Special(special) => self.special(special, at, behind),
                }
            }
        }
    }

    /// Notes that a word of this rule stands in the text: its expression is asked once, for all of it.
    fn leak(&mut self, rule: &'static LeakRule) {
        if !self.leaks.iter().any(|known| std::ptr::eq(*known, rule)) {
            self.leaks.push(rule);
        }
    }

    fn special(&mut self, special: Special, at: usize, behind: usize) {
        match special {
            Special::Pem => special::pem(self, at),
            Special::Putty => special::putty(self, at),
            Special::Jwt => special::jwt(self, at),
            Special::Url => address::url(self, at, behind),
            Special::Authorization => special::authorization(self, behind),
            Special::Bearer => special::bearer(self, at, behind),
            Special::Signature => special::signature(self, at, behind),
            Special::Assigned => special::assigned(self, at, behind),
            Special::Bech32 => personal::bech32(self, at),
            Special::Markup => steering::markup(self, at, behind),
            Special::Forged => steering::forged(self, at, behind),
            Special::Phrase => steering::instruction(self, at, behind),
            Special::Hidden => steering::hidden(self, at, behind),
        }
    }

    /// Tokens of Discord have no prefix: the number of the bot is their first part.
    fn dotted(&mut self) {
        let mut at = DISCORD_MIN - 1;
        while let Some(byte) = self.byte(at) {
            if !URL.has(byte) {
                at += DISCORD_MIN;
                continue;
            }
            let before = self.text.get(..at).unwrap_or_default();
            let start = at - before.iter().rev().take_while(|byte| URL.has(**byte)).count();
            let end = self.run_end(at, URL);
            special::discord(self, &(start..end));
            at = end + DISCORD_MIN;
        }
    }

    /// Notes what was found, unless it is within what is noted already.
    pub fn note(&mut self, kind: &'static str, confidence: Confidence, range: Range<usize>) {
        let mut newest = self.found.iter().rev().take(8);
        let is_known = newest.any(|one| {
            one.kind == kind && one.range.start <= range.start && one.range.end >= range.end
        });
        if !is_known {
            self.found.push(PlainFinding { kind, confidence, range });
        }
    }

    /// Whether everything up to this place is part of a finding of this kind.
    pub fn is_in(&self, kind: &str, at: usize) -> bool {
        let mut newest = self.found.iter().rev().take(8);
        newest.any(|one| one.kind == kind && one.range.contains(&at))
    }

    /// Notes a body that shape and look call a key.
    pub fn judge(
        &mut self,
        kind: &'static str,
        sort: Sort,
        whole: Range<usize>,
        body: &Range<usize>,
        alphabet: Alphabet,
    ) {
        let bytes = self.text.get(body.clone()).unwrap_or_default();
        let confidence = match (shape::look(bytes, alphabet), sort) {
            (Look::Words, _) => return,
            (Look::Random, Sort::Live) | (Look::Random | Look::Example, Sort::Address) => {
                Confidence::High
            }
            (Look::Example, Sort::Live) | (Look::Random | Look::Example, Sort::Test) => {
                Confidence::Low
            }
        };
        self.note(kind, confidence, whole);
    }

    fn shape(&mut self, kind: &'static str, shape: &'static KeyShape, at: usize, behind: usize) {
        if self.is_in(kind, at) {
            return;
        }
        let Some(start) = self.lead(shape, at) else { return };
        let prefix = self.text.get(at..behind).unwrap_or_default();
        let before = start.checked_sub(1).and_then(|at| self.byte(at));
        if WORDS.contains(&prefix) && before.is_some_and(|byte| b"-_.".contains(&byte)) {
            return;
        }
        let end = match shape.edges.1 {
            Edge::Word => self.walk(behind, shape.parts).filter(|end| self.ends_at(*end)),
            Edge::Any => self.longest(behind, shape.parts),
        };
        let Some(end) = end else { return };
        if let Some(least) = shape.distinct_min {
            let bytes = self.text.get(behind..end).unwrap_or_default();
            if shape::distinct(bytes) >= least {
                self.note(kind, Confidence::High, start..end);
            }
            return;
        }
        let (body, alphabet) = match shape.lead {
            Some((lead, ..)) if shape.parts.is_empty() => (start..at, lead),
            Some(_) => (start..end, shape::widest(shape.parts)),
            None => (behind..end, shape::widest(shape.parts)),
        };
        // WHY not from a name that stands before white space: it may have left a text that comes in pieces.
        let from = if prefix.contains(&b' ') { behind } else { start };
        self.judge(kind, shape.sort, from..end, &body, alphabet);
    }

    /// Where a shape begins whose prefix is here.
    fn lead(&self, shape: &KeyShape, at: usize) -> Option<usize> {
        let Some((alphabet, min, max)) = shape.lead else {
            let begins = shape.edges.0 == Edge::Any || self.begins_at(at);
            return begins.then_some(at);
        };
        let before = self.text.get(..at)?;
        let length = before.iter().rev().take(max + 1).take_while(|b| alphabet.has(**b)).count();
        let start = at.checked_sub(length)?;
        ((min..=max).contains(&length) && self.begins_at(start)).then_some(start)
    }

    /// Where these parts end that begin here: as [`shape::walk`], with each run measured once however
    /// many prefixes stand in it.
    pub fn walk(&mut self, from: usize, parts: &[Part]) -> Option<usize> {
        let mut at = from;
        for part in parts {
            match part {
                Part::Is(literal) => {
                    let is_there = self.text.get(at..)?.starts_with(literal.as_bytes());
                    at = is_there.then_some(at + literal.len())?;
                }
                Part::Run(alphabet, min, max) => {
                    let length = self.run_end(at, *alphabet).saturating_sub(at);
                    if !(*min..=*max).contains(&length) {
                        return None;
                    }
                    at += length;
                }
            }
        }
        // A sentence ends with a stop that an alphabet may have.
        let body = self.text.get(from..at)?;
        let stops = body.iter().rev().take_while(|b| b"-.".contains(b)).count();
        let least = from + shape::least(parts);
        Some((at.saturating_sub(stops)).max(least.min(at)))
    }

    /// Where these parts end at the latest that begin here, whatever stands behind them.
    fn longest(&mut self, from: usize, parts: &[Part]) -> Option<usize> {
        let [Part::Run(alphabet, min, max)] = parts else { return self.walk(from, parts) };
        let length = self.run_end(from, *alphabet).saturating_sub(from);
        (length >= *min).then(|| from + length.min(*max))
    }

    /// Where the run of these letters ends that has this place.
    pub fn run_end(&mut self, at: usize, alphabet: Alphabet) -> usize {
        if let Some((_, known)) = self.runs.iter().find(|(of, _)| *of == alphabet)
            && known.contains(&at)
        {
            return known.end;
        }
        let rest = self.text.get(at..).unwrap_or_default();
        let end = at + rest.iter().take_while(|byte| alphabet.has(**byte)).count();
        match self.runs.iter_mut().find(|(of, _)| *of == alphabet) {
            Some((_, known)) => *known = at..end,
            None => self.runs.push((alphabet, at..end)),
        }
        end
    }

    /// The byte in this place.
    pub fn byte(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    /// Whether a word may begin here: nothing that belongs to it stands before, except an escape.
    pub fn begins_at(&self, at: usize) -> bool {
        self.is_made || is_begin(self.text, at)
    }

    /// Whether a word may end here.
    pub fn ends_at(&self, at: usize) -> bool {
        !self.byte(at).is_some_and(|byte| byte.is_ascii_alphanumeric())
    }
}

/// Whether a word may begin in this place of a text. The last letters of an escape belong to no word:
/// `\n`, `%3D`, `\u0022`.
pub(super) fn is_begin(text: &[u8], at: usize) -> bool {
    let before = |by: usize| at.checked_sub(by).and_then(|at| text.get(at)).copied();
    let Some(last) = before(1) else { return true };
    if !last.is_ascii_alphanumeric() {
        return true;
    }
    let is_hex = |by: usize| before(by).is_some_and(|byte| byte.is_ascii_hexdigit());
    (b"nrtbfv0".contains(&last) && before(2) == Some(b'\\'))
        || (is_hex(1) && is_hex(2) && before(3) == Some(b'%'))
        || (is_hex(1) && is_hex(2) && before(3) == Some(b'x') && before(4) == Some(b'\\'))
        || ((1..=4).all(is_hex) && before(5) == Some(b'u') && before(6) == Some(b'\\'))
}
