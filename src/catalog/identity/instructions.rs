//! `spec.instructions` of a manifest, and whether the instructions that a model was given are the
//! listed ones.
//!
//! Instructions are every text that a provider treats as such. A manifest pins them by hashes and
//! templates. Messages of users are not covered, whatever they call themselves.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::bind::{Mismatch, mismatch};
use super::manifest::Manifest;
use crate::domain::closed::{self, texts};
use crate::domain::dialect::Place;
use crate::domain::digest::Digest;
use crate::yaml::{self, Document};

/// Blocks of instructions of one request, at most.
pub const BLOCKS_MAX: usize = 1024;
/// Differences that one refusal names.
const NAMED_MAX: usize = 8;

/// `spec.instructions[].scope`: what the hash of an entry covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum InstructionScope {
    /// `whole`: the leading blocks, joined by one line feed.
    Whole,
    /// `first_block`: the first leading block.
    FirstBlock,
    /// `block`: any one block.
    Block,
    /// `prefix:<bytes>`: so many first bytes of what `whole` covers. What follows is free text.
    Prefix(usize),
    /// `template`: the hash is that of a template, which one block must fit.
    Template,
}

impl InstructionScope {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "whole" => Some(Self::Whole),
            "first_block" => Some(Self::FirstBlock),
            "block" => Some(Self::Block),
            "template" => Some(Self::Template),
            prefix => prefix.strip_prefix("prefix:")?.parse().ok().map(Self::Prefix),
        }
    }

    /// Whether it covers one block, which may also stand in the middle of the conversation.
    const fn is_anywhere(self) -> bool {
        match self {
            Self::Block | Self::Template => true,
            Self::Whole | Self::FirstBlock | Self::Prefix(_) => false,
        }
    }
}

impl fmt::Display for InstructionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::FirstBlock => f.write_str("first_block"),
            Self::Block => f.write_str("block"),
            Self::Prefix(bytes) => write!(f, "prefix:{bytes}"),
            Self::Template => f.write_str("template"),
        }
    }
}

impl<'de> Deserialize<'de> for InstructionScope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        closed::read(from, "a scope", Self::parse)
    }
}

texts! {
    /// `spec.instructions[].place`: where the instructions of an entry may stand.
    #[derive(Default)]
    pub enum InstructionPlace {
        /// Before the conversation.
        #[default]
        Leading = "leading",
        /// In the middle of the conversation.
        Mid = "mid",
        /// Both.
        Any = "any",
    }
}

impl InstructionPlace {
    const fn allows(self, place: Place) -> bool {
        match (self, place) {
            (Self::Any, Place::Leading | Place::Mid)
            | (Self::Leading, Place::Leading)
            | (Self::Mid, Place::Mid) => true,
            (Self::Leading, Place::Mid) | (Self::Mid, Place::Leading) => false,
        }
    }
}

/// One entry of `spec.instructions`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Instructions {
    /// The name of the entry, for records and messages.
    pub name: Option<String>,
    /// SHA-256 of the text in scope, or of the template.
    pub sha256: Digest,
    /// What the hash covers.
    pub scope: InstructionScope,
    /// Where the text may stand.
    #[serde(default)]
    pub place: InstructionPlace,
    /// Whether a request without this text is refused.
    #[serde(default)]
    pub required: bool,
}

/// The JSON Schema of `spec.instructions`.
pub(super) fn schema() -> Value {
    let hex = json!({"type": "string", "pattern": "^[0-9a-f]{64}$",
        "x-error": "expected 64 lowercase hex digits, quoted"});
    json!({"type": "array", "maxItems": 256, "items": {
    "type": "object", "additionalProperties": false, "required": ["sha256", "scope"],
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$",
            "x-error": "expected a name: [A-Za-z0-9_.-]{1,64}"},
        "sha256": hex,
        "scope": {"type": "string",
            "pattern": "^(whole|first_block|block|prefix:[1-9][0-9]{0,8}|template)$",
            "x-error": "expected `whole`, `first_block`, `block`, `prefix:<bytes>` or `template`"},
        "place": {"enum": InstructionPlace::TEXTS, "x-error": "expected `leading`, `mid` or `any`"},
        "required": {"type": "boolean", "x-error": "expected `true` or `false`"},
        "template": hex,
    }}})
}

