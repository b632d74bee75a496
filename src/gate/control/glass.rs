//! Rows about break-glass: opened, closed, reviewed.

use super::{Order, Row};
use crate::approval::break_glass::SignedBreakGlass;

/// What an order does to a break-glass statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GlassOrder<'a> {
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
    pub fn glass(&self) -> Option<GlassOrder<'_>> {
        match self.order.as_ref()? {
            Order::BreakGlass(signed) => Some(GlassOrder::Open(signed)),
            Order::CloseBreakGlass { nonce } => Some(GlassOrder::Close(nonce)),
            Order::ReviewBreakGlass { nonce } => Some(GlassOrder::Review(nonce)),
            Order::Switch { .. }
            | Order::Loosen(_)
            | Order::ApproverStatement { .. }
            | Order::Modify { .. }
            | Order::Propose { .. }
            | Order::Publish { .. }
            | Order::Activate { .. } => None,
        }
    }
}
