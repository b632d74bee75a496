//! What must hold, read from the store's bytes alone: nothing here uses the product's reading of them.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::FutureExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use wicketgate::domain::id::ChainId;
use wicketgate::ledger::store::{LedgerReader as _, PayloadRef, PayloadRow};
use wicketgate_support::memory::MemoryStore;

use crate::approvals;

pub type Hash = [u8; 32];

pub fn sha(pieces: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize().into()
}

/// One entry as its bytes tell it.
#[derive(Clone, Debug)]
pub struct Link {
    pub chain: ChainId,
    pub seq: u64,
    pub leaf: Hash,
    pub body: Vec<u8>,
    pub json: Value,
}

impl Link {
    pub fn text(&self, name: &str) -> &str {
        self.json[name].as_str().unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// The payload this entry commits to in this role, if it opens the commitment.
    pub fn payload(&self, memory: &MemoryStore, role: &str) -> Option<Vec<u8>> {
        let commits = self.json["commit"].as_array()?;
        let commit = commits.iter().find(|c| c["role"] == role)?;
        let c = commit["c"].as_str()?;
        let digest = wicketgate::domain::digest::Digest::parse(c)?;
        let row: PayloadRow = memory
            .payload(&self.chain, &PayloadRef::of(self.seq, &digest))
            .now_or_never()?
            .ok()??;
        let len = (row.body.len() as u64).to_be_bytes();
        let whole = hex::encode(sha(&[b"wicketgate/commit/1\0", &row.salt, &len, &row.body]));
        let opens = by_member(&row.salt, &row.body).unwrap_or(whole) == c;
        let fits = commit["len"].as_u64() == Some(row.body.len() as u64);
        (opens && fits).then_some(row.body)
    }
}

/// `commit/2`, written once more from its description; `None` for what is no object.
fn by_member(salt: &[u8], body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let members = value.as_object().filter(|members| !members.is_empty())?;
    let digest_of = |name: &str, value: &Value| {
        let own = hmac(salt, format!("member:{name}").as_bytes());
        let triple = serde_json::json!([URL_SAFE_NO_PAD.encode(own), name, value]);
        let text = serde_json_canonicalizer::to_vec(&triple).unwrap();
        sha(&[URL_SAFE_NO_PAD.encode(text).as_bytes()])
    };
    let mut all: Vec<_> = members.iter().map(|(name, value)| digest_of(name, value)).collect();
    all.sort();
    let members = sha(&[b"wicketgate/members/2\0".as_slice(), &all.concat()]);
    let len = (body.len() as u64).to_be_bytes();
    let whole = sha(&[b"wicketgate/whole/2\0", &hmac(salt, b"whole"), &len, body]);
    Some(hex::encode(sha(&[b"wicketgate/commit/2\0", &whole, &members])))
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(to, from)| *to ^= from);
        block
    };
    sha(&[&pad(0x5c), &sha(&[&pad(0x36), text])])
}

/// All chains, read again only where they grew.
#[derive(Default)]
pub struct Shadow {
    pub chains: BTreeMap<ChainId, Vec<Link>>,
    /// Entries of a call, in order: chain and place.
    pub calls: BTreeMap<(String, String), Vec<(ChainId, usize)>>,
}

impl Shadow {
    pub fn refresh(&mut self, memory: &MemoryStore) {
        let rows = memory.chains().now_or_never().unwrap().unwrap();
        for chain in rows {
            let links = self.chains.entry(chain.chain).or_default();
            let from = links.len() as u64;
            if from == chain.head.size {
                continue;
            }
            let new = memory.entries(&chain.chain, from, u32::MAX).now_or_never().unwrap().unwrap();
            for row in new {
                let json: Value = serde_json::from_slice(&row.body).unwrap_or(Value::Null);
                let leaf = *row.leaf.as_bytes();
                let link = Link { chain: chain.chain, seq: row.seq, leaf, body: row.body, json };
                let (run, call) = (link.text("run").to_owned(), link.text("call").to_owned());
                if !call.is_empty() {
                    self.calls.entry((run, call)).or_default().push((chain.chain, links.len()));
                }
                links.push(link);
            }
        }
    }

