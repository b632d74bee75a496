//! What is true of every input, one function per reader: it returns, or it found a bug.
//!
//! They know nothing of who calls them: `tests/fuzz` replays kept inputs and mutations of them on
//! every run, `fuzz/` hands them to libFuzzer.

pub mod answers;
pub mod asks;
pub mod files;
pub mod guard;
pub mod notes;
pub mod reviews;
pub mod texts;
pub mod trees;

use wicketgate::clock::Entropy;
use wicketgate::crypto::keys::SecretKey;

/// Reads one input.
pub type Body = fn(&[u8]);

/// Every body by the name of its corpus.
pub const BODIES: [(&str, Body); 32] = [
    ("admission", reviews::admission),
    ("answer_chat", answers::chat),
    ("answer_gemini", answers::gemini),
    ("answer_messages", answers::messages),
    ("answer_ollama", answers::ollama),
    ("answer_responses", answers::responses),
    ("archive", files::archive),
    ("ask_chat", asks::chat),
    ("ask_gemini", asks::gemini),
    ("ask_messages", asks::messages),
    ("ask_ollama", asks::ollama),
    ("ask_responses", asks::responses),
    ("bundle", files::bundle),
    ("consistency", trees::consistency),
    ("cosignature", notes::cosignature),
    ("dsse", texts::dsse),
    ("entry", texts::entry),
    ("inclusion", trees::inclusion),
    ("json", texts::json),
    ("manifest", texts::manifest),
    ("note", notes::note),
    ("proof", notes::proof),
    ("range", trees::range),
    ("scan", guard::scan),
    ("sse", answers::sse),
    ("stamp", notes::stamp),
    ("tail", guard::tail),
    ("template", asks::template),
    ("trust", texts::trust),
    ("views", guard::views),
    ("vkey", notes::vkey),
    ("zip", files::zip),
];

/// Entropy that is none: keys that are the same in every run.
struct Fixed(u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

/// A key whose only signatures are those in the corpus.
pub fn key(n: u8) -> SecretKey {
    SecretKey::generate(&Fixed(n))
}

/// The input as text, if it is text.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
