//! Part of E2: proofs that stand on their own (c2sp.org/tlog-proof), for those who check with other
//! people's tools. Each is of one entry here, under the checkpoint that is here.

use crate::bundle::{ALONE, Files, NOTE, alone_file};
use crate::crypto::tlog_proof::TlogProof;
use crate::domain::id::Seq;
use crate::entries::Line;
use crate::scope::Strand;

/// How many there are, if each entry that has to have one has it, and no other does.
pub(super) fn check(files: &Files, strand: &Strand) -> Result<usize, String> {
    let wanted = strand.alone();
    let names: Vec<String> = wanted.iter().map(|seq| alone_file(&strand.folder, *seq)).collect();
    let own = format!("{}/", strand.folder);
    let here = |name: &&String| name.starts_with(&own) && name.ends_with(ALONE);
    if let Some(other) = files.0.keys().filter(here).find(|name| !names.contains(name)) {
        return Err(format!("`{other}` is a proof of an entry that is given none"));
    }
    let note = files.get(&format!("{own}{NOTE}")).unwrap_or_default();
    for (seq, name) in wanted.iter().zip(&names) {
        let text = files.get(name).ok_or_else(|| format!("no `{name}`"))?;
        let line = strand.lines.iter().find(|line| line.entry.seq == *seq);
        let line = line.ok_or_else(|| format!("`{name}` is of an entry that is not here"))?;
        one(text, (*seq, line), note).map_err(|why| format!("`{name}`: {why}"))?;
    }
    Ok(wanted.len())
}

fn one(text: &[u8], (seq, line): (Seq, &Line), note: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
    let proof = TlogProof::parse(text).map_err(|e| e.to_string())?;
    if proof.extra.is_some() {
        return Err("it has extra data, which nothing vouches for".into());
    }
    if proof.note.as_bytes() != note {
        return Err(format!("it is under another checkpoint than `{NOTE}`"));
    }
    if proof.index != seq || !proof.includes(&line.leaf) {
        return Err(format!("it does not prove that seq {seq} is in the log"));
    }
    // One proof is one text.
    if proof.to_text() == text { Ok(()) } else { Err("not in canonical form".into()) }
}
