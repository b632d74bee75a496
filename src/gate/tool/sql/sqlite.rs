//! One SQLite file: opened anew for every call, with every feature off that a statement does not
//! need.
//!
//! SQLite's own authorizer checks what the parser judged; it sees what a statement really accesses,
//! including the tables behind views.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::Semaphore;

use super::answer::{self, Cell, ResultSpace, SqlResult};
use super::{PreparedSql, SqlFailure, file_name, linear};
use crate::catalog::sql::{Allowed, SQL_BYTES_MAX, SQLITE, SQLITE_OPERATORS, Statement};
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::domain::outcome::FailureClass;
use crate::ledger::fuse::{Fuse, Late};
use crate::tool::probe::{Point, ProbeState};

/// Steps of SQLite's machine between two checks for an interrupt. Few, because one step may be a
/// whole function.
const STEPS: i32 = 20;
/// Bytes of the largest text or blob that a statement may create.
const VALUE_BYTES_MAX: i32 = 8 << 20;
/// The same, for an agent's own statement.
const FREE_VALUE_BYTES_MAX: i32 = 2 << 20;
/// Bytes of a LIKE or GLOB pattern: each may be compared with each byte of a text in one step.
const PATTERN_BYTES_MAX: i32 = 256;
/// How long to wait for another writer's lock.
const BUSY: Duration = Duration::from_secs(2);

/// One file.
#[derive(Debug)]
pub(super) struct SqliteBackend {
    path: PathBuf,
    allowed: Option<Arc<Allowed>>,
    timeout: Duration,
    slots: Arc<Semaphore>,
    read_only: bool,
}

