//! What the benches of tools share: a gate with one tool, which is asked directly and through the gate by turns.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wicketgate::catalog::Binding;
use wicketgate::catalog::binding::Kind;
use wicketgate::domain::tier::Tier;
use wicketgate::enforce::{AgentsUpdate, Bounds};
use wicketgate::ledger::sqlite::SqliteStore;
use wicketgate::tool::Toolbox;
use wicketgate::tool::mcp::Upstreams;
use wicketgate_support::in_process::Gate;
use wicketgate_support::inside;

/// Calls of each way.
const CALLS: usize = 300;

/// A gate over a ledger of its own in a new folder, which goes with it.
pub struct Setup {
    dir: TempDir,
    pub gate: Gate,
}

impl Setup {
    /// Opens it below `dir`.
    pub async fn new(dir: &Path) -> Self {
        let dir = tempfile::tempdir_in(dir).unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("ledger.sqlite")).await.unwrap());
        let gate = Gate::over(store, Bounds::default(), &Arc::new(AtomicU64::new(0))).await;
        Self { dir, gate }
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Has these tools and no others from now on.
    pub async fn tools(&self, bindings: Vec<Binding>) {
        let toolbox = Toolbox::build(bindings, &Upstreams::new(&[]), Vec::new()).unwrap();
        self.gate.road.change(AgentsUpdate { policy: None, toolbox, agents: None }).await.unwrap();
    }

    /// Asks directly and through the gate by turns, and prints the line.
    pub async fn by_turns(
        &self,
        what: &str,
        tool: &str,
        args: &str,
        mut direct: impl AsyncFnMut(),
    ) {
        let run = self.gate.run().await;
        // The first connection is not what is measured.
        direct().await;
        self.gate.call_tool(&run, tool, args).await.unwrap();
        let (mut alone, mut through) = (Vec::new(), Vec::new());
        for _ in 0..CALLS {
            let began = Instant::now();
            direct().await;
            alone.push(began.elapsed());
            let began = Instant::now();
            self.gate.call_tool(&run, tool, args).await.unwrap();
            through.push(began.elapsed());
        }
        let (alone, through) = (median(alone), median(through));
        println!(
            "{what:<28} alone {alone:>7.3} ms   through the gate {through:>7.3} ms   added {:.3} ms",
            through - alone
        );
    }
}

/// A tool of a name the harness grants: `t0`, `t` and `t2`.
pub fn binding(name: &str, tier: Tier, kind: Kind) -> Binding {
    let changes_nothing = tier == Tier::T0;
    Binding {
        tier,
        read_only: changes_nothing,
        idempotent: changes_nothing,
        ..inside::binding(name, kind)
    }
}

/// The middle, in milliseconds.
fn median(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all[all.len() / 2].as_secs_f64() * 1e3
}
