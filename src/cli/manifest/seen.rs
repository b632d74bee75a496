//! `wicketgate manifest verify --seen`: compares recorded requests with the instructions of a manifest.

use std::path::Path;

use serde_json::{Value, json};

use super::requests::{LeftOut, RecordedRequest, RecordedRequests};
use crate::cli::{note, say};
use crate::domain::dialect::Place;
use crate::domain::digest::Digest;
use crate::domain::plural::many;
use crate::identity::instructions::{self, InstructionBlock, InstructionScope, Instructions};
use crate::identity::manifest::Manifest;
use crate::identity::pin::{self, PinnedText, TextDifference};
use crate::identity::templates::template_path;

/// How the requests of some runs compare with a manifest.
#[derive(Debug)]
pub(super) struct SeenReport {
    requests: usize,
    different: Vec<SeenDifference>,
    left_out: Vec<LeftOut>,
    /// The names of the manifest's entries.
    entries: Vec<String>,
    /// The option that names the ledger, for the next command.
    ledger: String,
}

/// A request that does not match, and the number of those like it.
#[derive(Debug)]
struct SeenDifference {
    run: String,
    call: String,
    is_denied: bool,
    requests: usize,
    reasons: Vec<String>,
    blocks: Vec<UnlistedBlock>,
}

/// A text that no entry pins.
#[derive(Clone, PartialEq, Eq, Debug)]
struct UnlistedBlock {
    place: Place,
    /// Its number among the texts of its place, from 1.
    number: usize,
    bytes: usize,
    sha256: Digest,
    /// The closest pinned text, if one is close.
    closest: Option<TextDifference>,
}

impl SeenReport {
    /// Compares all requests. `file` is the manifest, `ledger` the option that names the ledger.
    pub fn of(
        manifest: &Manifest,
        file: &Path,
        recorded: RecordedRequests,
        ledger: String,
    ) -> Self {
        let pinned = pinned(manifest, file, &recorded);
        let mut different: Vec<SeenDifference> = Vec::new();
        for request in &recorded.requests {
            let Some(found) = compared(manifest, &pinned, request) else { continue };
            let like = |one: &&mut SeenDifference| {
                one.run == found.run && one.reasons == found.reasons && one.blocks == found.blocks
            };
            match different.iter_mut().find(like) {
                Some(known) => known.requests = known.requests.saturating_add(1),
                None => different.push(found),
            }
        }
        let entries = manifest.instructions.iter().enumerate().map(named).collect();
        let (requests, left_out) = (recorded.requests.len(), recorded.left_out);
        Self { requests, different, left_out, entries, ledger }
    }

    /// Whether every request matches.
    pub const fn is_fine(&self) -> bool {
        self.different.is_empty()
    }

    /// The report as JSON.
    pub fn facts(&self) -> Value {
        let left_out = self.left_out.iter().map(
            |one| json!({"run": one.run.to_string(), "call": one.call, "why": one.why.to_string()}),
        );
        json!({
            "requests": self.requests,
            "different": self.different.iter().map(|one| self.difference(one)).collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
        })
    }

    fn difference(&self, one: &SeenDifference) -> Value {
        let blocks = one.blocks.iter().map(|block| {
            let closest = block.closest.as_ref().map(|found| {
                json!({"entry": found.entry, "name": self.entries.get(found.entry),
                    "line": found.line, "column": found.column, "pinned": found.pinned, "seen": found.seen})
            });
            json!({"place": block.place.as_str(), "number": block.number, "bytes": block.bytes,
                "sha256": block.sha256.hex(), "closest": closest})
        });
        json!({"run": one.run, "call": one.call, "requests": one.requests, "reasons": one.reasons,
            "blocks": blocks.collect::<Vec<_>>()})
    }