/// Interrupts the statement when it is dropped.
struct InterruptOnDrop(Arc<AtomicBool>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl SqliteBackend {
    /// `allowed`: what an agent's own statements may read; `None` if all statements are the
    /// operator's.
    pub fn new(
        path: PathBuf,
        allowed: Option<Arc<Allowed>>,
        (timeout, most): (Duration, usize),
        read_only: bool,
    ) -> Self {
        Self { path, allowed, timeout, slots: Arc::new(Semaphore::new(most)), read_only }
    }

    pub async fn ask(
        &self,
        ready: PreparedSql,
        space: ResultSpace,
        fuse: &Fuse,
    ) -> Result<SqlResult, SqlFailure> {
        let closed = |_| SqlFailure::unreached("the database is closed");
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(closed)?;
        let stop = InterruptOnDrop(Arc::default());
        let one = SqliteStatement {
            path: self.path.clone(),
            allowed: self.allowed.clone(),
            read_only: self.read_only,
            stop: Arc::clone(&stop.0),
            fuse: fuse.clone(),
            late: Arc::default(),
        };
        let mut asking = tokio::task::spawn_blocking(move || {
            // The slot is free when the thread ends, even if its caller has left.
            let _slot = slot;
            one.run(&ready, space)
        });
        let ended = match tokio::time::timeout(self.timeout, &mut asking).await {
            Ok(ended) => ended,
            Err(_elapsed) => {
                stop.0.store(true, Ordering::Release);
                asking.await
            }
        };
        ended.unwrap_or(Err(SqlFailure::Unknown { cause: "panic" }))
    }
}

impl SqliteBackend {
    /// The operator's probe: whether the file is a database that opens as a call would open it.
    pub async fn probe(&self) -> Vec<Point> {
        let one = SqliteStatement {
            path: self.path.clone(),
            allowed: None,
            read_only: self.read_only,
            stop: Arc::default(),
            fuse: Fuse::never(),
            late: Arc::default(),
        };
        let looking = tokio::task::spawn_blocking(move || one.look());
        vec![looking.await.unwrap_or_else(|lost| {
            Point::wrong("database", ProbeState::Unreached, lost.to_string(), "")
        })]
    }
}

/// One statement in progress.
struct SqliteStatement {
    path: PathBuf,
    allowed: Option<Arc<Allowed>>,
    read_only: bool,
    stop: Arc<AtomicBool>,
    fuse: Fuse,
    /// Set if the permit had ended before the commit.
    late: Arc<AtomicBool>,
}

impl SqliteStatement {
    fn run(self, ready: &PreparedSql, space: ResultSpace) -> Result<SqlResult, SqlFailure> {
        let name = file_name(&self.path);
        let unopened = |e: rusqlite::Error| {
            SqlFailure::unreached(format!("cannot open `{name}`: {}", message_of(&e)))
        };
        let connection = self.open().map_err(unopened)?;
        self.guard(&connection, &ready.statement).map_err(unopened)?;
        self.fuse.redeem()?;
        ask(&connection, ready, space).map_err(|error| self.failure(&error))
    }

    fn look(&self) -> Point {
        let what = self.path.display().to_string();
        if !self.path.exists() {
            let todo = "make the database, or correct `path`";
            return Point::wrong(what, ProbeState::Missing, "is not there", todo);
        }
        let held = self.open().and_then(|connection| {
            let attaches = connection.execute_batch("ATTACH ':memory:' AS other").is_ok();
            Ok((connection.is_readonly("main")?, attaches))
        });
        let refused = |found: String| {
            Point::wrong(
                what.clone(),
                ProbeState::Unfit,
                found,
                "name a database the gate may open",
            )
        };
        match held {
            Ok((_, true)) => refused("another database could be attached".to_owned()),
            Ok((false, _)) if self.read_only => refused("could be written to".to_owned()),
            Ok((true, _)) if !self.read_only => refused("cannot be written to".to_owned()),
            Ok((true, _)) => Point::ready(what.clone(), "opens, for reading alone"),
            Ok((false, _)) => Point::ready(what.clone(), "opens, for reading and writing"),
            Err(error) => refused(format!("cannot be opened: {}", message_of(&error))),
        }
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let mode = if self.read_only {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE
        };
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY)?;
        // WHY: otherwise a sort or a statement's journal would need a file outside the gate's state
        // directory.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        for (setting, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
            (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
        ] {
            connection.set_db_config(setting, on)?;
        }
        let free = self.allowed.is_some();
        let value_bytes = if free { FREE_VALUE_BYTES_MAX } else { VALUE_BYTES_MAX };
        for (limit, most) in [
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_LENGTH, value_bytes),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES_MAX),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, i32::try_from(SQL_BYTES_MAX * 2).unwrap_or(i32::MAX)),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
            (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ] {
            connection.set_limit(limit, most)?;
        }
        if free {
            linear::replace_functions(&connection)?;
        }
        connection.pragma_update(None, "query_only", self.read_only)?;
        // Reads the schema, which detects a file that is not a database.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    }

    /// Restricts the connection to the judged statement.
    fn guard(&self, connection: &Connection, statement: &Arc<Statement>) -> rusqlite::Result<()> {
        let stop = Arc::clone(&self.stop);
        connection.progress_handler(STEPS, Some(move || stop.load(Ordering::Acquire)))?;
        let (fuse, late) = (self.fuse.clone(), Arc::clone(&self.late));
        // WHY in the commit hook: the statement may have waited for the file, so the permit is
        // checked again; a refusal rolls it back.
        connection.commit_hook(Some(move || {
            let ended = fuse.redeem().is_err();
            late.fetch_or(ended, Ordering::AcqRel);
            ended
        }))?;
        let statement = Arc::clone(statement);
        match self.allowed.clone() {
            Some(allowed) => {
                let views = views(connection, &allowed, &statement)?;
                let judge = move |context: AuthContext<'_>| {
                    authorization(reads(&context, &allowed, &views, &statement))
                };
                connection.authorizer(Some(judge))
            }
            None => {
                let judge = move |context: AuthContext<'_>| {
                    authorization(is_ordinary(&context.action, statement.writes))
                };
                connection.authorizer(Some(judge))
            }
        }
    }

    fn failure(&self, error: &rusqlite::Error) -> SqlFailure {
        if self.late.load(Ordering::Acquire) {
            return Late.into();
        }
        let class = match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) if self.stop.load(Ordering::Acquire) => {
                let message = "the statement took longer than it may";
                return SqlFailure::failed(FailureClass::Timeout, message);
            }
            Some(ErrorCode::TooBig | ErrorCode::OutOfMemory) => FailureClass::TooLarge,
            _ => FailureClass::ToolError,
        };
        SqlFailure::failed(class, format!("the database said: {}", message_of(error)))
    }
}

