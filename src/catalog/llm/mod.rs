//! The one home of the wire forms of model providers: requests, answers, and the events of streams.
//!
//! Functions over bytes: no code here opens a connection, decides, or knows a run.

pub mod answer;
pub mod ask;
mod cursor;
pub mod framing;
pub mod sse;
