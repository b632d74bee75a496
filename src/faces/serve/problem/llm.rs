//! What agents receive that speak to models: errors in the shape of their dialect, as a whole answer
//! and inside a stream.
//!
//! WHY no problem+json: clients of models show nothing of a body that is not their provider's, take
//! 202 for an answer, and decide by status, `retry-after` and `x-should-retry` whether to ask again.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, StatusCode};

use super::{Problem, RECEIPT, receipt_line, whole_seconds};
use crate::domain::code::{Code, Retry};
use crate::domain::dialect::Dialect;
use crate::enforce::ModelFault;
use crate::mcp::http::JSON;
use crate::serve::dialect::{BegunResponse, WordedError, spoken};

/// The header that tells the SDKs of OpenAI and Anthropic whether to send a request again by
/// themselves.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The least time after which to ask a gate again that cannot serve now: some clients ask at once,
/// dozens of times.
const AGAIN: Duration = Duration::from_secs(5);

impl Problem {
    /// A request to a model that failed. An error of the provider keeps its status, and its time to
    /// wait.
    #[must_use]
    pub fn of_model(failed: ModelFault) -> Self {
        let ModelFault { fault, upstream } = failed;
        let mut problem = Self::from(fault);
        let upstream = upstream.filter(|head| (400..600).contains(&head.status));
        if let Some(head) = upstream.filter(|_| problem.code == Code::ToolFailed) {
            problem.http = StatusCode::from_u16(head.status).ok();
            let wait = head.headers.iter().find(|(name, _)| name == RETRY_AFTER.as_str());
            let seconds = wait.and_then(|(_, value)| value.trim().parse().ok());
            problem.retry_after = seconds.map(Duration::from_secs);
        }
        problem
    }

    /// The HTTP status in every dialect.
    #[must_use]
    pub fn llm_status(&self) -> StatusCode {
        if let Some(status) = self.http {
            return status;
        }
        match self.code {
            Code::RequestMalformed => StatusCode::BAD_REQUEST,
            Code::IdentityMissing => StatusCode::UNAUTHORIZED,
            // WHY one that would never be free is a denial: clients repeat a 429 for minutes.
            Code::LimitExceeded if self.retry_after.is_some() => StatusCode::TOO_MANY_REQUESTS,
            Code::ManifestMismatch
            | Code::BindingInsufficient
            | Code::ToolNotGranted
            | Code::ArgumentsInvalid
            | Code::EffectRefused
            | Code::PolicyDenied
            | Code::PolicyError
            | Code::LimitExceeded
            | Code::CallHeld
            | Code::CallExpired
            | Code::OperatorForbidden => StatusCode::FORBIDDEN,
            Code::Overloaded | Code::Shutdown | Code::LedgerUnavailable | Code::NotReady => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Code::LedgerUnknown | Code::ToolFailed => StatusCode::BAD_GATEWAY,
            Code::CallUnknown => StatusCode::INTERNAL_SERVER_ERROR,
            Code::CallConflict
            | Code::RunSealed
            | Code::CallCancelled
            | Code::ApprovalUnviewable => StatusCode::CONFLICT,
            Code::CallNotFound | Code::RunUnknown | Code::RouteUnknown => StatusCode::NOT_FOUND,
            Code::CallResultUnavailable => StatusCode::GONE,
        }
    }

    /// When a client is to ask again, if that can help.
    fn llm_after(&self) -> Option<Duration> {
        let unavailable = self.llm_status() == StatusCode::SERVICE_UNAVAILABLE;
        match self.retry_after {
            after if unavailable => Some(after.unwrap_or(AGAIN).max(AGAIN)),
            after => after,
        }
    }

    /// Whether a client may send the same request again without its agent.
    fn llm_may_repeat(&self) -> bool {
        // A provider's error is for its clients to judge.
        if self.code == Code::ToolFailed && self.http.is_some() {
            return true;
        }
        match self.code.rule().retry {
            Retry::SameId => true,
            Retry::After => self.retry_after.is_some(),
            // Another call is the agent's to make, and a held one has nothing to poll here.
            Retry::No | Retry::NewId | Retry::Poll => false,
        }
    }

