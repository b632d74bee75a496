//! Inputs of policies: from files, and from the decisions of a ledger.

use std::path::{Path, PathBuf};

use crate::cli::FileError;
use crate::cli::reader::{self, LedgerSource};
use crate::cli::suggest::input_of;
use crate::domain::json::{self, Json, Limits};
use crate::enforce::CANARY_TOOL;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};
use crate::record::{Entry, Kind};

/// Entries read at once.
const PAGE: u32 = 1000;

/// Why an input cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file holds no strict JSON.
    #[error("`{}`: {error}", file.display())]
    Document {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and where.
        #[source]
        error: json::Error,
    },
    /// The ledger cannot be opened.
    #[error(transparent)]
    Open(#[from] reader::Error),
    /// The ledger cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No chain has the name.
    #[error("this ledger has no such chain")]
    NoChain,
    /// The ledger has several chains, and the command line names none.
    #[error("the ledger has several chains; name one (`--chain`): {}", .0.join(", "))]
    Chains(Vec<String>),
    /// The chain has no such entry.
    #[error("this chain has no entry {0}")]
    NoEntry(u64),
    /// The entry is damaged.
    #[error("entry {0} cannot be read")]
    Unreadable(u64),
    /// The entry is of another kind.
    #[error("entry {seq} is `{}`, which is not a decision about a call", kind.as_str())]
    NoDecision {
        /// Its number.
        seq: u64,
        /// Its kind.
        kind: Kind,
    },
    /// The payload was erased, or never stored.
    #[error("the policy input of entry {0} is not stored")]
    NotKept(u64),
}

/// Reads an input document from a file.
///
/// # Errors
/// It cannot be read, or is not strict JSON.
pub fn file(path: &Path) -> Result<Json, Error> {
    let text = std::fs::read(path).map_err(FileError::at(path))?;
    let invalid = |error| Error::Document { file: path.to_owned(), error };
    Json::parse(&text, &Limits::FILE).map_err(invalid)
}

/// The input of one entry of a ledger.
///
/// # Errors
/// There is no such entry, it is not a decision about a call, or its input is not stored.
pub async fn entry(source: &LedgerSource, seq: u64, chain: Option<&str>) -> Result<Json, Error> {
    let reader = reader::open_reader(source).await?;
    let chains = reader.chains().await?;
    let wanted = |row: &ChainRow| {
        chain.is_none_or(|chain| row.origin == chain || row.chain.to_string() == chain)
    };
    let chains: Vec<ChainRow> = chains.into_iter().filter(wanted).collect();
    let chain = match chains.as_slice() {
        [one] => &one.chain,
        [] => return Err(Error::NoChain),
        _ => return Err(Error::Chains(chains.into_iter().map(|row| row.origin).collect())),
    };
    let rows = reader.entries(chain, seq, 1).await?;
    let row = rows.first().filter(|row| row.seq == seq).ok_or(Error::NoEntry(seq))?;
    let entry = Entry::parse(&row.body).map_err(|_| Error::Unreadable(seq))?;
    if !decides(&entry) {
        return Err(Error::NoDecision { seq, kind: entry.draft.kind() });
    }
    let input = input_of(reader.as_ref(), chain, &entry).await?;
    input.ok_or(Error::NotKept(seq))
}

/// What was decided about and is kept.
#[derive(Debug, Default)]
pub struct Recorded {
    /// `chain/seq tool`, and the input.
    pub inputs: Vec<(String, Json)>,
    /// Decisions without a stored input.
    pub missing: u64,
}

/// The newest recorded inputs of a ledger, at most so many of each chain.
///
/// # Errors
/// The ledger cannot be read.
pub async fn recorded(source: &LedgerSource, most: usize) -> Result<Recorded, Error> {
    let reader = reader::open_reader(source).await?;
    Ok(read(reader.as_ref(), most).await?)
}

async fn read(reader: &dyn LedgerReader, most: usize) -> Result<Recorded, StoreError> {
    let mut all = Recorded::default();
    for row in reader.chains().await? {
        let (mut from, mut found) = (0, Vec::new());
        while from < row.head.size {
            let rows = reader.entries(&row.chain, from, PAGE).await?;
            let Some(last) = rows.last() else { break };
            from = last.seq.saturating_add(1);
            for one in &rows {
                let Ok(entry) = Entry::parse(&one.body) else { continue };
                if decides(&entry) {
                    found.push((one.seq, entry));
                }
            }
            let old = found.len().saturating_sub(most);
            found.drain(..old);
        }
        for (seq, entry) in found {
            match input_of(reader, &row.chain, &entry).await? {
                Some(input) => {
                    let tool = entry.draft.tool.as_ref().map(ToString::to_string);
                    let name = format!("{}/{seq} {}", row.chain, tool.unwrap_or_default());
                    all.inputs.push((name, input));
                }
                None => all.missing = all.missing.saturating_add(1),
            }
        }
    }
    Ok(all)
}

/// Whether an entry is the decision about a call of an agent.
fn decides(entry: &Entry) -> bool {
    let tool = entry.draft.tool.as_ref().map(ToString::to_string);
    entry.draft.kind().decides() && tool.as_deref() != Some(CANARY_TOOL)
}
