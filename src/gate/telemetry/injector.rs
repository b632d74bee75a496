//! The metrics of an injector, in a registry of their own: none of a gate's is there, so that no alert of a gate fires.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::metrics::{CounterFamily, count, passed};

/// All metrics of the process.
#[derive(Debug)]
pub struct InjectorMetrics {
    registry: Registry,
    reviews: CounterFamily<2>,
    certificates_read: CounterFamily<1>,
    profiles_read: CounterFamily<1>,
    certificate_end: Gauge,
}

impl InjectorMetrics {
    /// All metrics at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("wicketgate_injector");
        let (reviews, certificates_read) = (CounterFamily::default(), CounterFamily::default());
        let (profiles_read, certificate_end) = (CounterFamily::default(), Gauge::default());
        registry.register("reviews", "Admission reviews, by webhook and outcome", reviews.clone());
        let help = "Reloads of the certificate after its files changed; a failed reload keeps the old certificate";
        registry.register("certificates_read", help, certificates_read.clone());
        let help = "Reloads of the profiles after their files changed; a failed reload keeps the old profiles";
        registry.register("profiles_read", help, profiles_read.clone());
        let help = "When the certificate in use ends, in seconds since 1970";
        registry.register_with_unit(
            "certificate_end",
            help,
            Unit::Seconds,
            certificate_end.clone(),
        );
        Self { registry, reviews, certificates_read, profiles_read, certificate_end }
    }

    /// A review was answered: `patched`, `allowed`, `refused`, `malformed`.
    pub fn reviewed(&self, webhook: &'static str, outcome: &'static str) {
        count(&self.reviews, &[("webhook", webhook.into()), ("outcome", outcome.into())]);
    }

    /// The files of the certificate changed; `so` if they could be used.
    pub fn certificate_read(&self, so: bool) {
        count(&self.certificates_read, &passed(so));
    }

    /// The files of the profiles changed; `so` if they could be used.
    pub fn profiles_read(&self, so: bool) {
        count(&self.profiles_read, &passed(so));
    }

    /// When the certificate in use ends, in seconds since 1970.
    pub fn certificate_ends(&self, seconds: i64) {
        self.certificate_end.set(seconds);
    }

    /// All metrics, as OpenMetrics text.
    ///
    /// # Errors
    /// A value cannot be formatted.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for InjectorMetrics {
    fn default() -> Self {
        Self::new()
    }
}
