//! The recorded child runs: which run delegated to which agent, and what distinguishes a child from
//! its siblings.

use super::flaw::Flaw;
use super::line::ChildLine;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::seed::Seed;

/// The file with the manifest of the run without a parent.
pub const MANIFEST: &str = "agent.yaml";
/// What distinguishes runs under one manifest: members of `run.opened` that the agent claims.
pub const CLAIMS: [&str; 3] = ["labels", "model", "instructions"];

/// One recorded child.
#[derive(Clone, PartialEq, Debug)]
pub struct Child {
    /// The run.
    pub run: RunId,
    /// Its parent: 0 is the header's run, then the children in their order.
    pub parent: usize,
    /// `metadata.name` of its manifest.
    pub agent: String,
    /// SHA-256 of its manifest.
    pub manifest: Digest,
    /// Its seed, if it was deterministic.
    pub seed: Option<Seed>,
    /// What its agent claimed.
    pub claims: Json,
    /// The first step that was decided after it was opened; one more than the number of steps if no
    /// step was.
    pub before: u64,
}

impl Child {
    /// Reads one line. `above`: the children of the lines before it; a parent precedes its
    /// children.
    ///
    /// # Errors
    /// The run is there twice, or no line before it has its parent.
    pub(super) fn of(line: ChildLine, root: RunId, above: &[Self]) -> Result<Self, Flaw> {
        let run = line.run;
        if run == root || place_of(above, &run).is_some() {
            return Err(Flaw::RunTwice(run));
        }
        let parent = match place_of(above, &line.parent) {
            Some((place, _)) => place,
            None if line.parent == root => 0,
            None => return Err(Flaw::Orphan(run)),
        };
        let claims = CLAIMS.into_iter().zip([line.labels, line.model, line.instructions]);
        Ok(Self {
            run,
            parent,
            agent: line.agent,
            manifest: line.manifest,
            seed: line.seed,
            claims: Json::object(claims),
            before: line.before,
        })
    }

    /// The name under which the recording carries its manifest.
    pub fn file(&self) -> String {
        file(&self.manifest)
    }
}

/// The name of the file with the manifest of a child.
pub fn file(manifest: &Digest) -> String {
    format!("agents/{}.yaml", manifest.hex())
}

/// The name of the file with a template of instructions, whose bytes have this digest.
pub fn template_file(template: &Digest) -> String {
    format!("templates/{}.txt", template.hex())
}

/// The place of a run among these children, and its record.
pub(super) fn place_of<'a>(children: &'a [Child], run: &RunId) -> Option<(usize, &'a Child)> {
    let mut placed = (1_usize..).zip(children);
    placed.find(|(_, child)| child.run == *run)
}

/// Which recorded children were opened again.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// The places of the recorded runs opened so far.
    opened: Vec<usize>,
}

impl Lineage {
    /// The recorded child that a new run repeats, below the run at this place: the first one not
    /// opened yet, and one with the same claims before others.
    pub fn open(
        &mut self,
        children: &[Child],
        (parent, manifest): (usize, Digest),
        claims: &Json,
    ) -> Option<usize> {
        let matching = |(place, child): &(usize, &Child)| {
            child.parent == parent && child.manifest == manifest && !self.opened.contains(place)
        };
        let mut same = (1_usize..).zip(children).filter(matching);
        let exact = same.clone().find(|(_, child)| child.claims == *claims);
        let (place, _) = exact.or_else(|| same.next())?;
        self.opened.push(place);
        Some(place)
    }

    /// Whether the run at this place was opened. Not for the header's run.
    pub fn is_open(&self, place: usize) -> bool {
        place == 0 || self.opened.contains(&place)
    }
}
