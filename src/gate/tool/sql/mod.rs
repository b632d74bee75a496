//! The `sql` kind: one statement, judged by what a parser found in it, with its values bound.
//!
//! `prepare` parses the statement and contacts no database. `execute` sends the judged statement;
//! the database receives the same limits and enforces them itself.

mod answer;
mod linear;
mod postgres;
mod probe;
mod sqlite;

pub(super) use probe::probe;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::net::{self, Resolve};
use super::shape::lenient;
use super::{Error, ToolExecutor};
use crate::catalog::sql::{self, Engine, Named, SqlTarget, Statement, StatementSource};
use crate::domain::call::ToolCall;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::effect::{DatabaseServer, Effect, Sql as Facts};
use crate::domain::json::Json;
use crate::domain::outcome::{FailureClass, Unmasked};
use crate::domain::plural::many;
use crate::judge::prepared::{Prepared, PreparedResource};
use crate::ledger::fuse::{Fuse, Late};
use crate::ledger::permit::Permit;
use answer::{ResultSpace, SqlResult};
use postgres::PostgresBackend;
pub use postgres::RoleError;
use sqlite::SqliteBackend;

/// Why a statement returned no result.
#[derive(Debug)]
enum SqlFailure {
    /// The effect is known: there was none, or it was rolled back.
    Failed { class: FailureClass, started: bool, message: String },
    /// The statement may have taken effect.
    Unknown { cause: &'static str },
    /// The database must not be used in its present state; nothing was sent.
    Unfit(RoleError),
}

impl SqlFailure {
    fn failed(class: FailureClass, message: impl Into<String>) -> Self {
        Self::Failed { class, started: true, message: message.into() }
    }

    /// The message for the failure.
    fn into_message(self) -> String {
        match self {
            Self::Failed { message, .. } => message,
            Self::Unfit(role) => role.to_string(),
            Self::Unknown { cause } => cause.to_owned(),
        }
    }

