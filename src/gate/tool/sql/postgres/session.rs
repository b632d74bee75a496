//! One connection to a PostgreSQL server: opens it, checks its role, and runs one statement at a
//! time.

use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{
    DataRowBody, ErrorResponseBody, Message, RowDescriptionBody,
};
use tokio::time::Instant;
use tokio_postgres::fallible_iterator::FallibleIterator as _;

use super::Limits;
use super::plan::{self, PlanLookup};
use super::role::{CALLS, OF_US, READER, ROLE, RoleError};
use super::value;
use super::wire::{PostgresWire, Stream, WireError};
use crate::domain::json::Json;
use crate::domain::outcome::FailureClass;
use crate::ledger::fuse::Fuse;
use crate::tool::sql::answer::{Cell, ResultSpace, SqlResult};
use crate::tool::sql::{PreparedSql, SqlFailure};

/// Bytes of a value beyond the remaining space: binary values arrive as hexadecimal digits.
const ROW_SLACK: usize = 64 * 1024;
/// The first server version that detects a lost client by itself.
const NOTICES_SINCE: u32 = 14;

/// The parameters for opening a session.
#[derive(Debug)]
pub(super) struct SessionOpening<'a> {
    pub settings: &'a [(&'a str, &'a str)],
    pub user: &'a str,
    pub password: Option<&'a str>,
    /// Whether the role must not have any right to write.
    pub reader: bool,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    wire: PostgresWire,
    key: (i32, i32),
    version: u32,
    born: Instant,
}

/// An error of the server.
#[derive(Default)]
struct ServerNotice {
    code: String,
    message: String,
}

impl ServerNotice {
    fn read(body: &ErrorResponseBody) -> Result<Self, WireError> {
        let mut notice = Self::default();
        let mut fields = body.fields();
        while let Some(field) = fields.next().map_err(WireError::unreadable)? {
            let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => notice.code = text,
                b'M' => notice.message = text,
                _ => {}
            }
        }
        Ok(notice)
    }

    fn into_failure(self) -> SqlFailure {
        let class = match self.code.as_str() {
            "57014" | "55P03" | "25P03" => FailureClass::Timeout,
            _ => FailureClass::ToolError,
        };
        SqlFailure::failed(class, format!("the database said: {} ({})", self.message, self.code))
    }
}

impl From<WireError> for SqlFailure {
    fn from(error: WireError) -> Self {
        let class = match error {
            WireError::Lost(_) | WireError::Unwritable => FailureClass::ToolError,
            WireError::RowTooLarge => FailureClass::TooLarge,
            WireError::Protocol(_) => FailureClass::Protocol,
        };
        Self::failed(class, error.to_string())
    }
}

/// The response to one request, up to its `Z`.
#[derive(Default)]
struct SessionReply {
    error: Option<ServerNotice>,
    tag: String,
    status: u8,
}

type StatementDescription = (Vec<(String, u32)>, Vec<Vec<Option<String>>>, SessionReply);

impl Session {
    /// Authenticates, and checks the rights of the role.
    pub async fn open(stream: Stream, opening: &SessionOpening<'_>) -> Result<Self, SqlFailure> {
        Self::opened(stream, opening).await.map_err(unopened)
    }

    async fn opened(stream: Stream, opening: &SessionOpening<'_>) -> Result<Self, SqlFailure> {
        let wire = PostgresWire::new(stream);
        let mut session = Self { wire, key: (0, 0), version: 0, born: Instant::now() };
        session.wire.startup(opening.settings)?;
        session.greet(opening).await?;
        let sql = [ROLE, if opening.reader { READER } else { ", ''" }, OF_US].concat();
        session.wire.run(&sql, &[])?;
        session.wire.sync();
        session.wire.flush().await?;
        let mut faults = None;
        let answered = session.answered(|row| faults = Some(row)).await?;
        if let Some(notice) = answered.error {
            return Err(notice.into_failure());
        }
        let faults =
            faults.ok_or_else(|| SqlFailure::unreached("the role has no entry of its own"))?;
        let rights: Vec<String> = faults.into_iter().flatten().filter(|f| !f.is_empty()).collect();
        if !rights.is_empty() {
            return Err(SqlFailure::Unfit(RoleError { user: opening.user.to_owned(), rights }));
        }
        Ok(session)
    }

