//! What a run said to models before: which messages are stored, scanned and judged.
//!
//! The state is in memory only and holds hashes, never texts. Without it (after a restart, or above
//! [`MESSAGES_MAX`]) messages are new again: they are stored, scanned and judged once more.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;

use super::shown::{ReadMessage, ReadRest, found, hits, number, shown, with_digests};
use crate::clock::{Entropy, random32};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::commitment::derived;
use crate::domain::decision::{Course, Verdict};
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::json::Json;
use crate::domain::sent::{MessageKey, SearchedFor, SentMessage};
use crate::firewall::{self, Hit};
use crate::judge::Judged;
use crate::judge::conversation::{
    ApartPayload, ArgParts, KnownMessage, KnownRest, ModelArgs, PartPayload, StoredArgs,
    obligations,
};
use crate::ledger::drafts::INLINE_MAX;
use crate::record::HexDigest;
use crate::record::conversation::{
    APART, Conversation, MemberDigest, References, list_member, messages, normal, with_messages,
    without_messages,
};

/// The most messages that a run remembers.
const MESSAGES_MAX: usize = 16_384;
/// The most new messages of one call that are stored one by one: an entry names each.
const NEW_MAX: usize = 192;
/// The most bytes of new messages that are stored within their entry's transaction.
const NEW_BYTES_MAX: usize = 16 * INLINE_MAX;
/// The length up to which tools and instructions are shown to a policy in every call.
const SHOWN_ALWAYS: u64 = 1024;
/// Combinations of tool and policy, or of obligations, that are told apart.
const BASES_MAX: usize = 64;

/// What a message was judged for. A message that one tool, model or policy may see is new to any
/// other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JudgementBasis {
    /// The tool.
    pub tool: ToolName,
    /// What the tool is.
    pub definition: Digest,
    /// The policy in force.
    pub policy: Digest,
    /// The model that the arguments name. One tool may serve several.
    pub model: Option<String>,
    /// The protocol, and what is asked for in it.
    pub form: Option<(Dialect, Operation)>,
}

impl JudgementBasis {
    /// What the messages of this call are judged for.
    pub fn of(call: &ToolCall, definition: Digest, policy: Digest) -> Self {
        let model = call.args().get("model").and_then(Json::as_str).map(str::to_owned);
        let form = call.dialect().map(|request| (request.dialect, request.operation));
        Self { tool: call.tool().clone(), definition, policy, model, form }
    }
}

/// The messages of one run.
#[derive(Debug, Default)]
pub(super) struct RunConversations {
    /// Keys all hashes; drawn when the first message comes.
    secret: Option<[u8; 32]>,
    /// The messages that were scanned, by exact value.
    scanned: BTreeMap<MessageKey, ScannedMessage>,
    /// Those of them that were searched for these credentials and are clean. WHY for the newest only:
    /// a message that is clean of a set of credentials may hold one of another.
    clean: BTreeSet<MessageKey>,
    clean_of: Option<SearchedFor>,
    /// For each basis, the messages that a plain allow let through, with its obligations.
    judged: Vec<(JudgementBasis, BTreeMap<MessageKey, u8>)>,
    obligations: Vec<BTreeSet<String>>,
    /// Commitments of the messages that are stored, by normal form.
    known: BTreeMap<MessageKey, Digest>,
    /// The beginnings of conversations: the list in which each stands, and its length there.
    beginnings: BTreeMap<MessageKey, (u32, u32)>,
    /// Commitments of those lists.
    lists: Vec<Digest>,
    /// Commitments of the tools and instructions that are stored.
    apart: BTreeMap<MessageKey, Digest>,
}

