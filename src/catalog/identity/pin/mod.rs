//! Proposes what a manifest pins from recorded requests to models: texts that are equal in all of them
//! become entries of scope `block`, similar ones a template; offered tools become client tools. People
//! read and sign the proposal. Also says where a text leaves what a manifest pins.

use std::collections::BTreeSet;

use super::instructions::{InstructionBlock, InstructionPlace, InstructionScope};
use super::templates::InstructionTemplate;
use crate::domain::dialect::Place;
use crate::domain::digest::Digest;

mod diff;
mod difference;
mod request;
mod shape;
mod tokens;
mod tools;

pub use difference::{PinnedText, TextDifference, difference};
pub use request::{ShownRequest, ShownRequestError};
pub use tools::{ProposedTool, ProposedTools, propose_tools};

/// Similar texts share at least so many hundredths of the shorter one.
const SHARED_MIN: usize = 40;
/// Pieces in a row that are equal, so that they count as shared: single ones are equal by chance.
const ROW_MIN: usize = 3;

/// One proposed entry of `spec.instructions`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProposedInstruction {
    /// `block` or `template`.
    pub scope: InstructionScope,
    /// Where the texts stood.
    pub place: InstructionPlace,
    /// Whether every request had such a text before the conversation.
    pub required: bool,
    /// SHA-256 of the text, or of the template.
    pub sha256: Digest,
    /// The template: the content of `templates/<sha256>.txt`.
    pub template: Option<String>,
    /// Bytes of the longest of the texts.
    pub bytes: usize,
    /// The number of requests that had such a text.
    pub requests: usize,
    /// Bytes of the first text that the template leaves loose; 0 without a template.
    pub loose_bytes: u64,
}

/// Similar texts.
struct Cluster<'a> {
    /// Different ones, in the order of their appearance.
    texts: Vec<&'a str>,
    places: BTreeSet<Place>,
    /// Indices of the requests that have one of them before the conversation, and anywhere.
    leading: BTreeSet<usize>,
    requests: BTreeSet<usize>,
    /// The template of the texts, if there are several.
    template: Option<String>,
}

/// Proposes entries that the instructions of all these requests match, in the order of their
/// appearance. Each item of `requests` has the blocks of one request, and an equal text is one text
/// wherever it occurs.
pub fn propose(requests: &[Vec<InstructionBlock<'_>>]) -> Vec<ProposedInstruction> {
    let mut clusters: Vec<Cluster<'_>> = Vec::new();
    for (request, block) in
        requests.iter().enumerate().flat_map(|(i, blocks)| blocks.iter().map(move |b| (i, b)))
    {
        let same = clusters.iter().position(|one| one.texts.contains(&block.text));
        let place = same.or_else(|| joined(&mut clusters, block.text)).unwrap_or_else(|| {
            clusters.push(Cluster {
                texts: vec![block.text],
                places: BTreeSet::new(),
                leading: BTreeSet::new(),
                requests: BTreeSet::new(),
                template: None,
            });
            clusters.len().saturating_sub(1)
        });
        if let Some(cluster) = clusters.get_mut(place) {
            cluster.places.insert(block.place);
            cluster.requests.insert(request);
            if block.place == Place::Leading {
                cluster.leading.insert(request);
            }
        }
    }
    clusters.iter().map(|cluster| cluster.proposed(requests.len())).collect()
}

/// The index of the first cluster that this text fits into with a template, which it now has.
fn joined<'a>(clusters: &mut [Cluster<'a>], text: &'a str) -> Option<usize> {
    for (place, cluster) in clusters.iter_mut().enumerate() {
        let known = cluster.template.as_ref();
        let known = known.and_then(|known| InstructionTemplate::parse(known.as_bytes()).ok());
        if known.is_none_or(|known| known.loose_bytes(text).is_none()) {
            if !cluster.texts.first().is_some_and(|first| are_similar(first, text)) {
                continue;
            }
            let mut texts = cluster.texts.clone();
            texts.push(text);
            let Some(template) = shape::template(&texts) else { continue };
            cluster.template = Some(template);
        }
        cluster.texts.push(text);
        return Some(place);
    }
    None
}

/// Whether two texts share so much that they are two fillings of one template.
fn are_similar(one: &str, other: &str) -> bool {
    let Some(shared) = shared_bytes(one, other) else { return false };
    shared.saturating_mul(100) >= one.len().min(other.len()).saturating_mul(SHARED_MIN)
        && shared > 0
}

/// The bytes that two texts share, without those that are equal by chance. `None`: they differ in too
/// many pieces.
fn shared_bytes(one: &str, other: &str) -> Option<usize> {
    let (pieces, others) = (tokens::tokens(one), tokens::tokens(other));
    let common = diff::common(&pieces, &others)?;
    let (mut shared, mut row, mut bytes) = (0_usize, 0_usize, 0_usize);
    let mut before: Option<(usize, usize)> = None;
    for (x, y) in common {
        let next =
            before.is_some_and(|(a, b)| a.checked_add(1) == Some(x) && b.checked_add(1) == Some(y));
        if !next {
            (row, bytes) = (0, 0);
        }
        row = row.saturating_add(1);
        bytes = bytes.saturating_add(pieces.get(x).map_or(0, |piece| piece.len()));
        if row >= ROW_MIN {
            shared = shared.saturating_add(bytes);
            bytes = 0;
        }
        before = Some((x, y));
    }
    Some(shared)
}

impl Cluster<'_> {
    fn proposed(&self, requests: usize) -> ProposedInstruction {
        let first = self.texts.first().copied().unwrap_or_default();
        let (leading, mid) =
            (self.places.contains(&Place::Leading), self.places.contains(&Place::Mid));
        let place = match (leading, mid) {
            (true, true) => InstructionPlace::Any,
            (false, true) => InstructionPlace::Mid,
            (true | false, false) => InstructionPlace::Leading,
        };
        let template = self.template.as_deref();
        let parsed = template.and_then(|t| InstructionTemplate::parse(t.as_bytes()).ok());
        ProposedInstruction {
            scope: template.map_or(InstructionScope::Block, |_| InstructionScope::Template),
            place,
            required: self.leading.len() == requests,
            sha256: Digest::of(&[template.unwrap_or(first).as_bytes()]),
            template: self.template.clone(),
            bytes: self.texts.iter().map(|text| text.len()).max().unwrap_or(0),
            requests: self.requests.len(),
            loose_bytes: parsed.and_then(|parsed| parsed.loose_bytes(first)).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests;
