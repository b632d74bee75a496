//! A run and its descendants: finds them, and checks whether they can be exported together.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::id::{CallId, RunId};
use crate::evidence::projection::decides;
use crate::evidence::{self, gather};
use crate::ledger::store::{ChainRow, LedgerReader};
use crate::ledger::verify::EntryLine;
use crate::record::Kind;
use crate::record::run::{ReplayMode, RunOpened};
use crate::replay::flaw::ReplayObstacle;

/// Rows fetched at a time.
const PAGE: u32 = 1000;

/// The lines of a run and its descendants. A gate that opens a child holds its parent, so all are
/// on one chain.
pub(super) struct FamilyLines {
    /// Each run with its lines: the one without a parent, then the others in the order of their openings.
    pub runs: Vec<(RunId, Vec<EntryLine>)>,
}

impl FamilyLines {
    /// Reads them.
    ///
    /// # Errors
    /// One of the runs is missing, incomplete or damaged.
    pub async fn read(
        reader: &dyn LedgerReader,
        row: &ChainRow,
        run: &RunId,
    ) -> Result<Self, evidence::Error> {
        let mut family = Self { runs: vec![(*run, lines_of(reader, row, run).await?)] };
        let delegates =
            |line: &EntryLine| line.get::<RunOpened>().is_some_and(|run| run.delegates.is_some());
        if family.root().first().is_some_and(delegates) {
            for child in below(reader, row, family.root()).await? {
                family.runs.push((child, lines_of(reader, row, &child).await?));
            }
        }
        Ok(family)
    }

    /// The lines of the run without a parent.
    pub fn root(&self) -> &[EntryLine] {
        self.runs.first().map(|(_, lines)| lines.as_slice()).unwrap_or_default()
    }

    /// The openings of the descendants.
    pub fn children(&self) -> impl Iterator<Item = (&RunId, &EntryLine)> {
        self.runs.iter().skip(1).filter_map(|(run, lines)| Some((run, lines.first()?)))
    }

    /// All lines in the order of the chain.
    pub fn lines(&self) -> Vec<&EntryLine> {
        let mut lines: Vec<&EntryLine> = self.runs.iter().flat_map(|(_, lines)| lines).collect();
        lines.sort_by_key(|line| line.entry.seq);
        lines
    }
}

async fn lines_of(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    run: &RunId,
) -> Result<Vec<EntryLine>, evidence::Error> {
    let slice = gather::run(reader, row, run, String::new()).await?;
    let of_run = |line: &EntryLine| line.entry.run.as_ref().is_some_and(|link| link.run == *run);
    Ok(slice.lines.into_iter().filter(of_run).collect())
}

/// The descendants of a run, in the order of their openings. A parent is opened before its
/// children, and they are opened while it is open.
async fn below(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    lines: &[EntryLine],
) -> Result<Vec<RunId>, evidence::Error> {
    let seqs = || lines.iter().map(|line| line.entry.seq);
    let (mut at, end) = (seqs().min().unwrap_or_default(), seqs().max().unwrap_or_default());
    let run_of = |line: &EntryLine| line.entry.run.as_ref().map(|link| link.run);
    let mut family: BTreeSet<RunId> = lines.iter().filter_map(run_of).collect();
    let mut found = Vec::new();
    while at < end {
        let mut rows = reader.entries(&row.chain, at, PAGE).await?;
        let gap = rows.iter().zip(at..).find(|(row, seq)| row.seq != *seq);
        let gap = gap.map(|(row, seq)| (seq, row.seq)).or(rows.is_empty().then_some((at, end)));
        if let Some((from, to)) = gap {
            return Err(evidence::Error::Pruned { log: row.origin.clone(), from, to });
        }
        at = at.saturating_add(u64::try_from(rows.len()).unwrap_or(u64::MAX));
        rows.retain(|entry| entry.seq < end && entry.kind == Kind::RunOpened.as_str());
        for line in gather::read(&rows)? {
            let parent = line.get::<RunOpened>().and_then(|opened| opened.parent);
            if parent.is_some_and(|parent| family.contains(&parent)) {
                family.extend(run_of(&line));
                found.extend(run_of(&line));
            }
        }
    }
    Ok(found)
}

fn sealed(lines: &[EntryLine]) -> bool {
    lines.iter().any(|line| line.is(Kind::RunSealed))
}

/// The opening of a run that can be exported.
pub(super) fn recorded(family: &FamilyLines) -> Result<&EntryLine, ReplayObstacle> {
    let lines = family.root();
    let opened = lines.first().and_then(|line| Some((line, line.get::<RunOpened>()?)));
    let (line, opened) = opened.ok_or(ReplayObstacle::NoOpening)?;
    if let Some(parent) = opened.parent {
        return Err(ReplayObstacle::Child(parent));
    }
    match opened.replay.as_ref().map(|replay| replay.mode) {
        None => return Err(ReplayObstacle::NotRecorded),
        Some(ReplayMode::Replay) => return Err(ReplayObstacle::Replay),
        Some(ReplayMode::Fork) => return Err(ReplayObstacle::Fork),
        Some(ReplayMode::Record | ReplayMode::Deterministic) => {}
    }
    if let Some((run, _)) = family.runs.iter().find(|(_, lines)| !sealed(lines)) {
        return Err(ReplayObstacle::Open(*run));
    }
    if !family.lines().iter().any(|line| decides(line)) {
        return Err(ReplayObstacle::NoCalls);
    }
    Ok(line)
}

/// The lines of each call of these lines, in the order in which the calls were first decided.
pub(super) fn calls<'a>(lines: &[&'a EntryLine]) -> Vec<Vec<&'a EntryLine>> {
    let mut order: Vec<Vec<&EntryLine>> = Vec::new();
    let mut known: BTreeMap<(Option<RunId>, &CallId), usize> = BTreeMap::new();
    for line in lines {
        let Some(call) = &line.entry.draft.call else { continue };
        let run = line.entry.run.as_ref().map(|link| link.run);
        let at = *known.entry((run, call)).or_insert_with(|| {
            order.push(Vec::new());
            order.len().saturating_sub(1)
        });
        if let Some(call) = order.get_mut(at) {
            call.push(line);
        }
    }
    // WHY: no agent makes them, and the end of the call that they check says what came of them.
    order.retain(|call| {
        let first = call.first().and_then(|line| line.decision());
        first.is_none_or(|decision| decision.gate_of.is_none())
    });
    order
}
