//! The registrar of the hub: it certifies the keys of writers with the enrolment key, so that no
//! sidecar has it.
//!
//! A sidecar shows a token that stands for one pool of slots: a shared token, or the projected
//! token of its pod's service account. It also proves that it holds the key it names. The registrar
//! certifies one key per slot and epoch: the same request again has the same answer, and it refuses
//! another key for that epoch. The hub records each certificate before it sends it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::Serialize;
use subtle::ConstantTimeEq as _;

use super::Reject;
use super::api::requests::Enrolment;
use super::credential::ShownCredential;
use super::logins::Logins;
use super::token_review::{Doubt, Reviewer, Workload, is_jwt};
use crate::clock::Clock;
use crate::crypto::keys::PublicKey;
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Epoch, Seq};
use crate::identity::IdentityError;
use crate::identity::callers::read_token;
use crate::ledger::Ledger;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::enrolment::Request;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};
use crate::ledger::writer_key::{Certificate, Signer};
use crate::record::chain;
use crate::record::fleet::WriterEnrolled;
use crate::record::{Base64, Draft, Entry, Kind};
use crate::serve::problem::Problem;

/// The pool of the hubs' own slots, whose chains record enrolments. No sidecar can enrol into it.
pub const HUBS: &str = "hub";
/// Entries that are read at once.
const BATCH: u32 = 512;
/// Characters of the pod and image texts in a certificate.
const TEXT_MAX: usize = 512;

/// A pool, and the one token that its sidecars share.
#[derive(Clone, Debug)]
pub struct Pool {
    /// `local`, or `<namespace>/<service account>`: its slots are `<pool>/<number>`.
    pub pool: String,
    /// The token of its sidecars; read for each request, so that a changed file counts at once.
    pub token_file: PathBuf,
}

/// Who may enrol, and into which slots.
#[derive(Clone, Debug, Default)]
pub struct EnrolledPools {
    /// Pools with shared tokens.
    pub shared: Vec<Pool>,
    /// Service accounts, `<namespace>/<account>`: each is its own pool of slots. In an account, a `*` stands for any
    /// characters.
    pub accounts: BTreeSet<String>,
}

impl EnrolledPools {
    /// Whether pods of this service account may enrol.
    #[must_use]
    pub fn enrols(&self, account: &str) -> bool {
        self.accounts.iter().any(|pattern| selects(pattern, account))
    }
}

/// Whether this `<namespace>/<account>`, with at most one `*` in it, selects this account. A star never reaches into
/// another namespace.
#[must_use]
pub fn selects(pattern: &str, account: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == account };
    let rest = account.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    rest.is_some_and(|rest| !rest.contains('/'))
}

/// The registrar's settings and parts.
pub struct RegistrarParts {
    /// Who may enrol at first.
    pub pools: EnrolledPools,
    /// Reviews projected tokens. Without it, the registrar accepts shared tokens only.
    pub reviewer: Option<Reviewer>,
    /// How long a certificate lasts at most.
    pub term: Duration,
    /// The enrolment key.
    pub signer: Arc<dyn Signer>,
    /// Records each certificate.
    pub ledger: Ledger,
    /// Reads slots, and the hubs' records of enrolments.
    pub reader: Arc<dyn LedgerReader>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Counts refusals.
    pub reject: Reject,
    /// The tenant of these slots.
    pub tenant: String,
}

crate::record::debug_by!(RegistrarParts: tenant);

/// The caller: the pool it may enrol into, and the proof of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    pool: String,
    /// The pod's name and uid, where a cluster vouched for them.
    pod: Option<String>,
}

/// The answer to a writer.
#[derive(Debug, Serialize)]
pub struct Enrolled {
    /// The certificate of its key.
    pub certificate: chain::Certificate,
}

/// Certifies writers.
pub struct Registrar {
    parts: RegistrarParts,
    pools: ArcSwap<EnrolledPools>,
    logins: Mutex<Logins>,
    /// The lock serialises requests, so that each sees the enrolments recorded before it.
    known: tokio::sync::Mutex<RecordedEnrolments>,
}

impl std::fmt::Debug for Registrar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registrar").field("pools", &self.pools).finish_non_exhaustive()
    }
}

/// What hubs recorded, as far as it was read.
#[derive(Debug, Default)]
struct RecordedEnrolments {
    read: BTreeMap<ChainId, Seq>,
    /// The certificate of the latest epoch, by the log of the slot.
    enrolled: BTreeMap<String, Certificate>,
}

impl Registrar {
    /// A registrar that has read no chain yet.
    pub fn new(parts: RegistrarParts) -> Self {
        let (logins, known) = (Mutex::default(), tokio::sync::Mutex::default());
        let pools = ArcSwap::from_pointee(parts.pools.clone());
        Self { parts, pools, logins, known }
    }

