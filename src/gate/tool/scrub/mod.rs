//! Masks the gate's own credentials in every output of a tool, whatever the policy says (I6, I9).

mod ends;

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use regex::Regex;

use super::forms::forms;
use super::{Error, ToolExecutor, limit, text};
use crate::catalog::model::ModelFace;
use crate::catalog::secret::Secret;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use crate::domain::readings::readings;
use crate::domain::sent::SearchedFor;
use crate::domain::token;
use crate::firewall;
use crate::judge::prepared::PreparedResource;
use crate::ledger::flow::Flow;
use crate::ledger::permit::Permit;
use crate::limits::Spend;
use ends::{CHANGED, TextSaid, end};

const MASK: &str = "[REDACTED:credential]";
/// Bytes of a form's prefix that the search uses; the rest is compared at each match.
const FRONT: usize = 16;
/// Shortest beginning of a form that is held back.
const BEGINNING_MIN: usize = 4;
/// Shortest form that counts as a match in text that was reassembled.
const TOGETHER_MIN: usize = 12;

/// Every credential of this process, in each form in which it could appear, and every run token.
#[derive(Clone, Default)]
pub struct Scrub {
    /// The number of the set of secrets in this process; 0 of an empty one.
    set: u64,
    finder: Arc<RwLock<Finder>>,
    secrets: Arc<[Secret]>,
}

/// What a text that goes on says of secrets and tokens, as it is written or as a reader behind us would
/// decode it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextEnd {
    /// It holds one.
    Holds,
    /// It ends with what may be the beginning of one.
    Begins,
    /// Neither.
    Clear,
}

/// Finds all forms in one pass.
#[derive(Default)]
struct Finder {
    /// The generation of the secrets from which the forms were built.
    generation: u64,
    /// Longest first.
    forms: Vec<zeroize::Zeroizing<String>>,
    /// Places in `forms`, in the order of the forms' bytes.
    in_order: Vec<usize>,
    /// How forms begin.
    fronts: FrontSet,
    prefixes: Option<Regex>,
}

impl Finder {
    fn of(secrets: &[Secret], generation: u64) -> Self {
        let values = secrets.iter().flat_map(Secret::values);
        let mut forms: Vec<String> = values.flat_map(|value| forms(&value)).collect();
        // Longest first, so that no part of a longer form remains.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        let forms: Vec<_> = forms.into_iter().map(zeroize::Zeroizing::new).collect();
        let mut prefixes: Vec<String> =
            forms.iter().map(|form| regex::escape(form.get(..FRONT).unwrap_or(form))).collect();
        prefixes.sort();
        prefixes.dedup();
        // INVARIANT: escaped literals always form a pattern. Otherwise each form is searched for
        // separately.
        let prefixes =
            (!prefixes.is_empty()).then(|| Regex::new(&prefixes.join("|")).ok()).flatten();
        let mut in_order: Vec<usize> = (0..forms.len()).collect();
        in_order.sort_by_key(|form| forms.get(*form).map(|form| form.as_bytes()));
        let fronts = FrontSet::of(forms.iter().map(|form| form.as_bytes()));
        Self { generation, forms, in_order, fronts, prefixes }
    }

    /// Whether a text ends with the beginning of a form, of at least [`BEGINNING_MIN`] bytes.
    fn may_begin(&self, text: &str) -> bool {
        let longest = self.forms.first().map_or(0, |form| form.len());
        let from = text.len().saturating_sub(longest.saturating_sub(1));
        let mut rest = text.as_bytes().get(from..).unwrap_or_default();
        while let [_, after @ ..] = rest
            && let Some(front) = rest.first_chunk()
        {
            if self.fronts.may_hold(*front) && self.goes_on(rest) {
                return true;
            }
            rest = after;
        }
        false
    }

    /// Whether some form begins with all of this and is longer.
    fn goes_on(&self, beginning: &[u8]) -> bool {
        let form = |place: &usize| self.forms.get(*place).map_or(&b""[..], |form| form.as_bytes());
        let at = self.in_order.partition_point(|place| form(place) < beginning);
        // Forms that begin with it stand together; the first of them may be no longer than it.
        let mut next = self.in_order.iter().skip(at).take(2).map(form);
        next.any(|form| form.len() > beginning.len() && form.starts_with(beginning))
    }

