//! Inputs of policies: from files, and from the decisions of a ledger.

use std::path::Path;

use crate::cli::reader::{self, Source};
use crate::cli::suggest::input_of;
use crate::domain::json::{Json, Limits};
use crate::enforce::CANARY_TOOL;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};
use crate::record::Entry;

/// Entries read at once.
const PAGE: u32 = 1000;

/// Reads an input document from a file.
///
/// # Errors
/// It cannot be read, or is no strict JSON.
pub fn file(path: &Path) -> Result<Json, String> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|e| format!("`{shown}`: {e}"))?;
    Json::parse(&text, &Limits::FILE).map_err(|e| format!("`{shown}`: {e}"))
}

/// The input of one entry of a ledger.
///
/// # Errors
/// There is no such entry, it decides about no call, or its input is not kept.
pub async fn entry(source: &Source, seq: u64, chain: Option<&str>) -> Result<Json, String> {
    let reader = reader::open_reader(source).await.map_err(|e| e.to_string())?;
    let chains = reader.chains().await.map_err(|e| e.to_string())?;
    let wanted = |row: &ChainRow| {
        chain.is_none_or(|chain| row.origin == chain || row.chain.to_string() == chain)
    };
    let chains: Vec<ChainRow> = chains.into_iter().filter(wanted).collect();
    let chain = match chains.as_slice() {
        [one] => &one.chain,
        [] => return Err("there is no such chain in this ledger".to_owned()),
        _ => {
            let names: Vec<&str> = chains.iter().map(|row| row.origin.as_str()).collect();
            return Err(format!(
                "the ledger has several chains, name one (`--chain`): {}",
                names.join(", ")
            ));
        }
    };
    let rows = reader.entries(chain, seq, 1).await.map_err(|e| e.to_string())?;
    let row = rows.first().filter(|row| row.seq == seq).ok_or_else(|| format!("no entry {seq}"))?;
    let entry = Entry::parse(&row.body).map_err(|_| format!("entry {seq} cannot be read"))?;
    if !decides(&entry) {
        return Err(format!(
            "entry {seq} is `{}`: it decides about no call",
            entry.draft.kind().as_str()
        ));
    }
    let input = input_of(reader.as_ref(), chain, &entry).await.map_err(|e| e.to_string())?;
    input.ok_or_else(|| format!("the input of entry {seq} is not kept"))
}

/// What was decided about and is kept.
#[derive(Debug, Default)]
pub struct Recorded {
    /// `chain/seq tool`, and the input.
    pub inputs: Vec<(String, Json)>,
    /// Decisions whose input is not kept.
    pub missing: u64,
}

/// The newest recorded inputs of a ledger, at most so many of each chain.
///
/// # Errors
/// The ledger cannot be read.
pub async fn recorded(source: &Source, most: usize) -> Result<Recorded, String> {
    let reader = reader::open_reader(source).await.map_err(|e| e.to_string())?;
    read(reader.as_ref(), most).await.map_err(|e| e.to_string())
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
