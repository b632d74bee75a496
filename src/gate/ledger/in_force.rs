//! The policy bundle that the chain records as active.

use std::collections::{BTreeMap, BTreeSet};

use super::store::{EntryRange, EntryRow, LedgerReader, StoreError};
use super::{Error, Ledger};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::record::chain::{ManifestBound, PolicyActivated, SignersBound};
use crate::record::{Entry, Kind};

/// Entries that are read at once.
const PAGE: u32 = 1000;

/// Kinds of entries that activate a version of something.
const MARKED: [Kind; 3] = [Kind::PolicyActivated, Kind::ManifestBound, Kind::SignersBound];

/// The last `policy.activated` of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activated {
    /// The bundle.
    pub bundle: Digest,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Activated {
    fn of(entry: &Entry) -> Option<Self> {
        let PolicyActivated { name, version, .. } = entry.draft.get()?;
        let (name, version) = (name.to_string(), version.to_string());
        Some(Self { bundle: entry.draft.policy?, name, version })
    }
}

/// The newest versions that this chain activated; a later one must not be older.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// The bundle.
    pub bundle: Option<Activated>,
    /// The version and the digest of the manifest of each agent.
    pub manifests: BTreeMap<String, (semver::Version, Digest)>,
    /// The version and the digest of each list of people.
    pub lists: BTreeMap<String, (u64, Digest)>,
}

impl Marks {
    /// Takes an entry that precedes all entries taken so far.
    fn take_up(&mut self, entry: &Entry) -> Option<()> {
        if entry.draft.kind() == Kind::PolicyActivated && self.bundle.is_none() {
            self.bundle = Some(Activated::of(entry)?);
        } else if let Some(bound) = entry.draft.get::<ManifestBound>() {
            let version = semver::Version::parse(&bound.version).ok()?;
            let marks = self.manifests.entry(bound.agent.to_string());
            marks.or_insert((version, bound.digest.0));
        } else if let Some(bound) = entry.draft.get::<SignersBound>() {
            let marks = self.lists.entry(bound.list.to_string());
            marks.or_insert((bound.version.get(), bound.digest.0));
        }
        Some(())
    }

    /// Reads the high-water marks of a chain for a reader that holds no lease.
    ///
    /// # Errors
    /// The store cannot be read, or an entry does not parse.
    pub async fn read(reader: &dyn LedgerReader, chain: &ChainId) -> Result<Self, StoreError> {
        let kinds = MARKED.map(Kind::as_str);
        let unreadable = || StoreError::Broken("an entry is not understood".into());
        let mut marks = Self::default();
        for row in reader.entries_of(chain, &kinds).await?.iter().rev() {
            let entry = Entry::parse(&row.body).map_err(|_| unreadable())?;
            marks.take_up(&entry).ok_or_else(unreadable)?;
        }
        Ok(marks)
    }
}

impl Ledger {
    /// The high-water marks of this chain for these agents and lists. Reads the chain backwards
    /// until it has found all of them, because every start of a gate activates everything it has.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be read, so the marks are unknown.
    pub async fn marks(
        &self,
        agents: &BTreeSet<&str>,
        lists: &BTreeSet<&str>,
    ) -> Result<Marks, Error> {
        let unreadable = || Error::Unavailable("entry not understood".into());
        let mut marks = Marks::default();
        self.backwards(&MARKED, |rows| {
            for row in rows {
                let entry = Entry::parse(&row.body).map_err(|_| unreadable())?;
                marks.take_up(&entry).ok_or_else(unreadable)?;
            }
            let known = agents.iter().all(|agent| marks.manifests.contains_key(*agent));
            let listed = lists.iter().all(|list| marks.lists.contains_key(*list));
            Ok(marks.bundle.is_none() || !known || !listed)
        })
        .await?;
        Ok(marks)
    }

    /// The bundle that this chain activated last, or `None` if it never activated one. Reads the
    /// chain backwards, because every start of a gate activates one.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be read, so the bundle is unknown.
    pub async fn last_activated(&self) -> Result<Option<Activated>, Error> {
        let unreadable = || Error::Unavailable("entry not understood".into());
        let mut last = None;
        self.backwards(&[Kind::PolicyActivated], |rows| {
            if let Some(row) = rows.first() {
                let entry = Entry::parse(&row.body).ok();
                last = Some(entry.as_ref().and_then(Activated::of).ok_or_else(unreadable)?);
            }
            Ok(last.is_none())
        })
        .await?;
        Ok(last)
    }

    /// Reads the entries of these kinds outside of runs page by page, newest rows first, while
    /// `more` returns true.
    pub(super) async fn backwards(
        &self,
        kinds: &[Kind],
        mut more: impl FnMut(&[EntryRow]) -> Result<bool, Error> + Send,
    ) -> Result<(), Error> {
        let unread = |e: StoreError| Error::Unavailable(e.to_string());
        let (store, key) = (&self.shared.store, self.key()?);
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let mut end = store.head(key).await.map_err(unread)?.size;
        loop {
            let range = EntryRange::Lone(&kinds, end, PAGE);
            let mut rows = store.select(key, range).await.map_err(unread)?;
            rows.reverse();
            let Some(first) = rows.last() else { return Ok(()) };
            end = first.seq;
            if !more(&rows)? {
                return Ok(());
            }
        }
    }
}
