//! Both ends of enrolment: the registrar of a hub, and a sidecar that is certified by one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Error, System};
use crate::clock::Clock;
use crate::config::enrolment::{Enrolment, KeyError, Registry};
use crate::crypto::keys::PublicKey;
use crate::ledger::PortError;
use crate::ledger::enrolment::{Certifier, Issued, Request};
use crate::ledger::writer_key::{Certificate, WriterKey};
use crate::operator::credential::showing;
use crate::operator::enrolment::{Registrar, RegistrarParts};
use crate::operator::http::ENROLMENT;
use crate::operator::visible;
use crate::record::debug_by;
use crate::serve::operator::{self as operator_listener, OperatorView, Running};
use crate::serve::tls::Tls;
use crate::witness::Remote;

/// Bytes of a hub's answer.
const ANSWER_MAX: usize = 64 * 1024;
/// The first pause after a failure; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why this sidecar is not certified.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum EnrolmentError {
    /// The contents of the request cannot be made.
    #[error("{0}")]
    Request(String),
    /// The hub does not answer.
    #[error("hub unreachable: {0}")]
    Unreachable(String),
    /// The hub answers, and refuses.
    #[error("the hub refuses: {detail} ({code}/{cause}, {status})")]
    Refused { detail: String, code: String, cause: String, status: u16 },
    /// The hub's answer is not a certificate.
    #[error("the hub's certificate: {0}")]
    Certificate(Arc<serde_json::Error>),
    /// Another key certifies than is pinned.
    #[error(
        "the hub's certificate is not signed by the key in `enrolment.public_key`: the gate starts no writer with it"
    )]
    OtherKey,
    /// It certifies something else.
    #[error("the hub's certificate does not match the request")]
    Other,
}

/// A part of `enrolment` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SectionError {
    /// The authorities of the hub's certificate.
    #[error("enrolment.ca_file: `{path}`: {source}")]
    Authorities { path: String, source: std::io::Error },
    /// The address of the hub.
    #[error("enrolment.hub: {0}")]
    Hub(String),
    /// The key whose certificates this sidecar trusts.
    #[error("enrolment.public_key: {0}")]
    Key(#[from] KeyError),
}

/// A registrar that is open.
pub(super) struct OpenRegistrar {
    /// Its listener.
    pub running: Running,
    /// The listener's TLS, if it has it.
    pub tls: Option<Tls>,
    /// The registrar itself.
    pub registrar: Arc<Registrar>,
}

/// Opens the registrar, if this hub enrols.
pub(super) fn registry(
    config: Option<&Registry>,
    view: OperatorView,
    parts: impl FnOnce(&Registry) -> RegistrarParts,
    stop: tokio_util::sync::CancellationToken,
) -> Result<Option<OpenRegistrar>, Error> {
    let Some(registry) = config else { return Ok(None) };
    let settings = registry.listener().map_err(Error::wrong)?;
    let tls = settings.tls.clone();
    let registrar = Arc::new(Registrar::new(parts(registry)));
    let running = operator_listener::serve_enrolment(settings, view, Arc::clone(&registrar), stop);
    let running = running.map_err(System::from)?;
    tracing::info!(addr = %running.address(), tls = tls.is_some(), "enrolment API listening");
    Ok(Some(OpenRegistrar { running, tls, registrar }))
}

/// Certified by a hub, which has the enrolment key.
pub(super) struct Enrolled {
    remote: Remote,
    token_file: PathBuf,
    public: PublicKey,
    tenant: String,
    clock: Arc<dyn Clock>,
    failing: Mutex<Option<Failing>>,
}

/// The last failure, and when to ask again.
#[derive(Clone)]
struct Failing {
    why: EnrolmentError,
    pause: Duration,
    /// On the clock that never steps.
    until: Duration,
}

debug_by!(Enrolled: tenant);

