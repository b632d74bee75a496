//! Whether the instructions of one request are those that its manifest lists.

use super::super::bind::{Mismatch, mismatch};
use super::super::manifest::Manifest;
use super::{InstructionScope, Instructions};
use crate::domain::dialect::Place;
use crate::domain::digest::Digest;

/// Blocks of instructions of one request, at most.
pub const BLOCKS_MAX: usize = 1024;
/// Differences that one refusal names.
const NAMED_MAX: usize = 8;

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
