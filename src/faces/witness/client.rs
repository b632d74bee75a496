//! The log's side of a witness: submit a head, and verify everything that comes back.

use async_trait::async_trait;
use http::{Method, StatusCode};

use super::protocol::{PROOF_MAX, SIZE, Submission, checkpoint_path};
use super::{Remote, RemoteError, WitnessResponse};
use crate::clock::Clock;
use crate::crypto::note::{self, Algorithm, Checkpoint, SignatureLine, VerifierKey};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::plural::many;

/// Bytes of an answer: a few signature lines, or a checkpoint with them.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Requests of one submission: other processes may submit heads of the same log at the same time.
const ATTEMPTS: usize = 4;
/// Characters of a witness's own message that are shown.
const WORDS_MAX: usize = 200;

/// Why a head was not cosigned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The address or the key of the witness is wrong.
    #[error("witness `{name}`: {why}")]
    Settings {
        /// The witness.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The head is not a checkpoint signed by its log, or there is no consistency proof.
    #[error("the head to submit: {0}")]
    Head(String),
    /// The witness did not answer in time. A later attempt may succeed.
    #[error("witness `{name}` cannot be reached: {why}")]
    Unreachable {
        /// The witness.
        name: String,
        /// What happened.
        why: String,
    },
    /// The witness refused, or answered outside of the protocol.
    #[error("witness `{name}` answered {status}: {words}")]
    Refused {
        /// The witness.
        name: String,
        /// The status of its answer.
        status: u16,
        /// The beginning of its answer, as one line.
        words: String,
    },
    /// The witness answered with a cosignature that is not over this head.
    #[error("witness `{name}`: {why}")]
    NotCosigned {
        /// The witness.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The witness has cosigned a longer log than ours: our storage was rolled back. Fatal: writing
    /// on forks the log.
    #[error(
        "rollback: witness `{name}` has seen {} of `{log}`, the ledger has {ours}{}",
        many(size, "entry"),
        if proof.is_some() { "; it shows a head that our own key signed" } else { "" }
    )]
    Ahead {
        /// The witness.
        name: String,
        /// The log.
        log: String,
        /// Size of the log that the witness has cosigned.
        size: Seq,
        /// Entries we have.
        ours: Seq,
        /// The note with that head, signed by the log's key and cosigned, if the witness shows it.
        proof: Option<String>,
    },
    /// The witness has cosigned another log under our name: there is a fork. Fatal.
    #[error(
        "fork: witness `{name}` has cosigned a head of `{log}` with {} that is not the beginning of \
         ours",
        many(size, "entry")
    )]
    Forked {
        /// The witness.
        name: String,
        /// The log.
        log: String,
        /// Entries of the head it cosigned.
        size: Seq,
        /// The note with that head, signed by the log's key and cosigned, if the witness shows it.
        proof: Option<String>,
    },
}

impl Error {
    /// Whether the ledger itself is in doubt, so that the gate must not write before an operator
    /// has looked at it.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        match self {
            Self::Ahead { .. } | Self::Forked { .. } => true,
            Self::Settings { .. }
            | Self::Head(_)
            | Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::NotCosigned { .. } => false,
        }
    }
}

/// Why there is no consistency proof.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The log has fewer entries than this, or the size is 0.
    #[error("no consistency proof from size {0}")]
    Size(Seq),
    /// The ledger cannot be read.
    #[error("{0}")]
    Ledger(Box<dyn std::error::Error + Send + Sync>),
}

/// Makes consistency proofs of the log whose head is submitted.
#[async_trait]
pub trait Consistency: Send + Sync {
    /// The proof that the first `old` entries are the beginning of the submitted tree; `old` is at
    /// least 1 and at most the size of that tree.
    ///
    /// # Errors
    /// Why the proof cannot be made.
    async fn proof(&self, old: Seq) -> Result<Vec<Digest>, ProofError>;
}

/// All leaf hashes of a small log.
#[async_trait]
impl Consistency for [Digest] {
    async fn proof(&self, old: Seq) -> Result<Vec<Digest>, ProofError> {
        usize::try_from(old)
            .ok()
            .and_then(|old| crate::crypto::consistency::consistency_proof(self, old))
            .ok_or(ProofError::Size(old))
    }
}

/// A cosignature that was verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cosignature {
    /// Name of the witness.
    pub name: String,
    /// When it cosigned, in seconds since 1970 by its own clock.
    pub time: u64,
    /// The line to append to the note, with its newline.
    pub line: String,
}