    /// As a whole answer in a dialect.
    #[must_use]
    pub fn llm_response(&self, dialect: Dialect) -> http::Response<String> {
        let status = self.llm_status();
        let mut response =
            http::Response::new(spoken(dialect).error(&self.llm_error()).to_string());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if self.code == Code::IdentityMissing {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = self.llm_after() {
            headers.insert(RETRY_AFTER, whole_seconds(after).into());
        }
        if !self.llm_may_repeat() {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        if let Some(receipt) = &self.receipt
            && let Ok(value) = HeaderValue::from_str(&receipt_line(receipt))
        {
            headers.insert(RECEIPT, value);
        }
        response
    }

    /// As the event of a stream that breaks off.
    #[must_use]
    pub fn llm_frame(&self, dialect: Dialect) -> Vec<u8> {
        self.llm_frame_of(dialect, &BegunResponse::default())
    }

    /// The same in an answer that has begun so.
    pub(in crate::serve) fn llm_frame_of(
        &self,
        dialect: Dialect,
        begun: &BegunResponse,
    ) -> Vec<u8> {
        spoken(dialect).broken(&self.llm_error(), begun)
    }

    /// What the dialects word.
    fn llm_error(&self) -> WordedError<'_> {
        let status = self.llm_status();
        WordedError {
            status,
            message: self.tool_text(),
            code: self.code.as_str(),
            problem: self.document(status),
            call: self.call.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::domain::decision::LayerReason;
    use crate::domain::digest::Digest;
    use crate::domain::id::{CallId, ChainId};
    use crate::domain::tier::Binding;
    use crate::ledger::permit::Receipt;

    const GOLDEN: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/problems_llm.txt");

    fn full() -> Problem {
        let mut problem = Problem::new(Code::PolicyDenied, "payroll", "payroll is not for agents");
        problem.call = CallId::parse("call-7");
        problem.reasons = vec![LayerReason {
            code: Code::PolicyDenied,
            detail: "payroll".into(),
            message: "payroll is not for agents".into(),
            rule: "wicketgate.org.deny".into(),
        }];
        problem.receipt = Some(Receipt {
            binding: Some(Binding::Claimed),
            origin: Arc::from("gate.example/log"),
            chain: ChainId::from_bytes([0xab; 16]),
            seq: 41,
            leaf: Digest::from_bytes([0xcd; 32]),
            run_seq: 3,
        });
        problem
    }

    /// The headers, the body and the frame of one problem.
    fn whole(text: &mut String, problem: &Problem, dialect: Dialect) {
        let response = problem.llm_response(dialect);
        writeln!(text, "\n# {}: {}", dialect.as_str(), response.status().as_u16()).unwrap();
        for (name, value) in response.headers() {
            writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
        }
        writeln!(text, "{}", response.body()).unwrap();
        writeln!(text, "\n# {}, in a stream", dialect.as_str()).unwrap();
        text.push_str(std::str::from_utf8(&problem.llm_frame(dialect)).unwrap());
    }

    /// The value of a member of what a client reads.
    fn member(text: &str, path: &str) -> String {
        let value: Value = serde_json::from_str(text).unwrap();
        value.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned()
    }

    /// One line: what clients decide by.
    fn line(name: &str, problem: &Problem) -> String {
        let [chat, responses, messages] =
            [Dialect::Chat, Dialect::Responses, Dialect::Messages].map(|d| problem.llm_response(d));
        assert_eq!(chat.body(), responses.body());
        let status = chat.status();
        assert_eq!([responses.status(), messages.status()], [status; 2]);
        assert_eq!(member(chat.body(), "/error/code"), problem.code.as_str());
        for (body, dialect) in [(chat.body(), Dialect::Chat), (messages.body(), Dialect::Messages)]
        {
            assert_eq!(member(body, "/error/message"), problem.tool_text());
            let shown: Value = serde_json::from_str(body).unwrap();
            assert_eq!(shown.pointer("/error/wicketgate/status").unwrap(), status.as_u16());
            assert!(problem.llm_frame(dialect).ends_with(b"\n\n"));
        }
        let frame = String::from_utf8(problem.llm_frame(Dialect::Responses)).unwrap();
        let data = frame.split_once("data: ").unwrap().1.trim_end();
        let header = |name: &str| {
            chat.headers().get(name).map_or("-", |value| value.to_str().unwrap()).to_owned()
        };
        format!(
            "{name}\t{}\t{}\t{}\t{}\t{}\t{}",
            status.as_u16(),
            header("retry-after"),
            header("x-should-retry"),
            member(chat.body(), "/error/type"),
            member(messages.body(), "/error/type"),
            member(data, "/response/error/code"),
        )
    }

    fn render() -> String {
        let mut text =
            "# code, status, retry-after, x-should-retry, type (OpenAI), type (Anthropic), \
                        code of a response that failed\n"
                .to_owned();
        for code in Code::ALL {
            let problem = Problem::new(*code, "", "m");
            writeln!(text, "{}", line(code.as_str(), &problem)).unwrap();
            if code.rule().retry != Retry::No {
                let later = problem.after(Duration::from_millis(7500));
                writeln!(text, "{}", line(&format!("{code}, free in 7.5 s"), &later)).unwrap();
            }
        }
        for dialect in Dialect::ALL {
            whole(&mut text, &full(), *dialect);
        }
        text
    }

    #[test]
    fn every_code_is_rendered_in_every_dialect_as_the_contract_says() {
        let rendered = render();
        if std::env::var_os("WICKETGATE_BLESS").is_some() {
            std::fs::write(GOLDEN, &rendered).unwrap();
        }
        assert!(
            std::fs::read_to_string(GOLDEN).unwrap() == rendered,
            "`WICKETGATE_BLESS=1 cargo test -p wicketgate-faces --lib dialect`, then read the difference"
        );
    }

    #[test]
    fn no_error_reads_as_an_answer_and_none_that_stays_is_repeated_by_itself() {
        for code in Code::ALL {
            let problem = Problem::new(*code, "", "m");
            let response = problem.llm_response(Dialect::Chat);
            assert!(response.status().as_u16() >= 400, "{code}");
            let stays = response.headers().contains_key(SHOULD_RETRY);
            assert_eq!(stays, code.rule().retry != Retry::SameId, "{code}");
            let after = response.headers().get(RETRY_AFTER);
            if response.status() == StatusCode::SERVICE_UNAVAILABLE {
                assert_eq!(after.unwrap(), "5", "{code}");
            }
        }
    }
}
