//! Every reader of bytes from outside against kept inputs and mutations of them: none may panic, hang,
//! or take for good what is not.
//!
//! `fuzz/corpus/<body>/` holds the inputs; one that broke a reader once stays there. `fuzz/README.md`
//! tells how to search for more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    dead_code,
    missing_docs,
    reason = "tests may stop at the first surprise"
)]

mod bodies;
mod mutate;

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use bodies::{BODIES, Body};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name)
}

fn inputs(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(corpus(name))
        .unwrap_or_else(|e| panic!("the corpus of `{name}`: {e}"))
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Mutations per run: fewer where one costs more.
const fn rounds(name: &str) -> u64 {
    match name.as_bytes() {
        b"bundle" => 150,
        b"archive" | b"manifest" | b"scan" | b"tail" | b"views" => 400,
        b"answer_chat" | b"answer_gemini" | b"answer_messages" | b"answer_ollama"
        | b"answer_responses" => 800,
        b"range" | b"inclusion" | b"consistency" => 1500,
        _ => 4000,
    }
}

fn holds(name: &str, body: Body, bytes: &[u8], from: &str) {
    let done = catch_unwind(|| body(bytes));
    assert!(
        done.is_ok(),
        "`{name}` breaks on {from}: keep it as fuzz/corpus/{name}/: {}",
        hex::encode(bytes)
    );
}

fn replay(name: &str) {
    let body = BODIES.iter().find(|(known, _)| *known == name).unwrap().1;
    let kept = inputs(name);
    assert!(!kept.is_empty(), "`{name}` has no corpus");
    for (path, bytes) in &kept {
        assert!(bytes.len() <= 64 << 10, "{}: a kept input is small", path.display());
        holds(name, body, bytes, &path.display().to_string());
    }
    let all: Vec<Vec<u8>> = kept.into_iter().map(|(_, bytes)| bytes).collect();
    for round in 0..rounds(name) {
        let bytes = mutate::mutated(&mut mutate::Seeded::new(name, round), &all);
        holds(name, body, &bytes, &format!("round {round}"));
    }
}

macro_rules! replayed {
    ($($test:ident: $name:literal;)*) => {
        $(#[test] fn $test() { replay($name); })*
        const REPLAYED: &[&str] = &[$($name),*];
    };
}

replayed! {
    no_pod_is_let_in_without_its_whole_gate: "admission";
    no_chat_completion_lets_a_denied_call_leave: "answer_chat";
    no_content_of_gemini_lets_a_denied_call_leave: "answer_gemini";
    no_message_lets_a_denied_call_leave: "answer_messages";
    no_line_of_ollama_lets_a_denied_call_leave: "answer_ollama";
    no_response_lets_a_denied_call_leave: "answer_responses";
    no_archive_of_policies_breaks_its_reader: "archive";
    an_edited_chat_request_asks_the_same: "ask_chat";
    an_edited_request_to_gemini_asks_the_same: "ask_gemini";
    an_edited_message_request_asks_the_same: "ask_messages";
    an_edited_request_to_ollama_asks_the_same: "ask_ollama";
    an_edited_response_request_asks_the_same: "ask_responses";
    no_file_of_a_bundle_breaks_the_verifier_or_passes: "bundle";
    damaged_consistency_proofs_fool_neither_implementation: "consistency";
    no_bytes_are_a_cosignature_but_the_witnesss_own: "cosignature";
    no_envelope_opens_to_what_was_not_signed: "dsse";
    an_entry_that_reads_is_in_its_one_spelling: "entry";
    damaged_inclusion_proofs_fool_neither_implementation: "inclusion";
    json_that_reads_is_read_the_same_by_others: "json";
    no_manifest_breaks_its_reader: "manifest";
    no_note_opens_that_was_not_signed: "note";
    a_proof_file_has_one_spelling: "proof";
    range_proofs_hold_for_their_own_leaves_only: "range";
    what_is_masked_has_nothing_left_to_mask: "scan";
    events_are_the_same_however_they_are_cut: "sse";
    no_stamp_holds_that_the_authority_did_not_make: "stamp";
    a_text_in_pieces_leaves_no_more_than_a_whole_one: "tail";
    a_template_fixes_what_it_says: "template";
    no_trust_file_trusts_more_than_it_says: "trust";
    a_secret_in_a_text_is_one_in_its_encodings: "views";
    a_key_in_text_has_one_spelling: "vkey";
    no_zip_leads_out_of_its_folder_or_reads_as_two: "zip";
}

#[test]
fn every_body_is_replayed_and_has_a_target_for_the_fuzzer() {
    let names: Vec<&str> = BODIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, REPLAYED);
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
    }
}

