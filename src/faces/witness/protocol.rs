//! The wire format for a witness: the body of `add-checkpoint`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::crypto::note;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;

/// Media type of the size in an answer 409.
pub const SIZE: &str = "text/x.tlog.size";
/// Hashes of a consistency proof: more than any tree needs.
pub const PROOF_MAX: usize = 63;
/// Bytes of a request: a note and a proof of 63 lines fit many times.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// One submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission<'n> {
    /// The size that the witness cosigned last, by the log's account; 0: none.
    pub old: Seq,
    /// That the tree of that size is the beginning of the new one.
    pub proof: Vec<Digest>,
    /// The checkpoint note.
    pub note: &'n str,
}

impl<'n> Submission<'n> {
    /// The body of the request.
    pub fn to_text(&self) -> String {
        let mut text = format!("old {}\n", self.old);
        for hash in &self.proof {
            text.push_str(&STANDARD.encode(hash.as_bytes()));
            text.push('\n');
        }
        text.push('\n');
        text.push_str(self.note);
        text
    }

    /// Reads a body.
    pub fn parse(body: &'n str) -> Result<Self, &'static str> {
        let (head, note) = body.split_once("\n\n").ok_or("no empty line before the checkpoint")?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| line.strip_prefix("old "));
        let old = old.and_then(note::decimal).ok_or("the first line is not `old <size>`")?;
        let proof: Option<Vec<Digest>> = lines.map(note::hash).collect();
        let proof = proof.ok_or("a line of the proof is not a hash in base64")?;
        if proof.len() > PROOF_MAX {
            return Err("a proof of more than 63 hashes");
        }
        Ok(Self { old, proof, note })
    }
}

/// Where a witness shows the newest checkpoint of a log.
pub fn checkpoint_path(origin: &str) -> String {
    format!("/{}/checkpoint", Digest::of(&[origin.as_bytes()]).hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &str =
        "log\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u{2014} log AAAAAAAA\n";

    #[test]
    fn what_is_written_is_read_again() {
        for proof in [vec![], vec![Digest::of(&[b"a"]), Digest::of(&[b"b"])]] {
            let submission = Submission { old: 7, proof, note: NOTE };
            let text = submission.to_text();
            assert_eq!(Submission::parse(&text), Ok(submission));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let hash = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
        for body in [
            String::new(),
            NOTE.to_owned(),
            format!("old 07\n\n{NOTE}"),
            format!("old +7\n\n{NOTE}"),
            format!("old -1\n\n{NOTE}"),
            format!("old 18446744073709551616\n\n{NOTE}"),
            format!("old  7\n\n{NOTE}"),
            format!("old 7\r\n\n{NOTE}"),
            format!("old 7\n{}\n\n{NOTE}", "A".repeat(43)),
            format!("old 7\n{}\n{NOTE}", hash.repeat(64)),
            format!("OLD 7\n\n{NOTE}"),
        ] {
            assert!(Submission::parse(&body).is_err(), "{body:?}");
        }
    }
}
