//! Bundles of sealed runs: each is stored in a directory as an auditor would get it, so that it outlives the ledger.
//!
//! A bundle that is there is not made again, and [`POSITIONS`] has the first entry of each log that was not looked at. So a
//! crash costs a second look at some entries, and never a bundle.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::apart::apart;
use super::exports::{Failed, sweep};
use super::{Cause, OperatorApi};
use crate::domain::canonical;
use crate::domain::id::{RunId, Seq};
use crate::domain::json::Json;
use crate::ledger::store::ChainRow;
use crate::record::Kind;

/// Between two looks at the ledger.
const ROUND: Duration = Duration::from_secs(1);
/// Entries that are read at a time.
const READ_MAX: u32 = 1_000;
/// How long the last bundles may take once this process ends.
const LAST: Duration = Duration::from_secs(30);
/// The file of the positions: a JSON object, by the id of each chain in hex.
const POSITIONS: &str = "positions.json";
/// Who asks for these exports, in the fleet log.
const REQUESTER: &str = "configuration:evidence.sealed";

/// The directory, and how far it goes.
struct SealedRuns {
    directory: PathBuf,
    /// The first entry of each chain that was not looked at.
    positions: BTreeMap<String, Seq>,
    /// Whether they differ from the file.
    is_new: bool,
}

impl SealedRuns {
    fn file(&self) -> PathBuf {
        self.directory.join(POSITIONS)
    }

    /// What the directory says; `None`: it says nothing yet.
    fn read(directory: &Path) -> Result<Option<Self>, Cause> {
        let mut read =
            Self { directory: directory.to_owned(), positions: BTreeMap::new(), is_new: false };
        let bytes = match std::fs::read(read.file()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let wrong = |why| {
            format!("{}: {why}; remove it to begin at the end of each log", read.file().display())
        };
        read.positions = serde_json::from_slice(&bytes).map_err(wrong)?;
        Ok(Some(read))
    }

    /// A directory that begins with what is sealed from now on.
    fn beginning(directory: &Path, chains: &[ChainRow]) -> Self {
        let positions = chains.iter().map(|row| (row.chain.to_string(), row.head.size));
        Self { directory: directory.to_owned(), positions: positions.collect(), is_new: true }
    }

    fn position(&self, chain: &ChainRow) -> Seq {
        self.positions.get(&chain.chain.to_string()).copied().unwrap_or_default()
    }

    fn pass(&mut self, chain: &ChainRow, next: Seq) {
        self.positions.insert(chain.chain.to_string(), next);
        self.is_new = true;
    }

    fn save(&mut self) -> Result<(), Cause> {
        if self.is_new {
            let part = self.directory.join(format!(".{POSITIONS}.part"));
            let mut file = std::fs::File::create(&part)?;
            file.write_all(&canonical::bytes(&Json::of(&self.positions)))?;
            file.sync_all()?;
            std::fs::rename(&part, self.file())?;
            self.is_new = false;
        }
        Ok(())
    }
}

impl OperatorApi {
    /// Stores the bundle of each run in this directory once the run is sealed, until it is stopped; then those that are
    /// left. What fails is tried again in the next round.
    pub async fn keep_bundles(self: Arc<Self>, directory: PathBuf, stop: CancellationToken) {
        let mut rounds = tokio::time::interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut sealed, mut before) = (None, String::new());
        loop {
            let is_last = tokio::select! {
                biased;
                () = stop.cancelled() => true,
                _ = rounds.tick() => false,
            };
            let round = self.bundle_round(&directory, &mut sealed);
            let ended = match is_last {
                true => tokio::time::timeout(LAST, round)
                    .await
                    .unwrap_or_else(|_| Err("out of time".into())),
                false => round.await,
            };
            let why = ended.err().map(|why| why.to_string()).unwrap_or_default();
            if !why.is_empty() && why != before {
                tracing::error!(error = %why, directory = %directory.display(), "bundles of sealed runs are not stored");
            }
            before = why;
            if is_last {
                return;
            }
        }
    }

    async fn bundle_round(
        &self,
        directory: &Path,
        sealed: &mut Option<SealedRuns>,
    ) -> Result<(), Cause> {
        let mut chains = self.reader.chains().await?;
        chains.retain(|row| row.tenant == self.tenant);
        let runs = match sealed {
            Some(runs) => runs,
            None => {
                // WHY: in a container every life has the same process id, and so the same names for parts.
                sweep(directory, |path| path.extension().is_some_and(|end| end == "part"))?;
                let read = SealedRuns::read(directory)?;
                sealed.insert(read.unwrap_or_else(|| SealedRuns::beginning(directory, &chains)))
            }
        };
        // Before the first bundle, so that a crash does not begin later.
        runs.save()?;
        for chain in &chains {
            let stored = self.store_bundles(runs, chain).await;
            runs.save()?;
            stored?;
        }
        Ok(())
    }

    /// Stores the bundles of the runs that a chain sealed since the last look.
    async fn store_bundles(&self, runs: &mut SealedRuns, chain: &ChainRow) -> Result<(), Cause> {
        while runs.position(chain) < chain.head.size {
            let rows = self.reader.entries(&chain.chain, runs.position(chain), READ_MAX).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            let seals = rows.iter().filter(|row| row.kind == Kind::RunSealed.as_str());
            for (seq, run) in seals.filter_map(|row| Some((row.seq, row.run?))) {
                self.store_bundle(&runs.directory, run).await?;
                runs.pass(chain, seq.saturating_add(1));
            }
            runs.pass(chain, last.seq.saturating_add(1));
        }
        Ok(())
    }

    /// Stores the bundle of a run, unless it is there. A run of which no bundle can ever be made is passed over.
    async fn store_bundle(&self, directory: &Path, run: RunId) -> Result<(), Cause> {
        let out = directory.join(format!("{run}.zip"));
        if out.try_exists()? {
            return Ok(());
        }
        let service = self.evidence().map_err(|problem| problem.message)?;
        let stored = async {
            let job = self.job_of_run(&service, run, REQUESTER.to_owned()).await?;
            apart(|| async move { job.written(&out).await }, (Failed::Left, Failed::early())).await
        };
        match stored.await {
            Ok(bundle) => {
                tracing::info!(%run, entries = bundle.entries, "stored the bundle of a sealed run");
                Ok(())
            }
            Err(failed) if failed.is_final() => {
                tracing::error!(%run, error = %failed, "no bundle of a sealed run can be made");
                Ok(())
            }
            Err(failed) => Err(format!("run {run}: {failed}").into()),
        }
    }
}