    pub fn of_call(&self, run: &str, call: &str) -> Vec<&Link> {
        let places = self.calls.get(&(run.to_owned(), call.to_owned()));
        places.into_iter().flatten().filter_map(|(c, at)| self.chains.get(c)?.get(*at)).collect()
    }

    pub fn at(&self, chain: &ChainId, seq: u64) -> Option<&Link> {
        self.chains.get(chain)?.get(usize::try_from(seq).ok()?)
    }
}

/// What a policy bundle answers about an input: the word of the verdict.
pub type Again<'a> = &'a dyn Fn(&str, &[u8]) -> Option<String>;

/// Reads every chain from its genesis. Each flaw is one line that begins with its check's number.
pub fn ledger_flaws(shadow: &Shadow, memory: &MemoryStore, again: Again<'_>) -> Vec<String> {
    let mut flaws = Vec::new();
    for (chain, links) in &shadow.chains {
        chain_holds(chain, links, memory, &mut flaws);
        runs_hold(links, &mut flaws);
        lineages_hold(links, &mut flaws);
        policies_hold(links, memory, again, &mut flaws);
        alerts_hold(chain, links, memory, &mut flaws);
    }
    calls_hold(shadow, &mut flaws);
    flaws
}

fn chain_holds(chain: &ChainId, links: &[Link], memory: &MemoryStore, flaws: &mut Vec<String>) {
    let mut prev = sha(&[chain.as_bytes()]);
    let (mut epoch, mut ts) = (0, String::new());
    let mut boots: BTreeMap<u64, String> = BTreeMap::new();
    let mut key = None;
    for (at, link) in links.iter().enumerate() {
        let mut flaw = |what: &str| flaws.push(format!("(3) entry {at}: {what}"));
        if link.json.is_null() || link.body.len() > 65_535 {
            flaw("not an entry of at most 65535 bytes");
        }
        if serde_json_canonicalizer::to_vec(&link.json).ok().as_deref()
            != Some(link.body.as_slice())
        {
            flaw("not in canonical form");
        }
        if sha(&[&[0], &link.body]) != link.leaf || link.seq != at as u64 {
            flaw("leaf or place");
        }
        if link.json["seq"] != link.seq || link.text("prev") != hex::encode(prev) {
            flaw("not linked");
        }
        let of = link.json["epoch"].as_u64().unwrap_or(0);
        let starts = matches!(link.kind(), "chain.genesis" | "writer.started");
        if of < epoch || (of > epoch && !starts) || (at == 0 && link.kind() != "chain.genesis") {
            flaw("epoch went back, or did not begin with its writer");
        }
        // (14) One writer per epoch: a fenced one appends nothing under another's number.
        if boots.entry(of).or_insert_with(|| link.text("boot").to_owned()) != link.text("boot") {
            flaw("(14) two writers in one epoch");
        }
        if link.text("ts") < ts.as_str() {
            flaw("time runs backwards");
        }
        if link.kind() == "writer.started" {
            key = link.json["data"]["writer_key"].as_str().map(str::to_owned);
        }
        (prev, epoch, ts) = (link.leaf, of, link.text("ts").to_owned());
    }
    checkpoint_holds(chain, links, key, memory, flaws);
}

/// Every alert stands right behind its cause and in its batch, and the third denial of a tool in a run raises one,
/// however often the writer started again before.
fn alerts_hold(chain: &ChainId, links: &[Link], memory: &MemoryStore, flaws: &mut Vec<String>) {
    let mut denials: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    let (mut repeated, mut simulated) = (BTreeMap::new(), BTreeSet::new());
    for (at, link) in links.iter().enumerate() {
        let run = link.text("run");
        if link.kind() == "run.opened" && link.json["data"]["mode"] == "simulate" {
            simulated.insert(run);
        } else if link.kind() == "call.denied" && !simulated.contains(run) {
            denials.entry((run, link.text("tool"))).or_default().push(link.seq);
        }
        if link.kind() != "alert.raised" {
            continue;
        }
        let data = &link.json["data"];
        let text = |name: &str| data[name].as_str().unwrap_or_default();
        let last = data["last"].as_u64().unwrap_or(u64::MAX);
        let before = links[..at].iter().rev().find(|link| link.kind() != "alert.raised");
        let caused = before.is_some_and(|cause| {
            (cause.seq, cause.text("run"), cause.text("call")) == (last, text("run"), text("call"))
        });
        if !caused {
            flaws.push(format!("(15) entry {at}: an alert that does not follow on its cause"));
        }
        let signed = memory.checkpoints(chain, last.saturating_add(1), 1).now_or_never();
        let signed = signed.and_then(Result::ok).and_then(|all| all.first().map(|one| one.0));
        if signed.is_none_or(|size| size <= link.seq) {
            flaws.push(format!("(15) entry {at}: an alert in another batch than its cause"));
        }
        if text("alert") == "repeated_denial" {
            repeated.entry((text("run"), text("tool"))).or_insert(last);
        }
    }
    for (key, seqs) in denials {
        if seqs.get(2) != repeated.get(&key) {
            flaws.push(format!(
                "(15) {key:?}: the third denial raised no alert, or another one did"
            ));
        }
    }
}

