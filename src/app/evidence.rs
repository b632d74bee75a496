//! What the operator API needs to export evidence and to erase payloads, from the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Error, approvers, checked, fleet};
use crate::approval::Approvers;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{self, Config};
use crate::crypto::keys::PublicKey;
use crate::crypto::{private, signer};
use crate::evidence::artifacts::Artifacts;
use crate::evidence::trust::Trust;
use crate::ledger::fleet::FleetParts;
use crate::ledger::postgres::{PostgresEraser, PostgresReader};
use crate::ledger::retention::PayloadEraser;
use crate::ledger::sqlite::{SqliteEraser, SqliteReader};
use crate::ledger::store::{LedgerReader, StoreError};
use crate::operator::Cause;
use crate::operator::evidence::{Archive, Evidence};

/// Bundles on their way out, below the state directory.
const SCRATCH: &str = "exports";

/// The ledger of a configuration, opened for one request at a time.
#[derive(Debug)]
struct Configured(Config);

/// What the operator API needs. `None`: no evidence key is configured, so it exports and erases
/// nothing.
pub(super) fn operator_part(config: &Config) -> Result<Option<Evidence>, Error> {
    let Some(key) = &config.evidence.key else { return Ok(None) };
    let key = signer::open(key, &config::environment)
        .map_err(|why| Error::wrong(format!("evidence: {why}")))?;
    let scratch_dir = config.state.join(SCRATCH);
    checked::private_dir(&scratch_dir)?;
    if let Some(sealed) = &config.evidence.sealed {
        checked::private_dir_for("directory of sealed runs (`evidence.sealed`)", sealed)?;
    }
    let postgres = matches!(config.ledger, config::Ledger::Postgres(_));
    Ok(Some(Evidence {
        archive: Arc::new(Configured(config.clone())),
        key,
        artifacts: Artifacts::at(&config.evidence.artifacts(config)),
        scratch: scratch_dir,
        backups: config.retention.backups(),
        store: if postgres { "postgres" } else { "sqlite" },
    }))
}

#[async_trait]
impl Archive for Configured {
    async fn reader(&self) -> Result<Arc<dyn LedgerReader>, StoreError> {
        match &self.0.ledger {
            config::Ledger::Sqlite(sqlite) => Ok(Arc::new(SqliteReader::open(&sqlite.path).await?)),
            config::Ledger::Postgres(_) => {
                let file = self.0.hub.reader_url_file.as_ref();
                let file = file.ok_or_else(|| unusable("`hub.reader_url_file` is not set"))?;
                let url = private::line(file).map_err(|e| unusable(e.to_string()))?;
                Ok(Arc::new(PostgresReader::connect(&url).await?))
            }
        }
    }

    async fn eraser(&self) -> Result<Option<Arc<dyn PayloadEraser>>, StoreError> {
        if let config::Ledger::Sqlite(sqlite) = &self.0.ledger {
            return Ok(Some(Arc::new(SqliteEraser::open(&sqlite.path).await?)));
        }
        let Some(file) = &self.0.evidence.eraser_url_file else { return Ok(None) };
        let url = private::line(file).map_err(|e| unusable(e.to_string()))?;
        Ok(Some(Arc::new(PostgresEraser::connect(&url).await?)))
    }

    async fn approvers(&self) -> Result<Approvers, Cause> {
        Ok(approvers::for_orders(&self.0, SystemClock::new().now())?)
    }

    async fn fleet(&self) -> Result<FleetParts, Cause> {
        Ok(fleet::parts(&self.0, &fleet::FleetKeys::of(&self.0)?).await?)
    }

    async fn trust(&self) -> Result<Trust, Cause> {
        let config = &self.0;
        let all = |files: &[PathBuf]| -> Result<Vec<PublicKey>, Cause> {
            let mut keys = Vec::new();
            for file in files {
                keys.extend(PublicKey::load_all(file)?);
            }
            Ok(keys)
        };
        let glass = config.trust.break_glass.as_ref().map_or(&[][..], |glass| &glass.keys);
        let file = config.evidence.trust.as_ref();
        let mut trust = file.map_or_else(|| Ok(Trust::default()), |file| Trust::load(file))?;
        // Every start of this process puts it there.
        let own = config.state.join(checked::ENROLMENT_PUBLIC);
        trust.enrolment.extend(PublicKey::load_all(&own)?);
        trust.manifest.extend(all(&config.trust.manifest_keys)?);
        trust.approver_keys.extend(all(&config.trust.approver_keys)?);
        trust.break_glass_keys.extend(all(glass)?);
        Ok(trust)
    }
}

fn unusable(why: impl Into<String>) -> StoreError {
    StoreError::Unavailable(why.into())
}
