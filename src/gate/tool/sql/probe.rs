//! For an operator: whether the database is there, and whether it holds us to what the binding says.

use std::sync::Arc;

use super::{SqlBackend, SqlTool};
use crate::catalog::sql;
use crate::tool::net::Resolve;
use crate::tool::probe::{Point, ProbeState};

/// Bytes of an answer nobody reads.
const BYTES_MAX: u64 = 4096;

/// Looks at one database. Reads no table and writes nothing.
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
