//! Rows about break-glass: opened, closed, reviewed.

use super::{Order, Row};
use crate::approval::break_glass::SignedBreakGlass;

/// What an order does to a break-glass statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakGlassOrder<'a> {
    /// Opens it.
    Open(&'a SignedBreakGlass),
    /// Ends the one of this nonce.
    Close(&'a str),
    /// Records the review of the one of this nonce.
    Review(&'a str),
}

impl Row {
    /// What it does to a break-glass statement, if it is about one.
    #[must_use]
    pub fn break_glass(&self) -> Option<BreakGlassOrder<'_>> {
        match self.order.as_ref()? {
            Order::BreakGlass(signed) => Some(BreakGlassOrder::Open(signed)),
            Order::CloseBreakGlass { nonce } => Some(BreakGlassOrder::Close(nonce)),
            Order::ReviewBreakGlass { nonce } => Some(BreakGlassOrder::Review(nonce)),
            Order::Switch { .. }
            | Order::Loosen(_)
            | Order::ApproverStatement { .. }
            | Order::Modify { .. }
            | Order::ClearTaint { .. }
            | Order::EndException { .. }
            | Order::Propose { .. }
            | Order::Publish { .. }
            | Order::Activate { .. } => None,
        }
    }
}
