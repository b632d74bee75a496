//! One upstream of a model: how it is asked, and what its answers cost.

use std::sync::Arc;

use http::header;
use http_body_util::Full;
use hyper::body::Bytes;
use tracing::Span;

use super::{ModelUpstream, PreparedModel, UpstreamOutcome, cost};
use crate::catalog::binding;
use crate::domain::call::ToolCall;
use crate::domain::effect;
use crate::domain::outcome::{FailureClass, Unmasked, Usage};
use crate::telemetry::trace::{self, Chat};
use crate::tool::Error;
use crate::tool::net::{self, Client, Resolve, TrustRoots};
use crate::tool::request::{RequestError, failed, headers_of, of_call, refusal};

impl UpstreamOutcome {
    /// The same, after its error is on the span of its request.
    pub(super) fn traced(self, span: &Span) -> Self {
        let (Self::Over(outcome) | Self::Next(outcome)) = &self;
        traced(span, outcome);
        self
    }
}

/// Records the error of a request to an upstream on its span.
pub(super) fn traced(span: &Span, outcome: &Unmasked) {
    if let Unmasked::Failed { class, .. } = outcome {
        trace::error(span, class.as_str());
    }
}

impl ModelUpstream {
    pub(super) fn new(
        place: binding::ModelUpstream,
        resolve: &Arc<dyn Resolve>,
    ) -> Result<Self, Error> {
        let client = client(&place, resolve)?;
        headers_of(&place.credentials)?;
        let (scheme, authority) = (place.origin.scheme(), place.origin.authority());
        let target = format!("{scheme}://{authority}{}{}", place.path, place.api.path());
        Ok(Self {
            name: place.name,
            api: place.api,
            client,
            origin: place.origin,
            target,
            models: place.models,
            headers: place.headers,
            credentials: place.credentials,
            price: place.price,
            output_tokens_field: place.output_tokens_field,
        })
    }

    pub(super) fn request(
        &self,
        call: &ToolCall,
        body: &Bytes,
    ) -> Result<http::Request<Full<Bytes>>, RequestError> {
        let request = http::Request::post(&self.target);
        let mut request = of_call(request, call).header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers_of(&self.credentials)? {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(body.clone()))?)
    }

    /// The span of one request to the upstream, below the stage that is entered.
    pub(super) fn span(&self, model: &str) -> Span {
        let (provider, host) = (self.api.as_str(), self.origin.host.to_string());
        trace::chat_span(&Chat { provider, model, host: &host, port: self.origin.port })
    }

    pub(super) fn facts(&self, model: &str) -> effect::Upstream {
        effect::Upstream {
            name: self.name.clone(),
            api: self.api.as_str().to_owned(),
            host: self.origin.host.to_string(),
            port: self.origin.port,
            model: model.to_owned(),
        }
    }

    pub(super) fn used(&self, input_tokens: u64, output_tokens: u64, flat: Option<u64>) -> Usage {
        let priced = self.price.map(|price| cost(price, input_tokens, output_tokens));
        Usage {
            upstream: self.name.clone(),
            input_tokens,
            output_tokens,
            cost_micro_usd: priced.or(flat),
            estimated: false,
            cached_input_tokens: 0,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
        }
    }

    pub(super) fn guess(&self, ready: &PreparedModel, flat: Option<u64>) -> Usage {
        let used = self.used(ready.input_tokens, ready.output_tokens, flat);
        Usage { estimated: true, ..used }
    }

    /// The connection was lost after a request was sent: it may have been processed and billed.
    pub(super) fn lost(&self) -> Unmasked {
        let message = format!("the connection to model upstream `{}` was lost", self.name);
        failed(FailureClass::ToolError, true, &message)
    }

    pub(super) fn not_connected(&self, error: &(dyn std::error::Error + 'static)) -> Unmasked {
        let why = refusal(error).map_or_else(|| "no connection".to_owned(), ToString::to_string);
        let message = format!("model upstream `{}`: {why}", self.name);
        failed(FailureClass::Connect, false, &message)
    }
}

/// The client of an upstream. It does not connect.
pub(super) fn client(
    place: &binding::ModelUpstream,
    resolve: &Arc<dyn Resolve>,
) -> Result<Client, net::Error> {
    let (origin, open) = (&place.origin, &place.private_addresses);
    let (ca, resolve) = (place.ca.as_deref(), Arc::clone(resolve));
    if place.http2 {
        return Ok(Client::http2(origin, open, &TrustRoots::of_http2(ca)?, resolve));
    }
    Client::new(origin, open, ca, resolve)
}