    /// The positions of forms of at least `bytes_min` bytes in a text.
    fn find(&self, text: &str, bytes_min: usize) -> Vec<Range<usize>> {
        let Some(prefixes) = &self.prefixes else {
            let each = self.forms.iter().filter(|form| form.len() >= bytes_min);
            let at = each.flat_map(|form| text.match_indices(form.as_str()));
            return at.map(|(at, form)| at..at.saturating_add(form.len())).collect();
        };
        let (mut found, mut from) = (Vec::new(), 0_usize);
        while let Some(at) = prefixes.find_at(text, from).map(|matched| matched.start()) {
            let rest = text.get(at..).unwrap_or_default();
            let form = self.forms.iter().find(|form| rest.starts_with(form.as_str()));
            found.extend(
                form.filter(|form| form.len() >= bytes_min)
                    .map(|form| at..at.saturating_add(form.len())),
            );
            // Forms are ASCII, so the byte after the first one begins a character.
            from = at.saturating_add(1);
        }
        found
    }

    /// Whether a text holds a secret or a run token, in any form.
    fn hides(&self, text: &str) -> bool {
        if self.forms.is_empty() && text.len() < token::CHARS {
            return false;
        }
        let mut hides = self.reads(text, 0);
        if !hides {
            readings(text, |reading| hides = hides || self.reads(reading.text, TOGETHER_MIN));
        }
        hides
    }

    /// Whether a text holds a form of at least `bytes_min` bytes or a token, as it is written.
    fn reads(&self, text: &str, bytes_min: usize) -> bool {
        !self.find(text, bytes_min).is_empty() || !token::find(text).is_empty()
    }

    /// The positions of secrets and run tokens in a text, in any form.
    fn spans(&self, text: &str) -> Vec<Range<usize>> {
        if self.forms.is_empty() && text.len() < token::CHARS {
            return Vec::new();
        }
        let mut spans = self.find(text, 0);
        spans.extend(token::find(text));
        readings(text, |reading| {
            let mut found = self.find(reading.text, TOGETHER_MIN);
            found.extend(token::find(reading.text));
            spans.extend(found.iter().filter_map(|found| reading.source(found)));
        });
        spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
        let mut apart: Vec<Range<usize>> = Vec::new();
        for span in spans {
            match apart.last_mut().filter(|last| span.start < last.end) {
                Some(last) => last.end = last.end.max(span.end),
                None => apart.push(span),
            }
        }
        apart
    }

    fn mask(&self, text: &str) -> Option<String> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return None;
        }
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for span in spans {
            out.push_str(text.get(from..span.start).unwrap_or_default());
            out.push_str(MASK);
            from = span.end;
        }
        out.push_str(text.get(from..).unwrap_or_default());
        Some(out)
    }

    /// A message with secrets masked, at full length: `limit` cuts it after every mask.
    fn message(&self, message: &str) -> String {
        self.mask(message).unwrap_or_else(|| message.to_owned())
    }

    fn finds(&self, value: &Json) -> bool {
        let holds = |text: &str| self.hides(text);
        match value {
            Json::String(text) => holds(text),
            Json::Int(_) | Json::Float(_) => holds(&canonical::text(value)),
            Json::Array(items) => items.iter().any(|item| self.finds(item)),
            Json::Object(members) => {
                members.iter().any(|(name, value)| holds(name) || self.finds(value))
            }
            Json::Null | Json::Bool(_) => false,
        }
    }

    /// Whether this JSON text contains a secret, or may: literally, or in one of its strings.
    fn hides_in(&self, json: &[u8]) -> bool {
        let Ok(written) = std::str::from_utf8(json) else { return true };
        // Half of a surrogate pair cannot be decoded, so a secret may surround it.
        let unread = !self.forms.is_empty();
        // A string without escapes reads as it is written, and was looked through with the whole.
        let mut escaped = text::strings(json).filter(|string| string.contains(&b'\\'));
        self.hides(written)
            || escaped.any(|string| text::read(string).map_or(unread, |string| self.hides(&string)))
    }
}