    /// Replaces who may enrol. Certificates that were issued stay valid until they end.
    pub fn set_pools(&self, pools: EnrolledPools) {
        self.pools.store(Arc::new(pools));
    }

    /// The enrolment key's public half.
    pub fn public(&self) -> PublicKey {
        self.parts.signer.public()
    }

    /// Counts a refusal.
    pub(super) fn refuse(&self, problem: Problem) -> Problem {
        (self.parts.reject)(problem.code);
        problem
    }

    fn refused(&self, code: Code, detail: &str, message: impl Into<String>) -> Problem {
        self.refuse(Problem::new(code, detail, message))
    }

    /// The pool of this token: the pool's shared token, or else the projected one of a pod.
    ///
    /// # Errors
    /// `identity.missing` for an unknown token, `limit.exceeded` after too many unknown ones,
    /// `operator.forbidden` for a service account without a pool or a pod, `overloaded` and
    /// `not_ready` where the API server gave no verdict.
    pub async fn admit(&self, shown: &ShownCredential) -> Result<Admitted, Problem> {
        let admitted = self.known(shown).await?;
        crate::serve::places::proved();
        Ok(admitted)
    }

    async fn known(&self, shown: &ShownCredential) -> Result<Admitted, Problem> {
        let ShownCredential::Token(token) = shown else {
            return Err(self.unidentified(shown.stranger()));
        };
        if let Some(pool) = self.shared(token) {
            return Ok(Admitted { pool, pod: None });
        }
        match self.parts.reviewer.as_ref().filter(|_| is_jwt(token)) {
            Some(reviewer) => self.reviewed(reviewer, token).await,
            None => Err(self.unidentified(IdentityError::Unknown)),
        }
    }

    /// The pool whose shared token this is. It compares with every pool's token.
    fn shared(&self, token: &str) -> Option<String> {
        let shown = Digest::of(&[token.as_bytes()]);
        let mut found = None;
        for pool in &self.pools.load().shared {
            let known = match read_token(&pool.token_file) {
                Ok(token) => Digest::of(&[token.as_bytes()]),
                Err(why) => {
                    tracing::warn!(pool = pool.pool, %why, "gates cannot enrol in this pool");
                    continue;
                }
            };
            if bool::from(shown.as_bytes().ct_eq(known.as_bytes())) {
                found = Some(pool.pool.clone());
            }
        }
        found
    }

    async fn reviewed(&self, reviewer: &Reviewer, token: &str) -> Result<Admitted, Problem> {
        let reviewed = reviewer.review(token).await;
        let Workload { account, pod, uid } = reviewed.map_err(|doubt| self.doubted(doubt))?;
        if !self.pools.load().enrols(&account) {
            tracing::warn!(account, pod, uid, "no pool of slots accepts this service account");
            let message = "no pool of slots accepts this service account";
            return Err(self.forbid("enrolment.account", message));
        }
        Ok(Admitted { pool: account, pod: Some(format!("{pod}/{uid}")) })
    }

    fn doubted(&self, doubt: Doubt) -> Problem {
        match doubt {
            Doubt::UnknownToken(why) => {
                tracing::warn!(why, "the API server rejected a projected token");
                self.unidentified(IdentityError::Unknown)
            }
            Doubt::Unbound(account) => {
                tracing::warn!(account, "refused a projected token that is not bound to a pod");
                self.forbid("enrolment.pod", "the token is not bound to a pod")
            }
            Doubt::Unanswered(why) => {
                tracing::warn!(%why, "the API server did not review a projected token");
                let message = "the token cannot be reviewed now";
                self.refused(Code::NotReady, "enrolment.review", message)
            }
            Doubt::Busy => {
                let message = "too many tokens are being reviewed already";
                self.refused(Code::Overloaded, "enrolment.review", message)
            }
        }
    }

    fn unidentified(&self, why: IdentityError) -> Problem {
        let wait = self.logins.lock().failed(self.parts.clock.monotonic());
        self.refuse(super::unknown(why, wait))
    }

