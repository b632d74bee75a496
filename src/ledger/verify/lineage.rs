//! Runs that delegate to others: a child is opened and sealed while its parent is open, and says who is
//! above it as the parent's own entry does.

use std::collections::BTreeMap;

use super::read::{Damage, Line};
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::ledger::entry::Kind;

/// One open run.
#[derive(Clone, Debug)]
struct Open {
    parent: Option<RunId>,
    /// What `delegation` of a child says.
    delegation: Vec<Json>,
    /// Open runs below it.
    children: usize,
}

/// The open runs of a chain as far as it has been read.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    open: BTreeMap<RunId, Open>,
}

impl Lineage {
    /// Takes the next entry of a run, in the order of the chain. `sealed`: whether a run was sealed before
    /// this entry; `whole`: whether every run that was opened before it has been read.
    ///
    /// # Errors
    /// `S3` who is above the run, `S4` runs that outlive the one that delegated to them.
    pub fn accept(
        &mut self,
        line: &Line,
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
        line: &Line,
        sealed: &dyn Fn(&RunId) -> bool,
        whole: bool,
    ) -> Result<(), Damage> {
        let parent = line.text("parent").map(RunId::parse);
        let said = line.entry.draft.data.get("delegation").and_then(Json::as_array);
        let mut delegation = said.unwrap_or_default().to_vec();
        let bad = |check, why: &str| Err(Damage::new(check, format!("run {run}: {why}")));
        let parent = match parent {
            None if delegation.is_empty() => None,
            Some(Some(parent)) => Some(parent),
            None | Some(None) => return bad("S3", "`delegation` and no `parent`"),
        };
        if let Some(id) = parent {
            let last = delegation.last().and_then(|last| last.get("run")).and_then(Json::as_str);
            if last.and_then(RunId::parse) != Some(id) {
                return bad("S3", "`delegation` does not end with the parent");
            }
            match self.open.get_mut(&id) {
                Some(above) if above.delegation == delegation => {
                    above.children = above.children.saturating_add(1);
                }
                Some(_) => return bad("S3", "`delegation` is not what the parent's entry says"),
                None if sealed(&id) => return bad("S4", "opened after its parent was sealed"),
                None if whole => return bad("S3", "its parent is no run of the chain"),
                None => {}
            }
        }
        let text = |name| Json::from(line.text(name).unwrap_or_default());
        let own = [("id", "agent"), ("version", "version"), ("manifest", "manifest")];
        let own = own.into_iter().map(|(name, of)| (name, text(of)));
        delegation.push(Json::object(own.chain([("run", Json::from(run.to_string()))])));
        self.open.insert(run, Open { parent, delegation, children: 0 });
        Ok(())
    }
}
