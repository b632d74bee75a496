//! Sessions of the operator console: which are open, and which logins at an issuer have begun.
//!
//! A store keeps digests alone: of the id that a browser shows, and of the credential that opened the session. It never
//! decides who that is: each request searches the operators for the credential again. Replicas of a hub share the
//! sessions of their database, and a gate with a file of its own has them in memory.

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::closed::texts;
use crate::domain::digest::Digest;
use crate::ledger::store::StoreError;

mod memory;
mod postgres;

pub use memory::MemorySessions;
pub use postgres::PostgresSessions;

/// A session without a request for this long has ended.
pub const IDLE: Duration = Duration::from_secs(15 * 60);
/// So does each session after this long.
pub const LONGEST: Duration = Duration::from_secs(8 * 60 * 60);
/// Sessions of one operator at the same time. One more ends the one of these that was used the longest ago.
// WHY of one: an operator who logs in again and again ends only sessions of their own.
pub const OWN_MAX: u32 = 16;
/// A login at an issuer must come back within this time.
pub const LOGIN_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Logins that have begun and have not come back. One more drops the oldest: strangers who begin logins take no more
/// memory, and keep an operator out only while they begin this many in the time that the operator is at the issuer.
pub const LOGINS_MAX: u32 = 1024;

texts! {
    /// What kind of credential opened a session.
    pub enum CredentialKind {
        /// A token of the configuration.
        Token = "token",
        /// A client certificate.
        Certificate = "certificate",
        /// A subject of an issuer of OpenID Connect.
        Oidc = "oidc",
    }
}

/// The credential that opened a session. No login can be made of its digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionCredential {
    /// Its kind.
    pub kind: CredentialKind,
    /// Its digest.
    pub digest: Digest,
}

/// Keeps the sessions of one tenant. A store that does not answer opens nothing: its error is the caller's 503.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Opens a session under the digest of its new id.
    ///
    /// # Errors
    /// The store does not answer.
    async fn begin(&self, id: &Digest, credential: SessionCredential) -> Result<(), StoreError>;

    /// The credential of an open session, which is used by this.
    ///
    /// # Errors
    /// The store does not answer.
    async fn find(&self, id: &Digest) -> Result<Option<SessionCredential>, StoreError>;

    /// The credential of an open session, which is not used by this.
    ///
    /// # Errors
    /// The store does not answer.
    async fn peek(&self, id: &Digest) -> Result<Option<SessionCredential>, StoreError>;

    /// Ends a session.
    ///
    /// # Errors
    /// The store does not answer.
    async fn end(&self, id: &Digest) -> Result<(), StoreError>;

    /// Notes that a login at an issuer has begun, under the digest of the browser's secret.
    ///
    /// # Errors
    /// The store does not answer.
    async fn begin_login(&self, id: &Digest) -> Result<(), StoreError>;

    /// Whether this login has begun and not come back; from now on it has.
    ///
    /// # Errors
    /// The store does not answer.
    async fn take_login(&self, id: &Digest) -> Result<bool, StoreError>;
}
