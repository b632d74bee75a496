//! No rule may need itself. A recursive function would overflow the stack and end the process.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::LoadError;

/// One rule path of the bundle and what its rules read.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Where its first rule stands: file, line, column.
    pub place: (String, u32, u32),
    /// Data paths its rules read or call.
    pub reads: BTreeSet<Vec<String>>,
}

/// All rule paths of a bundle.
pub(super) type Graph = BTreeMap<Vec<String>, Node>;

/// One finding per cycle that is closed.
pub(super) fn check(graph: &Graph) -> Vec<LoadError> {
    let names: Vec<&Vec<String>> = graph.keys().collect();
    let edges: Vec<Vec<usize>> = graph.values().map(|node| targets(node, &names)).collect();
    let mut state = vec![State::New; names.len()];
    let mut errors = Vec::new();
    for start in 0..names.len() {
        let mut road: Vec<(usize, usize)> = Vec::new();
        enter(start, &mut state, &mut road);
        while let Some((node, next)) = road.pop() {
            let Some(target) = edges.get(node).and_then(|list| list.get(next)).copied() else {
                set(&mut state, node, State::Done);
                continue;
            };
            road.push((node, next.saturating_add(1)));
            match state.get(target) {
                Some(State::New) => enter(target, &mut state, &mut road),
                Some(State::Open) => errors.extend(finding(graph, &names, &road, target)),
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

fn enter(node: usize, state: &mut [State], road: &mut Vec<(usize, usize)>) {
    if state.get(node) == Some(&State::New) {
        set(state, node, State::Open);
        road.push((node, 0));
    }
}

/// A read of `data.a` reads every rule below it; a read of `data.a.b.c` reads the rule `data.a.b`.
fn targets(node: &Node, names: &[&Vec<String>]) -> Vec<usize> {
    let reads = |name: &[String]| {
        node.reads.iter().any(|read| read.starts_with(name) || name.starts_with(read))
    };
    (0..names.len()).filter(|i| names.get(*i).is_some_and(|name| reads(name))).collect()
}

fn finding(
    graph: &Graph,
    names: &[&Vec<String>],
    road: &[(usize, usize)],
    target: usize,
) -> Option<LoadError> {
    let cycle = road.iter().map(|(node, _)| *node).skip_while(|node| *node != target);
    let mut shown: Vec<String> = cycle.filter_map(|n| names.get(n)).map(|n| n.join(".")).collect();
    let first = names.get(target)?;
    shown.push(first.join("."));
    let (file, line, column) = graph.get(*first)?.place.clone();
    let message = format!("recursion: `{}`", shown.join("` → `"));
    Some(LoadError { file, line, column, code: "policy.recursion", message })
}
