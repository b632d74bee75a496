//! The place of archives: a directory, or a prefix in an object store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ledger::unreadable;
use super::{Failure, FileError};
use crate::clock::SystemClock;
use crate::config::environment;
use crate::domain::id::ChainId;
use crate::evidence::bucket::{Access, Bucket, BucketLocation, Retain};
use crate::ledger::archive::storage::{ArchiveStore, Directory};

/// How to reach an object store. Credentials are read from `AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, so that they are in no process list.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BucketArgs {
    /// URL of the object store; if omitted, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` or the public one
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region of the bucket; if omitted, `AWS_REGION` or `AWS_DEFAULT_REGION`
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// Trust these certificate authorities (PEM) for the object store; if omitted, `AWS_CA_BUNDLE` or the public ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// What is missing to reach an object store.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A variable of the environment.
    #[error("`{0}` is not set")]
    Unset(&'static str),
    /// The region of the bucket.
    #[error("name the region: `--region`, or `AWS_REGION`")]
    NoRegion,
}

impl BucketArgs {
    /// The named place in the store.
    ///
    /// # Errors
    /// Usage: what is missing or wrong.
    pub(super) fn open(&self, location: &str, retain: Option<Retain>) -> Result<Bucket, Failure> {
        let location = BucketLocation::parse(location).map_err(Failure::usage)?;
        let first = |names: &[&str]| names.iter().find_map(|name| set(name));
        let need = |name| set(name).ok_or(Error::Unset(name)).map_err(Failure::usage);
        let ca = self.ca.clone().or_else(|| set("AWS_CA_BUNDLE").map(PathBuf::from));
        let read = |path: PathBuf| {
            std::fs::read(&path).map_err(FileError::at(&path)).map_err(Failure::usage)
        };
        let region = self.region.clone().or_else(|| first(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let endpoint = self.endpoint.clone();
        let access = Access {
            endpoint: endpoint.or_else(|| first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])),
            region: region.ok_or(Error::NoRegion).map_err(Failure::usage)?,
            key: need("AWS_ACCESS_KEY_ID")?,
            secret: need("AWS_SECRET_ACCESS_KEY")?,
            token: set("AWS_SESSION_TOKEN"),
            ca: ca.map(read).transpose()?,
        };
        Bucket::open(location, &access, Arc::new(SystemClock::new()), retain)
            .map_err(Failure::usage)
    }

    /// The archive of one chain, for reading: below a directory, or a place in a store.
    ///
    /// # Errors
    /// Usage.
    pub(super) fn of_chain(
        &self,
        at: &Path,
        chain: &ChainId,
    ) -> Result<Box<dyn ArchiveStore>, Failure> {
        match remote(at) {
            None => Ok(Box::new(Directory::read(&at.join(chain.to_string())))),
            Some(location) => {
                let bucket = self.open(location, None)?;
                let location = bucket.place().of_chain(chain);
                Ok(Box::new(bucket.at(location)))
            }
        }
    }

    /// The archives at a place in a store: the one at the place itself, or those below it.
    ///
    /// # Errors
    /// Usage, or the store does not answer.
    pub(super) async fn archives(
        &self,
        location: &str,
    ) -> Result<Vec<Box<dyn ArchiveStore>>, Failure> {
        let bucket = self.open(location, None)?;
        let whole = bucket.get(crate::ledger::archive::CHECKPOINT).await.map_err(unreadable)?;
        if whole.is_some() {
            return Ok(vec![Box::new(bucket)]);
        }
        let below = bucket.chains().await.map_err(unreadable)?;
        Ok(below
            .into_iter()
            .map(|location| Box::new(bucket.at(location)) as Box<dyn ArchiveStore>)
            .collect())
    }
}

fn set(name: &str) -> Option<String> {
    environment(name).filter(|value| !value.is_empty())
}

/// The place, if it is one in an object store.
pub(super) fn remote(at: &Path) -> Option<&str> {
    at.to_str().filter(|text| text.starts_with("s3://"))
}
