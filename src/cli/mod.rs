//! (cli)

pub mod policy;
