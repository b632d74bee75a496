//! Logging in at an issuer of OpenID Connect: the authorization code flow with PKCE.
//!
//! The issuer says who a person is and nothing else: `issuer#subject` is searched in the operators of the configuration,
//! and no claim is a role. What the issuer sends through the browser counts only with the secret of the login that began
//! in this browser; what it sends to us counts only for this client, this login and now.

mod claims;
mod issuer;
mod started;

use std::sync::Arc;

use tokio::sync::Semaphore;
use url::Url;

use super::OidcSettings;
use crate::clock::Clock;
use crate::crypto::jose;
use claims::{ClaimError, Expected};
use issuer::{Issuer, IssuerError};

pub(super) use issuer::error_code;
pub(super) use started::StartedLogin;

/// Where a login at the issuer begins. A link leads there, because browsers hold the redirects of a form to
/// `form-action`; the guard refuses a link of another site.
pub(super) const START: &str = "/console/login/oidc";
/// Where the issuer sends the browser back.
pub(super) const CALLBACK: &str = "/console/login/oidc/callback";

/// Logins that may ask the issuer at the same time.
const AT_ONCE: usize = 8;
/// Bytes of the code that an issuer sends back.
const CODE_MAX: usize = 4096;

/// Why no login came of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum OidcError {
    /// Too many logins ask the issuer now.
    #[error("too many logins at the same time")]
    Busy,
    /// The issuer, or our own part in front of it, does not work.
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    /// The answer is said to be of another issuer (RFC 9207).
    #[error("the answer is of another issuer")]
    MixedUp,
    /// The answer has no code, or something else in its place.
    #[error("the answer has no code")]
    NoCode,
    /// The issuer does not take the code.
    #[error("the issuer does not take the code")]
    Code,
    /// The ID token does not count.
    #[error("the ID token: {0}")]
    Token(#[from] jose::Error),
    /// The ID token is not for this login.
    #[error("the ID token: {0}")]
    Claims(#[from] ClaimError),
}

impl OidcError {
    /// Whether the fault is not the browser's, so that a later login may work.
    pub(super) const fn is_ours(&self) -> bool {
        match self {
            Self::Busy | Self::Issuer(_) => true,
            Self::MixedUp | Self::NoCode | Self::Code | Self::Token(_) | Self::Claims(_) => false,
        }
    }
}

/// What the issuer sent back through the browser.
#[derive(Clone, Copy)]
pub(super) struct Returned<'a> {
    /// The code.
    pub code: &'a str,
    /// Whose answer it is said to be; empty if nothing is said.
    pub issuer: &'a str,
}

/// The issuer, and our part of a login there.
pub(super) struct Oidc {
    settings: OidcSettings,
    issuer: Issuer,
    turns: Arc<Semaphore>,
}

impl Oidc {
    pub(super) fn new(settings: OidcSettings) -> Self {
        let issuer = Issuer::new(settings.clone());
        Self { settings, issuer, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// What people call the issuer.
    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// The issuer, as its tokens name it.
    pub(super) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// The one address where the issuer sends browsers back.
    fn redirect_uri(&self) -> String {
        format!("{}{CALLBACK}", self.settings.origin)
    }

    /// The address at the issuer where this login goes on.
    ///
    /// # Errors
    /// The issuer cannot be asked for it.
    pub(super) async fn address(
        &self,
        started: &StartedLogin,
        clock: &dyn Clock,
    ) -> Result<Url, OidcError> {
        let _turn = self.turns.try_acquire().map_err(|_| OidcError::Busy)?;
        let document = self.issuer.document(clock).await?;
        let mut url = document.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.redirect_uri())
            .append_pair("scope", "openid")
            .append_pair("state", &started.state())
            .append_pair("nonce", &started.nonce())
            .append_pair("code_challenge", &started.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(url)
    }

    /// The subject of the person who came back from this login.
    ///
    /// # Errors
    /// The answer is of no person for this login, or the issuer cannot be asked now.
    pub(super) async fn subject(
        &self,
        returned: Returned<'_>,
        started: &StartedLogin,
        clock: &dyn Clock,
    ) -> Result<String, OidcError> {
        let _turn = self.turns.try_acquire().map_err(|_| OidcError::Busy)?;
        let document = self.issuer.document(clock).await?;
        let said = !returned.issuer.is_empty() || document.names_itself;
        if said && returned.issuer != self.settings.issuer {
            return Err(OidcError::MixedUp);
        }
        if returned.code.is_empty() || returned.code.len() > CODE_MAX {
            return Err(OidcError::NoCode);
        }
        let form = [
            ("grant_type", "authorization_code"),
            ("code", returned.code),
            ("redirect_uri", &self.redirect_uri()),
            ("code_verifier", &started.verifier()),
        ];
        let token = self.issuer.token(&document, &form).await?.ok_or(OidcError::Code)?;
        let claims = match self.issuer.keys(&document, clock).await?.open(&token) {
            // It may have a new key since we looked.
            Err(jose::Error::UnknownKey) => {
                self.issuer.newer_keys(&document, clock).await?.open(&token)?
            }
            opened => opened?,
        };
        let expected = Expected {
            issuer: &self.settings.issuer,
            client: &self.settings.client_id,
            nonce: &started.nonce(),
            now: clock.now().seconds(),
        };
        Ok(expected.subject(&claims)?)
    }
}
