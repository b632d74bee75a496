//! Stand-alone proofs (c2sp.org/tlog-proof): one entry, its path, and the checkpoint.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::merkle::verifies_inclusion;
use super::note::{self, Checkpoint, Error};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;

const HEADER: &str = "c2sp.org/tlog-proof@v1";
/// The most hashes of a path in a tree of at most 2^64 leaves.
const PATH_MAX: usize = 64;

/// A `.tlog-proof` file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlogProof {
    /// Arbitrary content that nothing vouches for.
    pub extra: Option<Vec<u8>>,
    /// The entry, counted from 0.
    pub index: Seq,
    /// The audit path, lowest sibling first.
    pub path: Vec<Digest>,
    /// The checkpoint note with its signatures, as the log wrote it.
    pub note: String,
}

impl TlogProof {
    /// The file.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        if let Some(extra) = &self.extra {
            text.push_str(&format!("extra {}\n", STANDARD.encode(extra)));
        }
        text.push_str(&format!("index {}\n", self.index));
        for hash in &self.path {
            text.push_str(&STANDARD.encode(hash.as_bytes()));
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&self.note);
        text
    }

    /// Parses a file; its checkpoint must be well-formed, by any signer.
    ///
    /// # Errors
    /// The form is not that of the specification.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let malformed = |why| Err(Error::Format(why));
        let Some((head, note)) = text.split_once("\n\n") else {
            return malformed("a proof without a checkpoint");
        };
        let mut lines = head.split('\n').peekable();
        if lines.next() != Some(HEADER) {
            return malformed("not a tlog-proof of version 1");
        }
        let extra = lines.next_if(|line| line.starts_with("extra "));
        let extra = match extra.and_then(|line| line.strip_prefix("extra ")) {
            None => None,
            Some(extra) => match STANDARD.decode(extra) {
                Ok(extra) => Some(extra),
                Err(_) => return malformed("the extra data is not base64"),
            },
        };
        let index = lines.next().and_then(|line| line.strip_prefix("index "));
        let Some(index) = index.and_then(note::decimal) else {
            return malformed("the index is not in canonical form");
        };
        let path: Option<Vec<Digest>> = lines.map(note::hash).collect();
        let Some(path) = path.filter(|path| path.len() <= PATH_MAX) else {
            return malformed("the path is not at most 64 hashes in base64");
        };
        Checkpoint::parse(note)?;
        Ok(Self { extra, index, path, note: note.to_owned() })
    }

    /// Whether the entry with this leaf hash is at `index` of the checkpoint's tree. The caller
    /// checks who signed the checkpoint.
    #[must_use]
    pub fn includes(&self, leaf: &Digest) -> bool {
        Checkpoint::parse(&self.note).is_ok_and(|(checkpoint, _)| {
            let (size, root) = (checkpoint.size, &checkpoint.root);
            verifies_inclusion(leaf, self.index, size, &self.path, root)
        })
    }
}
