//! Plain values: what the words of the product mean. No I/O, no async, no clock.
//!
//! Everything left of this layer may use it; it uses nothing of ours. A value that exists is valid:
//! constructors parse, they do not check and hand back a `bool`.

pub mod call;
pub mod canonical;
pub(crate) mod closed;
pub mod code;
pub mod commitment;
pub mod crc32;
pub mod decision;
pub mod digest;
pub mod effect;
pub mod facts;
pub mod id;
pub mod json;
pub mod members;
pub mod near;
pub mod outcome;
pub mod pointer;
mod reader;
pub mod readings;
pub mod seed;
pub mod tier;
pub mod time;
pub mod token;
pub mod xml;
