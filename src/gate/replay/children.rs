//! The runs below a recorded one: who was delegated to, by whom, and how each is told from its siblings.

use super::flaw::Flaw;
use super::line::ChildLine;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::seed::Seed;

/// The file with the manifest of the run without a parent.
pub const MANIFEST: &str = "agent.yaml";
/// What tells runs under one manifest from each other: members of `run.opened` that its agent claims.
pub const CLAIMS: [&str; 3] = ["labels", "model", "instructions"];

/// One recorded child.
#[derive(Clone, PartialEq, Debug)]
pub struct Child {
    /// The run.
    pub run: RunId,
    /// The run above: 0 that of the header, then the children in their order.
    pub parent: usize,
    /// `metadata.name` of its manifest.
    pub agent: String,
    /// SHA-256 of its manifest.
    pub manifest: Digest,
    /// Its seed, if it was deterministic.
    pub seed: Option<Seed>,
    /// What its agent claimed.
    pub claims: Json,
    /// The first step that was decided after it was opened; one more than there are: none.
    pub before: u64,
}

impl Child {
    /// What one line says. `above`: those that stand before it; a parent stands before its children.
    ///
    /// # Errors
    /// A run that is there twice, or below none.
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

    /// Under which name the recording carries its manifest.
    #[must_use]
    pub fn file(&self) -> String {
        file(&self.manifest)
    }
}

/// The name of the file with the manifest of a child.
#[must_use]
pub fn file(manifest: &Digest) -> String {
    format!("agents/{}.yaml", manifest.hex())
}

/// Where a run stands among these, and what is said of it.
pub(super) fn place_of<'a>(children: &'a [Child], run: &RunId) -> Option<(usize, &'a Child)> {
    let mut placed = (1_usize..).zip(children);
    placed.find(|(_, child)| child.run == *run)
}

/// Which recorded children were opened again.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// The places of the recorded runs that were opened.
    opened: Vec<usize>,
}

impl Lineage {
    /// The recorded child that a new run is, below the run at this place: the first that was not opened yet,
    /// one with the same claims before others.
    pub fn open(
        &mut self,
        children: &[Child],
        (parent, manifest): (usize, Digest),
        claims: &Json,
    ) -> Option<usize> {
        let alike = |(place, child): &(usize, &Child)| {
            child.parent == parent && child.manifest == manifest && !self.opened.contains(place)
        };
        let mut same = (1_usize..).zip(children).filter(alike);
        let exact = same.clone().find(|(_, child)| child.claims == *claims);
        let (place, _) = exact.or_else(|| same.next())?;
        self.opened.push(place);
        Some(place)
    }

    /// Whether the run at this place was opened; that of the header is not asked about.
    pub fn is_open(&self, place: usize) -> bool {
        place == 0 || self.opened.contains(&place)
    }
}
