//! What routes answer with about the ledger's own verification, and about what was exported.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reply;

replies! {
    /// One check of a verification.
    AuditCheck {
        /// Its id, as `wicketgate evidence guide` explains it; `D1` and `D2` are about the store itself.
        id: String,
        /// What it is about.
        title: String,
        /// `pass`, `fail`, `undecided` (what it needs is missing) or `not_applicable`.
        outcome: String,
        /// What was checked, what does not hold, or what is missing.
        detail: String,
    }

    /// How the store was changed.
    AuditDamage {
        /// `edit`, `deletion`, `insertion`, `reorder`, `truncation`, `fork`, `rollback`, `shadow-column`,
        /// `missing-partition`, `signature` or `rule`.
        kind: String,
        /// The number of the first damaged entry.
        entry: u64,
        /// The check that noticed it.
        check: String,
        /// The evidence for it.
        why: String,
    }

    /// One step of the verification.
    AuditStep {
        /// What was verified.
        step: String,
        /// How long it took, in microseconds.
        us: u64,
    }

    /// The result of a verification of the ledger by the process that serves it.
    AuditReport {
        /// `pass`; `fail` if a check fails; `undecided` if none fails and one cannot be decided.
        outcome: String,
        /// The log.
        log: String,
        /// Its size when it was read.
        size: u64,
        /// Number of the entries that the question is about.
        entries: u64,
        /// The number of the first of them.
        first: Option<u64>,
        /// The number of the last of them.
        last: Option<u64>,
        /// The checks.
        checks: Vec<AuditCheck>,
        /// How the store was changed, if it was and the chain is short enough to tell.
        damage: Option<AuditDamage>,
        /// What stays unproven even if every check passes.
        not_proven: Vec<String>,
        /// Number of calls that ran against the verdict of the policy: observe mode.
        unenforced: u64,
        /// When the verification began.
        began: String,
        /// When it ended.
        ended: String,
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// Its steps, in order.
        steps: Vec<AuditStep>,
    }

    /// One part of the query of an export.
    ExportTerm {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    }

    /// One export, as the fleet log records it.
    ExportRow {
        /// When it was recorded.
        at: String,
        /// The fleet log.
        fleet: String,
        /// The number of its entry.
        entry: u64,
        /// `run`, `range` or `population`.
        scope: String,
        /// The query.
        query: Vec<ExportTerm>,
        /// Who requested it.
        requester: String,
        /// Number of entries in the bundle.
        entries: u64,
        /// SHA-256 of the bundle's `manifest.json`, in hex.
        manifest: String,
    }

    /// Exports.
    Exports {
        /// The exports, newest first.
        exports: Vec<ExportRow>,
        /// Whether there are more than are listed.
        more: bool,
    }
}
