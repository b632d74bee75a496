//! The signed orders that let single values pass the firewall.

use std::sync::Arc;

use crate::approval::order::{AllowedFinding, Loosening, OrderKind};
use crate::domain::guarded::SignedException;
use crate::domain::id::ToolName;
use crate::domain::time::Timestamp;
use crate::firewall::{Class, Hit};
use crate::judge::guarding::Direction;

/// Orders that one call may use: an entry names each of them.
pub const USED_MAX: usize = 16;

/// Bytes of their statements and signatures.
pub const USED_BYTES_MAX: usize = 24 * 1024;

/// One order that lets one value pass, in one place of the calls of one tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FindingException {
    /// The tool.
    pub tool: ToolName,
    /// What passes.
    pub finding: AllowedFinding,
    /// When it ends.
    pub until: Timestamp,
    /// The order itself, for entries.
    pub signed: SignedException,
}

/// The orders about one tool that are in force.
pub type CallExceptions = Arc<[Arc<FindingException>]>;

impl FindingException {
    /// What a signed order with this number lets pass; `None` for another order.
    #[must_use]
    pub fn of(order: &Loosening, number: u64) -> Option<Self> {
        let statement = order.statement();
        if statement.order != OrderKind::Allow {
            return None;
        }
        let signed = SignedException {
            order: number,
            statement: order.signed().statement.clone(),
            signature: order.signed().signature.clone(),
            subject: order.by().subject.clone(),
            key: order.by().key.clone(),
            signers: *order.signers(),
        };
        let (tool, until) = (ToolName::parse(&statement.name)?, statement.expires?);
        Some(Self { tool, finding: statement.finding.clone()?, until, signed })
    }

    /// Bytes of its statement and signature.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.signed.statement.len().saturating_add(self.signed.signature.len())
    }

    /// Whether it is about findings of this kind in this direction; and in this place, if one is given.
    #[must_use]
    pub fn is_about(&self, direction: Direction, hit: &Hit, path: Option<&str>) -> bool {
        self.finding.direction == direction.as_str()
            && self.finding.kind == hit.kind
            && path.is_none_or(|path| self.finding.path == path)
    }
}

/// Whether an order may let findings of this class pass. WHY not all: what was not searched to its end has no
/// value, and one invisible character is like another.
#[must_use]
pub const fn is_excusable(class: Class) -> bool {
    match class {
        Class::Secret | Class::Personal | Class::Injection => true,
        Class::Unicode | Class::Unscanned => false,
    }
}
