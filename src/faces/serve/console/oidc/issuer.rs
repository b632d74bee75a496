//! The issuer: its document, its keys, and the exchange of a code for a token.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};
use zeroize::Zeroizing;

use crate::clock::Clock;
use crate::crypto::jose::{self, TokenKeys};
use crate::crypto::private;
use crate::domain::json::{Json, Limits};
use crate::serve::console::OidcSettings;
use crate::witness::{Remote, RemoteError, WitnessResponse};

/// How long one exchange may take. A person waits for it.
const WITHIN: Duration = Duration::from_secs(5);
/// How long the document and the keys are used before they are read again, so that a withdrawn key ends.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// How often an unknown key has us read the keys at most.
const AGAIN: Duration = Duration::from_secs(10);
/// The limits of what the issuer answers.
const ANSWER: Limits =
    Limits { bytes_max: 256 * 1024, depth_max: 16, values_max: 16_384, key_bytes_max: 1024 };

/// Why the issuer, or our own part in front of it, does not work.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum IssuerError {
    /// A file of the configuration cannot be read.
    #[error(transparent)]
    Secret(#[from] private::Error),
    /// Neither can that of the authorities.
    #[error("`ca`: {0}")]
    Authorities(std::io::Error),
    /// The issuer cannot be reached, or answers too much or too late.
    #[error("{0}: {1}")]
    Remote(&'static str, RemoteError),
    /// The same, by our own clock.
    #[error("{0}: no answer in time")]
    Late(&'static str),
    /// It answers with another status; with its own code, if it names one.
    #[error("{0}: it answers {1}")]
    Status(&'static str, String),
    /// Its answer cannot be read.
    #[error("{0}: the answer cannot be read")]
    Answer(&'static str),
    /// Its document is of another issuer.
    #[error(
        "the document names another issuer: set `console.oidc.issuer` to that name if you trust it"
    )]
    Other,
    /// Its document names an address that no secret may be sent to.
    #[error("the document: `{0}` is no https address")]
    Address(&'static str),
    /// Its keys cannot be read.
    #[error(transparent)]
    Keys(#[from] jose::Error),
}

/// The document of an issuer (OpenID Connect Discovery), as it is published.
#[derive(Deserialize)]
struct PublishedDocument {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The document of the issuer, checked.
pub(super) struct IssuerDocument {
    /// Where browsers go.
    pub authorization: Url,
    /// Whether its answers name it (RFC 9207).
    pub names_itself: bool,
    token: Url,
    keys: Url,
    /// Whether it takes the client's secret only in the body.
    secret_in_body: bool,
}

/// What was read, and when.
struct Fetched<T> {
    value: Arc<T>,
    at: Duration,
}

impl<T> Fetched<T> {
    /// What is not older than this.
    fn younger(kept: Option<&Self>, than: Duration, now: Duration) -> Option<Arc<T>> {
        let young = kept.filter(|kept| now.saturating_sub(kept.at) < than)?;
        Some(Arc::clone(&young.value))
    }
}

/// The issuer of the configuration. The locks are held while it is asked, so that it is asked once.
pub(super) struct Issuer {
    settings: OidcSettings,
    document: Mutex<Option<Fetched<IssuerDocument>>>,
    keys: Mutex<Option<Fetched<TokenKeys>>>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: String,
}

impl Issuer {
    pub(super) fn new(settings: OidcSettings) -> Self {
        Self { settings, document: Mutex::default(), keys: Mutex::default() }
    }

    /// The document.
    pub(super) async fn document(
        &self,
        clock: &dyn Clock,
    ) -> Result<Arc<IssuerDocument>, IssuerError> {
        let mut kept = self.document.lock().await;
        let now = clock.monotonic();
        if let Some(document) = Fetched::younger(kept.as_ref(), FRESH, now) {
            return Ok(document);
        }
        let base = self.settings.issuer.trim_end_matches('/');
        let url = Url::parse(&format!("{base}/.well-known/openid-configuration"));
        let url = url.map_err(|_| IssuerError::Address("issuer"))?;
        let value = Arc::new(self.checked(&self.read("the document", &url).await?.body)?);
        *kept = Some(Fetched { value: Arc::clone(&value), at: now });
        Ok(value)
    }

    fn checked(&self, body: &[u8]) -> Result<IssuerDocument, IssuerError> {
        let unread = IssuerError::Answer("the document");
        let Ok(document) = Json::parse(body, &ANSWER) else { return Err(unread) };
        let Ok(document) = document.read::<PublishedDocument>() else { return Err(unread) };
        if document.issuer != self.settings.issuer {
            return Err(IssuerError::Other);
        }
        let methods = document.token_endpoint_auth_methods_supported.unwrap_or_default();
        let takes = |method: &str| methods.iter().any(|one| one == method);
        Ok(IssuerDocument {
            authorization: self
                .address("authorization_endpoint", &document.authorization_endpoint)?,
            token: self.address("token_endpoint", &document.token_endpoint)?,
            keys: self.address("jwks_uri", &document.jwks_uri)?,
            names_itself: document.authorization_response_iss_parameter_supported,
            secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
        })
    }

    /// An address of the document: as safe as the issuer's own.
    fn address(&self, name: &'static str, text: &str) -> Result<Url, IssuerError> {
        let plain = self.settings.issuer.starts_with("http://");
        let url = Url::parse(text).ok().filter(|url| match url.scheme() {
            "https" => true,
            "http" => plain && url.host().is_some_and(|host| is_near(&host)),
            _ => false,
        });
        let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
        url.filter(|url| url.fragment().is_none()).ok_or(IssuerError::Address(name))
    }

    /// The keys.
    pub(super) async fn keys(
        &self,
        document: &IssuerDocument,
        clock: &dyn Clock,
    ) -> Result<Arc<TokenKeys>, IssuerError> {
        self.keys_younger(document, clock, FRESH).await
    }

    /// The keys, read again unless that was done just now.
    pub(super) async fn newer_keys(
        &self,
        document: &IssuerDocument,
        clock: &dyn Clock,
    ) -> Result<Arc<TokenKeys>, IssuerError> {
        self.keys_younger(document, clock, AGAIN).await
    }

    async fn keys_younger(
        &self,
        document: &IssuerDocument,
        clock: &dyn Clock,
        than: Duration,
    ) -> Result<Arc<TokenKeys>, IssuerError> {
        let mut kept = self.keys.lock().await;
        let now = clock.monotonic();
        if let Some(keys) = Fetched::younger(kept.as_ref(), than, now) {
            return Ok(keys);
        }
        let answer = self.read("the keys", &document.keys).await?;
        let value = Arc::new(TokenKeys::parse(&answer.body)?);
        *kept = Some(Fetched { value: Arc::clone(&value), at: now });
        Ok(value)
    }

    /// The ID token for the code in this form; `None` if the issuer does not take the code.
    pub(super) async fn token(
        &self,
        document: &IssuerDocument,
        form: &[(&str, &str)],
    ) -> Result<Option<Zeroizing<String>>, IssuerError> {
        const AT: &str = "the exchange of the code";
        let secret = private::line(&self.settings.client_secret)?;
        let client = self.settings.client_id.as_str();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut request = http::Request::builder().method(Method::POST).header(CONTENT_TYPE, kind);
        let own = [("client_id", client), ("client_secret", secret.as_str())];
        let own = if document.secret_in_body { own.as_slice() } else { &[] };
        let body = Serializer::new(String::new()).extend_pairs(form).extend_pairs(own).finish();
        if !document.secret_in_body
            && let Ok(mut header) = HeaderValue::from_str(&basic(client, &secret))
        {
            header.set_sensitive(true);
            request = request.header(AUTHORIZATION, header);
        }
        let answer = self.send(AT, &document.token, (request, body.into_bytes())).await?;
        let parsed = Json::parse(&answer.body, &ANSWER).ok();
        if answer.status == StatusCode::OK {
            let read = parsed.and_then(|parsed| parsed.read::<TokenAnswer>().ok());
            let token = read.ok_or(IssuerError::Answer(AT))?.id_token;
            return Ok(Some(Zeroizing::new(token)));
        }
        let error = parsed.and_then(|parsed| parsed.read::<ErrorAnswer>().ok());
        let code = error.and_then(|answer| error_code(&answer.error));
        match code.as_deref() {
            // Used before, another client's, or over: that is the browser's.
            Some("invalid_grant") if answer.status.is_client_error() => Ok(None),
            Some(code) => {
                Err(IssuerError::Status(AT, format!("{} `{code}`", answer.status.as_u16())))
            }
            None => Err(IssuerError::Status(AT, answer.status.as_u16().to_string())),
        }
    }

    async fn read(&self, what: &'static str, url: &Url) -> Result<WitnessResponse, IssuerError> {
        let request = http::Request::builder().method(Method::GET);
        let answer = self.send(what, url, (request, Vec::new())).await?;
        match answer.status {
            StatusCode::OK => Ok(answer),
            other => Err(IssuerError::Status(what, other.as_u16().to_string())),
        }
    }

    /// Sends one request. No redirect is followed: it would lead a secret, or our trust, elsewhere.
    async fn send(
        &self,
        what: &'static str,
        url: &Url,
        (request, body): (http::request::Builder, Vec<u8>),
    ) -> Result<WitnessResponse, IssuerError> {
        let ca = self.settings.ca.as_ref().map(std::fs::read).transpose();
        let ca = ca.map_err(IssuerError::Authorities)?;
        let failed = |error| IssuerError::Remote(what, error);
        let origin = url.origin().ascii_serialization();
        let remote = Remote::new(&origin, ca.as_deref()).map_err(failed)?;
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
        let answer = remote.send(request, &path, body, ANSWER.bytes_max);
        let answer = tokio::time::timeout(WITHIN, answer).await;
        answer.map_err(|_| IssuerError::Late(what))?.map_err(failed)
    }
}

/// Whether this is this machine.
fn is_near(host: &url::Host<&str>) -> bool {
    match host {
        url::Host::Domain(name) => *name == "localhost",
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
    }
}

/// The client's credential (RFC 6749, 2.3.1): each half as in a form, so that a colon in it is none.
fn basic(client: &str, secret: &str) -> Zeroizing<String> {
    let half = |text: &str| Zeroizing::new(byte_serialize(text.as_bytes()).collect::<String>());
    let both = Zeroizing::new(format!("{}:{}", &*half(client), &*half(secret)));
    Zeroizing::new(format!("Basic {}", &*Zeroizing::new(STANDARD.encode(&*both))))
}

/// An error code of an issuer, if it is in the form of one: the only words of an issuer that people are shown.
pub(in super::super) fn error_code(text: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_lowercase() || b == b'_';
    ((1..=64).contains(&text.len()) && text.bytes().all(plain)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(name: &str) -> Issuer {
        Issuer::new(OidcSettings {
            issuer: name.to_owned(),
            client_id: "console".to_owned(),
            client_secret: "secret".into(),
            name: "ID".to_owned(),
            ca: None,
            origin: "https://hub.example.com".to_owned(),
        })
    }

    fn document(name: &str, token: &str) -> String {
        format!(
            r#"{{"issuer":"{name}","authorization_endpoint":"{name}/a","token_endpoint":"{token}","jwks_uri":"{name}/k"}}"#
        )
    }

    #[test]
    fn a_document_counts_only_for_its_own_issuer_and_with_safe_addresses() {
        let (far, near) = ("https://id.example.com", "http://127.0.0.1:5556/dex");
        let checked = |of: &str, text: String| issuer(of).checked(text.as_bytes()).map(drop);
        assert!(checked(far, document(far, "https://other.example.com/token?p=x")).is_ok());
        assert!(checked(near, document(near, "http://localhost:1/token")).is_ok());
        for name in ["https://id.example.com/", "https://evil.example"] {
            let wrong = checked(far, document(name, "https://id.example.com/t"));
            assert!(matches!(wrong, Err(IssuerError::Other)), "{name}");
        }
        for (of, token) in [
            (far, "http://id.example.com/token"),
            (far, "http://127.0.0.1/token"),
            (near, "http://id.example.com/token"),
            (near, "ftp://localhost/token"),
            (far, "https://a@id.example.com/token"),
            (far, "https://id.example.com/token#x"),
            (far, "/token"),
        ] {
            let wrong = checked(of, document(of, token));
            assert!(matches!(wrong, Err(IssuerError::Address("token_endpoint"))), "{token}");
        }
        for text in ["", "[]", "{}", r#"{"issuer":1}"#] {
            let wrong = checked(far, text.to_owned());
            assert!(matches!(wrong, Err(IssuerError::Answer(_))), "{text}");
        }
    }

    #[test]
    fn a_client_is_named_as_in_a_form() {
        assert_eq!(*basic("console", "a b:c/ü"), "Basic Y29uc29sZTphK2IlM0FjJTJGJUMzJUJD");
        assert_eq!(error_code("access_denied").as_deref(), Some("access_denied"));
        for text in ["", "<b>", "Access", &"a".repeat(65)] {
            assert_eq!(error_code(text), None, "{text}");
        }
    }
}
