//! Plain values: the vocabulary of the product. No I/O, no async, no clock.
//!
//! All other layers may use it; it uses none of them. Every value is valid by construction:
//! constructors parse, they do not check and return a `bool`.

pub mod call;
pub mod canonical;
pub mod closed;
pub mod code;
pub mod commitment;
pub mod crc32;
pub mod decision;
pub mod dialect;
pub mod digest;
pub mod effect;
pub mod facts;
pub mod guarded;
pub mod id;
pub mod json;
pub mod members;
pub mod near;
pub mod outcome;
pub mod plural;
pub mod pointer;
mod reader;
pub mod readings;
pub mod seed;
pub mod sent;
mod spelled;
pub mod taint;
mod texts;
pub mod tier;
pub mod time;
pub mod token;
pub mod xml;
