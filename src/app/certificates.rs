//! The certificates of running listeners: reloads their changed files, and reports their state.

use std::sync::Arc;

use crate::clock::Clock;
use crate::domain::time::Timestamp;
use crate::serve::tls::Tls;
use crate::telemetry::metrics::Metrics;

/// TLS of each listener that has it.
pub(super) struct ListenerTls {
    all: Vec<(&'static str, Tls)>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl ListenerTls {
    /// Listeners by the names of their section.
    pub fn new(
        all: impl IntoIterator<Item = (&'static str, Option<Tls>)>,
        clock: &Arc<dyn Clock>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let all = all.into_iter().filter_map(|(name, tls)| Some((name, tls?))).collect();
        Self { all, clock: Arc::clone(clock), metrics: Arc::clone(metrics) }
    }

    /// Looks at the files of each; whether something is new.
    pub fn look(&self) -> bool {
        let mut changed = false;
        for (listener, tls) in &self.all {
            let Some(read) = tls.look() else { continue };
            changed = true;
            self.metrics.certificate_read(read.is_ok());
            match read {
                Ok(()) => tracing::info!(listener, "the certificate was reloaded"),
                Err(why) => {
                    tracing::error!(listener, %why, "the new files were refused; the old certificate stays in use");
                }
            }
        }
        changed
    }

    /// Says when the certificate of each ends that is in force by then.
    pub fn ends(&self) -> impl Fn() -> Vec<(String, Timestamp)> + Send + Sync + use<> {
        let all = self.all.clone();
        let ends = |(name, tls): &(&str, Tls)| (format!("certificate of {name}"), tls.not_after());
        move || all.iter().map(ends).collect()
    }

    /// Listeners whose certificate has ended: clients that check it no longer connect.
    pub fn reasons(&self) -> Vec<String> {
        let now = self.clock.now();
        let ended = self.all.iter().filter(|(_, tls)| tls.not_after() <= now);
        ended
            .map(|(name, tls)| format!("{name}: the certificate expired at {}", tls.not_after()))
            .collect()
    }

    /// Files that were refused.
    pub fn notes(&self) -> Vec<String> {
        let refused = self.all.iter().filter_map(|(name, tls)| Some((name, tls, tls.refused()?)));
        refused
            .map(|(name, tls, why)| {
                format!("{name}.{why}; the old certificate stays in use until {}", tls.not_after())
            })
            .collect()
    }
}
