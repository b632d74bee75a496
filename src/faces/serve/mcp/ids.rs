//! The ids of a session's calls: one JSON-RPC id is one call, however often and whenever it is
//! sent.
//!
//! The id of a call is H(session, JSON-RPC id), so a repeated request asks for the same call, and
//! the road answers it from the ledger, or refuses other bytes. Three kinds of requests have other
//! call ids, which the session remembers: a request that names its call itself, one that repeats a
//! held call, and one of a run whose ids derive from a seed. A session outlives its runs (a run may
//! be idle too long), so the lookup of a repeated id covers all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::CallId;
use crate::enforce::{Fault, Run};
use crate::mcp::rpc::Id;

/// Requests of one session with other call ids. The session keeps them while it lasts: a session
/// that has so many begins another.
const OTHERS_MAX: usize = 16_384;

/// The call that a request is.
#[derive(Clone, Debug)]
pub(super) struct NamedCall {
    /// The run of the call.
    pub run: Arc<Run>,
    /// The id of the call.
    pub call: String,
    /// Tool and arguments.
    what: Digest,
}

/// Maps the requests of a session to calls.
#[derive(Debug)]
pub(super) struct Ids {
    session: String,
    kept: Mutex<KnownIds>,
}

#[derive(Debug, Default)]
struct KnownIds {
    /// Requests that are being answered, and how many clients wait for each.
    open: BTreeMap<Id, (NamedCall, usize)>,
    others: BTreeMap<Id, NamedCall>,
    /// Every run of the session, in order.
    runs: Vec<Arc<Run>>,
}

impl Ids {
    /// Those of the session with this id.
    pub(super) fn of(session: &str) -> Self {
        Self { session: session.to_owned(), kept: Mutex::default() }
    }

    /// The id of the call that a request with this id is.
    pub(super) fn derived(&self, id: &Id) -> String {
        let number = if let Id::Int(number) = id { number.to_string() } else { String::new() };
        let (kind, text): (&[u8], &str) = match id {
            Id::Int(_) => (b"\0number\0", &number),
            Id::Text(text) => (b"\0text\0", text),
        };
        let parts: [&[u8]; 4] =
            [b"wicketgate/mcp-call/1\0", self.session.as_bytes(), kind, text.as_bytes()];
        format!("m-{}", Digest::of(&parts).hex().chars().take(32).collect::<String>())
    }

    /// The call of this request, if it was sent before.
    ///
    /// # Errors
    /// `call.conflict`: it was sent before with another tool or other arguments.
    pub(super) fn known(&self, id: &Id, what: &Digest) -> Result<Option<NamedCall>, Fault> {
        self.seen(&self.kept.lock(), id, what)
    }

    fn seen(&self, kept: &KnownIds, id: &Id, what: &Digest) -> Result<Option<NamedCall>, Fault> {
        let open = kept.open.get(id).map(|(named, _)| named);
        if let Some(named) = open.or_else(|| kept.others.get(id)) {
            return if named.what == *what { Ok(Some(named.clone())) } else { Err(conflict(id)) };
        }
        let call = self.derived(id);
        let Some(derived) = CallId::parse(&call) else { return Ok(None) };
        let run = kept.runs.iter().rev().find(|run| run.has(&derived));
        // The road compares the arguments.
        Ok(run.map(|run| NamedCall { run: Arc::clone(run), call, what: *what }))
    }

    /// Begins to answer a request as this call, or as the one it is already.
    ///
    /// # Errors
    /// `call.conflict`, as [`Self::known`]; `overloaded`: the session remembers too many.
    pub(super) fn begin(
        self: &Arc<Self>,
        id: &Id,
        (run, call): (&Arc<Run>, &str),
        what: Digest,
    ) -> Result<(NamedCall, Answering), Fault> {
        let mut kept = self.kept.lock();
        let named = match self.seen(&kept, id, &what)? {
            Some(named) => named,
            None => NamedCall { run: Arc::clone(run), call: call.to_owned(), what },
        };
        let other = named.call != self.derived(id);
        if other && !kept.others.contains_key(id) {
            if kept.others.len() >= OTHERS_MAX {
                let message = "the session asked too often for held calls; begin a new one";
                return Err(Fault::new(Code::Overloaded, message).detail("sessions"));
            }
            kept.others.insert(id.clone(), named.clone());
        }
        if !kept.runs.iter().any(|known| known.id() == named.run.id()) {
            kept.runs.push(Arc::clone(&named.run));
        }
        let waiting = kept.open.entry(id.clone()).or_insert_with(|| (named.clone(), 0));
        waiting.1 = waiting.1.saturating_add(1);
        drop(kept);
        Ok((named, Answering { ids: Arc::clone(self), id: id.clone() }))
    }

    /// The call that this request is, while it is being answered.
    pub(super) fn open(&self, id: &Id) -> Option<NamedCall> {
        self.kept.lock().open.get(id).map(|(named, _)| named.clone())
    }

    /// Whether anything is being answered.
    pub(super) fn is_busy(&self) -> bool {
        !self.kept.lock().open.is_empty()
    }
}

/// The refusal of a repeated request with other bytes.
pub(super) fn conflict(id: &Id) -> Fault {
    let shown: String = id.to_json().chars().take(80).collect();
    let message =
        format!("request id `{shown}` was used in this session for another call; use each id once");
    Fault::new(Code::CallConflict, message).detail("rpc.id")
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Answering {
    ids: Arc<Ids>,
    id: Id,
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut kept = self.ids.kept.lock();
        let Some((_, waiting)) = kept.open.get_mut(&self.id) else { return };
        *waiting = waiting.saturating_sub(1);
        if *waiting == 0 {
            kept.open.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn id() -> impl Strategy<Value = Id> {
        prop_oneof![
            any::<i64>().prop_map(Id::Int),
            (-20_i64..20).prop_map(Id::Int),
            (-20_i64..20).prop_map(|number| Id::Text(number.to_string())),
            ".{0,20}".prop_map(Id::Text),
        ]
    }

    proptest! {
        /// No two ids of a session, and no id of two sessions, are one call; and every one is a call id.
        #[test]
        fn one_request_id_is_one_call(ids in prop::collection::vec(id(), 1..40)) {
            let (one, other) = (Ids::of("aa"), Ids::of("ab"));
            let mut calls = BTreeMap::new();
            for id in ids {
                let call = one.derived(&id);
                prop_assert!(CallId::parse(&call).is_some());
                prop_assert_eq!(&call, &Ids::of("aa").derived(&id));
                prop_assert_ne!(&call, &other.derived(&id));
                let before = calls.insert(call, id.clone());
                prop_assert!(before.is_none_or(|before| before == id));
            }
        }
    }
}