fn checkpoint_holds(
    chain: &ChainId,
    links: &[Link],
    key: Option<String>,
    memory: &MemoryStore,
    flaws: &mut Vec<String>,
) {
    let rows = memory.chains().now_or_never().unwrap().unwrap();
    let Some(row) = rows.iter().find(|row| row.chain == *chain) else { return };
    if links.is_empty() {
        return;
    }
    let note = &row.head.checkpoint;
    let mut leaves: Vec<Hash> = links.iter().map(|l| l.leaf).collect();
    let expected =
        format!("{}\n{}\n{}\n", row.origin, links.len(), STANDARD.encode(root(&mut leaves)));
    if !note.starts_with(&expected) {
        flaws.push("(3) the checkpoint does not cover the tree".into());
    }
    let signed = || {
        let blob = STANDARD.decode(note.trim_end().rsplit(' ').next()?).ok()?;
        let key: Hash = STANDARD.decode(key?).ok()?.try_into().ok()?;
        let key = ed25519_dalek::VerifyingKey::from_bytes(&key).ok()?;
        let signature = ed25519_dalek::Signature::from_slice(blob.get(4..)?).ok()?;
        key.verify_strict(expected.as_bytes(), &signature).ok()
    };
    if signed().is_none() {
        flaws.push("(3) the checkpoint is not signed by the epoch's key".into());
    }
}

/// The RFC 6962 root, by its definition.
fn root(leaves: &mut [Hash]) -> Hash {
    match leaves.len() {
        0 => sha(&[]),
        1 => leaves[0],
        n => {
            let (left, right) = leaves.split_at_mut(n.next_power_of_two() / 2);
            sha(&[&[1], &root(left), &root(right)])
        }
    }
}

fn runs_hold(links: &[Link], flaws: &mut Vec<String>) {
    let mut runs: BTreeMap<&str, Vec<&Link>> = BTreeMap::new();
    for link in links.iter().filter(|l| !l.text("run").is_empty()) {
        runs.entry(link.text("run")).or_default().push(link);
    }
    for (run, entries) in runs {
        let mut flaw = |what: &str| flaws.push(format!("(3) run {run}: {what}"));
        for (at, link) in entries.iter().enumerate() {
            let before = at.checked_sub(1).map(|b| hex::encode(entries[b].leaf));
            if link.json["run_seq"] != at as u64
                || link.json.get("run_prev").and_then(Value::as_str) != before.as_deref()
            {
                flaw("sub-chain broken");
            }
            let last = at + 1 == entries.len();
            if (link.kind() == "run.opened") != (at == 0) || (link.kind() == "run.sealed" && !last)
            {
                flaw("opened or sealed in the wrong place");
            }
            if link.kind() == "run.sealed" && link.json["data"]["entries"] != entries.len() as u64 {
                flaw("the seal counts wrong");
            }
        }
        let sealed = entries.last().is_some_and(|l| l.kind() == "run.sealed");
        let mut open: BTreeMap<&str, &str> = BTreeMap::new();
        for link in entries.iter().filter(|l| !l.text("call").is_empty()) {
            open.insert(link.text("call"), link.kind());
        }
        for (call, kind) in open {
            let waits = matches!(kind, "call.held" | "approval.granted" | "approval.refused");
            let runs = matches!(kind, "call.authorized" | "call.progress");
            if runs || (waits && sealed) {
                flaws.push(format!("(4) run {run}: call {call} was left `{kind}`"));
            }
        }
    }
}

