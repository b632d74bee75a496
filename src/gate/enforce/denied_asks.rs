//! Requests to models that were denied a moment ago: the same bytes get the same denial.

use std::time::Duration;

use super::answer::Fault;
use super::asking::ModelRequest;
use crate::domain::digest::Digest;

/// The newest denials of requests, by the bytes that were denied.
#[derive(Debug, Default)]
pub(super) struct DeniedAsks(Vec<(Digest, Duration, Fault)>);

/// How long the same request gets the recorded denial.
const AGAIN: Duration = Duration::from_secs(10);
/// Denials of one run that are remembered.
const AGAIN_MAX: usize = 16;

impl DeniedAsks {
    pub fn again(&mut self, request: &ModelRequest, now: Duration) -> Option<Fault> {
        self.0.retain(|(_, at, _)| now.saturating_sub(*at) < AGAIN);
        if self.0.is_empty() {
            return None;
        }
        let digest = request.digest();
        let same = self.0.iter().find(|(of, _, _)| *of == digest);
        same.map(|(_, _, fault)| fault.clone())
    }

    pub fn note(&mut self, request: &ModelRequest, fault: &Fault, now: Duration) {
        if self.0.len() >= AGAIN_MAX {
            self.0.remove(0);
        }
        self.0.push((request.digest(), now, fault.clone()));
    }
}

impl ModelRequest {
    /// What the same request again is known by.
    fn digest(&self) -> Digest {
        let form = [self.dialect.as_str(), self.operation.as_str()].map(str::as_bytes);
        let [dialect, operation] = form;
        Digest::of(&[dialect, b"\0", operation, b"\0", self.body.text()])
    }
}