const fn authorization(allowed: bool) -> Authorization {
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// The views that an agent may read; what they read is the operator's business. A part of the
/// statement with a view's name is not a view.
fn views(
    connection: &Connection,
    allowed: &Allowed,
    statement: &Statement,
) -> rusqlite::Result<Vec<String>> {
    let mut all =
        connection.prepare("SELECT lower(name) FROM sqlite_schema WHERE type = 'view'")?;
    let names = all.query_map([], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    let ours = |name: &String| allowed.table("main", name) && !statement.parts.contains(name);
    Ok(names.into_iter().filter(ours).collect())
}

/// Whether an agent's own statement may do this.
fn reads(
    context: &AuthContext<'_>,
    allowed: &Allowed,
    views: &[String],
    statement: &Statement,
) -> bool {
    let lower = |text: &str| text.to_ascii_lowercase();
    if let AuthAction::Read { table_name, column_name } = context.action {
        let table = lower(table_name);
        let through = context.accessor.is_some_and(|view| views.contains(&lower(view)));
        let of_main = context.database_name.is_none_or(|name| name == "main");
        let is_part = column_name.is_empty() && statement.parts.contains(&table);
        let is_function = statement.functions.contains(&table);
        let own = table.starts_with("sqlite_") || table.starts_with("pragma_");
        return is_part
            || is_function
            || (of_main && !own && (through || allowed.table("main", &table)));
    }
    if let AuthAction::Function { function_name } = context.action {
        let name = lower(function_name);
        return SQLITE.contains(&name.as_str())
            || SQLITE_OPERATORS.contains(&name.as_str())
            || allowed.functions.contains(&name);
    }
    matches!(context.action, AuthAction::Select | AuthAction::Recursive)
}

/// Whether an operator's statement may do this: read and write rows, and nothing else.
fn is_ordinary(action: &AuthAction<'_>, writes: bool) -> bool {
    const NEVER: [&str; 5] = ["load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"];
    if let AuthAction::Function { function_name } = action {
        return !NEVER.contains(&function_name.to_ascii_lowercase().as_str());
    }
    if let AuthAction::Insert { table_name }
    | AuthAction::Delete { table_name }
    | AuthAction::Update { table_name, .. } = action
    {
        return writes && !table_name.to_ascii_lowercase().starts_with("sqlite_");
    }
    matches!(action, AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. })
}

fn ask(
    connection: &Connection,
    ready: &PreparedSql,
    mut space: ResultSpace,
) -> rusqlite::Result<SqlResult> {
    let mut statement = connection.prepare(&ready.statement.text)?;
    if !ready.statement.writes && !statement.readonly() {
        return Err(rusqlite::Error::InvalidQuery);
    }
    let mut bare = 0_usize;
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).and_then(|name| name.get(1..));
        let number = name.and_then(|name| name.parse::<usize>().ok()).unwrap_or_else(|| {
            bare = bare.saturating_add(1);
            bare
        });
        let value = number.checked_sub(1).and_then(|at| ready.values.get(at));
        statement.raw_bind_parameter(index, bound(value.unwrap_or(&Json::Null)))?;
    }
    let kinds =
        statement.columns().iter().map(|c| (c.name().to_owned(), kind(c.decl_type()))).collect();
    let columns = statement.column_count();
    space.columns(kinds);
    let mut rows = statement.raw_query();
    let mut full = false;
    while let Some(row) = rows.next()? {
        // WHY: the last step commits a write. If the loop stopped earlier, the write would be lost
        // without an error.
        if full && ready.statement.writes {
            continue;
        }
        let cells = (0..columns).map(|at| Ok(cell(row.get_ref(at)?)));
        full = !space.push(cells.collect::<rusqlite::Result<_>>()?);
        if full && !ready.statement.writes {
            break;
        }
    }
    drop(rows);
    if ready.statement.writes {
        space.affected(Some(connection.changes()));
    }
    Ok(space.close())
}

fn kind(declared: Option<&str>) -> String {
    declared.unwrap_or_default().to_ascii_lowercase()
}

/// A JSON value as a SQLite parameter; a value that is neither number nor text becomes its JSON
/// text.
fn bound(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Integer(i64::from(*truth)),
        Json::Int(number) => Value::Integer(*number),
        Json::Float(number) => Value::Real(*number),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => Value::Text(canonical::text(value)),
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Value(Json::Null),
        ValueRef::Integer(number) => Cell::Value(answer::integer(number)),
        ValueRef::Real(number) => Cell::Value(answer::float(number)),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(written) => Cell::Value(Json::from(written)),
            Err(_) => Cell::of_bytes(text),
        },
        ValueRef::Blob(bytes) => Cell::of_bytes(bytes),
    }
}

/// SQLite's message, without the statement and without paths.
fn message_of(error: &rusqlite::Error) -> String {
    if let rusqlite::Error::SqliteFailure(_, Some(message))
    | rusqlite::Error::SqlInputError { msg: message, .. } = error
    {
        return message.clone();
    }
    error.to_string()
}
