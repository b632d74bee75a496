//! PostgreSQL: a few sessions of one role with few rights, and a cancel request for every statement
//! whose caller no longer waits.

mod plan;
mod probe;
mod role;
mod session;
mod value;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::either::Either;
use tokio_util::task::TaskTracker;

use super::answer::{ResultSpace, SqlResult};
use super::{PreparedSql, SqlFailure};
use crate::catalog::secret::Secret;
use crate::catalog::sql;
use crate::ledger::fuse::Fuse;
use crate::tool::net::{self, ConnectError, Connector, Resolve, Secure};
pub use role::RoleError;
use session::{Session, SessionOpening};
use wire::Stream;

/// How long a session is used before the role is checked again.
const LIFETIME: Duration = Duration::from_secs(60);
/// How long the check of a server before serving may take.
const LOOK: Duration = Duration::from_secs(5);
/// How long a cancel request may take.
const CANCEL: Duration = Duration::from_secs(5);

/// Limits of one binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// When the server itself cancels a statement.
    pub timeout: Duration,
    /// Concurrent sessions.
    pub most: usize,
    /// Whether transactions only read and the role may not write.
    pub read_only: bool,
    /// Whether statements come from an agent: names without a schema then resolve in the system
    /// catalogue only.
    pub free: bool,
}

/// Why there is no usable connection.
#[derive(Debug, thiserror::Error)]
enum NoStream {
    /// The connector's error.
    #[error(transparent)]
    Refused(ConnectError),
    /// TLS is demanded and the server does not support it.
    #[error(transparent)]
    Plain(wire::WireError),
    /// The server cannot prove its identity.
    #[error("the database shows no certificate that is trusted: {0}")]
    Untrusted(ConnectError),
}

/// One server and the gate's role there.
#[derive(Debug)]
pub(super) struct PostgresBackend {
    target: sql::Postgres,
    limits: Limits,
    connector: Connector,
    secure: Option<Secure>,
    slots: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    tasks: TaskTracker,
}