/// What the firewall found in a message, and what the message is stored by.
#[derive(Debug)]
struct ScannedMessage {
    findings: Box<[Hit]>,
    /// The key of its normal form.
    normal: MessageKey,
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
        let sent = call.messages().iter().map(Some).chain(std::iter::repeat(None));
        let messages = list.iter().zip(sent);
        let mut read: Vec<_> = messages.map(|one| self.read(&secret, call, one, basis)).collect();
        let request = call.dialect();
        for index in request.into_iter().flat_map(|request| &request.facts.bypassed) {
            if let Some(message) = read.get_mut(*index) {
                message.is_bypassed = true;
            }
        }
        let rest = self.rest(&secret, call.args(), basis);
        let (shown, cut) = shown(&read);
        let new_messages = shown.len();
        let shown = with_messages(call.args(), shown);
        let parts = if stores { self.parts(entropy, &secret, call, &read) } else { None };
        let list = list_member(call.args());
        Some(ModelArgs {
            shown: canonical::bytes(&with_digests(shown, &rest.digests)),
            new_messages: number(new_messages),
            messages_cut: number(cut),
            findings: found((list, &rest), &read, false),
            findings_of_all: found((list, &rest), &read, true),
            hits: hits((list, &rest), &read),
            carried: self.carried(basis, &read, &rest),
            messages: read.into_iter().map(|message| message.known).collect(),
            rest: rest.known,
            basis,
            parts,
            stored: OnceLock::new(),
            clean_of: OnceLock::new(),
        })
    }

    /// Compares the arguments beside the messages with those before. WHY all of them at once: a rule
    /// about tools may depend on any other member.
    fn rest(&self, secret: &[u8; 32], args: &Json, basis: usize) -> ReadRest {
        let rest = without_messages(args);
        let exact = keyed(secret, &[b"rest", &canonical::bytes(&rest)]);
        // INVARIANT: what is judged is scanned, so arguments without findings here are new.
        let scanned = self.scanned.get(&exact).map(|scanned| scanned.findings.clone());
        let findings = scanned.unwrap_or_else(|| firewall::scan(&rest).into());
        let judged = self.judged.get(basis).is_some_and(|(_, all)| all.contains_key(&exact));
        let apart = APART.into_iter().filter(|_| judged).filter_map(|(name, _)| {
            let digest = MemberDigest::of(rest.get(name)?);
            (digest.bytes.get() > SHOWN_ALWAYS).then(|| (name, Json::of(&digest)))
        });
        let digests = apart.collect();
        ReadRest { known: KnownRest { exact, findings }, digests }
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

    /// The key of a message of the run, and whether it was searched for these credentials and is clean.
    /// `None` if the run remembers nothing.
    pub fn remembers(&self, message: &[u8], of: SearchedFor) -> Option<(MessageKey, bool)> {
        let key = keyed(&self.secret?, &[b"message", message]);
        Some((key, self.clean_of == Some(of) && self.clean.contains(&key)))
    }

    /// `sent`: the message as the call knows it, if it was made in a dialect.
    fn read<'a>(
        &self,
        secret: &[u8; 32],
        call: &'a ToolCall,
        (json, sent): (&'a Json, Option<&SentMessage>),
        basis: usize,
    ) -> ReadMessage<'a> {
        let written = sent.and_then(|sent| call.canonical().get(sent.at.clone()));
        let exact = written.map_or_else(|| canonical::bytes(json).into(), Cow::Borrowed);
        let key = |body: &[u8]| keyed(secret, &[b"message", body]);
        let exact_key = sent.and_then(|sent| sent.key).unwrap_or_else(|| key(&exact));
        // INVARIANT: what is judged is scanned, so a message without findings here is new.
        let (normal, findings) = match self.scanned.get(&exact_key) {
            Some(scanned) => (scanned.normal, scanned.findings.clone()),
            None => {
                let normalised = normal(json);
                let is_normal = normalised == *json;
                let normal =
                    if is_normal { exact_key } else { key(&canonical::bytes(&normalised)) };
                (normal, firewall::scan(json).into())
            }
        };
        let judged = self.judged.get(basis).is_some_and(|(_, all)| all.contains_key(&exact_key));
        let known = KnownMessage { exact: exact_key, normal, findings };
        ReadMessage { json, exact, known, is_new: !judged, is_bypassed: false }
    }

    /// The obligations of the messages, tools and instructions that are not shown.
    fn carried(&self, basis: usize, read: &[ReadMessage<'_>], rest: &ReadRest) -> BTreeSet<String> {
        let Some((_, judged)) = self.judged.get(basis) else { return BTreeSet::new() };
        let earlier = read.iter().filter(|message| !message.is_new);
        let earlier = earlier.map(|message| message.known.exact);
        let rest = (!rest.digests.is_empty()).then_some(rest.known.exact);
        let sets: BTreeSet<u8> =
            earlier.chain(rest).filter_map(|exact| judged.get(&exact)).copied().collect();
        let sets = sets.into_iter().filter_map(|set| self.obligations.get(usize::from(set)));
        sets.flatten().cloned().collect()
    }

    /// The arguments in parts; none if they are better stored whole.
    fn parts(
        &self,
        entropy: &dyn Entropy,
        secret: &[u8; 32],
        call: &ToolCall,
        read: &[ReadMessage<'_>],
    ) -> Option<ArgParts> {
        let (base, keep) = self.longest_beginning(secret, read);
        let (mut add, mut own, mut rows, mut bytes) = (Vec::new(), BTreeMap::new(), Vec::new(), 0);
        for (index, message) in read.iter().enumerate().skip(keep) {
            let key = message.known.normal;
            let stored = self.known.get(&key).or_else(|| own.get(&key)).copied();
            let c = stored.unwrap_or_else(|| {
                let row = PartPayload::of(random32(entropy), message.normal().into_owned());
                let c = row.c;
                bytes = row.body.len().saturating_add(bytes);
                rows.push((index, row));
                c
            });
            own.insert(key, c);
            add.push(HexDigest(c));
        }
        if rows.len() > NEW_MAX || bytes > NEW_BYTES_MAX && rows.len() > 1 {
            return None;
        }
        let base = base.map(HexDigest);
        let conversation = Conversation { add, base, keep: number(keep).into() };
        let conversation = PartPayload::of(random32(entropy), conversation.bytes());
        let (references, apart) = self.apart(entropy, secret, call, conversation.c)?;
        let args = canonical::bytes(&references.put(call.args()));
        Some(ArgParts { args, conversation, apart, messages: rows })
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

    /// What the arguments name instead of their parts, and the tools and the instructions that the run
    /// did not send before. `None` if they cannot be cut out.
    fn apart(
        &self,
        entropy: &dyn Entropy,
        secret: &[u8; 32],
        call: &ToolCall,
        conversation: Digest,
    ) -> Option<(References, Vec<ApartPayload>)> {
        let mut references = References { conversation, apart: BTreeMap::new() };
        if APART.iter().all(|(name, _)| call.args().get(name).is_none()) {
            return Some((references, Vec::new()));
        }
        let sent: BTreeMap<String, &RawValue> = serde_json::from_slice(call.sent()).ok()?;
        let mut new = Vec::new();
        for (name, role) in APART {
            if call.args().get(name).is_none() {
                continue;
            }
            let body = sent.get(name)?.get().as_bytes();
            let key = keyed(secret, &[role.as_str().as_bytes(), body]);
            let c = self.apart.get(&key).copied().unwrap_or_else(|| {
                let payload = PartPayload::of(random32(entropy), body.to_vec());
                let c = payload.c;
                new.push(ApartPayload { key, role, payload });
                c
            });
            references.apart.insert(name, c);
        }
        Some((references, new))
    }

    /// Remembers the messages of a call whose decision is durable.
    pub fn remember(&mut self, sent: SentMessages) {
        let Some(secret) = self.secret else { return };
        let SentMessages { model, allow } = sent;
        let rest = (model.rest.exact, model.rest.exact, &model.rest.findings);
        let messages = model.messages.iter();
        let messages = messages.map(|one| (one.exact, one.normal, &one.findings));
        for (exact, normal, findings) in messages.chain([rest]) {
            let findings = || ScannedMessage { findings: findings.clone(), normal };
            self.scanned.entry(exact).or_insert_with(findings);
        }
        if let Some(of) = model.clean_of.get() {
            if self.clean_of != Some(*of) {
                self.clean = BTreeSet::new();
                self.clean_of = Some(*of);
            }
            self.clean.extend(model.messages.iter().map(|message| message.exact));
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
                for apart in &parts.apart {
                    if self.apart.len() >= BASES_MAX {
                        self.apart.clear();
                    }
                    self.apart.entry(apart.key).or_insert(apart.payload.c);
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
            let exact = model.messages.iter().map(|message| message.exact);
            for exact in exact.chain([model.rest.exact]) {
                judged.entry(exact).or_insert(set);
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::domain::call::{CallOrigin, CallerAuth, DialectRequest};
    use crate::domain::effect::AskFacts;
    use crate::domain::id::{CallId, RunId};
    use crate::domain::json::Limits;
    use crate::domain::sent::{RequestSearch, SentJson};

    struct Zeros;

    impl Entropy for Zeros {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    /// A search that finds nothing, and tells what it looked through.
    struct Search<'a>(&'a RunConversations, SearchedFor, RefCell<String>);

    impl RequestSearch for Search<'_> {
        fn remembers(&self, message: &[u8]) -> Option<(MessageKey, bool)> {
            self.0.remembers(message, self.1)
        }

        fn search(&self, json: &[u8]) -> Option<SearchedFor> {
            self.2.borrow_mut().push_str(std::str::from_utf8(json).unwrap());
            Some(self.1)
        }
    }

    fn basis() -> JudgementBasis {
        JudgementBasis {
            tool: ToolName::parse("m").unwrap(),
            definition: Digest::of(&[]),
            policy: Digest::of(&[]),
            model: None,
            form: None,
        }
    }

    /// Sends these messages; which of them were searched. `is_clean`: whether the gate found all clean.
    fn send(
        said: &mut RunConversations,
        (set, generation): (u64, u64),
        messages: &str,
        is_clean: bool,
    ) -> String {
        let of = SearchedFor { set, generation };
        let list: Vec<String> =
            messages.chars().map(|m| format!(r#"{{"role":"user","content":"<{m}>"}}"#)).collect();
        let body = format!(r#"{{"model":"m","messages":[{}]}}"#, list.join(","));
        let origin = CallOrigin {
            run: RunId::from_random([7; 16]),
            id: CallId::parse("c").unwrap(),
            after: 0,
            agent: "a".to_owned(),
            auth: CallerAuth::default(),
            traceparent: None,
        };
        let request = DialectRequest {
            dialect: Dialect::Chat,
            operation: Operation::Generate,
            beta: false,
            headers: Vec::new(),
            facts: AskFacts::default(),
            reading: None,
        };
        let search = Search(said, of, RefCell::default());
        let sent = SentJson::read(body.as_bytes(), &Limits::MODEL).unwrap();
        let asked = (request, "messages", &search as &dyn RequestSearch);
        let call = ToolCall::of_request(origin, "m", sent, asked).unwrap();
        let searched = search.2.into_inner();
        let model = said.compare(&Zeros, &call, basis(), true).unwrap();
        if is_clean {
            model.clean_of.set(of).unwrap();
        }
        said.remember(SentMessages { model: Arc::new(model), allow: None });
        messages.chars().filter(|m| searched.contains(&format!("<{m}>"))).collect()
    }

    #[test]
    fn a_message_is_searched_once_for_the_same_credentials_and_again_for_others() {
        let said = &mut RunConversations::default();
        assert_eq!(send(said, (1, 1), "abc", true), "abc");
        assert_eq!(send(said, (1, 1), "abcd", true), "cd", "with its neighbour");
        assert_eq!(send(said, (1, 1), "abcd", true), "");
        assert_eq!(send(said, (1, 2), "abcd", true), "abcd", "a credential changed");
        assert_eq!(send(said, (2, 2), "abcd", true), "abcd", "another set");
        assert_eq!(send(said, (1, 2), "abcd", true), "abcd", "nor is the former set remembered");
        assert_eq!(send(said, (1, 2), "abcde", false), "de");
        assert_eq!(send(said, (1, 2), "abcde", true), "de", "what was not clean is not remembered");
        said.forget();
        assert_eq!(send(said, (1, 2), "abcde", true), "abcde");
    }

    #[test]
    fn a_message_is_the_same_however_its_bytes_were_come_by() {
        let said = &mut RunConversations::default();
        send(said, (1, 1), "ab", true);
        let keys: Vec<MessageKey> = said.scanned.keys().copied().collect();
        // With the keys that the call brings, and without.
        send(said, (1, 1), "ab", true);
        assert_eq!(said.scanned.keys().copied().collect::<Vec<_>>(), keys);
        assert_eq!(keys.len(), 3, "two messages and the rest");
    }
}