/// What the schema cannot express: members that do not go together, and names given twice.
pub(super) fn beyond_schema(document: &Document) -> Vec<yaml::Error> {
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    let entries = document.value.pointer("/spec/instructions").and_then(Value::as_array);
    for (i, entry) in entries.into_iter().flatten().enumerate() {
        let text = |member: &str| entry.get(member).and_then(Value::as_str);
        let mut add = |member: &str, why: String| {
            let at = format!("/spec/instructions/{i}/{member}");
            problems.push(document.error(&at, why));
        };
        if let Some(name) = text("name")
            && !names.insert(name)
        {
            add("name", format!("`{name}` is listed twice"));
        }
        let Some(scope) = text("scope").and_then(InstructionScope::parse) else { continue };
        if !scope.is_anywhere() && text("place").is_some_and(|place| place != "leading") {
            add("place", format!("scope `{scope}` covers leading instructions only"));
        }
        if let Some(template) = text("template") {
            if scope != InstructionScope::Template {
                add("template", format!("means nothing for scope `{scope}`"));
            } else if text("sha256").is_some_and(|sha256| sha256 != template) {
                add("template", "differs from `sha256`, which names the template".to_owned());
            }
        }
    }
    problems
}

/// A text that the provider treats as instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstructionBlock<'a> {
    /// Where it stands.
    pub place: Place,
    /// The text.
    pub text: &'a str,
}

/// An entry of the manifest that instructions of a request match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchedInstruction {
    /// `name` of the entry.
    pub name: Option<String>,
    /// Its scope.
    pub scope: InstructionScope,
    /// Where the text stands.
    pub place: Place,
    /// `sha256` of the entry.
    pub sha256: Digest,
}

/// The entries that the instructions of a request match.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MatchedInstructions {
    /// Each entry once for each place, in the order of the blocks; then required entries that
    /// others made superfluous.
    pub instructions: Vec<MatchedInstruction>,
    /// For each block of the request, the entry that covers it: one for all leading blocks, or one for
    /// each. Empty if the manifest lists no instructions.
    pub blocks: Vec<MatchedInstruction>,
    /// Bytes of instructions that no entry fixes: those behind a prefix, and those in holes of
    /// templates other than dates and hex digits. All bytes, if the manifest lists no instructions.
    pub loose_bytes: u64,
}

/// How one entry covers a text.
#[derive(Clone, Copy)]
struct Reading {
    /// Index of the entry.
    entry: usize,
    loose: u64,
}

/// Everything that matches.
struct Readings<'a> {
    listed: &'a [Instructions],
    /// For each block, the reading that leaves the fewest bytes loose.
    blocks: Vec<Option<Reading>>,
    /// The same for all leading blocks together.
    leading: Option<Reading>,
    /// For each entry, where it matches.
    places: Vec<Option<Place>>,
}

