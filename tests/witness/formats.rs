//! Notes, cosignatures and proofs against implementations nobody here wrote, and back again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use signed_note::{Note, NoteError, StandardVerifier, Verifier, VerifierList};
use wicketgate::crypto::cosign::cosign;
use wicketgate::crypto::merkle::Prover;
use wicketgate::crypto::note::{self, Checkpoint, Error, VerifierKey};
use wicketgate::crypto::tlog_proof::TlogProof;
use wicketgate::domain::digest::Digest;

use crate::forged::key;
use crate::process::Log;

/// A cosigner's key as the other implementation takes it: it knows names, ids, and asks us to verify.
struct Witness(VerifierKey);

impl Verifier for Witness {
    fn name(&self) -> &str {
        &self.0.name
    }
    fn key_id(&self) -> u32 {
        u32::from_be_bytes(self.0.hash())
    }
    fn verify(&self, msg: &[u8], sig: &[u8]) -> bool {
        let Some((time, sig)) = sig.split_at_checked(8) else { return false };
        let time = u64::from_be_bytes(time.try_into().unwrap());
        let text = std::str::from_utf8(msg).unwrap();
        let message = format!("cosignature/v1\ntime {time}\n{text}");
        let Ok(signature) = <[u8; 64]>::try_from(sig) else { return false };
        self.0.key.verifies(message.as_bytes(), &signature)
    }
}

fn theirs(keys: &[VerifierKey]) -> VerifierList {
    let verifier = |key: &VerifierKey| -> Box<dyn Verifier> {
        match key.algorithm {
            note::Algorithm::Ed25519 => Box::new(StandardVerifier::new(&key.to_string()).unwrap()),
            note::Algorithm::Cosignature => Box::new(Witness(key.clone())),
        }
    };
    VerifierList::new(keys.iter().map(verifier).collect())
}

fn cosigned(note: &str, n: u8, head: &Checkpoint, time: u64) -> String {
    format!("{note}{}\n", cosign(&format!("witness.example/{n}"), &key(n), time, head))
}

fn witness(n: u8) -> VerifierKey {
    VerifierKey::witness(&format!("witness.example/{n}"), key(n).public())
}

#[test]
fn a_cosigned_checkpoint_is_read_the_same_by_others() {
    let log = Log::new("log.example/a", 5);
    let head = log.head(5);
    let note = cosigned(&cosigned(&log.note(5), 1, &head, 1_700_000_000), 2, &head, 1_700_000_001);
    let keys = [log.vkey(), witness(1), witness(2)];
    let (read, held) = Checkpoint::open_with(&note, &keys).unwrap();
    assert_eq!(read, head);
    assert_eq!(
        held.iter().map(|held| held.time).collect::<Vec<_>>(),
        [None, Some(1_700_000_000), Some(1_700_000_001)]
    );
    let other = Note::from_bytes(note.as_bytes()).unwrap();
    let (verified, unknown) = other.verify(&theirs(&keys)).unwrap();
    assert_eq!((verified.len(), unknown.len()), (3, 0));
    assert_eq!(other.to_bytes(), note.as_bytes());
    let other = tlog_tiles::Checkpoint::from_bytes(other.text()).unwrap();
    assert_eq!(
        (other.origin(), other.size(), &other.hash().0),
        (&*log.origin, 5, head.root.as_bytes())
    );
    assert_eq!(other.to_bytes(), head.body().as_bytes());
}

#[test]
fn the_example_of_the_specification_is_read() {
    let note = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        \u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n\
        \u{2014} witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n";
    let (head, lines) = Checkpoint::parse(note).unwrap();
    assert_eq!(head.size, 20_852_163);
    assert_eq!(lines[1].signature.len(), 72);
    let time = u64::from_be_bytes(lines[1].signature[..8].try_into().unwrap());
    assert_eq!(time, 1_679_315_147);
    let block: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(format!("{}\n{block}", head.body()), note);
}

#[test]
fn a_bad_or_a_second_line_of_a_known_key_refuses_the_note_an_unknown_one_does_not() {
    let log = Log::new("log.example/a", 5);
    let (head, older) = (log.head(5), log.head(4));
    let keys = [log.vkey(), witness(1)];
    let note = log.note(5);
    let good = cosigned(&note, 1, &head, 7);
    assert_eq!(Checkpoint::open_with(&good, &keys).unwrap().1.len(), 2);

    let pasted = cosigned(&note, 1, &older, 7);
    let refused = Checkpoint::open_with(&pasted, &keys).unwrap_err();
    assert_eq!(refused, Error::BadSignature("witness.example/1".into()));
    let other = Note::from_bytes(pasted.as_bytes()).unwrap();
    assert!(matches!(other.verify(&theirs(&keys)), Err(NoteError::InvalidSignature { .. })));

    let twice = cosigned(&good, 1, &head, 8);
    let refused = Checkpoint::open_with(&twice, &keys).unwrap_err();
    assert_eq!(refused, Error::Twice("witness.example/1".into()));

    let unknown = cosigned(&good, 2, &older, 7);
    assert_eq!(Checkpoint::open_with(&unknown, &keys).unwrap().1.len(), 2);
    let none = Checkpoint::open_with(&note, &[witness(3)]).unwrap_err();
    assert_eq!(none, Error::Unsigned("witness.example/3".into()));

    // The same key under the log's algorithm and as a witness is two keys.
    let both = VerifierKey::log("witness.example/1", key(1).public());
    assert_ne!(both.hash(), witness(1).hash());
    // A cosignature whose time was changed, or that is cut, does not hold.
    let mut line = cosign("witness.example/1", &key(1), 7, &head);
    line.signature[7] ^= 1;
    assert!(Checkpoint::open_with(&format!("{note}{line}\n"), &keys).is_err());
    line.signature[7] ^= 1;
    line.signature.pop();
    assert!(Checkpoint::open_with(&format!("{note}{line}\n"), &keys).is_err());
}

