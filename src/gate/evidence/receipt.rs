//! Receipts of erasures: what was erased, when, by whom and why, with the proof that the fleet log says
//! so. Signed, and checked without the ledger.

use crate::crypto::dsse;
use crate::crypto::keys::PublicKey;
use crate::crypto::merkle::{Prover, leaf_hash, verifies_inclusion};
use crate::crypto::note::Checkpoint;
use crate::crypto::signer::Signer;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::{Json, Limits};
use crate::ledger::store::{LedgerReader, StoreError};
use crate::record::{Entry, Kind};

/// DSSE payload type of a receipt.
pub const PAYLOAD_TYPE: &str = "application/vnd.wicketgate.erasure.v1+json";
const VERSION: &str = "wicketgate/erasure/1";

/// What a receipt says beyond the entries it proves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// Rows that were deleted.
    pub deleted: u64,
    /// `none`, `some` or `unknown`: what is left of the bytes in the store's own files.
    pub residue: &'static str,
    /// `sqlite` or `postgres`.
    pub store: &'static str,
}

/// Makes a receipt of these entries of the fleet log.
///
/// # Errors
/// The log cannot be read, is not what its checkpoint says, or the key cannot sign.
pub async fn make(
    reader: &dyn LedgerReader,
    fleet: &str,
    seqs: &[Seq],
    told: &Told,
    key: &dyn Signer,
) -> Result<Vec<u8>, StoreError> {
    let odd = |why: &str| StoreError::Broken(format!("{fleet}: {why}"));
    let chains = reader.chains().await?;
    let chain = chains.into_iter().find(|row| row.origin == fleet).ok_or_else(|| odd("no log"))?;
    let leaves = reader.leaf_hashes(&chain.chain, chain.head.size).await?;
    let prover = Prover::new(leaves);
    let mut entries = Vec::new();
    for seq in seqs {
        let rows = reader.entries(&chain.chain, *seq, 1).await?;
        let row = rows.first().filter(|row| row.seq == *seq).ok_or_else(|| odd("no entry"))?;
        let body = std::str::from_utf8(&row.body).map_err(|_| odd("no text"))?;
        let at = usize::try_from(*seq).map_err(|_| odd("too large"))?;
        let path = prover.inclusion_proof(at).ok_or_else(|| odd("no leaf"))?;
        let path: Vec<Json> = path.iter().map(|digest| Json::from(digest.hex())).collect();
        entries.push(Json::object([
            ("seq", Json::from(*seq)),
            ("entry", Json::from(body)),
            ("leaf", Json::from(leaf_hash(&row.body).hex())),
            ("path", path.into()),
        ]));
    }
    let text = canonical::bytes(&Json::object([
        ("v", Json::from(VERSION)),
        ("log", Json::from(fleet)),
        ("checkpoint", Json::from(chain.head.checkpoint.as_str())),
        ("entries", entries.into()),
        ("deleted", Json::from(told.deleted)),
        ("residue", Json::from(told.residue)),
        ("store", Json::from(told.store)),
    ]));
    dsse::sign_by(PAYLOAD_TYPE, &text, key)
        .map_err(|why| StoreError::Unavailable(format!("the evidence key cannot sign: {why}")))
}

/// What a receipt proves.
#[derive(Clone, PartialEq, Debug)]
pub struct Proven {
    /// Name of the fleet log.
    pub fleet: String,
    /// Each erasure: the place in the fleet log, and what the entry says.
    pub erasures: Vec<(Seq, Json)>,
    /// What the eraser says of the store: not proven by anything.
    pub residue: String,
}

/// Checks a receipt: who signed it, that its entries are erasures, and that they stand in the log.
///
/// `fleet_key`: also that this key signed the log's checkpoint; without, only the signer vouches for it.
///
/// # Errors
/// What does not hold.
pub fn check(
    envelope: &[u8],
    evidence: &[PublicKey],
    fleet_key: Option<&PublicKey>,
) -> Result<Proven, String> {
    let opened = dsse::open(envelope, PAYLOAD_TYPE, evidence, 1).map_err(|e| e.to_string())?;
    let json = Json::parse(&opened.payload, &Limits::FILE).map_err(|e| e.to_string())?;
    let text = |name: &'static str| {
        json.get(name).and_then(Json::as_str).ok_or_else(|| format!("no `{name}`"))
    };
    if text("v")? != VERSION {
        return Err(format!("not `{VERSION}`"));
    }
    let note = text("checkpoint")?;
    let checkpoint = match fleet_key {
        Some(key) => Checkpoint::open(note, key).map_err(|e| e.to_string())?,
        None => Checkpoint::parse(note).map_err(|e| e.to_string())?.0,
    };
    let fleet = text("log")?;
    if checkpoint.origin != fleet {
        return Err("the checkpoint is of another log".to_owned());
    }
    let entries = json.get("entries").and_then(Json::as_array).unwrap_or_default();
    let erasures: Vec<(Seq, Json)> =
        entries.iter().map(|told| erasure(told, &checkpoint)).collect::<Result<_, _>>()?;
    if erasures.is_empty() {
        return Err("nothing was erased".to_owned());
    }
    Ok(Proven { fleet: fleet.to_owned(), erasures, residue: text("residue")?.to_owned() })
}

fn erasure(told: &Json, checkpoint: &Checkpoint) -> Result<(Seq, Json), String> {
    let seq = told.get("seq").and_then(Json::as_u64).ok_or("an entry has no `seq`")?;
    let bad = |why: &str| format!("entry {seq}: {why}");
    let body = told.get("entry").and_then(Json::as_str).ok_or_else(|| bad("not there"))?;
    let entry = Entry::parse(body.as_bytes()).map_err(|e| bad(&e.to_string()))?;
    if entry.draft.kind() != Kind::PayloadErased || entry.seq != seq {
        return Err(bad("no erasure"));
    }
    let path = told.get("path").and_then(Json::as_array).unwrap_or_default();
    let path = path.iter().map(|digest| digest.as_str().and_then(Digest::parse));
    let path: Vec<Digest> = path.collect::<Option<_>>().ok_or_else(|| bad("malformed path"))?;
    let leaf = leaf_hash(body.as_bytes());
    if !verifies_inclusion(&leaf, seq, checkpoint.size, &path, &checkpoint.root) {
        return Err(bad("not in the log"));
    }
    let Json::Object(mut data) = Json::of(&entry.draft.body) else { return Err(bad("no erasure")) };
    data.insert("at".to_owned(), Json::from(entry.ts.to_string()));
    Ok((seq, Json::Object(data)))
}