impl Scrub {
    /// Prepares to find these secrets: literally, percent-encoded, in hex, as numbers, reversed,
    /// escaped for JSON, HTML or mail, broken over lines, in letters that only look like ASCII, in
    /// ROT13, and inside base64 or base32 of a longer text. Includes values that the secrets take
    /// later.
    pub fn new(secrets: &[Secret]) -> Self {
        static SETS: AtomicU64 = AtomicU64::new(1);
        let finder = Finder::of(secrets, generation(secrets));
        let set = SETS.fetch_add(1, Ordering::Relaxed);
        Self { set, finder: Arc::new(RwLock::new(finder)), secrets: secrets.into() }
    }

    /// The finder for every value that the secrets have had.
    fn finder(&self) -> RwLockReadGuard<'_, Finder> {
        let now = generation(&self.secrets);
        let finder = self.finder.read();
        if finder.generation >= now {
            return finder;
        }
        drop(finder);
        // WHY compare again under the lock: another thread may have added newer secrets, and the
        // finder returned here must include them.
        let mut finder = self.finder.write();
        if finder.generation < now {
            *finder = Finder::of(&self.secrets, now);
        }
        RwLockWriteGuard::downgrade(finder)
    }

    /// What a search that begins now searches for.
    #[must_use]
    pub fn searched_for(&self) -> SearchedFor {
        SearchedFor { set: self.set, generation: generation(&self.secrets) }
    }

    /// Whether any text in the value contains one of the secrets.
    #[must_use]
    pub fn finds(&self, value: &Json) -> bool {
        self.finder().finds(value)
    }

    /// Whether this JSON text contains one of the secrets, or may.
    #[must_use]
    pub fn hides_in(&self, json: &[u8]) -> bool {
        self.finder().hides_in(json)
    }

    /// What a text says of the secrets and of tokens. `new`: how many bytes it grew by since it was
    /// [`TextEnd::Clear`]; `None` if it was not. Each piece of a streamed answer asks this.
    #[must_use]
    pub fn end_of(&self, text: &str, new: Option<usize>) -> TextEnd {
        let finder = self.finder();
        let longest = finder.forms.first().map_or(0, |form| form.len()).max(token::WRITTEN_MAX);
        // INVARIANT: no reading is longer than its source, and a new piece changes of each layer at most the
        // escape that it completes. So what is new in a reading is among this many of its last bytes, and what
        // that completes begins at most the longest form before.
        let changed = new.map(|new| new.saturating_add(CHANGED));
        let last = changed.map(|changed| changed.saturating_add(longest));
        // Separators are missing in some readings, so the source is longer than they are.
        let short = last.map(|last| end(text, last.saturating_mul(2)));
        let said = |text: &str, all: bool| {
            let mut said = TextSaid { finder: &finder, changed, last, end: TextEnd::Clear };
            let mut is_whole = true;
            said.reads(text, 0);
            readings(text, |reading| {
                is_whole &= all || last.is_some_and(|last| reading.text.len() > last);
                said.reads(reading.text, TOGETHER_MIN);
            });
            (said.end, is_whole)
        };
        match short.filter(|short| short.len() < text.len()).map(|short| said(short, false)) {
            Some((end, true)) => end,
            Some((_, false)) | None => said(text, true).0,
        }
    }

    /// Bytes of the longest form of a secret.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.finder().forms.first().map_or(0, |form| form.len())
    }

    /// Whether a text contains one of the secrets.
    #[must_use]
    pub fn holds(&self, text: &str) -> bool {
        self.finder().hides(text)
    }

    /// A text for the operator, with every form of every secret masked.
    pub fn text(&self, text: &str) -> String {
        self.finder().mask(text).unwrap_or_else(|| text.to_owned())
    }

    /// The outcome with every form of every secret masked. Opaque content stays opaque.
    pub fn apply(&self, outcome: Unmasked) -> Unmasked {
        let finder = self.finder();
        match outcome {
            Unmasked::Completed { result, status } => {
                let status = finder.mask(&status).unwrap_or(status);
                let (result, opaque) = result.into_parts();
                if !finder.hides_in(&result) {
                    // A result without secrets keeps its bytes.
                    return Unmasked::Completed {
                        result: AnswerContent::of(result, opaque),
                        status,
                    };
                }
                let clean = Json::parse(&result, &Limits::FILE).ok().map(|value| {
                    canonical::bytes(&firewall::map_text(&value, &|text| finder.mask(text)))
                });
                // A secret that spans several values cannot be masked in any of them.
                match clean.filter(|clean| !finder.hides_in(clean)) {
                    Some(result) => {
                        Unmasked::Completed { result: AnswerContent::of(result, opaque), status }
                    }
                    None => Unmasked::Failed {
                        class: FailureClass::Protocol,
                        started: true,
                        message: "the tool's result holds a credential and cannot be masked".into(),
                    },
                }
            }
            Unmasked::Failed { class, started, message } => {
                Unmasked::Failed { class, started, message: finder.message(&message) }
            }
            Unmasked::Unknown { .. } | Unmasked::Cancelled { .. } => outcome,
        }
    }
}