    async fn greet(&mut self, opening: &SessionOpening<'_>) -> Result<(), SqlFailure> {
        let mut scram: Option<ScramSha256> = None;
        let mut proven = true;
        self.wire.flush().await?;
        loop {
            let message = self.wire.message(0).await?;
            #[expect(clippy::wildcard_enum_match_arm, reason = "every other message is refused")]
            match message {
                Message::AuthenticationOk if proven => {}
                Message::AuthenticationSasl(body) => {
                    proven = false;
                    let asks = || SqlFailure::unreached("the database asks for a password");
                    let password = opening.password.ok_or_else(asks)?;
                    if !body.mechanisms().any(|one| Ok(one == SCRAM_SHA_256)).unwrap_or(false) {
                        return Err(SqlFailure::unreached(METHOD));
                    }
                    let first =
                        ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
                    self.wire.sasl_first(SCRAM_SHA_256, first.message())?;
                    self.wire.flush().await?;
                    scram = Some(first);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let scram = scram.as_mut().ok_or_else(|| SqlFailure::unreached(METHOD))?;
                    // The library refuses a server that demands more than 100,000 rounds.
                    scram.update(body.data()).map_err(|_error| SqlFailure::unreached(UNPROVEN))?;
                    self.wire.sasl_next(scram.message())?;
                    self.wire.flush().await?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    proven =
                        scram.take().is_some_and(|mut scram| scram.finish(body.data()).is_ok());
                    if !proven {
                        return Err(SqlFailure::unreached(UNPROVEN));
                    }
                }
                Message::ParameterStatus(body) => {
                    if body.name().is_ok_and(|name| name == "server_version") {
                        let version = body.value().unwrap_or_default();
                        let major = version.split(|c: char| !c.is_ascii_digit()).next();
                        self.version = major.and_then(|m| m.parse().ok()).unwrap_or(0);
                    }
                }
                Message::BackendKeyData(body) => self.key = (body.process_id(), body.secret_key()),
                Message::ReadyForQuery(_) if proven => return Ok(()),
                Message::ErrorResponse(body) => {
                    return Err(ServerNotice::read(&body)?.into_failure());
                }
                _ => return Err(SqlFailure::unreached(METHOD)),
            }
        }
    }

    /// The functions that the role may call and should not, `a, b, …`; `None` if there are none.
    ///
    /// # Errors
    /// The server does not respond, or refuses with a reason.
    pub async fn dangerous(&mut self) -> Result<Option<String>, SqlFailure> {
        self.wire.run(CALLS, &[])?;
        self.wire.sync();
        self.wire.flush().await?;
        let mut found = None;
        let answered = self.answered(|row| found = row.into_iter().next().flatten()).await?;
        answered.error.map_or(Ok(found), |notice| Err(notice.into_failure()))
    }

    /// The key that a cancel request for this session must present.
    pub const fn key(&self) -> (i32, i32) {
        self.key
    }

    /// When the session was opened.
    pub const fn born(&self) -> Instant {
        self.born
    }

    /// Whether the connection is open and has no unread data since it was last used.
    pub fn is_quiet(&self) -> bool {
        self.wire.is_quiet()
    }

    /// Ends the session in order.
    pub async fn close(mut self) {
        self.wire.terminate();
        let _ = self.wire.flush().await;
    }

    /// Runs one statement in a transaction of its own. Returns its result, and whether the session
    /// is clean, so that another statement may follow.
    ///
    /// # Errors
    /// The session is unusable.
    pub async fn ask(
        &mut self,
        ready: &PreparedSql,
        space: ResultSpace,
        (limits, fuse): (Limits, &Fuse),
    ) -> Result<(Result<SqlResult, SqlFailure>, bool), SqlFailure> {
        let read_only = limits.read_only;
        let values: Vec<Option<String>> = ready.values.iter().map(value::parameter).collect();
        self.wire.run(if read_only { "BEGIN READ ONLY" } else { "BEGIN READ WRITE" }, &[])?;
        // The first query: after it the transaction's mode cannot be changed.
        self.wire.run(
            if self.version < NOTICES_SINCE {
                "SELECT 1"
            } else {
                "SELECT pg_catalog.set_config('client_connection_check_interval', '1000', true)"
            },
            &[],
        )?;
        let look = limits.free.then(|| PlanLookup::of(&ready.statement));
        if let Some(look) = &look {
            let (facts, about) = look.facts();
            self.wire.run(facts, &about)?;
            self.wire.run(&look.explain(), &values)?;
        }
        self.wire.parse(&ready.statement.text)?;
        self.wire.describe()?;
        self.wire.sync();
        self.wire.flush().await?;
        let (columns, rows, answered) = self.described().await?;
        if let Some(notice) = answered.error {
            return self.taken_back(notice.into_failure()).await;
        }
        if let Some(look) = &look {
            let judged = match rows.as_slice() {
                [_, facts, plan] => {
                    look.judge(facts, plan.iter().flatten().next().map_or("", String::as_str))
                }
                _ => look.judge(&[], ""),
            };
            if let Err(why) = judged {
                let class = FailureClass::Changed;
                let message = why.to_string();
                let why = SqlFailure::Failed { class, started: false, message };
                return self.taken_back(why).await;
            }
        }
        if let Err(late) = fuse.redeem() {
            return self.taken_back(late.into()).await;
        }
        self.wire.bind(&values)?;
        // WHY 0 (to the end) for a statement that may write: stopped after some rows, it would have
        // done a part of its work, and that part would be committed.
        let rows = i32::try_from(space.rows_left().saturating_add(1)).unwrap_or(i32::MAX);
        self.wire.execute(if read_only { rows } else { 0 })?;
        self.wire.sync();
        if read_only {
            self.read(&columns, space).await
        } else {
            self.write(ready, &columns, space, fuse).await
        }
    }

