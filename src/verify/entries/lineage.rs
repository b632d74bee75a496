//! Delegation between runs: a child is opened and sealed while its parent is open, and records the
//! same ancestors as the parent's own entry.

use std::collections::BTreeMap;

use super::read::{Damage, EntryLine};
use crate::domain::id::RunId;
use crate::record::Kind;
use crate::record::run::{Delegator, RunOpened};

/// One open run.
#[derive(Clone, Debug)]
struct OpenRun {
    parent: Option<RunId>,
    /// The `delegation` of its children.
    delegation: Vec<Delegator>,
    /// Open runs below it.
    children: usize,
}

/// The open runs of a chain as far as it has been read.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    open: BTreeMap<RunId, OpenRun>,
}

impl Lineage {
    /// Takes the next entry of a run, in the order of the chain. `sealed`: whether a run was sealed
    /// before this entry; `whole`: whether every run opened before it has been read.
    ///
    /// # Errors
    /// `S3`: wrong ancestors. `S4`: a run outlives its parent.
    pub fn accept(
        &mut self,
        line: &EntryLine,
        sealed: &dyn Fn(&RunId) -> bool,
        whole: bool,
    ) -> Result<(), Damage> {
        let Some(link) = &line.entry.run else { return Ok(()) };
        let run = link.run;
        if line.is(Kind::RunOpened) {
            return self.opened(run, line, sealed, whole);
        }
        if !line.is(Kind::RunSealed) {
            return Ok(());
        }
        let Some(open) = self.open.remove(&run) else { return Ok(()) };
        if open.children > 0 {
            let why = format!("run {run} is sealed while {} below it are open", open.children);
            return Err(Damage::new("S4", why));
        }
        if let Some(above) = open.parent.and_then(|parent| self.open.get_mut(&parent)) {
            above.children = above.children.saturating_sub(1);
        }
        Ok(())
    }

