//! What a run said to models before: which messages are stored, scanned and judged.
//!
//! The state is in memory only and holds hashes, never texts. Without it (after a restart, or above
//! [`MESSAGES_MAX`]) messages are new again: they are stored, scanned and judged once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::clock::{Entropy, random32};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::commitment::derived;
use crate::domain::decision::{Course, Verdict};
use crate::domain::digest::Digest;
use crate::domain::facts::{BYPASSED, Finding, FindingAge};
use crate::domain::id::ToolName;
use crate::domain::json::Json;
use crate::firewall;
use crate::judge::Judged;
use crate::judge::conversation::{
    ArgParts, KnownMessage, MessageKey, ModelArgs, PartPayload, StoredArgs, obligations,
};
use crate::ledger::drafts::INLINE_MAX;
use crate::record::HexDigest;
use crate::record::conversation::{
    Conversation, References, list_member, messages, normal, with_messages, without_messages,
};

/// The most messages that a run remembers.
const MESSAGES_MAX: usize = 16_384;
/// The most new messages of one call that are stored one by one: an entry names each.
const NEW_MAX: usize = 192;
/// The most bytes of new messages that are stored within their entry's transaction.
const NEW_BYTES_MAX: usize = 16 * INLINE_MAX;
/// The most text that a policy is shown of new messages.
const SHOWN_MAX: usize = 64 * 1024;
/// Combinations of tool and policy, or of obligations, that are told apart.
const BASES_MAX: usize = 64;

/// What a message was judged for. A message that one tool or policy may see is new to any other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JudgementBasis {
    /// The tool.
    pub tool: ToolName,
    /// What the tool is.
    pub definition: Digest,
    /// The policy in force.
    pub policy: Digest,
}

/// The messages of one run.
#[derive(Debug, Default)]
pub(super) struct RunConversations {
    /// Keys all hashes; drawn when the first message comes.
    secret: Option<[u8; 32]>,
    /// Findings of the messages that were scanned, by exact value.
    scanned: BTreeMap<MessageKey, Box<[Finding]>>,
    /// For each basis, the messages that a plain allow let through, with its obligations.
    judged: Vec<(JudgementBasis, BTreeMap<MessageKey, u8>)>,
    obligations: Vec<BTreeSet<String>>,
    /// Commitments of the messages that are stored, by normal form.
    known: BTreeMap<MessageKey, Digest>,
    /// The beginnings of conversations: the list in which each stands, and its length there.
    beginnings: BTreeMap<MessageKey, (u32, u32)>,
    /// Commitments of those lists.
    lists: Vec<Digest>,
    /// Commitments of the offers that are stored.
    offers: BTreeMap<MessageKey, Digest>,
}

/// One message of the call that is being prepared.
struct ReadMessage<'a> {
    json: &'a Json,
    exact: Vec<u8>,
    normal: Vec<u8>,
    known: KnownMessage,
    is_new: bool,
    /// It has the result of a tool of the gate that the agent ran itself.
    is_bypassed: bool,
}

/// The tools of one call; nothing if it offers none.
#[derive(Default)]
struct OfferedTools {
    key: Option<MessageKey>,
    c: Option<Digest>,
    /// The payload, if the run did not offer the same before.
    new: Option<PartPayload>,
}

/// The tools as they were sent.
#[derive(Deserialize)]
struct SentTools<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

