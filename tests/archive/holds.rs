//! Legal holds, as the fleet log has them.

use std::collections::BTreeSet;

use wicketgate::approval::order::{NAMESPACE, OrderKind, OrderStatement, Previous, check};
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::approval::{Approvers, SignedApproval, Statement as _};
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::id::RunId;
use wicketgate::domain::time::Timestamp;
use wicketgate::ledger::retention;
use wicketgate::record::Draft;

use crate::forged::{ORIGIN, key};

const OTTO: u8 = 70;

/// A hold on this run, or on the whole log.
pub fn placed(run: Option<&RunId>) -> Draft {
    retention::placed((ORIGIN, run), &"case 7".into(), "legal")
}

/// Its end, by an operator's order.
pub fn lifted(run: Option<&RunId>) -> Draft {
    let now = Timestamp::from_millis(1_000);
    let (target, name) = match run {
        Some(run) => ("run", run.to_string()),
        None => ("log", ORIGIN.to_owned()),
    };
    let statement = OrderStatement {
        tenant: "default".into(),
        order: OrderKind::Release,
        target: target.into(),
        name,
        finding: None,
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: "case 7".into(),
        at: now,
        expires: None,
        previous: Previous::NONE,
    };
    let line = SshKey::Plain(key(OTTO).public()).line();
    let list = format!("otto namespaces=\"{NAMESPACE}\" {line} roles=operator\n");
    let list = Approvers::parse(list.as_bytes()).unwrap();
    let signature = sign_bytes(&Key::File(key(OTTO)), NAMESPACE, &statement.bytes()).unwrap();
    let signed =
        SignedApproval { statement: String::from_utf8(statement.bytes()).unwrap(), signature };
    let order = check(&list, ("default", &[OrderKind::Release]), &signed, now).unwrap();
    retention::lifted((ORIGIN, run), "legal", &order)
}