    /// Certifies the key of a sidecar of this pool. Where a cluster vouched for its pod, the
    /// certificate names that pod, whatever the request says.
    ///
    /// # Errors
    /// `request.malformed` for an invalid proof, `operator.forbidden` for a slot, epoch or key that
    /// must not be enrolled, `ledger.unavailable` if it cannot be recorded. Nothing was certified
    /// then.
    pub async fn enrol(&self, who: &Admitted, sent: &Enrolment) -> Result<Enrolled, Problem> {
        let Some(mut enrolment) = Request::open(&sent.request, &sent.proof) else {
            let message = "the request must be signed by the key that it names";
            return Err(self.refused(Code::RequestMalformed, "enrolment.proof", message));
        };
        if enrolment.tenant != self.parts.tenant
            || !is_slot_of(&who.pool, &enrolment.certificate.slot)
        {
            let message = "the token is for the slots of another pool";
            return Err(self.forbid("enrolment.pool", message));
        }
        if let Some(pod) = &who.pod {
            enrolment.certificate.pod.clone_from(pod);
        }
        self.certified(who, enrolment).await
    }

    fn forbid(&self, detail: &str, message: &str) -> Problem {
        self.refused(Code::OperatorForbidden, detail, message)
    }

    async fn certified(&self, who: &Admitted, enrolment: Request) -> Result<Enrolled, Problem> {
        let Request { log, certificate: wanted, .. } = enrolment;
        let mut known = self.known.lock().await;
        let unavailable = |error: StoreError| self.refuse(error.into());
        let chains = self.parts.reader.chains().await.map_err(unavailable)?;
        let ours = |row: &&ChainRow| row.tenant == self.parts.tenant;
        let of_slot = chains.iter().filter(ours).filter(|row| row.slot == wanted.slot);
        let now = latest(of_slot.map(|row| (row.origin.as_str(), row.epoch)));
        if now != Some((log.as_str(), wanted.epoch)) {
            let message = "the slot is not in this epoch of this log";
            return Err(self.forbid("enrolment.epoch", message));
        }
        for row in chains.iter().filter(ours).filter(|row| is_slot_of(HUBS, &row.slot)) {
            known
                .read_on(&*self.parts.reader, row.chain, row.head.size)
                .await
                .map_err(unavailable)?;
        }
        let before = known.enrolled.get(&log).filter(|before| before.epoch == wanted.epoch);
        if let Some(before) = before {
            let what = |of: &Certificate| (of.key, of.pod.clone(), of.image_digest.clone());
            if what(before) != what(&wanted) {
                let message = "a different key is already certified for this epoch of the slot";
                return Err(self.forbid("enrolment.taken", message));
            }
            return self.issue(before);
        }
        let certificate = self.bounded(wanted)?;
        let entry = DraftWithPayloads::bare(Draft::of(enrolled(who, &log, &certificate)));
        self.parts.ledger.record(entry).await.map_err(|error| {
            let message = format!("the enrolment cannot be recorded: {error}");
            self.refused(Code::LedgerUnavailable, "", message)
        })?;
        let Certificate { epoch, pod, .. } = &certificate;
        tracing::info!(log, epoch, pod, "enrolled a writer");
        let answer = self.issue(&certificate);
        known.note(log, certificate);
        answer
    }

    /// The certificate with its term limited, and with texts of one line only.
    fn bounded(&self, wanted: Certificate) -> Result<Certificate, Problem> {
        let now = self.parts.clock.now();
        let not_after = wanted.not_after.min(now.plus(self.parts.term));
        let fits = |text: &str| text.len() <= TEXT_MAX && !text.chars().any(char::is_control);
        if not_after > now && fits(&wanted.pod) && fits(&wanted.image_digest) {
            return Ok(Certificate { not_after, ..wanted });
        }
        let message =
            "the certificate would have expired already, or its pod or image digest is not valid";
        Err(self.refused(Code::RequestMalformed, "enrolment.request", message))
    }

    fn issue(&self, certificate: &Certificate) -> Result<Enrolled, Problem> {
        let certificate = certificate.issue(&*self.parts.signer).map_err(|why| {
            tracing::error!(%why, "the enrolment key cannot sign");
            let message = "the enrolment key cannot sign now";
            self.refused(Code::NotReady, "enrolment.key", message)
        })?;
        Ok(Enrolled { certificate })
    }
}

impl RecordedEnrolments {
    async fn read_on(
        &mut self,
        reader: &dyn LedgerReader,
        chain: ChainId,
        size: Seq,
    ) -> Result<(), StoreError> {
        let mut next = match self.read.get(&chain) {
            Some(next) => *next,
            None => {
                let kinds = [Kind::WriterEnrolled.as_str()];
                for row in reader.entries_of(&chain, &kinds).await? {
                    self.take(&row.body);
                }
                size
            }
        };
        while next < size {
            let rows = reader.entries(&chain, next, BATCH).await?;
            let Some(last) = rows.last() else { break };
            next = last.seq.saturating_add(1);
            rows.iter().for_each(|row| self.take(&row.body));
        }
        self.read.insert(chain, next);
        Ok(())
    }