    fn opened(
        &mut self,
        run: RunId,
        line: &EntryLine,
        sealed: &dyn Fn(&RunId) -> bool,
        whole: bool,
    ) -> Result<(), Damage> {
        let damage = |check, why: &str| Err(Damage::new(check, format!("run {run}: {why}")));
        let Some(opened) = line.get::<RunOpened>() else { return Ok(()) };
        let parent = opened.parent;
        let mut delegation: Vec<Delegator> =
            opened.delegation.as_deref().unwrap_or_default().to_vec();
        if parent.is_none() && !delegation.is_empty() {
            return damage("S3", "`delegation` and no `parent`");
        }
        if let Some(id) = parent {
            if delegation.last().map(|last| last.run) != Some(id) {
                return damage("S3", "`delegation` does not end with the parent");
            }
            match self.open.get_mut(&id) {
                Some(above) if above.delegation == delegation => {
                    above.children = above.children.saturating_add(1);
                }
                Some(_) => return damage("S3", "`delegation` is not what the parent's entry says"),
                None if sealed(&id) => return damage("S4", "opened after its parent was sealed"),
                None if whole => return damage("S3", "its parent is no run of the chain"),
                None => {}
            }
        }
        delegation.push(Delegator {
            id: opened.agent.clone(),
            manifest: opened.manifest,
            run,
            version: opened.version.clone(),
        });
        self.open.insert(run, OpenRun { parent, delegation, children: 0 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::digest::Digest;
    use crate::domain::id::ChainId;
    use crate::domain::json::Json;
    use crate::domain::time::Timestamp;
    use crate::record::{Body, Boot, Draft, Entry, RunLink};
    use wicketgate_record::sample::body;

    fn id(n: u8) -> RunId {
        RunId::from_random([n; 16])
    }

    fn line(n: u8, kind: Kind, data: Vec<(&str, Json)>) -> EntryLine {
        let draft = Draft { run: Some(id(n)), ..Draft::of(body(kind, data)) };
        let entry = Entry {
            chain: ChainId::from_bytes([1; 16]),
            epoch: 1,
            seq: 9,
            prev: Digest::of(&[b"before"]),
            ts: Timestamp::from_millis(1),
            boot: Boot::from_random([0; 4]),
            mono: 1,
            run: Some(RunLink { run: id(n), seq: 0, prev: None }),
            draft,
        };
        let leaf = Digest::of(&[b"leaf"]);
        EntryLine { bytes: Vec::new(), entry, leaf, unknown: None }
    }

    /// The run `n`, opened below these runs.
    fn opened(n: u8, above: &[u8]) -> EntryLine {
        let one = |n: &u8| {
            let manifest = Digest::of(&[&[*n]]).prefixed();
            let own = [("id", "a"), ("version", "1.0.0"), ("manifest", manifest.as_str())];
            let own = own.map(|(name, value)| (name, Json::from(value)));
            Json::object(own.into_iter().chain([("run", Json::from(id(*n).to_string()))]))
        };
        let manifest = Digest::of(&[&[n]]).prefixed();
        let mut data = vec![
            ("agent", Json::from("a")),
            ("version", Json::from("1.0.0")),
            ("manifest", Json::from(manifest)),
        ];
        if let Some(parent) = above.last() {
            data.push(("parent", Json::from(id(*parent).to_string())));
            data.push(("delegation", above.iter().map(one).collect::<Vec<_>>().into()));
        }
        line(n, Kind::RunOpened, data)
    }

    fn sealed(n: u8) -> EntryLine {
        line(n, Kind::RunSealed, Vec::new())
    }

    /// The check that fails first, if any does.
    fn first_damage(lines: &[EntryLine], whole: bool) -> Option<&'static str> {
        let (mut lineage, mut over) = (Lineage::default(), BTreeSet::new());
        for line in lines {
            let found = lineage.accept(line, &|run| over.contains(run), whole);
            if let Err(damage) = found {
                return Some(damage.check);
            }
            if line.is(Kind::RunSealed) {
                over.extend(line.entry.run.as_ref().map(|link| link.run));
            }
        }
        None
    }

    #[test]
    fn a_lineage_that_is_opened_from_above_and_sealed_from_below_is_whole() {
        let lines =
            [opened(1, &[]), opened(2, &[1]), opened(3, &[1, 2]), sealed(3), sealed(2), sealed(1)];
        assert_eq!(first_damage(&lines, true), None);
    }

    #[test]
    fn a_child_that_was_opened_after_its_parent_was_sealed_is_damage() {
        assert_eq!(first_damage(&[opened(1, &[]), sealed(1), opened(2, &[1])], true), Some("S4"));
        assert_eq!(first_damage(&[opened(1, &[]), sealed(1), opened(2, &[1])], false), Some("S4"));
    }

    #[test]
    fn a_parent_that_was_sealed_before_its_child_is_damage() {
        let lines = [opened(1, &[]), opened(2, &[1]), sealed(1)];
        assert_eq!(first_damage(&lines, true), Some("S4"));
        let twice = [opened(1, &[]), opened(2, &[1]), opened(3, &[1]), sealed(2), sealed(1)];
        assert_eq!(first_damage(&twice, true), Some("S4"));
    }

    #[test]
    fn a_lineage_that_is_not_the_parents_own_is_damage() {
        let skipped = [opened(1, &[]), opened(2, &[1]), opened(3, &[2])];
        assert_eq!(first_damage(&skipped, true), Some("S3"));
        let invented = [opened(1, &[]), opened(2, &[4, 1])];
        assert_eq!(first_damage(&invented, true), Some("S3"));
        let mut headless = opened(2, &[1]);
        let Body::RunOpened(opening) = &mut headless.entry.draft.body else { unreachable!() };
        opening.parent = None;
        assert_eq!(first_damage(&[opened(1, &[]), headless], true), Some("S3"));
    }

    #[test]
    fn a_parent_that_is_not_there_is_damage_only_where_everything_is_there() {
        assert_eq!(first_damage(&[opened(2, &[1])], true), Some("S3"));
        assert_eq!(first_damage(&[opened(2, &[1])], false), None);
    }
}