/// What a child does stands in the books while its parent is open, and is granted to both.
fn lineages_hold(links: &[Link], flaws: &mut Vec<String>) {
    let place = |run: &str, kind: &str| {
        links.iter().position(|link| link.kind() == kind && link.text("run") == run)
    };
    for opened in links.iter().filter(|link| link.kind() == "run.opened") {
        let Some(parent) = opened.json["data"].get("parent").and_then(Value::as_str) else {
            continue;
        };
        let run = opened.text("run");
        let mut flaw = |what: &str| flaws.push(format!("(14) run {run} below {parent}: {what}"));
        let (from, to) = (place(parent, "run.opened"), place(parent, "run.sealed"));
        let of_child = links.iter().enumerate().filter(|(_, link)| link.text("run") == run);
        for (at, link) in of_child {
            if from.is_none_or(|from| at < from) || to.is_some_and(|to| at > to) {
                flaw(&format!("`{}` while the parent is not open", link.kind()));
            }
            let own = ["t.other", "t.ghost"].contains(&link.text("tool"));
            if link.kind() == "call.authorized" && own {
                flaw("a tool that only one of the two is granted");
            }
        }
        if to.is_some() && place(run, "run.sealed").is_none() {
            flaw("open, and the parent is sealed");
        }
    }
}

/// The automaton of every call: one decision, one end.
fn calls_hold(shadow: &Shadow, flaws: &mut Vec<String>) {
    for (run, call) in shadow.calls.keys() {
        let links = shadow.of_call(run, call);
        let kinds: Vec<&str> = links.iter().map(|l| l.kind()).collect();
        // What approvers say of a held call stands between its hold and what comes of it.
        let said = links.iter().filter(|l| l.kind().starts_with("approval.")).count();
        let kinds: Vec<&str> =
            kinds.into_iter().filter(|kind| !kind.starts_with("approval.")).collect();
        let kinds = without_progress(&kinds).unwrap_or(kinds);
        if said > 0 && kinds.first() != Some(&"call.held") {
            flaws.push(format!("(4) call {call} of run {run} was approved and never held"));
        }
        if let ["call.held", "call.authorized", ..] = kinds.as_slice() {
            flaws.extend(approvals::burned(&links).map(|why| format!("(4) call {call}: {why}")));
        }
        let legal = match kinds.as_slice() {
            ["call.denied" | "call.held" | "call.authorized"]
            | ["call.held", "call.expired" | "call.cancelled"] => true,
            ["call.held", "call.denied"] => said > 0,
            ["call.authorized", end] | ["call.held", "call.authorized", end] => {
                matches!(*end, "call.completed" | "call.failed" | "call.unknown" | "call.cancelled")
            }
            _ => false,
        };
        if !legal {
            flaws.push(format!("(4) call {call} of run {run} went {kinds:?}"));
        }
    }
}

/// The entries of a call but those about its progress, if these stand between its permit and its end.
fn without_progress<'a>(kinds: &[&'a str]) -> Option<Vec<&'a str>> {
    let permit = kinds.iter().position(|kind| *kind == "call.authorized")?;
    let (before, after) = kinds.split_at(permit + 1);
    let rest = after.iter().skip_while(|kind| **kind == "call.progress");
    Some(before.iter().chain(rest).copied().collect())
}

fn policies_hold(links: &[Link], memory: &MemoryStore, again: Again<'_>, flaws: &mut Vec<String>) {
    let mut current = String::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for link in links {
        if link.kind() == "policy.activated" {
            link.text("policy").clone_into(&mut current);
            known.insert(current.clone());
        }
        if link.json.get("verdict").is_none() {
            continue;
        }
        let reason = link.json["data"]["reasons"][0]["detail"].as_str().unwrap_or_default();
        if link.text("policy") != current && reason != "no_policy" {
            flaws.push(format!("(10) entry {} was judged by another bundle", link.seq));
        }
        if let Some(input) = link.payload(memory, "policy_input") {
            let verdict = again(link.text("policy"), &input);
            if verdict.as_deref() != link.json["verdict"].as_str() {
                flaws.push(format!("(11) entry {} would be judged {verdict:?} now", link.seq));
            }
        } else if link.text("verdict") != "deny" {
            flaws.push(format!("(11) entry {} keeps no input", link.seq));
        }
    }
}