    async fn read(
        &mut self,
        columns: &[(String, u32)],
        mut space: ResultSpace,
    ) -> Result<(Result<SqlResult, SqlFailure>, bool), SqlFailure> {
        self.end("ROLLBACK")?;
        self.wire.flush().await?;
        let cap = cap(&space);
        space.columns(named(columns));
        let mut answered = SessionReply::default();
        loop {
            let message = match self.wire.message(cap).await {
                Ok(message) => message,
                Err(WireError::RowTooLarge) => {
                    space.truncate();
                    return Ok((Ok(space.close()), false));
                }
                Err(other) => return Err(other.into()),
            };
            if let Message::DataRow(body) = message {
                let last = space.rows_left() == 0;
                if !space.push(row(&body, columns)?) && !last {
                    // The remaining rows are not read.
                    return Ok((Ok(space.close()), false));
                }
            } else if take(&mut answered, message)? {
                break;
            }
        }
        let answer =
            answered.error.map_or_else(|| Ok(space.close()), |notice| Err(notice.into_failure()));
        Ok((answer, self.cleared().await?))
    }

    /// Whether the transaction ended and the session was reset: the responses to [`Self::end`].
    async fn cleared(&mut self) -> Result<bool, WireError> {
        let (ended, cleared) = (self.answered(drop).await?, self.answered(drop).await?);
        Ok(ended.error.is_none() && cleared.error.is_none() && cleared.status == b'I')
    }

    /// Rolls the transaction back, for this reason.
    async fn taken_back(
        &mut self,
        why: SqlFailure,
    ) -> Result<(Result<SqlResult, SqlFailure>, bool), SqlFailure> {
        self.end("ROLLBACK")?;
        self.wire.flush().await?;
        Ok((Err(why), self.cleared().await?))
    }

    async fn write(
        &mut self,
        ready: &PreparedSql,
        columns: &[(String, u32)],
        mut space: ResultSpace,
        fuse: &Fuse,
    ) -> Result<(Result<SqlResult, SqlFailure>, bool), SqlFailure> {
        self.wire.flush().await?;
        let cap = cap(&space);
        space.columns(named(columns));
        let mut answered = SessionReply::default();
        let mut full = false;
        loop {
            let message = self.wire.message(cap).await?;
            if let Message::DataRow(body) = message {
                full = full || !space.push(row(&body, columns)?);
            } else if take(&mut answered, message)? {
                break;
            }
        }
        if let Some(notice) = answered.error {
            return self.taken_back(notice.into_failure()).await;
        }
        if ready.statement.writes {
            let count = answered.tag.rsplit(' ').next().and_then(|count| count.parse().ok());
            space.affected(count);
        }
        // By now another process may hold this gate's slot and have closed the call as unknown.
        if let Err(late) = fuse.redeem() {
            return self.taken_back(late.into()).await;
        }
        self.end("COMMIT")?;
        let unknown = |_: WireError| SqlFailure::Unknown { cause: "connection_lost" };
        self.wire.flush().await.map_err(unknown)?;
        let ended = self.answered(drop).await.map_err(unknown)?;
        if let Some(notice) = ended.error {
            return Err(notice.into_failure());
        }
        if ended.tag != "COMMIT" {
            return Err(SqlFailure::failed(FailureClass::ToolError, "the database took it back"));
        }
        // The commit succeeded, whatever happens to the connection now.
        let clean = self.answered(drop).await.is_ok_and(|c| c.error.is_none() && c.status == b'I');
        Ok((Ok(space.close()), clean))
    }