impl PostgresBackend {
    /// Prepares the backend without connecting.
    ///
    /// # Errors
    /// The certificate authorities cannot be used.
    pub fn new(
        target: sql::Postgres,
        limits: Limits,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, net::Error> {
        let ranges = target.private_addresses.clone();
        let connector = Connector::new(target.origin.clone(), ranges, resolve);
        let secure =
            target.origin.tls.then(|| Secure::new(&target.origin.host, target.ca.as_deref()));
        Ok(Self {
            secure: secure.transpose()?,
            connector,
            slots: Arc::new(Semaphore::new(limits.most)),
            idle: Mutex::default(),
            tasks: TaskTracker::new(),
            target,
            limits,
        })
    }

    /// Runs one statement.
    pub async fn ask(
        self: &Arc<Self>,
        ready: &PreparedSql,
        space: ResultSpace,
        fuse: &Fuse,
    ) -> Result<SqlResult, SqlFailure> {
        let mut lease = self.lease().await?;
        let session = lease.session.as_mut();
        let session = session.ok_or_else(|| SqlFailure::unreached("there is no session"))?;
        let (answer, clean) = session.ask(ready, space, (self.limits, fuse)).await?;
        if clean {
            lease.give_back();
        }
        answer
    }

    /// Checks that the role is fit for use, if the server is reachable.
    pub async fn look(&self) -> Result<(), RoleError> {
        match tokio::time::timeout(LOOK, self.open()).await {
            Ok(Ok(session)) => {
                self.idle.lock().push(session);
                Ok(())
            }
            Ok(Err(SqlFailure::Unfit(why))) => Err(why),
            Ok(Err(SqlFailure::Failed { .. } | SqlFailure::Unknown { .. })) | Err(_) => Ok(()),
        }
    }

    async fn lease(self: &Arc<Self>) -> Result<Lease, SqlFailure> {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let slot = slot.map_err(|_| SqlFailure::unreached("the database is closed"))?;
        let mut old = Vec::new();
        let found = loop {
            let Some(session) = self.idle.lock().pop() else { break None };
            if session.is_quiet() && session.born() + LIFETIME > Instant::now() {
                break Some(session);
            }
            old.push(session);
        };
        for session in old {
            self.tasks.spawn(session.close());
        }
        let session = match found {
            Some(session) => session,
            None => self.open().await?,
        };
        Ok(Lease { postgres: Arc::clone(self), session: Some(session), _slot: slot })
    }

    async fn connect(&self) -> Result<Stream, SqlFailure> {
        self.stream().await.map_err(|none| SqlFailure::unreached(none.to_string()))
    }

    /// A connection to a checked address, over TLS if the binding demands it.
    async fn stream(&self) -> Result<Stream, NoStream> {
        let mut stream = self.connector.connect().await.map_err(NoStream::Refused)?;
        let Some(secure) = &self.secure else { return Ok(Either::Left(stream)) };
        wire::ask_tls(&mut stream).await.map_err(NoStream::Plain)?;
        let secured = secure.handshake(stream).await.map_err(NoStream::Untrusted)?;
        Ok(Either::Right(Box::new(secured)))
    }

    async fn open(&self) -> Result<Session, SqlFailure> {
        let stream = self.connect().await?;
        self.begin(stream).await
    }

    /// Authenticates, and checks the rights of the role.
    async fn begin(&self, stream: Stream) -> Result<Session, SqlFailure> {
        let millis = |duration: Duration| duration.as_millis().to_string();
        let timeout = millis(self.limits.timeout);
        let idle = millis(self.limits.timeout.saturating_add(CANCEL));
        let path = if self.limits.free {
            "pg_catalog, pg_temp".to_owned()
        } else {
            let home = self.target.search_path.iter().map(|name| format!("\"{name}\""));
            ["pg_catalog".into(), home.collect::<Vec<_>>().join(", "), "pg_temp".into()].join(", ")
        };
        let settings = [
            ("user", self.target.user.as_str()),
            ("database", self.target.database.as_str()),
            ("application_name", "wicketgate"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("TimeZone", "UTC"),
            ("bytea_output", "hex"),
            ("extra_float_digits", "1"),
            ("standard_conforming_strings", "on"),
            ("search_path", path.as_str()),
            ("statement_timeout", timeout.as_str()),
            ("lock_timeout", timeout.as_str()),
            ("idle_in_transaction_session_timeout", idle.as_str()),
            ("default_transaction_read_only", if self.limits.read_only { "on" } else { "off" }),
        ];
        let password = self.target.password.as_ref().map(Secret::latest);
        let opening = SessionOpening {
            settings: &settings,
            user: &self.target.user,
            password: password.as_deref(),
            reader: self.limits.read_only,
        };
        Session::open(stream, &opening).await
    }

    /// Sends a cancel request for a session that was dropped here.
    async fn cancel(self: Arc<Self>, key: (i32, i32)) {
        let asking = async {
            if let Ok(mut stream) = self.connect().await {
                let _ = wire::ask_cancel(&mut stream, key).await;
            }
        };
        let _ = tokio::time::timeout(CANCEL, asking).await;
    }
}

/// A session in use, and the slot for one. If it is dropped before it is returned, it is closed and
/// the server receives a cancel request for its statement.
#[derive(Debug)]
struct Lease {
    postgres: Arc<PostgresBackend>,
    session: Option<Session>,
    _slot: OwnedSemaphorePermit,
}

impl Lease {
    fn give_back(mut self) {
        if let Some(session) = self.session.take() {
            self.postgres.idle.lock().push(session);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        // Outside a runtime the process is ending, and the connection with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let postgres = Arc::clone(&self.postgres);
        self.postgres.tasks.spawn_on(postgres.cancel(session.key()), &runtime);
    }
}