/// Compares the instructions of a request with the manifest. Every leading block matches a listed
/// entry, or all of them together do; there is one, if an entry for leading instructions is listed;
/// every block in the middle matches an entry with `place: mid` or `any`; every `required` entry is
/// there. Nothing is demanded if no instructions are listed.
///
/// # Errors
/// `manifest.instructions`: every difference, up to eight.
pub fn check(
    manifest: &Manifest,
    blocks: &[InstructionBlock<'_>],
) -> Result<MatchedInstructions, Mismatch> {
    let size = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
    if manifest.instructions.is_empty() {
        let loose_bytes = blocks.iter().fold(0_u64, |sum, b| sum.saturating_add(size(b.text)));
        return Ok(MatchedInstructions { loose_bytes, ..MatchedInstructions::default() });
    }
    if blocks.len() > BLOCKS_MAX {
        let message = format!(
            "the request has {} blocks of instructions, at most {BLOCKS_MAX} are compared",
            blocks.len()
        );
        return Err(Mismatch { reasons: vec![mismatch("manifest.instructions", message)] });
    }
    let readings = Readings::of(manifest, blocks);
    let mut reasons = readings.required();
    let mut found = MatchedInstructions::default();
    let mut covers = |read: Result<Vec<Reading>, Vec<String>>| {
        read.unwrap_or_else(|more| {
            reasons.extend(more);
            Vec::new()
        })
    };
    let leading = covers(readings.leading(blocks));
    let mid = covers(readings.single(blocks, Place::Mid));
    if reasons.is_empty() {
        readings.add(&leading, Place::Leading, &mut found);
        readings.add(&mid, Place::Mid, &mut found);
        found.blocks = readings.covering(blocks, (&leading, &mid));
        readings.add_required(&mut found);
        return Ok(found);
    }
    if reasons.len() > NAMED_MAX {
        let more = reasons.len().saturating_sub(NAMED_MAX);
        reasons.truncate(NAMED_MAX);
        reasons.push(format!("and {more} more differences"));
    }
    let reasons = reasons.into_iter().map(|why| mismatch("manifest.instructions", why)).collect();
    Err(Mismatch { reasons })
}

/// The indices of the blocks that match no listed entry. Leading blocks that match one together are not
/// among them.
#[must_use]
pub fn unlisted(manifest: &Manifest, blocks: &[InstructionBlock<'_>]) -> Vec<usize> {
    if manifest.instructions.is_empty() || blocks.len() > BLOCKS_MAX {
        return Vec::new();
    }
    let readings = Readings::of(manifest, blocks);
    let together = readings.leading.is_some();
    let alone = blocks.iter().zip(&readings.blocks).enumerate().filter(|(_, (block, reading))| {
        reading.is_none() && !(together && block.place == Place::Leading)
    });
    alone.map(|(index, _)| index).collect()
}

impl<'a> Readings<'a> {
    fn of(manifest: &'a Manifest, blocks: &[InstructionBlock<'_>]) -> Self {
        let listed = manifest.instructions.as_slice();
        let leading: Vec<&str> =
            blocks.iter().filter(|b| b.place == Place::Leading).map(|b| b.text).collect();
        let whole = leading.join("\n");
        let mut readings = Self {
            listed,
            blocks: vec![None; blocks.len()],
            leading: None,
            places: vec![None; listed.len()],
        };
        if !leading.is_empty() {
            for (entry, one) in listed.iter().enumerate() {
                let loose = loose_of_whole(one, whole.as_bytes());
                let better = fewer(readings.leading, entry, loose);
                readings.leading = better;
                readings.mark(entry, loose, Place::Leading);
            }
        }
        let first = blocks.iter().position(|block| block.place == Place::Leading);
        for (at, block) in blocks.iter().enumerate() {
            let digest = Digest::of(&[block.text.as_bytes()]);
            let mut best = None;
            for (entry, one) in listed.iter().enumerate() {
                let loose = if one.place.allows(block.place) {
                    loose_of_block(manifest, one, (block.text, &digest), first == Some(at))
                } else {
                    None
                };
                best = fewer(best, entry, loose);
                readings.mark(entry, loose, block.place);
            }
            if let Some(slot) = readings.blocks.get_mut(at) {
                *slot = best;
            }
        }
        readings
    }

    fn mark(&mut self, entry: usize, loose: Option<u64>, place: Place) {
        if loose.is_some()
            && let Some(slot) = self.places.get_mut(entry)
        {
            slot.get_or_insert(place);
        }
    }

    /// The entries of the leading blocks: one for all of them, or one for each if that leaves fewer
    /// bytes loose.
    fn leading(&self, blocks: &[InstructionBlock<'_>]) -> Result<Vec<Reading>, Vec<String>> {
        let expected = self.listed.iter().any(|one| one.place.allows(Place::Leading));
        if expected && blocks.iter().all(|block| block.place != Place::Leading) {
            return Err(vec![
                "the request has no instructions before the conversation, and the manifest lists some"
                    .to_owned(),
            ]);
        }
        match (self.single(blocks, Place::Leading), self.leading) {
            (Err(_), Some(together)) => Ok(vec![together]),
            (Ok(each), Some(together)) => {
                let loose = each.iter().fold(0_u64, |sum, one| sum.saturating_add(one.loose));
                // A prefix says less than entries for all blocks, even if nothing follows it.
                let is_whole = self
                    .listed
                    .get(together.entry)
                    .is_some_and(|one| one.scope == InstructionScope::Whole);
                let wins = together.loose < loose || (is_whole && together.loose == loose);
                Ok(if wins { vec![together] } else { each })
            }
            (each, None) => each,
        }
    }

    /// The entry of each block in this place.
    fn single(
        &self,
        blocks: &[InstructionBlock<'_>],
        place: Place,
    ) -> Result<Vec<Reading>, Vec<String>> {
        let (mut readings, mut unlisted) = (Vec::new(), Vec::new());
        let here = blocks.iter().zip(&self.blocks).filter(|(block, _)| block.place == place);
        for (number, (block, reading)) in (1_u64..).zip(here) {
            match reading {
                Some(reading) => readings.push(*reading),
                None => unlisted.push(format!(
                    "{place} instructions {number} ({} bytes) match no entry of the manifest",
                    block.text.len()
                )),
            }
        }
        if unlisted.is_empty() { Ok(readings) } else { Err(unlisted) }
    }

    /// Required entries that are not there.
    fn required(&self) -> Vec<String> {
        let entries = self.listed.iter().zip(&self.places).enumerate();
        let missing = entries.filter(|(_, (one, place))| one.required && place.is_none());
        let missing = missing.map(|(entry, (one, _))| {
            let shown = one.name.as_ref().map_or_else(
                || format!("`spec.instructions[{entry}]`"),
                |name| format!("`{name}`"),
            );
            format!("the required instructions {shown} are not there")
        });
        missing.collect()
    }

    fn add(&self, readings: &[Reading], place: Place, found: &mut MatchedInstructions) {
        for reading in readings {
            found.loose_bytes = found.loose_bytes.saturating_add(reading.loose);
            self.add_entry(reading.entry, place, found);
        }
    }

    fn add_required(&self, found: &mut MatchedInstructions) {
        for (entry, (one, place)) in self.listed.iter().zip(&self.places).enumerate() {
            if let Some(place) = place.filter(|_| one.required) {
                let named =
                    |is: &MatchedInstruction| is.sha256 == one.sha256 && is.scope == one.scope;
                if !found.instructions.iter().any(named) {
                    self.add_entry(entry, place, found);
                }
            }
        }
    }

    /// The entry of each block in order. One reading may cover all leading blocks.
    fn covering(
        &self,
        blocks: &[InstructionBlock<'_>],
        (leading, mid): (&[Reading], &[Reading]),
    ) -> Vec<MatchedInstruction> {
        let (mut leading, mut mid) = (leading.iter().cycle(), mid.iter());
        let entries = blocks.iter().filter_map(|block| {
            let reading = match block.place {
                Place::Leading => leading.next(),
                Place::Mid => mid.next(),
            };
            self.matched(reading?.entry, block.place)
        });
        entries.collect()
    }

    fn matched(&self, entry: usize, place: Place) -> Option<MatchedInstruction> {
        let one = self.listed.get(entry)?;
        let (name, scope, sha256) = (one.name.clone(), one.scope, one.sha256);
        Some(MatchedInstruction { name, scope, place, sha256 })
    }

    fn add_entry(&self, entry: usize, place: Place, found: &mut MatchedInstructions) {
        let Some(matched) = self.matched(entry, place) else { return };
        if !found.instructions.contains(&matched) {
            found.instructions.push(matched);
        }
    }
}

/// The better one of two readings; the former, if both leave as many bytes loose.
fn fewer(best: Option<Reading>, entry: usize, loose: Option<u64>) -> Option<Reading> {
    let Some(loose) = loose else { return best };
    match best {
        Some(best) if best.loose <= loose => Some(best),
        Some(_) | None => Some(Reading { entry, loose }),
    }
}

/// The bytes that this entry leaves loose of all leading blocks together, if it covers them.
fn loose_of_whole(entry: &Instructions, whole: &[u8]) -> Option<u64> {
    let covered = match entry.scope {
        InstructionScope::Whole => whole,
        InstructionScope::Prefix(bytes) => whole.get(..bytes)?,
        InstructionScope::FirstBlock | InstructionScope::Block | InstructionScope::Template => {
            return None;
        }
    };
    let loose = u64::try_from(whole.len().saturating_sub(covered.len())).unwrap_or(u64::MAX);
    (Digest::of(&[covered]) == entry.sha256).then_some(loose)
}

/// The bytes that this entry leaves loose of one block, if it covers the block.
fn loose_of_block(
    manifest: &Manifest,
    entry: &Instructions,
    (text, digest): (&str, &Digest),
    is_first: bool,
) -> Option<u64> {
    let same = (*digest == entry.sha256).then_some(0);
    match entry.scope {
        InstructionScope::Block => same,
        InstructionScope::FirstBlock => same.filter(|_| is_first),
        // A template that was not loaded matches nothing.
        InstructionScope::Template => manifest.templates.get(&entry.sha256)?.loose_bytes(text),
        InstructionScope::Whole | InstructionScope::Prefix(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::super::templates::InstructionTemplate;
    use super::super::tests::TEXT;
    use super::*;
    use std::sync::Arc;

    fn hash(text: &str) -> String {
        Digest::of(&[text.as_bytes()]).hex()
    }

    /// A manifest with these instructions, and these templates loaded.
    fn manifest(entries: &[String], templates: &[&str]) -> Manifest {
        let (before, rest) = TEXT.split_once("  instructions:\n").unwrap();
        let (_, after) = rest.split_once("  policy:").unwrap();
        let list = entries.iter().map(|entry| format!("    - {{{entry}}}\n")).collect::<String>();
        let list = if list.is_empty() { " []\n".to_owned() } else { format!("\n{list}") };
        let text = format!("{before}  instructions:{list}  policy:{after}");
        let mut manifest = schema::read(text.as_bytes(), "agent.yaml").unwrap();
        for text in templates {
            let template = InstructionTemplate::parse(text.as_bytes()).unwrap();
            manifest.templates.insert(Digest::of(&[text.as_bytes()]), Arc::new(template));
        }
        manifest
    }

    fn entry(scope: &str, text: &str, more: &str) -> String {
        format!("scope: \"{scope}\", sha256: \"{}\"{more}", hash(text))
    }

    /// `!` begins a block in the middle.
    fn checked(manifest: &Manifest, texts: &[&str]) -> Result<MatchedInstructions, String> {
        let blocks: Vec<_> = texts
            .iter()
            .map(|text| match text.strip_prefix('!') {
                Some(text) => InstructionBlock { place: Place::Mid, text },
                None => InstructionBlock { place: Place::Leading, text },
            })
            .collect();
        check(manifest, &blocks).map_err(|mismatch| mismatch.to_string())
    }

    fn shown(found: &MatchedInstructions) -> String {
        let one = |is: &MatchedInstruction| {
            format!("{}:{}:{}", is.name.as_deref().unwrap_or("-"), is.scope, is.place)
        };
        let all = found.instructions.iter().map(one).collect::<Vec<_>>().join(" ");
        format!("{all} {}", found.loose_bytes)
    }

    #[test]
    fn without_listed_instructions_nothing_is_demanded_and_all_is_loose() {
        let manifest = manifest(&[], &[]);
        assert_eq!(checked(&manifest, &[]).unwrap(), MatchedInstructions::default());
        assert_eq!(checked(&manifest, &["abc", "!de"]).unwrap().loose_bytes, 5);
    }

    #[test]
    fn whole_covers_all_leading_blocks_joined_by_one_line_feed() {
        let manifest = manifest(&[entry("whole", "a\nb", ", name: prompt")], &[]);
        for texts in [&["a", "b"][..], &["a\nb"]] {
            assert_eq!(shown(&checked(&manifest, texts).unwrap()), "prompt:whole:leading 0");
        }
        for texts in [&["a"][..], &["b", "a"], &["a", "b", "c"], &["ab"], &["a", "", "b"], &[]] {
            assert!(checked(&manifest, texts).is_err(), "{texts:?}");
        }
        assert!(checked(&manifest, &["a", "b", "!c"]).is_err());
        assert!(checked(&manifest, &["!a", "!b"]).is_err());
    }

    #[test]
    fn each_block_has_the_entry_that_covers_it() {
        let entries = [
            entry("whole", "a\nb", ", name: all"),
            entry("block", "x", ", name: x, place: any"),
            entry("block", "y", ", name: y"),
        ];
        let manifest = manifest(&entries, &[]);
        let names = |texts: &[&str]| {
            let found = checked(&manifest, texts).unwrap();
            let names = found.blocks.into_iter().map(|one| (one.name.unwrap(), one.place.as_str()));
            names.collect::<Vec<_>>()
        };
        let of = |name: &str, place: &'static str| (name.to_owned(), place);
        let all = of("all", "leading");
        assert_eq!(names(&["a", "b", "!x"]), [all.clone(), all, of("x", "mid")]);
        assert_eq!(names(&["y", "x", "y"]), ["y", "x", "y"].map(|name| of(name, "leading")));
    }

    #[test]
    fn a_prefix_leaves_what_follows_loose() {
        let manifest = manifest(&[entry("prefix:3", "a\nb", "")], &[]);
        assert_eq!(shown(&checked(&manifest, &["a", "bcd"]).unwrap()), "-:prefix:3:leading 2");
        assert_eq!(checked(&manifest, &["a\nb"]).unwrap().loose_bytes, 0);
        assert!(checked(&manifest, &["a\n"]).is_err());
        assert!(checked(&manifest, &["xa\nb"]).is_err());
    }

    #[test]
    fn every_block_needs_an_entry_and_a_block_stands_where_the_entry_allows() {
        let manifest = manifest(
            &[
                entry("first_block", "first", ", name: first"),
                entry("block", "two", ", name: two, place: any"),
                entry("block", "mid", ", name: mid, place: mid"),
            ],
            &[],
        );
        let fine = [
            (&["first"][..], "first:first_block:leading 0"),
            (&["first", "two"], "first:first_block:leading two:block:leading 0"),
            (&["two", "!two", "!mid"], "two:block:leading two:block:mid mid:block:mid 0"),
            (&["two", "two"], "two:block:leading 0"),
        ];
        for (texts, expected) in fine {
            assert_eq!(shown(&checked(&manifest, texts).unwrap()), expected, "{texts:?}");
        }
        for texts in
            [&["two", "first"][..], &["mid"], &["first", "!first"], &["first", "!x"], &["!mid"]]
        {
            assert!(checked(&manifest, texts).is_err(), "{texts:?}");
        }
        let why = checked(&manifest, &["first", "other", "!x"]).unwrap_err();
        let expected = "leading instructions 2 (5 bytes) match no entry of the manifest; \
                        mid instructions 1 (1 bytes) match no entry of the manifest";
        assert_eq!(why, expected);
    }

    #[test]
    fn a_required_entry_has_to_be_there_and_is_recorded() {
        let entries = [
            entry("whole", "a\nb", ", name: all"),
            entry("block", "b", ", name: b, required: true"),
            entry("block", "a", ", name: a"),
        ];
        let manifest = manifest(&entries, &[]);
        let found = checked(&manifest, &["a", "b"]).unwrap();
        assert_eq!(shown(&found), "all:whole:leading b:block:leading 0");
        let why = checked(&manifest, &["a"]).unwrap_err();
        assert_eq!(why, "the required instructions `b` are not there");
    }

    #[test]
    fn a_template_counts_its_loose_bytes_and_the_tightest_reading_wins() {
        let (form, wide) = ("in {{path}} on {{date}}", "in {{line}}");
        let entries = [
            entry("template", wide, ", name: wide, place: any"),
            entry("template", form, ", name: env, place: any"),
            entry("block", "you", ", name: you"),
            entry("prefix:3", "you", ", name: start"),
        ];
        let manifest = manifest(&entries, &[form, wide]);
        let found = checked(&manifest, &["you", "!in /ab on 2026-11-27"]).unwrap();
        assert_eq!(shown(&found), "you:block:leading env:template:mid 3");
        let found = checked(&manifest, &["you", "in x"]).unwrap();
        assert_eq!(shown(&found), "you:block:leading wide:template:leading 1");
        let found = checked(&manifest, &["you", "but then"]).unwrap();
        assert_eq!(shown(&found), "start:prefix:3:leading 9");
        assert!(checked(&manifest, &["you", "!in /ab\n"]).is_err());
    }

    #[test]
    fn the_blocks_that_match_no_entry_are_those_that_a_refusal_names() {
        let entries = [
            entry("whole", "a\nb", ""),
            entry("block", "c", ", place: any"),
            entry("block", "d", ""),
        ];
        let manifest = manifest(&entries, &[]);
        let of = |texts: &[(Place, &str)]| {
            let blocks: Vec<_> = texts
                .iter()
                .map(|(place, text)| InstructionBlock { place: *place, text })
                .collect();
            unlisted(&manifest, &blocks)
        };
        let (leading, mid) = (Place::Leading, Place::Mid);
        assert_eq!(of(&[(leading, "a"), (leading, "b"), (mid, "x")]), [2]);
        assert_eq!(of(&[(leading, "c"), (leading, "a"), (mid, "d")]), [1, 2]);
        assert_eq!(of(&[(leading, "d"), (mid, "c")]), Vec::<usize>::new());
    }

    #[test]
    fn a_template_that_was_not_loaded_matches_nothing() {
        let form = "in {{line}}";
        let bare = manifest(&[entry("template", form, "")], &[]);
        assert!(checked(&bare, &["in x"]).is_err());
        assert!(checked(&bare, &[form]).is_err());
    }

    #[test]
    fn a_flood_of_blocks_is_one_refusal_of_a_few_lines() {
        let manifest = manifest(&[entry("whole", "a", "")], &[]);
        let why = checked(&manifest, &["x"; 40]).unwrap_err();
        assert_eq!(why.matches("; ").count(), 8, "{why}");
        assert!(why.ends_with("and 32 more differences"), "{why}");
        let why = checked(&manifest, &["x"; BLOCKS_MAX + 1]).unwrap_err();
        assert_eq!(why, "the request has 1025 blocks of instructions, at most 1024 are compared");
    }
}