    /// Prints the report for people.
    pub fn print(&self) {
        for left in &self.left_out {
            note(format!("left out: {left}"));
        }
        let count = many(self.requests, "request");
        if self.is_fine() {
            return say(format!("seen        {count}, all with the pinned instructions"));
        }
        for one in &self.different {
            let more = one.requests.saturating_sub(1);
            let more = if more > 0 {
                format!(" (and {} like it)", many(more, "other"))
            } else {
                String::new()
            };
            say(format!("differs     call {} of run {}{more}", one.call, one.run));
            for reason in &one.reasons {
                say(format!("  {reason}"));
            }
            for block in &one.blocks {
                self.print_block(block);
            }
            let denied = if one.is_denied { " --include-denied" } else { "" };
            say(format!(
                "  next: give the agent the pinned text again, or pin the new one: wicketgate manifest pin --from-run {}{denied} {}",
                one.run, self.ledger
            ));
        }
    }

    fn print_block(&self, block: &UnlistedBlock) {
        let UnlistedBlock { place, number, .. } = block;
        let Some(found) = &block.closest else {
            return say(format!(
                "  {place} instructions {number}: no pinned text at hand is close",
                place = place.as_str()
            ));
        };
        let entry = self.entries.get(found.entry).map_or("", String::as_str);
        say(format!(
            "  {} instructions {number}: closest to {entry}, and differ from it at line {}, column {}",
            place.as_str(),
            found.line,
            found.column
        ));
        say(format!("    pinned  {:?}", found.pinned));
        say(format!("    seen    {:?}", found.seen));
    }
}

/// The name of an entry in messages.
fn named((index, entry): (usize, &Instructions)) -> String {
    let Instructions { name, scope, .. } = entry;
    match name {
        Some(name) => format!("`{name}` ({scope})"),
        None => format!("`spec.instructions[{index}]` ({scope})"),
    }
}

/// The texts behind the entries, as far as they are at hand: templates, texts that `manifest pin` wrote
/// beside the manifest, and texts of the requests themselves.
fn pinned(manifest: &Manifest, file: &Path, recorded: &RecordedRequests) -> Vec<PinnedText> {
    let seen = || recorded.requests.iter().flat_map(|request| &request.shown.instructions);
    let beside = |path: &Path, sha256: &Digest| {
        let text = std::fs::read_to_string(path).ok()?;
        (Digest::of(&[text.as_bytes()]) == *sha256).then_some(text)
    };
    let text = |entry: &Instructions| match entry.scope {
        InstructionScope::Template => beside(&template_path(file, &entry.sha256), &entry.sha256),
        InstructionScope::Whole | InstructionScope::Block | InstructionScope::FirstBlock => {
            let name = format!("instructions/{}.txt", entry.sha256.hex());
            let is_it = |text: &&String| Digest::of(&[text.as_bytes()]) == entry.sha256;
            let at_hand = || seen().map(|one| &one.text).find(is_it).cloned();
            beside(&file.with_file_name(name), &entry.sha256).or_else(at_hand)
        }
        InstructionScope::Prefix(_) => None,
    };
    let all = manifest.instructions.iter().enumerate();
    all.filter_map(|(index, entry)| {
        let is_template = entry.scope == InstructionScope::Template;
        Some(PinnedText { entry: index, text: text(entry)?, is_template })
    })
    .collect()
}

/// How a request differs from the manifest, if it does.
fn compared(
    manifest: &Manifest,
    pinned: &[PinnedText],
    request: &RecordedRequest,
) -> Option<SeenDifference> {
    let blocks = request.shown.blocks();
    let mismatch = instructions::check(manifest, &blocks).err()?;
    let unlisted = instructions::unlisted(manifest, &blocks);
    Some(SeenDifference {
        run: request.run.to_string(),
        call: request.call.clone(),
        is_denied: request.is_denied,
        requests: 1,
        reasons: mismatch.reasons.into_iter().map(|reason| reason.message).collect(),
        blocks: unlisted.into_iter().filter_map(|at| block(&blocks, at, pinned)).collect(),
    })
}

fn block(
    blocks: &[InstructionBlock<'_>],
    at: usize,
    pinned: &[PinnedText],
) -> Option<UnlistedBlock> {
    let InstructionBlock { place, text } = *blocks.get(at)?;
    let before = blocks.iter().take(at).filter(|block| block.place == place).count();
    Some(UnlistedBlock {
        place,
        number: before.saturating_add(1),
        bytes: text.len(),
        sha256: Digest::of(&[text.as_bytes()]),
        closest: pin::difference(text, pinned),
    })
}