impl RunConversations {
    /// Compares the messages of a call with those before. `stores`: whether payloads of the run are
    /// stored. `None`: the arguments have no messages that can be told apart.
    pub fn compare(
        &mut self,
        entropy: &dyn Entropy,
        call: &ToolCall,
        basis: JudgementBasis,
        stores: bool,
    ) -> Option<ModelArgs> {
        let list = messages(call.args()).filter(|list| (1..=MESSAGES_MAX).contains(&list.len()))?;
        let secret = *self.secret.get_or_insert_with(|| random32(entropy));
        let basis = self.basis(basis);
        let mut read: Vec<_> = list.iter().map(|json| self.read(&secret, json, basis)).collect();
        let request = call.dialect();
        for index in request.into_iter().flat_map(|request| &request.facts.bypassed) {
            if let Some(message) = read.get_mut(*index) {
                message.is_bypassed = true;
            }
        }
        let rest = without_messages(call.args());
        let of_rest = firewall::findings(&rest);
        let (shown, cut) = shown(&read);
        let new_messages = shown.len();
        let parts = if stores { self.parts(entropy, &secret, call, &read) } else { None };
        let (offered, parts) = parts.map_or((None, None), |(key, parts)| (key, Some(parts)));
        let of_rest = (list_member(call.args()), of_rest.as_slice());
        Some(ModelArgs {
            shown: canonical::bytes(&with_messages(call.args(), shown)),
            new_messages: number(new_messages),
            messages_cut: number(cut),
            findings: found(of_rest, &read, false),
            findings_of_all: found(of_rest, &read, true),
            carried: self.carried(basis, &read),
            messages: read.into_iter().map(|message| message.known).collect(),
            offered,
            basis,
            parts,
            stored: OnceLock::new(),
        })
    }

    fn basis(&mut self, basis: JudgementBasis) -> usize {
        if let Some(at) = self.judged.iter().position(|(known, _)| *known == basis) {
            return at;
        }
        if self.judged.len() >= BASES_MAX {
            // No message counts as judged on this one.
            return usize::MAX;
        }
        self.judged.push((basis, BTreeMap::new()));
        self.judged.len().saturating_sub(1)
    }

