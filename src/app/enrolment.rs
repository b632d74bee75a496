//! Both ends of enrolment: the registrar of a hub, and a sidecar that is certified by one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Error;
use crate::clock::Clock;
use crate::config::enrolment::{Enrolment, Registry};
use crate::crypto::keys::PublicKey;
use crate::ledger::PortError;
use crate::ledger::enrolment::{Certifier, Issued, Request};
use crate::ledger::writer_key::{Certificate, WriterKey};
use crate::operator::credential::showing;
use crate::operator::enrolment::{Parts, Registrar};
use crate::operator::visible;
use crate::serve::operator::{self as door, Running, View};
use crate::serve::tls::Tls;
use crate::witness::Remote;

/// Bytes of a hub's answer.
const ANSWER_MAX: usize = 64 * 1024;
/// The first pause after a failure; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A registrar that is open, and its TLS if it has it.
type Open = (Running, Option<Tls>);

/// Opens the registrar, if this hub enrols.
pub(super) fn registry(
    config: Option<&Registry>,
    view: View,
    parts: impl FnOnce(&Registry) -> Parts,
    stop: tokio_util::sync::CancellationToken,
) -> Result<Option<Open>, Error> {
    let Some(registry) = config else { return Ok(None) };
    let settings = registry.door().map_err(|why| Error::Config(vec![why]))?;
    let tls = settings.tls.clone();
    let registrar = Arc::new(Registrar::new(parts(registry)));
    let running = door::serve_enrolment(settings, view, registrar, stop);
    let running = running.map_err(|e| Error::System(e.to_string()))?;
    tracing::info!(place = %running.address(), tls = tls.is_some(), "sidecars are enrolled here");
    Ok(Some((running, tls)))
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

/// What went wrong, and when to ask again.
#[derive(Clone)]
struct Failing {
    why: String,
    pause: Duration,
    /// On the clock that never steps.
    until: Duration,
}

impl std::fmt::Debug for Enrolled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enrolled").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl Enrolled {
    /// As this configuration says.
    ///
    /// # Errors
    /// A file or the address cannot be used.
    pub fn of(config: &Enrolment, tenant: String, clock: &Arc<dyn Clock>) -> Result<Self, String> {
        let wrong = |name: &str, why: String| format!("enrolment.{name}: {why}");
        let ca = config.ca_file.as_ref().map(|path| {
            std::fs::read(path).map_err(|e| wrong("ca_file", format!("`{}`: {e}", path.display())))
        });
        let remote = Remote::new(&config.hub, ca.transpose()?.as_deref());
        Ok(Self {
            remote: remote.map_err(|why| wrong("hub", why))?,
            token_file: config.token_file.clone(),
            public: config.key().map_err(|why| wrong("public_key", why))?,
            tenant,
            clock: Arc::clone(clock),
            failing: Mutex::new(None),
        })
    }

    /// Asks, unless it was asked in vain a moment ago: many sidecars wait for one hub.
    async fn gently<T>(&self, ask: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let now = self.clock.monotonic();
        let before = self.failing.lock().clone();
        if let Some(failing) = before.as_ref().filter(|failing| now < failing.until) {
            return Err(failing.why.clone());
        }
        let asked = ask.await.map_err(|why| format!("enrolment: {why}"));
        *self.failing.lock() = asked.as_ref().err().map(|why| {
            let pause = before.map_or(PAUSE, |b| b.pause.saturating_mul(2).min(PAUSE_MAX));
            let until = self.clock.monotonic().saturating_add(pause);
            tracing::warn!(why, "no certificate for this writer yet");
            Failing { why: why.clone(), pause, until }
        });
        asked
    }

    async fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Value, String> {
        let mut request = http::Request::builder().method(method);
        if !body.is_empty() {
            request = request
                .header(AUTHORIZATION, showing(&self.token_file)?)
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = self.remote.send(request, path, body, ANSWER_MAX).await;
        let answer = answer.map_err(|why| format!("hub unreachable: {why}"))?;
        let said = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        if answer.status.is_success() {
            return Ok(said);
        }
        let text = |name: &str| visible(said.get(name).and_then(Value::as_str).unwrap_or_default());
        let (code, cause, detail) = (text("code"), text("cause"), text("detail"));
        Err(format!("the hub refuses: {detail} ({code}/{cause}, {})", answer.status.as_u16()))
    }

    async fn certified(&self, wanted: &Certificate, key: &WriterKey) -> Result<Issued, String> {
        let (tenant, log) = (self.tenant.clone(), key.origin().to_owned());
        let request = Request { tenant, log, certificate: wanted.clone() };
        let (body, proof) = request.prove(key).map_err(|e| e.to_string())?;
        let body = json!({"request": body, "proof": proof}).to_string().into_bytes();
        let said = self.ask(Method::POST, "/v1/enrol", body).await?;
        let issued = said.get("certificate").cloned().unwrap_or_default();
        let issued =
            serde_json::from_value(issued).map_err(|e| format!("the hub's certificate: {e}"))?;
        let certificate = Certificate::open(&issued, &self.public).ok_or(
            "the hub's certificate is not by the key of `enrolment.public_key`: no writer is started with it",
        )?;
        let ended = certificate.not_after;
        // The hub may know the pod's name better: from the cluster, not from us.
        let Certificate { not_after, pod, .. } = wanted.clone();
        let same = Certificate { not_after, pod, ..certificate.clone() } == *wanted;
        if !same || ended > wanted.not_after || ended <= self.clock.now() {
            return Err("the hub's certificate says something else than was asked for".to_owned());
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
        let asked = async { self.ask(Method::GET, "/livez", Vec::new()).await.map(drop) };
        Ok(self.gently(asked).await?)
    }

    async fn certify(&self, wanted: Certificate, key: &WriterKey) -> Result<Issued, PortError> {
        Ok(self.gently(self.certified(&wanted, key)).await?)
    }
}
