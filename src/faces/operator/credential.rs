//! The credential of a request: a token, or the certificate of its TLS connection.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::Extensions;
use http::header::{HeaderMap, HeaderValue, InvalidHeaderValue};
use http::request::Parts;
use zeroize::Zeroizing;

use super::operators::Login;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::identity::IdentityError;
use crate::identity::callers::{TokenError, read_token};
use crate::identity::certificate::ClientCertificate;
use crate::serve::bearer;

/// The credential of one request.
#[derive(Clone)]
pub enum ShownCredential {
    /// No usable credential, and why.
    Nothing(IdentityError),
    /// The text after `Bearer`.
    Token(Zeroizing<String>),
    /// The certificate of its connection, and no token.
    Certificate(Arc<ClientCertificate>),
    /// The credential that opened a session of the console; only the console makes this one.
    Session(Login),
}

impl std::fmt::Debug for ShownCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing(_) => "Nothing",
            Self::Token(_) => "Token",
            Self::Certificate(_) => "Certificate",
            Self::Session(_) => "Session",
        })
    }
}

impl ShownCredential {
    /// The credential in these headers; the listener puts the client certificate into `extensions`.
    pub fn of(headers: &HeaderMap, extensions: &Extensions) -> Self {
        let certificate = extensions.get::<Arc<ClientCertificate>>();
        match (bearer(headers), certificate) {
            (Ok(None), Some(certificate)) => Self::Certificate(Arc::clone(certificate)),
            (Ok(Some(token)), None) => Self::Token(Zeroizing::new(token.to_owned())),
            (Ok(None), None) => Self::Nothing(IdentityError::Missing),
            (Err(error), None) => Self::Nothing(error),
            // WHY: a third party could add its own credential to another caller's connection and so
            // choose the caller.
            (Ok(Some(_)) | Err(_), Some(_)) => Self::Nothing(IdentityError::Ambiguous),
        }
    }

    /// What a list of operators is searched for; `None` without a credential, or after its end.
    pub fn login(&self, now: Timestamp) -> Option<Login> {
        match self {
            Self::Nothing(_) => None,
            Self::Token(token) => Some(Login::Token(Digest::of(&[token.as_bytes()]))),
            Self::Certificate(shown) => {
                (now <= shown.not_after).then_some(Login::Certificate(shown.thumbprint))
            }
            Self::Session(login) => Some(login.clone()),
        }
    }

    /// Why this credential identifies no caller. Callers ask only where that is so.
    pub const fn stranger(&self) -> IdentityError {
        match self {
            Self::Nothing(error) => *error,
            Self::Token(_) | Self::Certificate(_) | Self::Session(_) => IdentityError::Unknown,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for ShownCredential {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers, &parts.extensions))
    }
}

/// Why the token in a file cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum Unshown {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] TokenError),
    /// The token is not a valid header value.
    #[error(transparent)]
    Header(#[from] InvalidHeaderValue),
}

/// The value of the `Authorization` header with the current token of this file.
///
/// # Errors
/// The error of the file; never its content.
pub fn showing(path: &Path) -> Result<HeaderValue, Unshown> {
    let token = read_token(path)?;
    let bearer = Zeroizing::new(format!("Bearer {}", &*token));
    let mut header = HeaderValue::from_str(&bearer)?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::*;

    fn headers(all: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in all {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_certificate_counts_alone_and_with_a_token_neither_does() {
        let thumbprint = Digest::of(&[b"der"]);
        let not_after = Timestamp::from_millis(1);
        let certificate = ClientCertificate { thumbprint, not_after, spiffe: None };
        let mut extensions = Extensions::new();
        extensions.insert(Arc::new(certificate));
        assert!(matches!(
            ShownCredential::of(&headers(&[]), &extensions),
            ShownCredential::Certificate(_)
        ));
        for all in [&["Bearer abc"][..], &["Basic abc"]] {
            let shown = ShownCredential::of(&headers(all), &extensions);
            assert!(matches!(shown, ShownCredential::Nothing(IdentityError::Ambiguous)), "{all:?}");
        }
    }
}