#[test]
fn verifier_keys_are_read_as_others_write_them_and_refused_otherwise() {
    let ours = VerifierKey::log("log.example/a", key(1).public());
    let text = ours.to_string();
    assert_eq!(VerifierKey::parse(&text), Ok(ours.clone()));
    assert_eq!(VerifierKey::parse(&witness(1).to_string()), Ok(witness(1)));
    let other = StandardVerifier::new(&text).unwrap();
    assert_eq!((other.name(), other.key_id().to_be_bytes()), ("log.example/a", ours.hash()));
    let blob = |bytes: &[u8]| STANDARD.encode(bytes);
    let mut small = vec![1];
    small.extend([0; 32]);
    for bad in [
        String::new(),
        "a+b".into(),
        text.replacen("log", "lag", 1),
        text.replacen("log.example", "log example", 1),
        text.to_uppercase(),
        format!("{text}="),
        format!("a+{}+{}", hex::encode([0; 4]), blob(&[])),
        format!("a+{}+{}", hex::encode([0; 4]), blob(&[9; 33])),
        format!("a+{}+{}", hex::encode([0; 4]), blob(&small)),
    ] {
        assert!(VerifierKey::parse(&bad).is_err(), "{bad}");
    }
}

#[test]
fn a_proof_file_is_written_and_read_and_holds_for_its_entry_only() {
    let log = Log::new("log.example/a", 11);
    let prover = Prover::new(log.leaves.clone());
    for index in 0..11 {
        let path = prover.inclusion_proof(index).unwrap();
        let extra = (index % 2 == 0).then(|| vec![7; index]);
        let proof = TlogProof { extra, index: index as u64, path, note: log.note(11) };
        let text = proof.to_text();
        assert_eq!(TlogProof::parse(&text).unwrap(), proof);
        assert!(proof.includes(&log.leaves[index]));
        assert!(!proof.includes(&log.leaves[(index + 1) % 11]));
        let hashes = proof.path.iter().map(|hash| tlog_tiles::Hash(*hash.as_bytes())).collect();
        let (root, leaf) = (log.head(11).root, log.leaves[index]);
        tlog_tiles::check_record(
            &hashes,
            11,
            tlog_tiles::Hash(*root.as_bytes()),
            index as u64,
            tlog_tiles::Hash(*leaf.as_bytes()),
        )
        .unwrap();
        for (from, to) in [
            ("tlog-proof@v1", "tlog-proof@v2"),
            ("index ", "index 0"),
            ("index ", "Index "),
            ("\n\nlog", "\nlog"),
            ("\n11\n", "\n011\n"),
        ] {
            assert!(TlogProof::parse(&text.replacen(from, to, 1)).is_err(), "{from} {to}");
        }
    }
}

proptest! {
    #[test]
    fn what_others_accept_as_a_checkpoint_note_we_accept_unless_it_is_looser_than_ours(
        flips in proptest::collection::vec((0_usize..400, 0_u8..128), 0..3),
    ) {
        let log = Log::new("log.example/a", 5);
        let mut bytes = cosigned(&log.note(5), 1, &log.head(5), 9).into_bytes();
        for (at, to) in flips {
            let at = at % bytes.len();
            bytes[at] = to;
        }
        let keys = [log.vkey(), witness(1)];
        let ours = std::str::from_utf8(&bytes).ok().map(|text| Checkpoint::open_with(text, &keys));
        let ours = ours.and_then(Result::ok);
        let read = Note::from_bytes(&bytes).ok();
        let theirs = read.and_then(|note| {
            note.verify(&theirs(&keys)).ok().map(|(held, _)| (note.text().to_vec(), held.len()))
        });
        match (&ours, &theirs) {
            // What we accept, they accept, and read the same in it.
            (Some((head, held)), Some((text, count))) => {
                let body = head.body().into_bytes();
                prop_assert_eq!(&body, text);
                prop_assert_eq!(held.len(), *count);
            }
            (Some(_), None) => prop_assert!(false, "we take what they refuse"),
            // We are stricter: three lines, and no line that says a known key twice.
            (None, Some(_)) | (None, None) => {}
        }
    }

    #[test]
    fn notes_of_any_head_and_time_come_back(
        origin in "[a-z]{1,8}\\.[a-z]{1,8}/[a-z0-9]{0,8}",
        size: u64,
        root: [u8; 32],
        time in 0_u64..=i64::MAX as u64,
    ) {
        let head = Checkpoint { origin: origin.clone(), size, root: Digest::from_bytes(root) };
        let note = cosigned(&head.sign(&key(60)), 1, &head, time);
        let keys = [VerifierKey::log(&origin, key(60).public()), witness(1)];
        let (read, held) = Checkpoint::open_with(&note, &keys).unwrap();
        prop_assert_eq!(&read, &head);
        prop_assert_eq!(held[1].time, Some(time));
        let theirs = Note::from_bytes(note.as_bytes()).unwrap().verify(&theirs(&keys)).unwrap();
        prop_assert_eq!(theirs.0.len(), 2);
    }

    #[test]
    fn no_bytes_make_a_reader_stop(text in "\\PC{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Checkpoint::parse(&text);
        let _ = TlogProof::parse(&text);
        let _ = VerifierKey::parse(&text);
        let _ = Checkpoint::parse(&String::from_utf8_lossy(&bytes));
    }
}
