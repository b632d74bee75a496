//! A held call beside the last one of its kind that was approved: what an approver would otherwise have to remember.

use super::Search;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::domain::json::{Json, Limits};
use crate::domain::pointer::{Difference, differences};
use crate::index::rows::CallRow;
use crate::operator::OperatorApi;
use crate::operator::api::lookups::{ArgumentChange, CallPayloads, Similar, SimilarCall};
use crate::operator::api::{OperatorRequest, route};
use crate::operator::view::Facts;
use crate::record::call::CallHeld;
use crate::record::{Entry, Role};
use crate::serve::problem::Problem;

/// Earlier calls that are looked at.
const LOOKED_AT: usize = 20;
/// Places that are listed.
const CHANGES_MAX: usize = 100;
/// Members of an effect whose values belong to its shape: what is done, and to whom.
const FIXED: [&str; 9] =
    ["kind", "method", "scheme", "host", "port", "server", "name", "root", "access"];

/// An effect without its values: its members, and what is done to whom.
fn shape(effect: &Json) -> Json {
    match effect {
        Json::Object(members) => {
            let one = |(name, value): (&String, &Json)| {
                let value =
                    if FIXED.contains(&name.as_str()) { value.clone() } else { shape(value) };
                (name.clone(), value)
            };
            Json::Object(members.iter().map(one).collect())
        }
        Json::Array(_) => Json::Array(Vec::new()),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => Json::Null,
    }
}

fn change(one: Difference) -> ArgumentChange {
    let text = |json: Json| String::from_utf8_lossy(&canonical::bytes(&json)).into_owned();
    ArgumentChange { at: one.at, old: one.old.map(text), new: one.new.map(text) }
}

/// Whether the first decision of a call held it, with this definition of its tool.
fn held_with(entries: &[(Entry, Digest)], definition: Option<&str>) -> bool {
    let held = entries.first().and_then(|(entry, _)| entry.draft.get::<CallHeld>());
    held.is_some_and(|held| {
        held.definition.map(|digest| digest.to_string()).as_deref() == definition
    })
}

impl OperatorApi {
    /// A held call beside the last one of its kind that was approved.
    ///
    /// # Errors
    /// The call is not held or cannot be shown, or the ledger cannot be read or written.
    pub(in crate::operator) async fn similar(
        &self,
        request: OperatorRequest<route::Similar>,
    ) -> Result<Similar, Problem> {
        let (facts, _) = self.facts(&request.path).await?;
        let search = self.searched().await?;
        let found = search.index.approved(&facts.agent, &facts.tool, LOOKED_AT).await;
        for row in found.map_err(|error| self.unsearched(error.into()))? {
            let Some((old, payloads)) = self.alike(&search, &facts, &row).await? else { continue };
            let Ok(new) = Json::parse(facts.arguments.as_bytes(), &Limits::MODEL) else {
                break;
            };
            let call = search.call(&row.chain, row.seq).await;
            let call = call.map_err(|error| self.unsearched(error))?;
            // The index only finds: what its row says is checked against the entries.
            let told = (call.call.agent.as_str(), call.call.tool.as_deref());
            if call.call.approvals == 0 || told != (facts.agent.as_str(), Some(&*facts.tool)) {
                continue;
            }
            self.record_view(&request.who, &call, &payloads).await?;
            let mut changes = differences(&old, &new, CHANGES_MAX.saturating_add(1));
            let more = changes.len() > CHANGES_MAX;
            changes.truncate(CHANGES_MAX);
            let against = SimilarCall {
                chain: call.call.chain,
                seq: call.call.seq,
                at: call.call.at,
                run: call.call.run,
                call: call.call.call,
                decided_by: call.call.decided_by,
            };
            let changes = changes.into_iter().map(change).collect();
            return Ok(Similar { against: Some(against), changes, more });
        }
        Ok(Similar { against: None, changes: Vec::new(), more: false })
    }

    /// The arguments of an earlier call, if it is like the held one and they are stored.
    async fn alike(
        &self,
        search: &Search<'_>,
        facts: &Facts,
        row: &CallRow,
    ) -> Result<Option<(Json, CallPayloads)>, Problem> {
        if row.run == facts.run && row.call == facts.call {
            return Ok(None);
        }
        let unsearched = |error| self.unsearched(error);
        let entries = search.entries(&row.chain, row.seq).await.map_err(unsearched)?;
        if !held_with(&entries, facts.definition.as_deref()) {
            return Ok(None);
        }
        let Some(effect) = self.effect_of(&row.chain, &entries).await? else { return Ok(None) };
        let ours = Json::parse(facts.effect.as_bytes(), &Limits::MODEL).ok();
        if ours.as_ref().map(shape) != Some(shape(&effect)) {
            return Ok(None);
        }
        let payloads = search.payloads(&row.chain, row.seq, self.vault.as_deref()).await;
        let mut payloads = payloads.map_err(unsearched)?;
        payloads.payloads.retain(|one| one.role == Role::Args.as_str());
        let text = payloads.payloads.first().and_then(|one| one.text.as_ref());
        let old = text.and_then(|text| Json::parse(text.as_bytes(), &Limits::MODEL).ok());
        Ok(old.map(|old| (old, payloads)))
    }

    /// What an earlier call would have touched when it was held, if that is stored.
    async fn effect_of(
        &self,
        chain: &ChainId,
        entries: &[(Entry, Digest)],
    ) -> Result<Option<Json>, Problem> {
        let Some((first, _)) = entries.first() else { return Ok(None) };
        let Some(commitment) = first.draft.committed(Role::PolicyInput) else { return Ok(None) };
        self.recorded_effect(chain, (first.seq, &commitment.c.0)).await
    }
}
