//! The possible nesting of a bundle's values: code that drops, compares or writes one uses a native
//! stack frame per level, and a stack overflow ends the process.
//!
//! A rule binds no variable twice and never needs itself. So each of its conditions adds at most
//! its brackets, once, and each call of a function that gives a value adds what that function can
//! add.

use std::collections::BTreeMap;

use super::fault::LoadError;
use super::recursion::{Graph, Node, edges};

/// Levels of nesting, beside those of the input and `json.unmarshal`.
///
/// A test compares two such values on a thread of 2 MiB.
pub(super) const DEPTH_MAX: usize = 1024;

/// Nested brackets of one condition; the loader refuses a file with more.
const BRACKETS_MAX: usize = 10;

/// The nesting that one rule can add.
#[derive(Debug, Default)]
pub(super) struct Adds {
    /// By its own conditions.
    pub own: usize,
    /// Functions of the bundle it calls, as often as it does.
    pub calls: Vec<Vec<String>>,
}

/// Levels that conditions with this many collections each can add; two more for the rule's own document.
pub(super) fn own(collections: impl Iterator<Item = usize>) -> usize {
    collections.fold(2, |sum, count| sum.saturating_add(count.min(BRACKETS_MAX)))
}

/// One finding per rule path of a layer that can go too deep by itself. `graph` is without cycles.
pub(super) fn check(graph: &Graph) -> Vec<LoadError> {
    let mut levels = Levels::of(graph);
    let mut errors = Vec::new();
    for (at, (name, node)) in graph.iter().enumerate() {
        let below = levels.below(at);
        let own = levels.depth(at);
        if !node.place.0.starts_with("lib/") && own > DEPTH_MAX && below <= DEPTH_MAX {
            let (file, line, column) = node.place.clone();
            let name = name.join(".");
            let message =
                format!("`{name}` can put more than {DEPTH_MAX} values within each other");
            errors.push(LoadError { file, line, column, code: "policy.depth", message });
        }
    }
    errors
}

/// How deep the values of each rule path can be, in the order of the graph's names.
struct Levels<'a> {
    nodes: Vec<&'a Node>,
    /// The functions that each rule of a path calls and that give a value, as often as it does.
    called: Vec<Vec<Vec<usize>>>,
    /// What else a path needs.
    read: Vec<Vec<usize>>,
    known: Vec<Option<usize>>,
}

impl<'a> Levels<'a> {
    fn of(graph: &'a Graph) -> Self {
        let nodes: Vec<&Node> = graph.values().collect();
        let places: BTreeMap<&[String], usize> =
            graph.keys().enumerate().map(|(index, name)| (name.as_slice(), index)).collect();
        let valued = |name: &Vec<String>| {
            let at = places.get(name.as_slice()).copied()?;
            nodes.get(at).is_some_and(|node| node.valued).then_some(at)
        };
        let of = |adds: &Adds| adds.calls.iter().filter_map(valued).collect::<Vec<_>>();
        let called: Vec<Vec<Vec<usize>>> =
            nodes.iter().map(|node| node.adds.iter().map(of).collect()).collect();
        let read = edges(graph).into_iter().zip(&called).map(|(all, called)| {
            let read = all.into_iter().filter(|at| !called.iter().flatten().any(|c| c == at));
            read.collect()
        });
        let (read, known) = (read.collect(), vec![None; nodes.len()]);
        Self { nodes, called, read, known }
    }

    /// The deepest of the paths it reads.
    fn below(&mut self, at: usize) -> usize {
        let read = self.read.get(at).cloned().unwrap_or_default();
        read.into_iter().map(|at| self.depth(at)).max().unwrap_or(0)
    }

    /// Recurses once for each rule of a chain, which has few.
    fn depth(&mut self, at: usize) -> usize {
        if let Some(known) = self.known.get(at).copied().flatten() {
            return known;
        }
        let mut deepest = 0;
        for (rule, called) in
            self.called.get(at).cloned().unwrap_or_default().into_iter().enumerate()
        {
            let own = self.nodes.get(at).and_then(|node| node.adds.get(rule));
            let own = own.map_or(0, |adds| adds.own);
            let all = called.into_iter().fold(own, |sum, at| sum.saturating_add(self.depth(at)));
            deepest = deepest.max(all);
        }
        let depth = deepest.saturating_add(self.below(at));
        if let Some(slot) = self.known.get_mut(at) {
            *slot = Some(depth);
        }
        depth
    }
}
