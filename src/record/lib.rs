//! The record: every entry of a ledger as types, and the plain values they consist of.
//!
//! There is one struct per kind of entry ([`Body`] names them all), the header around it
//! ([`Entry`]), and one spelling in which it is stored, hashed and proven. A struct can hold only
//! what the schema of its kind allows, so a gate cannot write an entry that a verifier rejects for
//! its form. `entry-1.json` is that schema: a test emits it from the types.
//!
//! All crates share the modules below: [`domain`] has ids, strict JSON and its one canonical form,
//! codes, tiers and effects; [`yaml`] reads the files that people write; [`clock`] is the only
//! `now()` and the only randomness. No network, no database and no async runtime.

pub mod alert;
pub mod approval;
mod body;
pub mod call;
pub mod calls;
pub mod chain;
pub mod clock;
pub mod control;
pub mod conversation;
pub mod decided;
pub mod domain;
mod entry;
pub mod fleet;
pub mod payload;
pub mod run;
#[cfg(any(test, feature = "testing"))]
pub mod sample;
pub mod schema;
#[cfg(test)]
mod tests;
mod text;
pub mod trust;
pub mod yaml;

pub use body::{Body, Content, Kind};
pub use entry::{
    BY_CLOCK, BYTES_MAX, Boot, Commitment, Draft, Entry, Error, Role, RunLink, VERSION,
};
pub use text::{
    Base64, Hex, HexDigest, Int, List, Micros, Millis, Nonce, TaggedDigest, Text, True,
};
