//! The signed definition of one tool, and how the server's tool differs from it now.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Error;
use super::list::Listed;
use crate::catalog::drift::{Drift, grade};
use crate::domain::json::{Json, Limits};

/// One pinned tool.
#[derive(Debug)]
pub(super) struct Pin {
    /// The server's own name of the tool.
    pub tool: String,
    pinned: Json,
    drift: Mutex<Drift>,
}

impl Pin {
    /// A pin of this tool object; until the first comparison it counts as unchanged.
    ///
    /// # Errors
    /// The object is not strict JSON.
    pub fn new(tool: &str, pinned: &[u8]) -> Result<Arc<Self>, Error> {
        let pinned = Json::parse(pinned, &Limits::FILE).map_err(Error::Pinned)?;
        Ok(Arc::new(Self { tool: tool.to_owned(), pinned, drift: Mutex::new(Drift::Same) }))
    }

    /// The result of the last comparison.
    pub fn drift(&self) -> Drift {
        self.drift.lock().clone()
    }

    /// Compares again; returns the new grade if it changed.
    pub fn compare(&self, listed: &Listed) -> Option<Drift> {
        let now = grade(&self.pinned, listed.get(&self.tool));
        let mut drift = self.drift.lock();
        (std::mem::replace(&mut *drift, now.clone()) != now).then_some(now)
    }
}

/// The name of the grade in logs, metrics and for operators.
pub(super) const fn drift_name(drift: &Drift) -> &'static str {
    match drift {
        Drift::Same => "same",
        Drift::Text => "text",
        Drift::Compatible => "compatible",
        Drift::Breaking(_) => "breaking",
    }
}