/// A head, and what a witness needs to judge it.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// The checkpoint note, signed by the log; it may carry other cosignatures.
    pub note: &'a str,
    /// The log's key.
    pub log: &'a VerifierKey,
    /// Size of the head this witness cosigned last, as far as we know; 0 if unknown.
    pub old: Seq,
    /// Makes consistency proofs up to this head.
    pub proofs: &'a dyn Consistency,
}

impl std::fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head").field("note", &self.note).field("old", &self.old).finish()
    }
}

/// A witness at an address.
#[derive(Debug)]
pub struct WitnessClient {
    remote: Remote,
    key: VerifierKey,
    /// Seconds its clock may differ from ours.
    skew: u64,
}

impl WitnessClient {
    /// A witness at this URL (its submission prefix), known by this key. `ca`: PEM authorities for
    /// `https` instead of the public ones. `skew`: seconds its clock may differ from ours.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub fn new(url: &str, key: VerifierKey, ca: Option<&[u8]>, skew: u64) -> Result<Self, Error> {
        let name = key.name.clone();
        let invalid = |why: String| Error::Settings { name: name.clone(), why };
        if key.algorithm != Algorithm::Cosignature {
            return Err(invalid("its key is none for cosignatures (algorithm 4)".into()));
        }
        let remote = Remote::new(url, ca).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { remote, key, skew })
    }

    /// Its key.
    pub const fn key(&self) -> &VerifierKey {
        &self.key
    }

    /// Submits a head and gives back the cosignature, verified. If the witness names another size,
    /// the client sends the proof from that size; at most four requests.
    ///
    /// # Errors
    /// [`Error::Ahead`] and [`Error::Forked`] are fatal; the others are not.
    pub async fn submit(&self, head: &Head<'_>, clock: &dyn Clock) -> Result<Cosignature, Error> {
        let checkpoint = Self::ours(head)?;
        let mut old = head.old.min(checkpoint.size);
        for _ in 0..ATTEMPTS {
            let proof = self.proof(head, old, &checkpoint).await?;
            let sent = Submission { old, proof, note: head.note };
            let answer = self.post(&sent).await?;
            if answer.status == StatusCode::OK {
                return self.cosignature(&answer.body, &checkpoint, clock);
            }
            let forked = |size| Fault { size, ahead: false };
            let known = match answer.status {
                StatusCode::CONFLICT => known_size(&answer),
                // We made the proof, so the fault is in the head that the witness has.
                StatusCode::UNPROCESSABLE_ENTITY if old > 0 => {
                    return Err(self.fault(forked(old), head, &checkpoint).await);
                }
                _ => None,
            };
            let same = old == checkpoint.size && old > 0;
            if answer.status == StatusCode::CONFLICT && same && known.unwrap_or(old) == old {
                // It knows this very size, and still there is a conflict: another root.
                return Err(self.fault(forked(old), head, &checkpoint).await);
            }
            let Some(known) = known.filter(|known| *known != old) else {
                return Err(self.refused(&answer));
            };
            if known > checkpoint.size {
                let fault = Fault { size: known, ahead: true };
                return Err(self.fault(fault, head, &checkpoint).await);
            }
            old = known;
        }
        let why = "others submit heads of this log faster than we do".to_owned();
        Err(Error::Unreachable { name: self.key.name.clone(), why })
    }

    /// The newest head of this log the witness has cosigned, and the note it is in; `None` if it has
    /// cosigned none. Signature and cosignature are verified.
    ///
    /// # Errors
    /// The witness cannot be reached, refuses, or its answer does not verify.
    pub async fn newest(&self, log: &VerifierKey) -> Result<Option<(Checkpoint, String)>, Error> {
        let path = checkpoint_path(&log.name);
        let answer = self.remote.ask(Method::GET, &path, None, Vec::new(), ANSWER_BYTES_MAX);
        let answer = answer.await.map_err(|why| self.unreachable(&why))?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(self.refused(&answer)),
        }
        let invalid = |why: String| Error::NotCosigned { name: self.key.name.clone(), why };
        let note = std::str::from_utf8(&answer.body).map_err(|e| invalid(e.to_string()))?;
        let keys = [log.clone(), self.key.clone()];
        let (checkpoint, held) =
            Checkpoint::open_with(note, &keys).map_err(|e| invalid(e.to_string()))?;
        if held.len() != keys.len() || checkpoint.origin != log.name {
            return Err(invalid("its newest checkpoint is not signed by log and witness".into()));
        }
        Ok(Some((checkpoint, note.to_owned())))
    }

    /// The head, if it is one of ours.
    fn ours(head: &Head<'_>) -> Result<Checkpoint, Error> {
        let invalid = |e: note::Error| Error::Head(e.to_string());
        let (checkpoint, _) =
            Checkpoint::open_with(head.note, std::slice::from_ref(head.log)).map_err(invalid)?;
        if head.log.algorithm != Algorithm::Ed25519 || head.log.name != checkpoint.origin {
            return Err(Error::Head("the key is not the log's".into()));
        }
        Ok(checkpoint)
    }

    async fn proof(
        &self,
        head: &Head<'_>,
        old: Seq,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<Digest>, Error> {
        if old == 0 || old == checkpoint.size {
            return Ok(Vec::new());
        }
        let proof = head.proofs.proof(old).await;
        let proof = proof.map_err(|error| Error::Head(error.to_string()))?;
        if proof.len() > PROOF_MAX {
            return Err(Error::Head(format!("a consistency proof of {} hashes", proof.len())));
        }
        Ok(proof)
    }

    async fn post(&self, submission: &Submission<'_>) -> Result<WitnessResponse, Error> {
        let body = submission.to_text().into_bytes();
        let kind = Some("text/plain; charset=utf-8");
        let response =
            self.remote.ask(Method::POST, "/add-checkpoint", kind, body, ANSWER_BYTES_MAX);
        response.await.map_err(|why| self.unreachable(&why))
    }

    /// The cosignature in an answer, if it holds for this head and this moment.
    fn cosignature(
        &self,
        body: &[u8],
        checkpoint: &Checkpoint,
        clock: &dyn Clock,
    ) -> Result<Cosignature, Error> {
        let name = &self.key.name;
        let invalid = |why: String| Error::NotCosigned { name: name.clone(), why };
        let text = std::str::from_utf8(body).map_err(|e| invalid(e.to_string()))?;
        let block = text.strip_suffix('\n').ok_or_else(|| invalid("no final newline".into()))?;
        if block.split('\n').count() > note::SIGNATURES_MAX {
            return Err(invalid("too many lines".into()));
        }
        let lines: Result<Vec<SignatureLine>, _> =
            block.split('\n').map(SignatureLine::parse).collect();
        let lines = lines.map_err(|e| invalid(e.to_string()))?;
        let keys = std::slice::from_ref(&self.key);
        let held =
            note::verify(&checkpoint.body(), &lines, keys).map_err(|e| invalid(e.to_string()))?;
        let time = held.first().and_then(|held| held.time);
        let time = time.ok_or_else(|| invalid("a cosignature without a time".into()))?;
        let now = u64::try_from(clock.now().seconds()).unwrap_or_default();
        if time.abs_diff(now) > self.skew {
            let why = format!("its clock says {time}, ours {now}: more than {} s apart", self.skew);
            return Err(invalid(why));
        }
        let line = lines.iter().find(|line| line.is_of(&self.key));
        let line = line.map(|line| format!("{line}\n")).unwrap_or_default();
        Ok(Cosignature { name: name.clone(), time, line })
    }

    /// The fatal error, with the witness's evidence for it.
    async fn fault(&self, fault: Fault, head: &Head<'_>, ours: &Checkpoint) -> Error {
        let newest = self.newest(head.log).await;
        let proof = newest.ok().flatten().filter(|(seen, _)| seen.size == fault.size);
        let proof = proof.map(|(_, note)| note);
        let (name, log) = (self.key.name.clone(), ours.origin.clone());
        let size = fault.size;
        match fault.ahead {
            true => Error::Ahead { name, log, size, ours: ours.size, proof },
            false => Error::Forked { name, log, size, proof },
        }
    }

    fn unreachable(&self, why: &RemoteError) -> Error {
        Error::Unreachable { name: self.key.name.clone(), why: why.to_string() }
    }

    fn refused(&self, answer: &WitnessResponse) -> Error {
        let text = String::from_utf8_lossy(&answer.body);
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let text: String = text.take(WORDS_MAX).collect();
        let status = answer.status.as_u16();
        Error::Refused { name: self.key.name.clone(), status, words: text.trim().to_owned() }
    }
}

/// What is wrong between a witness and us: the size it knows, and whether that is beyond ours.
struct Fault {
    size: Seq,
    ahead: bool,
}

/// The size in an answer 409, in the one form the protocol has.
fn known_size(answer: &WitnessResponse) -> Option<Seq> {
    let kind = answer.kind.split(';').next().unwrap_or_default().trim();
    let text = std::str::from_utf8(&answer.body).ok()?;
    note::decimal(text.strip_suffix('\n')?).filter(|_| kind.eq_ignore_ascii_case(SIZE))
}
