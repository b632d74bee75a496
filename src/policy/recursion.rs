//! The dependencies between rules. No rule may need itself, and no chain of rules may be long: the
//! interpreter uses a native stack frame per step, and a stack overflow ends the process.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::depth::Adds;
use super::fault::LoadError;

/// One rule path of the bundle and the reads of its rules.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The nesting that each of its rules can add.
    pub adds: Vec<Adds>,
    /// Whether a function of this name gives more than a literal.
    pub valued: bool,
    /// Whether its rules look at `input.approvals`, or at the input in a way that cannot be followed.
    pub counts: bool,
    /// The place of its first rule: file, line, column.
    pub place: (String, u32, u32),
    /// Data paths its rules read or call.
    pub reads: BTreeSet<Vec<String>>,
}

/// All rule paths of a bundle.
pub(super) type Graph = BTreeMap<Vec<String>, Node>;

/// The longest chain of rules that need each other, the composition library's included.
///
/// A test fills a thread of 2 MiB with such a chain, every rule 24 calls deep.
pub(super) const CHAIN_MAX: usize = 24;

/// One finding per cycle, and one per chain that is too long.
pub(super) fn check(graph: &Graph) -> Vec<LoadError> {
    let names: Vec<&Vec<String>> = graph.keys().collect();
    let edges = edges(graph);
    let mut state = vec![State::New; names.len()];
    let mut depth = vec![1_usize; names.len()];
    let mut errors = Vec::new();
    for start in 0..names.len() {
        let mut path: Vec<(usize, usize)> = Vec::new();
        enter(start, &mut state, &mut path);
        while let Some((node, next)) = path.pop() {
            let Some(target) = edges.get(node).and_then(|list| list.get(next)).copied() else {
                set(&mut state, node, State::Done);
                let below = edges.get(node).into_iter().flatten().filter_map(|n| depth.get(*n));
                let own = below.max().copied().unwrap_or(0).saturating_add(1);
                if let Some(slot) = depth.get_mut(node) {
                    *slot = own;
                }
                if own == CHAIN_MAX.saturating_add(1) {
                    errors.extend(too_long(graph, &names, node));
                }
                continue;
            };
            path.push((node, next.saturating_add(1)));
            match state.get(target) {
                Some(State::New) => enter(target, &mut state, &mut path),
                Some(State::Open) => errors.extend(finding(graph, &names, &path, target)),
                Some(State::Done) | None => {}
            }
        }
    }
    errors
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

fn set(state: &mut [State], node: usize, to: State) {
    if let Some(slot) = state.get_mut(node) {
        *slot = to;
    }
}

fn enter(node: usize, state: &mut [State], path: &mut Vec<(usize, usize)>) {
    if state.get(node) == Some(&State::New) {
        set(state, node, State::Open);
        path.push((node, 0));
    }
}

/// Whether a rule below this path, or any rule it needs, counts approvers.
pub(super) fn counts_below(graph: &Graph, path: &[String]) -> bool {
    let edges = edges(graph);
    let counts: Vec<bool> = graph.values().map(|node| node.counts).collect();
    let own = graph.keys().enumerate().filter(|(_, name)| name.starts_with(path));
    let mut open: Vec<usize> = own.map(|(index, _)| index).collect();
    let mut seen: BTreeSet<usize> = open.iter().copied().collect();
    while let Some(node) = open.pop() {
        if counts.get(node) == Some(&true) {
            return true;
        }
        let below = edges.get(node).into_iter().flatten().copied();
        open.extend(below.filter(|target| seen.insert(*target)));
    }
    false
}

/// What each rule path needs, as places in the order of the graph's names.
pub(super) fn edges(graph: &Graph) -> Vec<Vec<usize>> {
    let places: BTreeMap<&[String], usize> =
        graph.keys().enumerate().map(|(index, name)| (name.as_slice(), index)).collect();
    graph.values().map(|node| targets(node, &places)).collect()
}

/// A read of `data.a` reads every rule below it; a read of `data.a.b.c` reads the rule `data.a.b`.
fn targets(node: &Node, places: &BTreeMap<&[String], usize>) -> Vec<usize> {
    let mut out = BTreeSet::new();
    for read in &node.reads {
        let above = (0..read.len()).filter_map(|length| places.get(read.get(..length)?));
        out.extend(above.copied());
        let rest = (Bound::Included(read.as_slice()), Bound::Unbounded);
        let below = places.range::<[String], _>(rest);
        out.extend(below.take_while(|(name, _)| name.starts_with(read)).map(|(_, place)| *place));
    }
    out.into_iter().collect()
}

fn too_long(graph: &Graph, names: &[&Vec<String>], node: usize) -> Option<LoadError> {
    let name = names.get(node)?;
    let (file, line, column) = graph.get(*name)?.place.clone();
    let message = format!("`{}` needs a chain of more than {CHAIN_MAX} rules", name.join("."));
    Some(LoadError { file, line, column, code: "policy.chain", message })
}

fn finding(
    graph: &Graph,
    names: &[&Vec<String>],
    path: &[(usize, usize)],
    target: usize,
) -> Option<LoadError> {
    let cycle = path.iter().map(|(node, _)| *node).skip_while(|node| *node != target);
    let mut shown: Vec<String> = cycle.filter_map(|n| names.get(n)).map(|n| n.join(".")).collect();
    let first = names.get(target)?;
    shown.push(first.join("."));
    let (file, line, column) = graph.get(*first)?.place.clone();
    let message = format!("recursion: `{}`", shown.join("` → `"));
    Some(LoadError { file, line, column, code: "policy.recursion", message })
}