    fn unreached(message: impl Into<String>) -> Self {
        Self::Failed { class: FailureClass::Connect, started: false, message: message.into() }
    }
}

impl From<Late> for SqlFailure {
    fn from(late: Late) -> Self {
        let (class, message) = (FailureClass::NotStarted, late.to_string());
        Self::Failed { class, started: false, message }
    }
}

/// The data for one execution: the judged statement and its values, `$1` first.
#[derive(Clone, Debug)]
struct PreparedSql {
    statement: Arc<Statement>,
    values: Vec<Json>,
}

/// One bound database.
#[derive(Debug)]
pub struct SqlTool {
    engine: Engine,
    server: Option<DatabaseServer>,
    database: String,
    statements: StatementSource,
    read_only: bool,
    rows_max: u64,
    bytes_max: u64,
    backend: SqlBackend,
}

#[derive(Debug)]
enum SqlBackend {
    Postgres(Arc<PostgresBackend>),
    Sqlite(SqliteBackend),
}

impl SqlTool {
    /// The tool of one binding. Connects to nothing and opens no file.
    ///
    /// # Errors
    /// The certificate authorities cannot be used.
    pub fn new(
        sql: sql::Sql,
        bytes_max: u64,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, net::Error> {
        let (engine, server, database) = match &sql.target {
            SqlTarget::Postgres(pg) => {
                let host = pg.origin.host.to_string();
                let server = DatabaseServer { host, port: pg.origin.port };
                (Engine::Postgres, Some(server), pg.database.clone())
            }
            SqlTarget::Sqlite(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (Engine::Sqlite, None, name)
            }
        };
        let free = matches!(sql.statements, StatementSource::Free(_));
        let (timeout, most) = (sql.statement_timeout, sql.connections_max);
        let backend = match sql.target {
            SqlTarget::Postgres(pg) => {
                let limits = postgres::Limits { timeout, most, read_only: sql.read_only, free };
                SqlBackend::Postgres(Arc::new(PostgresBackend::new(*pg, limits, resolve)?))
            }
            SqlTarget::Sqlite(path) => {
                let allowed = match &sql.statements {
                    StatementSource::Free(allowed) => Some(Arc::new(allowed.clone())),
                    StatementSource::Named(_) => None,
                };
                SqlBackend::Sqlite(SqliteBackend::new(
                    path,
                    allowed,
                    (timeout, most),
                    sql.read_only,
                ))
            }
        };
        let (asks, read_only, rows_max) = (sql.statements, sql.read_only, sql.rows_max);
        Ok(Self {
            engine,
            server,
            database,
            statements: asks,
            read_only,
            rows_max,
            bytes_max,
            backend,
        })
    }

    fn ready(&self, args: &Json) -> Result<(Option<String>, PreparedSql), LayerReason> {
        match &self.statements {
            StatementSource::Free(allowed) => {
                let FreeForm { query, params } = args.read().unwrap_or_default();
                let read = sql::free_form(self.engine, allowed, &query.unwrap_or_default());
                let statement = read.map_err(|refused| reason(refused.detail, refused.message))?;
                let values = params.into_iter().flatten();
                let statement = Arc::new(statement);
                Ok((None, PreparedSql { statement, values: values.collect() }))
            }
            StatementSource::Named(queries) => {
                let (name, query, args) = chosen(queries, args)?;
                let value = |name: &String| args.get(name).cloned().unwrap_or(Json::Null);
                let values = query.params.iter().map(value);
                let statement = Arc::clone(&query.statement);
                Ok((Some(name.to_owned()), PreparedSql { statement, values: values.collect() }))
            }
        }
    }

    fn effect(&self, query: Option<String>, ready: &PreparedSql) -> Effect {
        let statement = &ready.statement;
        Effect::Sql(Box::new(Facts {
            engine: self.engine.as_str().into(),
            server: self.server.clone(),
            database: self.database.clone(),
            statement: statement.kind.into(),
            named_query: query,
            relations: statement.relations.clone(),
            functions: statement.functions.clone(),
            params: u64::try_from(ready.values.len()).unwrap_or(u64::MAX),
            sql_sha256: Digest::of(&[statement.text.as_bytes()]).hex(),
        }))
    }

    /// Sends the statement that `prepare` parsed. Only `execute` calls this, with a permitted call.
    async fn ask(&self, prepared: &Prepared, fuse: &Fuse) -> Unmasked {
        let Some(ready) = prepared.hold::<PreparedSql>() else {
            return Unmasked::Failed {
                class: FailureClass::Changed,
                started: false,
                message: "the call was prepared by another tool".into(),
            };
        };
        let space = ResultSpace::new(self.rows_max, self.bytes_max, &ready.statement.relations);
        let asked = match &self.backend {
            SqlBackend::Postgres(postgres) => postgres.ask(ready, space, fuse).await,
            SqlBackend::Sqlite(sqlite) => sqlite.ask(ready.clone(), space, fuse).await,
        };
        match asked {
            Ok(answer) => Unmasked::Completed {
                result: SqlResult::content(answer, &ready.statement.relations),
                status: "ok".into(),
            },
            Err(SqlFailure::Failed { class, started, message }) => {
                Unmasked::Failed { class, started, message }
            }
            Err(SqlFailure::Unfit(role)) => {
                let (class, message) = (FailureClass::Connect, role.to_string());
                Unmasked::Failed { class, started: false, message }
            }
            Err(SqlFailure::Unknown { cause }) if self.read_only => Unmasked::Failed {
                class: FailureClass::ToolError,
                started: true,
                message: format!("the connection to the database was lost: {cause}"),
            },
            Err(SqlFailure::Unknown { cause }) => Unmasked::Unknown { cause: cause.into() },
        }
    }
}

/// The arguments of a tool that accepts statements.
#[derive(Default, Deserialize)]
struct FreeForm {
    #[serde(default, deserialize_with = "lenient")]
    query: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    params: Option<Vec<Json>>,
}

/// The arguments of a tool with several of the operator's statements.
#[derive(Default, Deserialize)]
struct OneOfSeveral {
    #[serde(default, deserialize_with = "lenient")]
    query: Option<String>,
    params: Option<Json>,
}

/// The selected statement of the operator, and its arguments.
fn chosen<'a>(
    queries: &'a std::collections::BTreeMap<String, Named>,
    args: &Json,
) -> Result<(&'a str, &'a Named, Json), LayerReason> {
    let found = match (queries.len(), queries.first_key_value()) {
        (1, Some((name, query))) => Some((name.as_str(), query, args.clone())),
        _ => {
            let OneOfSeveral { query, params } = args.read().unwrap_or_default();
            let entry = queries.get_key_value(query.as_deref().unwrap_or_default());
            let params = params.unwrap_or(Json::Null);
            entry.map(|(name, query)| (name.as_str(), query, params))
        }
    };
    found.ok_or_else(|| reason("sql.query", "there is no such query"))
}

#[async_trait]
impl ToolExecutor for SqlTool {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let (query, ready) = self.ready(call.args()).map_err(|reason| vec![reason])?;
        let (given, used) = (ready.values.len(), ready.statement.params);
        if given != used {
            let message = format!("{} given, the statement uses {used}", many(given, "parameter"));
            return Err(vec![reason("sql.params", message)]);
        }
        Ok((self.effect(query, &ready), Box::new(ready)))
    }

    async fn look(&self) -> Result<(), Error> {
        match &self.backend {
            SqlBackend::Postgres(postgres) => Ok(postgres.look().await?),
            SqlBackend::Sqlite(_) => Ok(()),
        }
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        let tables = permit.prepared().effect().tables();
        permit.observe(|seen| seen.tables_queried = tables.to_vec());
        self.ask(permit.prepared(), permit.fuse()).await
    }
}

fn reason(detail: &str, message: impl Into<String>) -> LayerReason {
    LayerReason::effect_refused("tool.sql", detail, message)
}

/// A path for a message: the file name only.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
