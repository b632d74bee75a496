//! What a held request to a model repeats of the newest one that its run was allowed: its approver read
//! that before, or a rule allowed it.
//!
//! The gate says so; nothing that an approver signs rests on it.

use std::collections::BTreeMap;

use super::approval_queue;
use super::view::parts::EarlierCall;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq, ToolName};
use crate::domain::json::{Json, Limits};
use crate::ledger::store::{LedgerReader, PayloadRef, StoreError};
use crate::ledger::vault::Vault;
use crate::record::conversation::{
    Conversation, Conversations, MessageAt, References, messages, normal, with_messages,
};
use crate::record::{Entry, Kind, Role};

/// Messages of an earlier request that are read: each is a payload.
const MESSAGES_MAX: usize = 4096;

/// One run of a ledger.
pub(super) struct RunReader<'a> {
    pub reader: &'a dyn LedgerReader,
    pub vault: Option<&'a Vault>,
    pub chain: &'a ChainId,
    pub run: &'a RunId,
}

impl RunReader<'_> {
    /// What these arguments repeat of the newest call of the tool that was allowed before this entry.
    /// `None`: none was, or not all of it is stored.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn repeated(
        &self,
        tool: &ToolName,
        before: Seq,
        args: &Json,
    ) -> Result<Option<EarlierCall>, StoreError> {
        let rows = self.reader.run_entries(self.chain, self.run).await?;
        let entries = rows.iter().filter(|row| row.seq < before);
        let entries: Vec<Entry> = entries.filter_map(|row| Entry::parse(&row.body).ok()).collect();
        let is_allowed = |entry: &&Entry| {
            let draft = &entry.draft;
            draft.kind() == Kind::CallAuthorized && draft.tool.as_ref() == Some(tool)
        };
        let allowed = entries.iter().rev().find(is_allowed).map(|entry| &entry.draft);
        let Some((allowed, call)) = allowed.and_then(|draft| Some((draft, draft.call.as_ref()?)))
        else {
            return Ok(None);
        };
        let Some(committed) = allowed.committed(Role::Args) else { return Ok(None) };
        let payloads = RunPayloads { run: self, places: places(&entries) };
        let earlier = payloads.whole(&committed.c.0).await?;
        Ok(earlier.map(|earlier| EarlierCall::of(call.as_str(), &earlier, args)))
    }
}

/// The first entry that commits to each payload, and the role of it.
fn places(entries: &[Entry]) -> BTreeMap<Digest, (Seq, Role)> {
    let mut places = BTreeMap::new();
    for entry in entries {
        for commitment in &entry.draft.commit {
            places.entry(commitment.c.0).or_insert((entry.seq, commitment.role));
        }
    }
    places
}

/// The payloads of a run.
struct RunPayloads<'a> {
    run: &'a RunReader<'a>,
    places: BTreeMap<Digest, (Seq, Role)>,
}

impl RunPayloads<'_> {
    async fn read(&self, c: &Digest) -> Result<Option<(Role, Vec<u8>)>, StoreError> {
        let Some((seq, role)) = self.places.get(c).copied() else { return Ok(None) };
        let RunReader { reader, vault, chain, .. } = *self.run;
        let row = approval_queue::payload(reader, vault, chain, &PayloadRef::of(seq, c)).await?;
        Ok(row.map(|row| (role, row.body)))
    }

    async fn json(&self, c: &Digest) -> Result<Option<Json>, StoreError> {
        let read = self.read(c).await?;
        Ok(read.and_then(|(_, body)| Json::parse(&body, &Limits::FILE).ok()))
    }

    /// The arguments of this commitment, with all that is stored apart from them.
    async fn whole(&self, c: &Digest) -> Result<Option<Json>, StoreError> {
        let Some(args) = self.json(c).await? else { return Ok(None) };
        let Some(References { conversation, apart }) = References::of(&args) else {
            return Ok(Some(args));
        };
        let Some(messages) = self.messages(&conversation).await? else { return Ok(None) };
        let Json::Object(mut members) = with_messages(&args, messages) else { return Ok(None) };
        for (name, c) in apart {
            let Some(member) = self.json(&c).await? else { return Ok(None) };
            members.insert(name.to_owned(), member);
        }
        Ok(Some(Json::Object(members)))
    }

    /// The messages of this conversation in order.
    async fn messages(&self, list: &Digest) -> Result<Option<Vec<Json>>, StoreError> {
        let (mut lists, mut at) = (Conversations::default(), Some(*list));
        let mut stored_whole = BTreeMap::new();
        for _ in 0..=self.places.len() {
            let Some(c) = at else { break };
            match self.read(&c).await? {
                Some((Role::Conversation, body)) => {
                    let Some(part) = Conversation::read(&body) else { return Ok(None) };
                    at = part.base.map(|base| base.0);
                    lists.part(c, part);
                }
                Some((_, body)) => {
                    let Ok(args) = Json::parse(&body, &Limits::FILE) else { return Ok(None) };
                    let list = messages(&args).unwrap_or_default();
                    let list: Vec<Json> = list.iter().map(normal).collect();
                    lists.whole(c, list.len());
                    stored_whole.insert(c, list);
                    at = None;
                }
                None => return Ok(None),
            }
        }
        let places = lists.messages(list).filter(|places| places.len() <= MESSAGES_MAX);
        let Some(places) = places else { return Ok(None) };
        let mut all = Vec::with_capacity(places.len());
        for place in places {
            let message = match place {
                MessageAt::Payload(c) => self.json(&c).await?,
                MessageAt::Within(c, index) => {
                    stored_whole.get(&c).and_then(|list| list.get(index)).cloned()
                }
            };
            let Some(message) = message else { return Ok(None) };
            all.push(message);
        }
        Ok(Some(all))
    }
}
