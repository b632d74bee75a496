//! What people type: one file per command.

pub mod evidence;
pub mod ledger;
pub mod reader;