impl Enrolled {
    /// From this configuration.
    ///
    /// # Errors
    /// A file or the address cannot be used.
    pub fn of(
        config: &Enrolment,
        tenant: String,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, SectionError> {
        let ca = config.ca_file.as_ref().map(|path| {
            let shown = || path.display().to_string();
            std::fs::read(path)
                .map_err(|source| SectionError::Authorities { path: shown(), source })
        });
        let remote = Remote::new(&config.hub, ca.transpose()?.as_deref());
        Ok(Self {
            remote: remote.map_err(|why| SectionError::Hub(why.to_string()))?,
            token_file: config.token_file.clone(),
            public: config.key()?,
            tenant,
            clock: Arc::clone(clock),
            failing: Mutex::new(None),
        })
    }

    /// Asks the hub, unless a request failed a moment ago: many sidecars wait for one hub.
    async fn gently<T>(
        &self,
        ask: impl Future<Output = Result<T, EnrolmentError>>,
    ) -> Result<T, EnrolmentError> {
        let now = self.clock.monotonic();
        let before = self.failing.lock().clone();
        if let Some(failing) = before.as_ref().filter(|failing| now < failing.until) {
            return Err(failing.why.clone());
        }
        let result = ask.await;
        *self.failing.lock() = result.as_ref().err().map(|why| {
            let pause = before.map_or(PAUSE, |b| b.pause.saturating_mul(2).min(PAUSE_MAX));
            let until = self.clock.monotonic().saturating_add(pause);
            tracing::warn!(why = %reason(why), "the hub has not certified this writer yet");
            Failing { why: why.clone(), pause, until }
        });
        result
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Value, EnrolmentError> {
        let mut request = http::Request::builder().method(method);
        if !body.is_empty() {
            let shown = showing(&self.token_file);
            request = request
                .header(
                    AUTHORIZATION,
                    shown.map_err(|why| EnrolmentError::Request(why.to_string()))?,
                )
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = self.remote.send(request, path, body, ANSWER_MAX).await;
        let answer = answer.map_err(|why| EnrolmentError::Unreachable(why.to_string()))?;
        let reply = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        if answer.status.is_success() {
            return Ok(reply);
        }
        let text =
            |name: &str| visible(reply.get(name).and_then(Value::as_str).unwrap_or_default());
        let (code, cause, detail) = (text("code"), text("cause"), text("detail"));
        Err(EnrolmentError::Refused { detail, code, cause, status: answer.status.as_u16() })
    }

    async fn certified(
        &self,
        wanted: &Certificate,
        key: &WriterKey,
    ) -> Result<Issued, EnrolmentError> {
        let (tenant, log) = (self.tenant.clone(), key.origin().to_owned());
        let request = Request { tenant, log, certificate: wanted.clone() };
        let proved = request.prove(key);
        let (body, proof) = proved.map_err(|why| EnrolmentError::Request(why.to_string()))?;
        let body = json!({"request": body, "proof": proof}).to_string().into_bytes();
        let reply = self.ask(Method::POST, ENROLMENT, body).await?;
        let issued = reply.get("certificate").cloned().unwrap_or_default();
        let issued = serde_json::from_value(issued);
        let issued = issued.map_err(|why| EnrolmentError::Certificate(Arc::new(why)))?;
        let certificate =
            Certificate::open(&issued, &self.public).ok_or(EnrolmentError::OtherKey)?;
        let ended = certificate.not_after;
        // The hub may know the pod's name better: from the cluster, not from us.
        let Certificate { not_after, pod, .. } = wanted.clone();
        let same = Certificate { not_after, pod, ..certificate.clone() } == *wanted;
        if !same || ended > wanted.not_after || ended <= self.clock.now() {
            return Err(EnrolmentError::Other);
        }
        Ok(Issued { certificate, issued })
    }
}

#[async_trait]
impl Certifier for Enrolled {
    fn public(&self) -> PublicKey {
        self.public
    }

    async fn reachable(&self) -> Result<(), PortError> {
        let asking = async { self.ask(Method::GET, "/livez", Vec::new()).await.map(drop) };
        self.gently(asking).await.map_err(|why| reason(&why).into())
    }

    async fn certify(&self, wanted: Certificate, key: &WriterKey) -> Result<Issued, PortError> {
        self.gently(self.certified(&wanted, key)).await.map_err(|why| reason(&why).into())
    }
}

/// The ledger's reason why no writer starts.
fn reason(why: &EnrolmentError) -> String {
    format!("enrolment: {why}")
}
