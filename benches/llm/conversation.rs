//! Requests as agents make them: a conversation that the gate has seen, and what is new.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::folder::INSTRUCTIONS;

/// Bytes of one message of a long conversation.
const MESSAGE_BYTES: usize = 5 << 10;

/// Bytes of a message that makes a request differ from all others.
const FRESH_BYTES: usize = 200;

/// The first message that is new; those before belong to long conversations.
const FIRST_NEW: u64 = 100_000;

const WORDS: [&str; 12] = [
    "order", "ship", "the", "parcel", "later", "because", "stock", "is", "low", "today", "again",
    "here",
];

/// Prose of so many bytes that no other seed gives.
fn prose(seed: u64, bytes: usize) -> String {
    let mut text = format!("Note {seed}. ");
    let mut number = seed;
    while text.len() < bytes {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(WORDS[(number >> 33) as usize % WORDS.len()]);
        text.push(if number.is_multiple_of(13) { '\n' } else { ' ' });
    }
    text.truncate(bytes.max(1));
    text
}

/// The beginning of requests that differ in their last message only.
pub struct Conversation {
    /// The request up to its last message.
    beginning: String,
}

impl Conversation {
    /// With so many bytes before the last message, and so many deltas to be answered.
    pub fn new(model: &str, deltas: usize, bytes: usize) -> Self {
        let mut messages = vec![json!({"role": "system", "content": INSTRUCTIONS})];
        for number in 0..bytes.div_ceil(MESSAGE_BYTES) {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            let length = MESSAGE_BYTES.min(bytes - number * MESSAGE_BYTES);
            messages.push(json!({"role": role, "content": prose(number as u64, length)}));
        }
        let messages: Vec<String> = messages.iter().map(ToString::to_string).collect();
        let beginning = format!(
            r#"{{"model":"{model}","stream":true,"max_tokens":{deltas},"messages":[{}"#,
            messages.join(",")
        );
        Self { beginning }
    }

    /// A request whose last message has so many bytes and was never sent before.
    pub fn with_new(&self, bytes: usize) -> String {
        static SENT: AtomicU64 = AtomicU64::new(FIRST_NEW);
        // WHY not the time: one number of that length in nine is that of a card.
        let number = SENT.fetch_add(1, Ordering::Relaxed);
        let last = json!({"role": "user", "content": prose(number, bytes)});
        format!("{},{last}]}}", self.beginning)
    }

    /// The next turn: a short message that is new.
    pub fn next(&self) -> String {
        self.with_new(FRESH_BYTES)
    }
}
