//! Receipts of erasures: what was erased, when, by whom and why, with the proof that the fleet log
//! records it. Signed, and checked without the ledger.

use serde::{Deserialize, Serialize};

use crate::crypto::dsse;
use crate::crypto::keys::PublicKey;
use crate::crypto::merkle::{Prover, leaf_hash, verifies_inclusion};
use crate::crypto::note::{self, Checkpoint};
use crate::crypto::signer::Signer;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::{self, Json, Limits};
use crate::domain::members::Mismatch;
use crate::ledger::store::{LedgerReader, StoreError};
use crate::record::{self, Entry, HexDigest, Kind};

/// DSSE payload type of a receipt.
pub const PAYLOAD_TYPE: &str = "application/vnd.wicketgate.erasure.v1+json";
const VERSION: &str = "wicketgate/erasure/1";

/// What a receipt states beyond the entries it proves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiptNotes {
    /// Rows that were deleted.
    pub deleted: u64,
    /// `none`, `some` or `unknown`: what is left of the bytes in the store's own files.
    pub residue: &'static str,
    /// `sqlite` or `postgres`.
    pub store: &'static str,
}

/// The signed content.
#[derive(Serialize, Deserialize)]
struct ReceiptForm {
    v: String,
    log: String,
    checkpoint: String,
    entries: Vec<Inclusion>,
    deleted: u64,
    residue: String,
    store: String,
}

/// An entry, and its path in the log.
#[derive(Serialize, Deserialize)]
struct Inclusion {
    seq: Seq,
    entry: String,
    leaf: HexDigest,
    path: Vec<HexDigest>,
}

/// Why a receipt does not hold.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// Its envelope.
    #[error(transparent)]
    Envelope(#[from] dsse::Error),
    /// The signed bytes are not strict JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// The signed bytes lack the members of a receipt.
    #[error(transparent)]
    Member(#[from] Mismatch),
    /// Another version.
    #[error("not `{VERSION}`")]
    Version,
    /// The checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] note::Error),
    /// A checkpoint of another log than the receipt names.
    #[error("the checkpoint is of another log")]
    OtherLog,
    /// No entries.
    #[error("nothing was erased")]
    Nothing,
    /// An invalid entry.
    #[error("entry {seq}: {source}")]
    Entry {
        /// Its expected place.
        seq: Seq,
        /// What is wrong with it.
        source: record::Error,
    },
    /// An entry that is not an erasure, or is of another place.
    #[error("entry {0}: no erasure")]
    NoErasure(Seq),
    /// An entry whose path does not lead to the checkpoint.
    #[error("entry {0}: not in the log")]
    NotInLog(Seq),
}

/// Makes a receipt of these entries of the fleet log.
///
/// # Errors
/// The log cannot be read or does not match its checkpoint, or the key cannot sign.
pub async fn make(
    reader: &dyn LedgerReader,
    fleet: &str,
    seqs: &[Seq],
    notes: &ReceiptNotes,
    key: &dyn Signer,
) -> Result<Vec<u8>, StoreError> {
    let broken = |why: &str| StoreError::Broken(format!("{fleet}: {why}"));
    let chains = reader.chains().await?;
    let chain =
        chains.into_iter().find(|row| row.origin == fleet).ok_or_else(|| broken("no log"))?;
    let leaves = reader.leaf_hashes(&chain.chain, chain.head.size).await?;
    let prover = Prover::new(leaves);
    let mut entries = Vec::new();
    for seq in seqs {
        let rows = reader.entries(&chain.chain, *seq, 1).await?;
        let row = rows.first().filter(|row| row.seq == *seq).ok_or_else(|| broken("no entry"))?;
        let body = std::str::from_utf8(&row.body).map_err(|_| broken("no text"))?;
        let at = usize::try_from(*seq).map_err(|_| broken("too large"))?;
        let path = prover.inclusion_proof(at).ok_or_else(|| broken("no leaf"))?;
        entries.push(Inclusion {
            seq: *seq,
            entry: body.to_owned(),
            leaf: HexDigest(leaf_hash(&row.body)),
            path: path.into_iter().map(HexDigest).collect(),
        });
    }
    let text = canonical::bytes(&Json::of(&ReceiptForm {
        v: VERSION.to_owned(),
        log: fleet.to_owned(),
        checkpoint: chain.head.checkpoint.clone(),
        entries,
        deleted: notes.deleted,
        residue: notes.residue.to_owned(),
        store: notes.store.to_owned(),
    }));
    dsse::sign_by(PAYLOAD_TYPE, &text, key)
        .map_err(|why| StoreError::Unavailable(format!("the evidence key cannot sign: {why}")))
}

/// What a receipt proves.
#[derive(Clone, PartialEq, Debug)]
pub struct Proven {
    /// Name of the fleet log.
    pub fleet: String,
    /// Each erasure: its place in the fleet log, and its content.
    pub erasures: Vec<(Seq, Json)>,
    /// What the eraser states about the store, without proof.
    pub residue: String,
}

/// Checks a receipt: its signer, that its entries are erasures, and that they are in the log.
///
/// `fleet_key`: also checks that this key signed the log's checkpoint; without it, only the signer
/// vouches for the log.
///
/// # Errors
/// The first check that fails.
pub fn check(
    envelope: &[u8],
    evidence: &[PublicKey],
    fleet_key: Option<&PublicKey>,
) -> Result<Proven, ReceiptError> {
    let opened = dsse::open(envelope, PAYLOAD_TYPE, evidence, 1)?;
    let form: ReceiptForm = Json::parse(&opened.payload, &Limits::FILE)?.read()?;
    if form.v != VERSION {
        return Err(ReceiptError::Version);
    }
    let checkpoint = match fleet_key {
        Some(key) => Checkpoint::open(&form.checkpoint, key)?,
        None => Checkpoint::parse(&form.checkpoint)?.0,
    };
    if checkpoint.origin != form.log {
        return Err(ReceiptError::OtherLog);
    }
    let erasures = form.entries.iter().map(|entry| erasure(entry, &checkpoint));
    let erasures: Vec<(Seq, Json)> = erasures.collect::<Result<_, _>>()?;
    if erasures.is_empty() {
        return Err(ReceiptError::Nothing);
    }
    Ok(Proven { fleet: form.log, erasures, residue: form.residue })
}

fn erasure(inclusion: &Inclusion, checkpoint: &Checkpoint) -> Result<(Seq, Json), ReceiptError> {
    let (seq, body) = (inclusion.seq, inclusion.entry.as_bytes());
    let entry = Entry::parse(body).map_err(|source| ReceiptError::Entry { seq, source })?;
    if entry.draft.kind() != Kind::PayloadErased || entry.seq != seq {
        return Err(ReceiptError::NoErasure(seq));
    }
    let path: Vec<Digest> = inclusion.path.iter().map(|digest| digest.0).collect();
    if !verifies_inclusion(&leaf_hash(body), seq, checkpoint.size, &path, &checkpoint.root) {
        return Err(ReceiptError::NotInLog(seq));
    }
    let mut data = Json::of(&entry.draft.body);
    let Json::Object(members) = &mut data else { return Err(ReceiptError::NoErasure(seq)) };
    members.insert("at".to_owned(), Json::from(entry.ts.to_string()));
    Ok((seq, data))
}
