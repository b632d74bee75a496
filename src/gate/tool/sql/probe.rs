//! The operator's probe: whether the database is reachable, and whether it enforces the limits of
//! the binding.

use std::sync::Arc;

use super::{SqlBackend, SqlTool};
use crate::catalog::sql;
use crate::tool::net::Resolve;
use crate::tool::probe::{Point, ProbeState};

/// Bytes of a result that is discarded.
const BYTES_MAX: u64 = 4096;

/// Probes one database. Reads no table and writes nothing.
pub async fn probe(sql: sql::Sql, resolve: Arc<dyn Resolve>) -> Vec<Point> {
    match SqlTool::new(sql, BYTES_MAX, resolve) {
        Ok(SqlTool { backend: SqlBackend::Postgres(postgres), .. }) => postgres.probe().await,
        Ok(SqlTool { backend: SqlBackend::Sqlite(sqlite), .. }) => sqlite.probe().await,
        Err(why) => {
            vec![Point::wrong(
                "database",
                ProbeState::Refused,
                why.to_string(),
                "correct `ca_file`",
            )]
        }
    }
}
