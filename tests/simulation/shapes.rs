//! Whether every entry the writer made is one that the product's own verifier accepts.

use crate::checks::Shadow;
use wicketgate::record::{Entry, schema};

/// Flaws of check 15: an entry that is not of the closed form of its kind.
pub fn closed(shadow: &Shadow) -> Vec<String> {
    let links = shadow.chains.values().flatten();
    let wrong = links.filter_map(|link| {
        let why = match Entry::parse(&link.body) {
            Ok(entry) => schema::header(&entry).err()?.to_string(),
            Err(error) => error.to_string(),
        };
        Some(format!("(15) entry {} `{}`: {why}", link.seq, link.kind()))
    });
    wrong.collect()
}
