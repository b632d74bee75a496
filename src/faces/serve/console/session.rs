//! Sessions: who is logged in to the console, for how long.
//!
//! A session is bound to the credential that opened it: each request searches the operators for that credential again,
//! so that a removed operator is out at once. Of an id only its SHA-256 is kept, by a store that replicas of a hub share.

use std::sync::Arc;

use http::Response;
use http::header::HeaderMap;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::cookie::SESSION;
use crate::clock::{Entropy, random32};
use crate::domain::commitment::derived;
use crate::domain::digest::Digest;
use crate::identity::certificate::ClientCertificate;
use crate::ledger::store::StoreError;
use crate::operator::credential::ShownCredential;
use crate::operator::operators::Login;
use crate::session::SessionStore;

/// The secret that a browser shows for its session.
pub(super) struct SessionId(Zeroizing<[u8; 32]>);

impl SessionId {
    /// The id in these headers.
    pub(super) fn of(headers: &HeaderMap, secure: bool) -> Option<Self> {
        SESSION.read(headers, secure).map(Self)
    }

    /// Gives it to the browser with this answer.
    pub(super) fn give<B>(&self, response: &mut Response<B>, secure: bool) {
        SESSION.set(response, Some(&self.0), secure);
    }

    /// What a form that is sent to this path carries: it cannot be made without the id.
    pub(super) fn token(&self, path: &str) -> String {
        hex::encode(derived(&self.0, &[b"wicketgate/console/form/1\0", path.as_bytes()]))
    }

    /// Whether a form that was sent to this path carried the right token.
    pub(super) fn is_token(&self, path: &str, token: &str) -> bool {
        bool::from(self.token(path).as_bytes().ct_eq(token.as_bytes()))
    }

    /// What is kept of it.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(&[&*self.0])
    }
}

/// The open sessions, wherever they are kept.
pub(super) struct ConsoleSessions(Arc<dyn SessionStore>);

impl ConsoleSessions {
    pub(super) fn new(store: Arc<dyn SessionStore>) -> Self {
        Self(store)
    }

    /// Opens a session under a new id.
    pub(super) async fn begin(
        &self,
        login: &Login,
        entropy: &dyn Entropy,
    ) -> Result<SessionId, StoreError> {
        let id = SessionId(Zeroizing::new(random32(entropy)));
        self.0.begin(&id.digest(), login.credential()).await?;
        Ok(id)
    }

    /// The login of an open session, which is used by this.
    pub(super) async fn find(&self, id: &SessionId) -> Result<Option<Login>, StoreError> {
        Ok(self.0.find(&id.digest()).await?.map(Login::of_session))
    }

    /// The login of an open session, which is not used by this.
    pub(super) async fn peek(&self, id: &Digest) -> Result<Option<Login>, StoreError> {
        Ok(self.0.peek(id).await?.map(Login::of_session))
    }

    /// Ends a session.
    pub(super) async fn end(&self, id: &SessionId) -> Result<(), StoreError> {
        self.0.end(&id.digest()).await
    }

    /// Notes that the login with this digest has begun at the issuer.
    pub(super) async fn begin_login(&self, id: &Digest) -> Result<(), StoreError> {
        self.0.begin_login(id).await
    }

    /// Whether that login has begun and comes back for the first time, in time.
    pub(super) async fn take_login(&self, id: &Digest) -> Result<bool, StoreError> {
        self.0.take_login(id).await
    }
}

/// The credential of a session on a connection with this certificate, or with none. What a certificate opened counts
/// only where the certificate is shown again; it and another credential together count nowhere.
pub(super) fn shown(
    login: Login,
    certificate: Option<&Arc<ClientCertificate>>,
) -> Option<ShownCredential> {
    match (login, certificate) {
        (login @ (Login::Token(_) | Login::Oidc(_)), None) => Some(ShownCredential::Session(login)),
        (Login::Certificate(of), Some(certificate)) if of == certificate.thumbprint => {
            Some(ShownCredential::Certificate(Arc::clone(certificate)))
        }
        (Login::Token(_) | Login::Oidc(_), Some(_)) | (Login::Certificate(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemEntropy;
    use crate::domain::time::Timestamp;

    fn id() -> SessionId {
        SessionId(Zeroizing::new(random32(&SystemEntropy)))
    }

    #[test]
    fn a_form_token_is_of_one_session_and_one_path() {
        let (one, two) = (id(), id());
        let token = one.token("/console/logout");
        assert!(one.is_token("/console/logout", &token));
        assert!(!one.is_token("/console/orders", &token));
        assert!(!two.is_token("/console/logout", &token));
        assert!(!one.is_token("/console/logout", ""));
        assert!(!token.contains(&hex::encode(*one.0)));
    }

    #[test]
    fn what_a_certificate_opened_counts_only_with_that_certificate() {
        let of = Digest::of(&[b"der"]);
        let certificate = |thumbprint| {
            let not_after = Timestamp::from_millis(1);
            Arc::new(ClientCertificate { thumbprint, not_after, spiffe: None })
        };
        let (own, other) = (certificate(of), certificate(Digest::of(&[b"other"])));
        for login in [Login::Token(of), Login::Oidc(of)] {
            assert!(matches!(shown(login.clone(), None), Some(ShownCredential::Session(_))));
            assert!(shown(login, Some(&own)).is_none());
        }
        let opened = || Login::Certificate(of);
        assert!(matches!(shown(opened(), Some(&own)), Some(ShownCredential::Certificate(_))));
        assert!(shown(opened(), Some(&other)).is_none());
        assert!(shown(opened(), None).is_none());
    }
}
