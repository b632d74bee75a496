//! What a run used is not kept for ever: the gate forgets it some time after its seal.

use std::sync::{Arc, Weak};

use wicketgate::domain::call::CallerAuth;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::tier::Face;
use wicketgate::enforce::{Bounds, Opening, Run, Thread};
use wicketgate::identity::Caller;
use wicketgate::identity::manifest::{Grant, Manifest, RunLimits};
use wicketgate_support::inside;
use wicketgate_support::memory::MemoryStore;

use crate::in_process::Gate;
use crate::until;

/// Sealed runs that a gate keeps for late callers.
const KEPT: usize = 512;

/// A run that made a call and was sealed a day before its wall time.
async fn sealed(gate: &Gate, thread: usize) -> Weak<Run> {
    let limits = RunLimits { wall_seconds: Some(86_400), ..RunLimits::default() };
    let granted = vec![Grant::of(ToolName::parse("t").unwrap())];
    let manifest = Arc::new(Manifest { limits, ..inside::manifest(granted) });
    let auth = CallerAuth { method: "uds".into(), ..CallerAuth::default() };
    let (caller, thread) = (Caller { manifest, auth }, Thread::Named(thread.to_string()));
    let opened = gate.road.implicit_run(Face::Mcp, &caller, &thread, Opening::default()).await;
    let run = opened.unwrap();
    gate.call(&run, "{}").await.unwrap();
    gate.road.seal_run(&run).await.unwrap();
    Arc::downgrade(&run)
}

#[tokio::test]
async fn a_sealed_run_is_forgotten_long_before_its_wall_time() {
    let store = Arc::new(MemoryStore::new());
    let gate = Gate::over(store, Bounds::default(), &Arc::default()).await;
    let first = sealed(&gate, 0).await;
    for thread in 1..KEPT {
        sealed(&gate, thread).await;
    }
    assert!(first.upgrade().is_some(), "a late call is still answered");
    sealed(&gate, KEPT).await;
    until("the end of the first run", || async { first.upgrade().is_none() }).await;
    gate.end().await;
}