    fn read<'a>(&self, secret: &[u8; 32], json: &'a Json, basis: usize) -> ReadMessage<'a> {
        let exact = canonical::bytes(json);
        let key = |body: &[u8]| keyed(secret, &[b"message", body]);
        let exact_key = key(&exact);
        let normalised = normal(json);
        let (normalised, normal_key) = if normalised == *json {
            (exact.clone(), exact_key)
        } else {
            let written = canonical::bytes(&normalised);
            let key = key(&written);
            (written, key)
        };
        // INVARIANT: what is judged is scanned, so a message without findings here is new.
        let findings = self.scanned.get(&exact_key).cloned();
        let findings = findings.unwrap_or_else(|| firewall::findings(json).into());
        let judged = self.judged.get(basis).is_some_and(|(_, all)| all.contains_key(&exact_key));
        let known = KnownMessage { exact: exact_key, normal: normal_key, findings };
        let (is_new, is_bypassed) = (!judged, false);
        ReadMessage { json, exact, normal: normalised, known, is_new, is_bypassed }
    }

    /// The obligations of the messages that are not shown.
    fn carried(&self, basis: usize, read: &[ReadMessage<'_>]) -> BTreeSet<String> {
        let Some((_, judged)) = self.judged.get(basis) else { return BTreeSet::new() };
        let earlier = read.iter().filter(|message| !message.is_new);
        let sets: BTreeSet<u8> =
            earlier.filter_map(|message| judged.get(&message.known.exact)).copied().collect();
        let sets = sets.into_iter().filter_map(|set| self.obligations.get(usize::from(set)));
        sets.flatten().cloned().collect()
    }

    /// The arguments in parts, with the key of their tools; none if they are better stored whole.
    fn parts(
        &self,
        entropy: &dyn Entropy,
        secret: &[u8; 32],
        call: &ToolCall,
        read: &[ReadMessage<'_>],
    ) -> Option<(Option<MessageKey>, ArgParts)> {
        let (base, keep) = self.longest_beginning(secret, read);
        let (mut add, mut own, mut rows, mut bytes) = (Vec::new(), BTreeMap::new(), Vec::new(), 0);
        for (index, message) in read.iter().enumerate().skip(keep) {
            let key = message.known.normal;
            let stored = self.known.get(&key).or_else(|| own.get(&key)).copied();
            let c = stored.unwrap_or_else(|| {
                let row = PartPayload::of(random32(entropy), message.normal.clone());
                let c = row.c;
                bytes = message.normal.len().saturating_add(bytes);
                rows.push((index, row));
                c
            });
            own.insert(key, c);
            add.push(HexDigest(c));
        }
        if rows.len() > NEW_MAX || bytes > NEW_BYTES_MAX && rows.len() > 1 {
            return None;
        }
        let offer = self.offer(entropy, secret, call)?;
        let base = base.map(HexDigest);
        let conversation = Conversation { add, base, keep: number(keep).into() };
        let conversation = PartPayload::of(random32(entropy), conversation.bytes());
        let references = References { conversation: conversation.c, offer: offer.c };
        let args = canonical::bytes(&references.put(call.args()));
        Some((offer.key, ArgParts { args, conversation, offer: offer.new, messages: rows }))
    }

    /// The earlier list with the longest beginning of this conversation, and its length.
    fn longest_beginning(
        &self,
        secret: &[u8; 32],
        read: &[ReadMessage<'_>],
    ) -> (Option<Digest>, usize) {
        let (mut best, mut running) = ((None, 0), MessageKey::default());
        for (count, message) in (1_usize..).zip(read) {
            running = next(secret, &running, &message.known.normal);
            let Some((list, _)) = self.beginnings.get(&running) else { break };
            let list = usize::try_from(*list).ok().and_then(|list| self.lists.get(list));
            best = (list.copied(), count);
        }
        best
    }

    /// The offered tools; `None` if they cannot be cut out.
    fn offer(
        &self,
        entropy: &dyn Entropy,
        secret: &[u8; 32],
        call: &ToolCall,
    ) -> Option<OfferedTools> {
        let there = call.args().get("tools").is_some();
        let sent: SentTools<'_> = serde_json::from_slice(call.sent()).ok()?;
        let Some(tools) = sent.tools else { return (!there).then(OfferedTools::default) };
        let tools = tools.get().as_bytes();
        let key = keyed(secret, &[b"offer", tools]);
        if let Some(c) = self.offers.get(&key) {
            return Some(OfferedTools { key: Some(key), c: Some(*c), new: None });
        }
        let row = PartPayload::of(random32(entropy), tools.to_vec());
        Some(OfferedTools { key: Some(key), c: Some(row.c), new: Some(row) })
    }

    /// Remembers the messages of a call whose decision is durable.
    pub fn remember(&mut self, sent: SentMessages) {
        let Some(secret) = self.secret else { return };
        let SentMessages { model, allow } = sent;
        for message in &model.messages {
            self.scanned.entry(message.exact).or_insert_with(|| message.findings.clone());
        }
        if let Some(allow) = allow {
            self.judged_under(&model, allow);
        }
        match (model.stored.get(), &model.parts) {
            (Some(StoredArgs::Whole(args)), _) => self.list(&secret, *args, &model),
            (Some(StoredArgs::Parts), Some(parts)) => {
                for (index, row) in &parts.messages {
                    if let Some(message) = model.messages.get(*index) {
                        self.known.entry(message.normal).or_insert(row.c);
                    }
                }
                if let (Some(key), Some(row)) = (model.offered, &parts.offer) {
                    if self.offers.len() >= BASES_MAX {
                        self.offers.clear();
                    }
                    self.offers.entry(key).or_insert(row.c);
                }
                self.list(&secret, parts.conversation.c, &model);
            }
            (Some(StoredArgs::Parts), None) | (None, _) => {}
        }
        if self.scanned.len().max(self.beginnings.len()) > MESSAGES_MAX {
            self.forget();
        }
    }

    /// Forgets all messages. Calls on the road go on to name a basis by its number, so bases stay.
    fn forget(&mut self) {
        let Self { secret, mut judged, obligations, .. } = std::mem::take(self);
        judged.iter_mut().for_each(|(_, marks)| marks.clear());
        *self = Self { secret, judged, obligations, ..Self::default() };
    }

    fn judged_under(&mut self, model: &ModelArgs, allow: BTreeSet<String>) {
        let at = self.obligations.iter().position(|known| *known == allow).or_else(|| {
            let next = self.obligations.len();
            (next < BASES_MAX).then(|| {
                self.obligations.push(allow);
                next
            })
        });
        let Some(set) = at.and_then(|at| u8::try_from(at).ok()) else { return };
        if let Some((_, judged)) = self.judged.get_mut(model.basis) {
            // The first judgement counts: a later one did not see the message.
            for message in &model.messages {
                judged.entry(message.exact).or_insert(set);
            }
        }
    }

    /// Adds a list of messages that is stored under this commitment.
    fn list(&mut self, secret: &[u8; 32], c: Digest, model: &ModelArgs) {
        let Ok(number) = u32::try_from(self.lists.len()) else { return };
        let (mut running, mut used) = (MessageKey::default(), false);
        for (count, message) in (1_u32..).zip(&model.messages) {
            running = next(secret, &running, &message.normal);
            self.beginnings.entry(running).or_insert_with(|| {
                used = true;
                (number, count)
            });
        }
        if used {
            self.lists.push(c);
        }
    }
}

/// The messages of a call that was judged.
pub(super) struct SentMessages {
    model: Arc<ModelArgs>,
    /// The obligations of a plain allow: enforced, and without approvers or a break-glass order.
    /// Only such a decision says of a message that it may be sent again without being judged again.
    allow: Option<BTreeSet<String>>,
}

impl SentMessages {
    pub fn of(judged: &Judged) -> Option<Self> {
        let model = Arc::clone(judged.prepared().model()?);
        let decision = judged.decision();
        let plain = decision.course() == Course::Run
            && decision.verdict == Verdict::Allow
            && decision.enforced
            && judged.break_glass().is_none()
            && judged.resumed().is_none();
        Some(Self { model, allow: plain.then(|| obligations(decision)) })
    }
}

/// The new messages as a policy sees them, and how many of them without their text. The last ones
/// are shown first: they are what the model is to answer.
fn shown(read: &[ReadMessage<'_>]) -> (Vec<Json>, usize) {
    let (mut left, mut cut) = (SHOWN_MAX, 0_usize);
    let new = read.iter().rev().filter(|message| message.is_new);
    let mut all: Vec<Json> = new
        .map(|message| match left.checked_sub(message.exact.len()) {
            Some(rest) => {
                left = rest;
                message.json.clone()
            }
            None => {
                cut = cut.saturating_add(1);
                let sha256 = Digest::of(&[&message.normal]).hex();
                let bytes = number(message.normal.len());
                let role = message.json.get("role").cloned().unwrap_or(Json::Null);
                let members = [("bytes", bytes.into()), ("sha256", sha256.into()), ("role", role)];
                Json::object(members)
            }
        })
        .collect();
    all.reverse();
    (all, cut)
}

/// The findings, each with its place: for a new message among the messages that are shown, for an
/// earlier one in the whole conversation, which is the member `list`. `all`: the whole conversation is
/// shown.
fn found((list, rest): (&str, &[Finding]), read: &[ReadMessage<'_>], all: bool) -> Vec<Finding> {
    let mut found: BTreeSet<Finding> = rest.iter().cloned().collect();
    let mut at_new = 0_usize;
    for (index, message) in read.iter().enumerate() {
        let is_new = all || message.is_new;
        let at = if is_new && !all { at_new } else { index };
        at_new = at_new.saturating_add(usize::from(message.is_new));
        let since = if is_new { FindingAge::New } else { FindingAge::Earlier };
        let placed = message.known.findings.iter().map(|one| {
            let path = format!("/{list}/{at}{}", one.path);
            Finding { path, since, ..one.clone() }
        });
        found.extend(placed);
        if message.is_bypassed {
            let path = format!("/{list}/{at}");
            found.insert(Finding { since, ..Finding::new(BYPASSED, path) });
        }
    }
    firewall::bounded(found)
}

fn number(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

/// The key of a beginning that is one message longer.
fn next(secret: &[u8; 32], before: &MessageKey, message: &MessageKey) -> MessageKey {
    keyed(secret, &[b"next", before, message])
}

fn keyed(secret: &[u8; 32], parts: &[&[u8]]) -> MessageKey {
    let mut key = MessageKey::default();
    for (to, from) in key.iter_mut().zip(derived(secret, parts)) {
        *to = from;
    }
    key
}