/// A bit for each of the first bytes with which a form begins, at a place that others may have, too.
/// WHY: a text that goes on is asked at each of its last bytes whether a form begins there, and the
/// forms of a secret begin with most letters.
#[derive(Default)]
struct FrontSet(Vec<u64>);

impl FrontSet {
    /// Bits of a place.
    const BITS: u32 = 16;

    fn of<'f>(forms: impl Iterator<Item = &'f [u8]>) -> Self {
        let mut words = vec![0_u64; 1 << (Self::BITS - 6)];
        for front in forms.filter_map(|form| form.first_chunk()) {
            let (word, bit) = Self::place(*front);
            if let Some(word) = words.get_mut(word) {
                *word |= bit;
            }
        }
        Self(words)
    }

    /// Whether a form may begin with these bytes.
    fn may_hold(&self, front: [u8; BEGINNING_MIN]) -> bool {
        let (word, bit) = Self::place(front);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The word of these bytes, and the bit in it.
    fn place(front: [u8; BEGINNING_MIN]) -> (usize, u64) {
        // An odd constant spreads neighbours (Knuth, volume 3, section 6.4).
        let mixed = u32::from_le_bytes(front).wrapping_mul(0x9E37_79B1) >> (32 - Self::BITS);
        (usize::try_from(mixed / 64).unwrap_or_default(), 1 << (mixed % 64))
    }
}

/// Increases whenever one of the secrets changes.
fn generation(secrets: &[Secret]) -> u64 {
    secrets.iter().fold(0, |sum, secret| sum.saturating_add(secret.generation()))
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrub").field("secrets", &self.secrets.len()).finish()
    }
}

/// An executor whose every outcome is scrubbed, whatever its kind.
pub(super) struct Scrubbed {
    pub(super) inner: Arc<dyn ToolExecutor>,
    pub(super) scrub: Scrub,
}