    /// Ends the transaction and resets the session; two requests.
    fn end(&mut self, how: &str) -> Result<(), WireError> {
        self.wire.run(how, &[])?;
        self.wire.sync();
        self.wire.run("DISCARD ALL", &[])?;
        self.wire.sync();
        Ok(())
    }

    /// The columns of the last statement, and the rows of those before it, as text.
    async fn described(&mut self) -> Result<StatementDescription, WireError> {
        let (mut columns, mut rows, mut answered) =
            (Vec::new(), Vec::new(), SessionReply::default());
        loop {
            let message = self.wire.message(plan::BYTES_MAX).await?;
            if let Message::RowDescription(body) = message {
                columns = read_columns(&body)?;
            } else if let Message::DataRow(body) = message {
                rows.push(texts(&body)?);
            } else if take(&mut answered, message)? {
                return Ok((columns, rows, answered));
            }
        }
    }

    /// The rest of a response, with its rows as text.
    async fn answered(
        &mut self,
        mut rows: impl FnMut(Vec<Option<String>>),
    ) -> Result<SessionReply, WireError> {
        let mut answered = SessionReply::default();
        loop {
            let message = self.wire.message(ROW_SLACK).await?;
            if let Message::DataRow(body) = message {
                rows(texts(&body)?);
            } else if take(&mut answered, message)? {
                return Ok(answered);
            }
        }
    }
}

const METHOD: &str =
    "the database asks for a password in a way that is not taken (SCRAM-SHA-256 only)";
const UNPROVEN: &str = "the database is not who it should be";

/// Maps an error before the call was sent to "not started".
fn unopened(failure: SqlFailure) -> SqlFailure {
    match failure {
        SqlFailure::Failed { message, .. } => SqlFailure::unreached(message),
        SqlFailure::Unknown { cause } => SqlFailure::unreached(cause),
        failure @ SqlFailure::Unfit(_) => failure,
    }
}

/// Bytes of a row that could still fit.
fn cap(space: &ResultSpace) -> usize {
    space.bytes_left().saturating_mul(2).saturating_add(ROW_SLACK)
}

/// Processes a message that is not a row; `true` at the end of the response.
fn take(answered: &mut SessionReply, message: Message) -> Result<bool, WireError> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other message is refused")]
    match message {
        Message::ErrorResponse(body) => answered.error = Some(ServerNotice::read(&body)?),
        Message::CommandComplete(body) => {
            answered.tag = body.tag().map_err(WireError::unreadable)?.to_owned();
        }
        Message::ReadyForQuery(body) => {
            answered.status = body.status();
            return Ok(true);
        }
        Message::ParseComplete
        | Message::BindComplete
        | Message::CloseComplete
        | Message::ParameterDescription(_)
        | Message::NoData
        | Message::PortalSuspended
        | Message::ParameterStatus(_)
        | Message::EmptyQueryResponse => {}
        _ => return Err(WireError::Protocol("an unexpected message")),
    }
    Ok(false)
}

fn read_columns(body: &RowDescriptionBody) -> Result<Vec<(String, u32)>, WireError> {
    let columns = body.fields().map(|field| Ok((field.name().to_owned(), field.type_oid())));
    columns.collect().map_err(WireError::unreadable)
}

fn named(columns: &[(String, u32)]) -> Vec<(String, String)> {
    columns.iter().map(|(name, oid)| (name.clone(), value::type_name(*oid).to_owned())).collect()
}

fn values(body: &DataRowBody) -> Result<Vec<Option<&[u8]>>, WireError> {
    let value = |range: Option<_>| Ok(range.and_then(|range| body.buffer().get(range)));
    body.ranges().map(value).collect().map_err(WireError::unreadable)
}

fn texts(body: &DataRowBody) -> Result<Vec<Option<String>>, WireError> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    Ok(values(body)?.into_iter().map(|value| value.map(text)).collect())
}

fn row(body: &DataRowBody, columns: &[(String, u32)]) -> Result<Vec<Cell>, WireError> {
    let values = values(body)?;
    if values.len() != columns.len() {
        return Err(WireError::Protocol("a row has other columns than were said"));
    }
    let typed = values.into_iter().zip(columns).map(|(bytes, (_, oid))| {
        let Some(bytes) = bytes else { return Cell::Value(Json::Null) };
        // WHY: a database without an encoding returns stored bytes unchanged, whatever encoding was
        // requested.
        match std::str::from_utf8(bytes) {
            Ok(text) => value::cell(*oid, text),
            Err(_) => Cell::of_bytes(bytes),
        }
    });
    Ok(typed.collect())
}
