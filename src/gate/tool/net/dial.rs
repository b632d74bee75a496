//! The transport of generated gRPC clients: their channel connects only through the one connector.

use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::transport::{Channel, Endpoint};

use super::{
    BoxError, CONNECTION_WINDOW, Connector, Error, HEAD_BYTES_MAX, Limited, Resolve, STREAM_WINDOW,
    TrustRoots,
};
use crate::catalog::address::Cidr;
use crate::catalog::host::Origin;
use crate::telemetry;

/// The transport to one origin over gRPC. Connects when a channel is first used.
#[derive(Clone, Debug)]
pub struct GrpcDialer {
    endpoint: Endpoint,
    connect: Fixed,
}

/// Connects to the fixed origin, whatever the request names.
#[derive(Clone, Debug)]
struct Fixed {
    connector: Limited,
    /// The fixed origin; its scheme determines whether the connector uses TLS.
    origin: http::Uri,
}

impl GrpcDialer {
    /// A transport to this origin; `open` lists the address ranges beyond the public Internet,
    /// `trust` is for HTTP/2.
    ///
    /// # Errors
    /// The origin is not a URI.
    pub fn new(
        origin: &Origin,
        open: &[Cidr],
        trust: &TrustRoots,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, Error> {
        let authority = origin.authority();
        let own: http::Uri = format!("{}://{authority}/", origin.scheme()).parse()?;
        // WHY: for an `https` URI the channel would add its own TLS on top of the connector's.
        let endpoint = Endpoint::from_shared(format!("http://{authority}"))?
            .origin(own.clone())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX));
        let connector = Connector::new(origin.clone(), open.to_vec(), resolve);
        let connector = Limited::over(connector, Arc::clone(&trust.0));
        Ok(Self { endpoint, connect: Fixed { connector, origin: own } })
    }
}

impl telemetry::export::CollectorDialer for GrpcDialer {
    fn dial(&self) -> Channel {
        self.endpoint.connect_with_connector_lazy(self.connect.clone())
    }
}

impl tower::Service<http::Uri> for Fixed {
    type Response = super::ClientStream;
    type Error = BoxError;
    type Future = <Limited as tower::Service<http::Uri>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        self.connector.call(self.origin.clone())
    }
}
