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
    /// What the same request again is known by: all that policies see of it, and the id that the agent
    /// gave it.
    fn digest(&self) -> Digest {
        let beta = if self.beta { "beta" } else { "" };
        let form = [self.dialect.as_str(), self.operation.as_str(), beta, self.call_id.as_str()];
        let headers = self.headers.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        // No part holds a byte 0: they are names, an id and headers. The body is the last.
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in form.into_iter().chain(headers) {
            parts.push(part.as_bytes());
            parts.push(b"\0");
        }
        parts.push(b"\0");
        parts.push(self.body.text());
        Digest::of(&parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::code::Code;
    use crate::domain::dialect::{Dialect, Operation};
    use crate::domain::json::Limits;
    use crate::domain::sent::SentJson;

    fn request() -> ModelRequest {
        ModelRequest {
            dialect: Dialect::Messages,
            operation: Operation::Generate,
            beta: false,
            body: SentJson::read(b"{}", &Limits::MODEL).unwrap(),
            headers: vec![("anthropic-beta".to_owned(), "a".to_owned())],
            call_id: String::new(),
            traceparent: None,
            managed: None,
        }
    }

    #[test]
    fn only_the_same_request_gets_the_same_denial_and_only_for_a_while() {
        let mut denied = DeniedAsks::default();
        denied.note(&request(), &Fault::of(Code::PolicyDenied), Duration::ZERO);
        let traced = ModelRequest { traceparent: Some("x".to_owned()), ..request() };
        for same in [request(), traced] {
            assert!(denied.again(&same, Duration::ZERO).is_some());
        }
        let others = [
            ModelRequest { headers: Vec::new(), ..request() },
            ModelRequest { beta: true, ..request() },
            ModelRequest { call_id: "mine".to_owned(), ..request() },
            ModelRequest { operation: Operation::CountTokens, ..request() },
            ModelRequest { dialect: Dialect::Chat, ..request() },
        ];
        for other in others {
            assert!(denied.again(&other, Duration::ZERO).is_none(), "{other:?}");
        }
        assert!(denied.again(&request(), AGAIN).is_none());
    }
}