#[async_trait]
impl ToolExecutor for Scrubbed {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        self.inner.prepare(call)
    }

    fn hosts(&self, effect: &Effect) -> Vec<String> {
        self.inner.hosts(effect)
    }

    fn most(&self, args: &Json, args_bytes: u64) -> Option<Spend> {
        self.inner.most(args, args_bytes)
    }

    fn most_of(&self, call: &ToolCall) -> Option<Spend> {
        self.inner.most_of(call)
    }

    fn model_face(&self) -> Option<&ModelFace> {
        self.inner.model_face()
    }

    fn pre_image(&self, hold: &(dyn Any + Send + Sync)) -> Result<Option<Json>, LayerReason> {
        let kept = self.inner.pre_image(hold)?;
        if kept.as_ref().is_some_and(|kept| self.scrub.finds(kept)) {
            let why = "what the call would change holds a credential of this gate";
            return Err(LayerReason::effect_refused("firewall", "firewall.credential", why));
        }
        Ok(kept)
    }

    fn composed<'h>(&self, hold: &'h (dyn Any + Send + Sync)) -> Option<&'h Json> {
        self.inner.composed(hold)
    }

    async fn look(&self) -> Result<(), Error> {
        let looked = self.inner.look().await;
        let masked = |why: Error| limit::cut(&self.scrub.finder().message(&why.to_string()));
        looked.map_err(|why| Error::Masked(masked(why)))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        self.scrub.apply(self.inner.execute(permit).await)
    }

    async fn stream(&self, permit: &Permit, flow: Flow<'_>, _: &Scrub) -> Unmasked {
        self.scrub.apply(self.inner.stream(permit, flow, &self.scrub).await)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::wildcard_enum_match_arm, reason = "tests may stop at the first surprise")]

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::limit::MESSAGE_CHARS_MAX;
    use super::*;

    const TOKEN: &str = "sk-live/Abc+123=xyz";

    fn scrubbed(value: &Json) -> String {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        let result = canonical::bytes(value);
        let result = AnswerContent::Text(result);
        match scrub.apply(Unmasked::Completed { result, status: "200".into() }) {
            Unmasked::Completed { result, .. } => String::from_utf8(result.into_parts().0).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_echo_is_masked_in_values_and_names() {
        let echo = Json::object([
            ("body", Json::from(format!("you sent Bearer {TOKEN}!"))),
            (TOKEN, Json::from(1_u64)),
        ]);
        assert_eq!(
            scrubbed(&echo),
            r#"{"[REDACTED:credential]":1,"body":"you sent Bearer [REDACTED:credential]!"}"#
        );
    }

    #[test]
    fn written_for_a_url_or_as_json_in_a_text_it_is_still_found() {
        for form in [
            "k=sk-live%2FAbc%2B123%3Dxyz&",
            "k=sk-live%2fAbc%2b123%3dxyz&",
            r#"{"k":"sk-live\/Abc+123=xyz"}"#,
            "zyx=321+cbA/evil-ks",
        ] {
            let masked = scrubbed(&Json::from(form));
            assert!(
                masked.contains("[REDACTED:credential]") && !masked.contains("Abc"),
                "{masked}"
            );
        }
    }

    #[test]
    fn however_a_reader_behind_us_would_decode_it_it_is_found() {
        use std::fmt::Write as _;
        let each = |form: fn(u8) -> String| TOKEN.bytes().map(form).collect::<String>();
        let base64 = base64::engine::general_purpose::STANDARD.encode(format!("xyz{TOKEN}abc"));
        let mut lines = String::new();
        for (i, c) in base64.chars().enumerate() {
            let _ = write!(lines, "{c}{}", if i % 7 == 6 { "\r\n" } else { "" });
        }
        for form in [
            each(|b| format!("%{b:02X}")),
            each(|b| format!("%25{b:02x}")),
            each(|b| format!("\\u{b:04x}")),
            each(|b| format!("\\x{b:02X}")),
            each(|b| format!("&#{b};")),
            each(|b| format!("&#x{b:x};")),
            each(|b| format!("&amp;#{b};")),
            each(|b| format!("={b:02X}")),
            each(|b| format!("{b:02x}:")),
            each(|b| format!("{b:02X} ")),
            each(|b| format!("0x{b:02x}, ")),
            each(|b| format!("{}\0", char::from(b))),
            each(|b| format!("{b},")).trim_end_matches(',').to_owned(),
            TOKEN.replace('/', "&sol;").replace('=', "&equals;"),
            TOKEN.replace("Abc", "A\r\n bc"),
            TOKEN.replace("Abc", "A=\r\nbc"),
            lines,
        ] {
            let text = format!("before é {form} after");
            let masked = scrubbed(&Json::from(text.as_str()));
            assert!(masked.contains("[REDACTED:credential]"), "{form}");
            assert!(masked.starts_with("\"before é ") && masked.ends_with(" after\""), "{masked}");
        }
        // A list of numbers is not a text that could be masked, so it is withheld.
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        let numbers = Json::Array(TOKEN.bytes().map(|b| Json::from(u64::from(b))).collect());
        let result = canonical::bytes(&Json::object([("data", numbers)]));
        let result = AnswerContent::Text(result);
        let outcome = scrub.apply(Unmasked::Completed { result, status: "200".into() });
        assert!(matches!(outcome, Unmasked::Failed { .. }), "{outcome:?}");
    }

    fn failure(scrub: &Scrub, message: &str) -> String {
        let message = message.to_owned();
        let failed = Unmasked::Failed { class: FailureClass::ToolError, started: true, message };
        match scrub.apply(failed) {
            Unmasked::Failed { message, .. } => limit::cut(&message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_is_masked_before_it_is_cut() {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        for before in MESSAGE_CHARS_MAX - TOKEN.len() - 2..MESSAGE_CHARS_MAX + 2 {
            let shown =
                failure(&scrub, &format!("{}{TOKEN}{}", "é".repeat(before), "x".repeat(99)));
            assert!(!shown.contains("sk") && shown.ends_with('…'), "{shown}");
            assert_eq!(shown.chars().count(), MESSAGE_CHARS_MAX + 1);
        }
        assert_eq!(failure(&scrub, "wait…"), "wait…");
    }

    #[test]
    fn what_is_no_secret_is_left_as_it_is() {
        for clean in [
            "sk-live/Abc+123=xy",
            "sk-live%2FAbc%2B123",
            "a = b &amp; c %41 \\u0041 &#65; 73:6b:2d",
            "c2stbGl2ZS9BYmM",
        ] {
            let value = Json::from(clean);
            assert_eq!(scrubbed(&value), canonical::text(&value));
        }
    }

    #[test]
    fn a_clean_result_keeps_its_bytes_and_one_that_cannot_be_masked_is_a_failure() {
        let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
        let apply = |text: &str| {
            let result = AnswerContent::Text(text.into());
            scrub.apply(Unmasked::Completed { result, status: "ok".into() })
        };
        for clean in [r#"{ "b":1.0,"a":1 }"#, r#"{"a":1,"a":1e400}"#] {
            let result = AnswerContent::Text(clean.into());
            let expected = Unmasked::Completed { result, status: "ok".into() };
            assert_eq!(apply(clean), expected);
        }
        let escaped = TOKEN.replace('s', "\\u0073");
        for held in [
            format!(r#"{{"a":1,"a":"{TOKEN}"}}"#),
            format!(r#"{{"a":1,"a":2,"{escaped}":2}}"#),
            r#"{"a":"\ud800"}"#.to_owned(),
        ] {
            assert!(matches!(apply(&held), Unmasked::Failed { .. }), "{held}");
        }
    }

    #[test]
    fn clean_text_is_left_alone() {
        let value = Json::object([("a", Json::from("sk-live")), ("n", Json::from(5_u64))]);
        assert_eq!(scrubbed(&value), canonical::text(&value));
        assert!(!Scrub::default().finds(&value));
    }

    /// What [`Finder::hides_in`] is short for: the whole, and each string as it reads.
    fn hides_anywhere(finder: &Finder, json: &[u8]) -> bool {
        let hides = |text: &str| !finder.spans(text).is_empty();
        hides(std::str::from_utf8(json).unwrap())
            || text::strings(json).any(|string| text::read(string).is_none_or(|read| hides(&read)))
    }

    proptest! {
        #[test]
        fn each_string_is_searched_once_and_nothing_is_lost(
            before in "(%|&am|=|0|\\\\|\"|\n|[ -~é]){0,9}",
            form in any::<prop::sample::Index>(),
            cut in any::<prop::sample::Index>(),
            between in prop::sample::select(vec!["", "", " ", "\n", "=\n", "%", "\u{ad}", "\"", "0x"]),
            how in 0_u8..5,
            after in "(p;|0|x|\\\\|\"|\n|[ -~é]){0,9}",
        ) {
            let finder = Finder::of(&[Secret::parse(TOKEN).unwrap()], 0);
            let form = finder.forms[form.index(finder.forms.len())].as_str();
            let (front, rest) = form.split_at(cut.index(form.len()));
            let each = |to: fn(u8) -> String| front.bytes().map(to).collect::<String>();
            let front = match how {
                0 => each(|b| format!("%{b:02x}")),
                1 => each(|b| format!("&#{b};")),
                2 => each(|b| format!("\\u{b:04x}")),
                3 => each(|b| format!("={b:02X}")),
                _plain => front.to_owned(),
            };
            let text = format!("{before}{front}{between}{rest}{after}");
            for value in [
                Json::from(text.as_str()),
                Json::object([(text.as_str(), Json::from(1_u64)), ("b", Json::from("c"))]),
                Json::Array(vec![Json::from(before.as_str()), Json::from(text.as_str())]),
            ] {
                let json = canonical::bytes(&value);
                prop_assert_eq!(finder.hides_in(&json), hides_anywhere(&finder, &json), "{:?}", text);
            }
        }

        #[test]
        fn a_message_answers_no_guess_at_how_a_secret_begins(
            secret in "[A-Za-z0-9/+_-]{16,48}",
            other in "[A-Za-z0-9/+_-]{48}",
            length in 1_usize..15,
            before in "[ -~]{0,9}",
            after in "(…|\\.\\.\\.|…\"|… | it said)[ -~]{0,9}",
        ) {
            let scrub = Scrub::new(&[Secret::parse(&secret).unwrap()]);
            for whole in [&secret, &other] {
                let guess = whole.get(..length).unwrap_or_default();
                let echo = format!("{before}{guess}{after}");
                prop_assert_eq!(failure(&scrub, &echo), echo);
            }
        }

        #[test]
        fn what_a_piece_brings_is_seen_as_in_the_whole_text(
            filler in "[a-z ]{0,900}",
            parts in prop::collection::vec(prop::sample::select(vec![
                "sk-li", "ve/Abc", "+123=x", "yz", "%73", "%6b", "%2d%6c", "&#x73;", "&#x6b;", "&amp;#x2d;", "\\u006c", "=73", "=6b", "=\n",
                "73 6b 2d 6c ", "69 76 65 2f ", "41 62 63 2b ", "31 32 33 3d ", "78 79 7a", "0x73,", " ", "é", "&", "%", "wgr_", "d2dyXw", "115,107,45,",
            ]), 1..12),
            cut in any::<prop::sample::Index>(),
        ) {
            let scrub = Scrub::new(&[Secret::parse(TOKEN).unwrap()]);
            let (before, new) = parts.split_at(cut.index(parts.len()));
            let (before, new) = (format!("{filler}{}", before.concat()), new.concat());
            let all = format!("{before}{new}");
            if !before.is_empty() && scrub.end_of(&before, None) == TextEnd::Clear {
                prop_assert_eq!(scrub.end_of(&all, Some(new.len())), scrub.end_of(&all, None), "{} {}", before, new);
            }
        }

        #[test]
        fn every_beginning_of_a_form_is_seen_at_the_end_of_a_text_and_nothing_else_is(
            secrets in prop::collection::vec("[ab/é]{0,3}[a-c+/_=-]{8,20}", 1..4),
            form in any::<prop::sample::Index>(),
            length in 0_usize..24,
            before in "[abc -é]{0,12}",
            other in "[abc]{0,12}",
        ) {
            let secrets: Vec<_> =
                secrets.iter().filter_map(|secret| Secret::parse(secret).ok()).collect();
            let finder = Finder::of(&secrets, 0);
            let whole = finder.forms.get(form.index(finder.forms.len().max(1)));
            let whole = whole.map_or("", |form| form.as_str());
            let cut = whole.get(..length.min(whole.len())).unwrap_or_default();
            for text in [format!("{before}{cut}"), format!("{before}{other}"), cut.to_owned()] {
                let ends = finder.forms.iter().any(|form| {
                    let mut shorter = BEGINNING_MIN..form.len();
                    shorter.any(|end| form.get(..end).is_some_and(|part| text.ends_with(part)))
                });
                prop_assert_eq!(finder.may_begin(&text), ends, "{}", text);
            }
        }

        #[test]
        fn base64_of_anything_around_the_secret_is_found(before in "[ -~]{0,9}", after in "[ -~]{0,9}") {
            for encoded in [
                base64::engine::general_purpose::STANDARD.encode(format!("{before}{TOKEN}{after}")),
                URL_SAFE_NO_PAD.encode(format!("{before}{TOKEN}{after}")),
                hex::encode(format!("{before}{TOKEN}{after}")),
            ] {
                let masked = scrubbed(&Json::from(encoded.as_str()));
                prop_assert!(masked.contains("[REDACTED:credential]"), "{}", encoded);
            }
        }
    }
}