    /// Takes over an entry that enrols a writer. The first one of an epoch counts.
    fn take(&mut self, body: &[u8]) {
        let Ok(entry) = Entry::parse(body) else { return };
        let Some(enrolled) = entry.draft.get::<WriterEnrolled>() else { return };
        if let Some(certificate) = Certificate::enrolled(enrolled) {
            self.note(enrolled.log.to_string(), certificate);
        }
    }

    fn note(&mut self, log: String, certificate: Certificate) {
        let known = self.enrolled.get(&log).map(|known| known.epoch);
        if known.is_none_or(|known| known < certificate.epoch) {
            self.enrolled.insert(log, certificate);
        }
    }
}

/// The entry of an enrolment.
fn enrolled(who: &Admitted, log: &str, certificate: &Certificate) -> WriterEnrolled {
    WriterEnrolled {
        auth: if who.pod.is_some() { "kubernetes" } else { "token" }.into(),
        epoch: certificate.epoch.into(),
        image_digest: certificate.image_digest.as_str().into(),
        key: Base64(certificate.key.to_bytes()),
        log: log.into(),
        not_after: certificate.not_after,
        pod: certificate.pod.as_str().into(),
        pool: who.pool.as_str().into(),
        slot: certificate.slot.as_str().into(),
    }
}

/// The log that a slot writes now, and its epoch: the one with the highest number at the end of its
/// name. The others were lost, and no writer appends to them any more.
fn latest<'a>(logs: impl Iterator<Item = (&'a str, Epoch)>) -> Option<(&'a str, Epoch)> {
    let number = |log: &str| log.rsplit('/').next().and_then(|n| n.parse::<u64>().ok());
    logs.max_by_key(|(log, _)| number(log))
}

/// Whether this is a slot of the pool: its name and a number.
fn is_slot_of(pool: &str, slot: &str) -> bool {
    let number = slot.strip_prefix(pool).and_then(|rest| rest.strip_prefix('/'));
    number.is_some_and(|number| {
        (1..=9).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::keys::SecretKey;
    use crate::domain::time::Timestamp;

    #[test]
    fn of_the_logs_of_a_slot_only_the_last_one_is_written() {
        let logs = [("w/t/local/0/9", 4), ("w/t/local/0/10", 1), ("w/t/local/0/2", 7)];
        assert_eq!(latest(logs.into_iter()), Some(("w/t/local/0/10", 1)));
        assert_eq!(latest(std::iter::empty()), None);
    }

    #[test]
    fn of_a_log_the_first_key_of_the_latest_epoch_is_known() {
        let mut known = RecordedEnrolments::default();
        let of = |epoch, seed: u8| Certificate {
            slot: "local/0".into(),
            epoch,
            key: SecretKey::from_seed(&[seed; 32]).public(),
            pod: "pod".into(),
            image_digest: "none".into(),
            not_after: Timestamp::from_millis(0),
        };
        for certificate in [of(2, 1), of(1, 2), of(2, 3)] {
            known.note("log".into(), certificate);
        }
        assert_eq!(known.enrolled["log"], of(2, 1));
        known.note("log".into(), of(3, 4));
        known.note("other".into(), of(1, 5));
        assert_eq!((&known.enrolled["log"], known.enrolled.len()), (&of(3, 4), 2));
    }

    #[test]
    fn a_star_selects_accounts_of_its_namespace_and_of_no_other() {
        for (pattern, account, selected) in [
            ("agents/gate", "agents/gate", true),
            ("agents/gate", "agents/gate-2", false),
            ("agents/*", "agents/gate", true),
            ("agents/*", "agents-2/gate", false),
            ("agents/*-agent", "agents/demo-agent", true),
            ("agents/*-agent", "agents/-agent", true),
            ("agents/*-agent", "agents/demo-hub", false),
            ("agents/a*a", "agents/a", false),
            ("agents/*", "agents/a/b", false),
            ("agents/*", "agents", false),
        ] {
            assert_eq!(selects(pattern, account), selected, "{pattern} {account}");
        }
    }

    #[test]
    fn a_pool_has_its_own_slots_and_no_others() {
        for slot in ["local/0", "local/17"] {
            assert!(is_slot_of("local", slot), "{slot}");
        }
        assert!(is_slot_of("ns/agents", "ns/agents/3"));
        for slot in [
            "local",
            "local/",
            "local/x",
            "local/0/1",
            "localx/0",
            "other/0",
            "local/-1",
            "local/ 1",
        ] {
            assert!(!is_slot_of("local", slot), "{slot}");
        }
        assert!(!is_slot_of("ns", "ns/agents/3"), "a pool of a namespace is not the namespace");
    }
}
