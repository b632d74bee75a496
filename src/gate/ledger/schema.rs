//! The steps of the ledger's schema in both databases: all that this build knows of their versions.
//!
//! The bytes of an entry are the record. A column beside them is computed by the database from
//! these bytes, so a step that adds one changes no writer and serves the gates of the build before.

/// One step of a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The schema that it leads to.
    pub version: u64,
    /// The oldest schema whose gates still work with it, so that gates can be replaced one after
    /// the other. A SQLite file has one gate and needs none.
    pub serves: u64,
    /// Its statements.
    pub text: &'static str,
}

/// The steps of one database. The first replaced those of earlier builds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps(&'static [Step]);

/// `PRAGMA user_version` of the file.
pub(super) const SQLITE: Steps = Steps(&[
    Step {
        version: 8,
        serves: 8,
        text: include_str!("../../../migrations/sqlite/0001_ledger.sql"),
    },
    Step {
        version: 9,
        serves: 9,
        text: include_str!("../../../migrations/sqlite/0002_narrow.sql"),
    },
]);

/// `ledger.schema_version` of the database.
pub(super) const POSTGRES: Steps = Steps(&[
    Step {
        version: 12,
        serves: 12,
        text: include_str!("../../../migrations/postgres/0001_ledger.sql"),
    },
    Step {
        version: 13,
        serves: 12,
        text: include_str!("../../../migrations/postgres/0002_payload_age.sql"),
    },
    Step {
        version: 14,
        serves: 12,
        text: include_str!("../../../migrations/postgres/0003_lone.sql"),
    },
    Step {
        version: 15,
        serves: 12,
        text: include_str!("../../../migrations/postgres/0004_console_session.sql"),
    },
    Step {
        version: 16,
        serves: 12,
        text: include_str!("../../../migrations/postgres/0005_index.sql"),
    },
    Step {
        version: 17,
        serves: 12,
        text: include_str!("../../../migrations/postgres/0006_index_hosts.sql"),
    },
]);

impl Steps {
    /// The schema that this build reads and writes.
    pub const fn newest(self) -> u64 {
        match self.0 {
            [.., last] => last.version,
            [] => 0,
        }
    }

    /// The oldest schema that this build can upgrade.
    pub const fn oldest(self) -> u64 {
        match self.0 {
            [first, ..] => first.version,
            [] => 0,
        }
    }

    /// The steps from this schema on, in order; 0 is an empty database.
    pub fn after(self, found: u64) -> impl Iterator<Item = Step> {
        self.0.iter().copied().filter(move |step| step.version > found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_leads_one_further_and_serves_no_schema_after_its_own() {
        for steps in [SQLITE, POSTGRES] {
            for (step, wanted) in steps.after(0).zip(steps.oldest()..) {
                assert_eq!(step.version, wanted);
                assert!(step.serves <= step.version, "{}", step.version);
            }
            assert_eq!(steps.after(steps.newest()).count(), 0);
        }
    }
}
