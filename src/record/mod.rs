//! The record: what every entry of a ledger can say, as types.
//!
//! One struct per kind of entry ([`Body`] names them all), the header around it ([`Entry`]), and the one spelling in
//! which it is stored, hashed and proven. A struct can hold only what the schema of its kind allows, so a gate cannot
//! write an entry that a verifier refuses for its form. `entry-1.json` is that schema: a test emits it from the types.
//! No I/O, no clock.

pub mod approval;
mod body;
pub mod call;
pub mod chain;
pub mod control;
mod entry;
pub mod fleet;
#[cfg(test)]
pub(crate) mod oracle;
pub mod payload;
pub mod run;
pub mod schema;
mod text;

pub use body::{Body, Content, Kind};
pub use entry::{
    BY_CLOCK, BYTES_MAX, Boot, Commitment, Draft, Entry, Error, Role, RunLink, VERSION,
};
pub use text::{Base64, HexDigest, Int, List, Micros, Millis, Nonce, TaggedDigest, Text, True};