#[test]
fn the_kept_inputs_reach_what_they_are_kept_for() {
    // A corpus of inputs that all fail at the first byte would prove nothing.
    use wicketgate::catalog::llm::sse::Reader;
    use wicketgate::crypto::dsse;
    use wicketgate::crypto::note::{Checkpoint, VerifierKey};
    use wicketgate::crypto::tlog_proof::TlogProof;
    use wicketgate::crypto::tsp;
    use wicketgate::domain::dialect::Dialect;
    use wicketgate::domain::digest::Digest;
    use wicketgate::evidence::trust::Trust;
    use wicketgate::identity::templates::InstructionTemplate;
    use wicketgate::injector::WebhookPath;
    use wicketgate::ledger::verify::EntryLine;
    use wicketgate::policy::bundle::Bundle;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let any = |name: &str, good: &dyn Fn(&[u8]) -> bool| {
        assert!(inputs(name).iter().any(|(_, bytes)| good(bytes)), "no good input for `{name}`");
    };
    for dialect in Dialect::ALL.iter().copied() {
        let calls = |b: &[u8]| bodies::answers::read(dialect, &[b], None).map(|left| left.1.len());
        any(&format!("answer_{dialect}"), &|b| calls(b).is_ok_and(|calls| calls > 1));
        let asked = |b: &[u8]| bodies::asks::read(dialect, b).map(|(_, asked)| asked);
        any(&format!("ask_{dialect}"), &|b| {
            asked(b).is_some_and(|asked| !asked.calls.is_empty() && !asked.offered.is_empty())
        });
    }
    any("admission", &|b| {
        let asked = |path| bodies::reviews::asked(path, b).unwrap_or_default();
        asked(WebhookPath::Mutate)["patch"].is_string()
    });
    any("admission", &|b| {
        bodies::reviews::asked(WebhookPath::Validate, b).unwrap_or_default()["allowed"] == true
    });
    any("template", &|b| {
        let at = b.iter().position(|byte| *byte == 0).unwrap_or(b.len());
        let template = InstructionTemplate::parse(&b[..at]);
        template.is_ok_and(|template| template.loose_bytes(&text(&b[at + 1..])).is_some())
    });
    any("sse", &|b| Reader::new(1 << 20).push(b).is_ok_and(|events| events.len() > 2));
    let key = bodies::key(1).public();
    any("note", &|b| Checkpoint::open(&text(b), &key).is_ok());
    any("vkey", &|b| VerifierKey::parse(&text(b)).is_ok());
    any("proof", &|b| TlogProof::parse(&text(b)).is_ok());
    any("dsse", &|b| dsse::open(b, bodies::texts::PAYLOAD_TYPE, &[key], 1).is_ok());
    any("entry", &|b| EntryLine::read(b).is_ok());
    any("archive", &|b| Bundle::from_tar(b).is_ok());
    any("zip", &|b| wicketgate::evidence::zip::read(b).is_ok_and(|files| files.0.len() == 2));
    any("trust", &|b| Trust::parse(&text(b), Path::new("/nonexistent/t")).is_ok());
    any("manifest", &|b| wicketgate::identity::read(b, "agent.yaml").is_ok());
    let (witness, body) = (bodies::key(2).public(), bodies::notes::head().body());
    any("cosignature", &|b| wicketgate::crypto::cosign::verify(b, &witness, &body).is_some());
    let imprint = Digest::of(&[bodies::notes::STAMPED]);
    let ca = std::fs::read(corpus("../tsa/ca.pem")).unwrap();
    let authorities = tsp::authorities(&ca).unwrap();
    let asked = tsp::ExpectedResponse { imprint: &imprint, nonce: None };
    any("stamp", &|b| tsp::verify(b, asked, &authorities).is_ok());
}
