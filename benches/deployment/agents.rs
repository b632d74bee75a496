//! An agent over gRPC, by either way in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::TlsConnector;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use wicketgate::serve::pb;
use wicketgate::serve::pb::gate_client::GateClient;
use wicketgate_support::bench::tool;
use wicketgate_support::ca::Ca;

/// Where a gate is reached.
#[derive(Clone)]
pub enum Place {
    /// By its socket.
    Unix(PathBuf),
    /// Over TCP, with a certificate.
    Tls(SocketAddr, TlsConnector),
}

impl Place {
    /// With the certificate of the agent.
    pub fn tls(ca: &Ca, at: SocketAddr) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca.path("ca.pem")).unwrap()).unwrap();
        let own = CertificateDer::from_pem_file(ca.path("agent.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(ca.path("agent.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![own], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        // Every handshake is a whole one, as that of a pod that was just started.
        config.resumption = rustls::client::Resumption::disabled();
        Self::Tls(at, TlsConnector::from(Arc::new(config)))
    }

    async fn connect(&self) -> GateClient<Channel> {
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = match self.clone() {
            Self::Unix(path) => {
                let connect = tower::service_fn(move |_| {
                    let path = path.clone();
                    async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
                });
                endpoint.connect_with_connector(connect).await
            }
            Self::Tls(at, connector) => {
                let connect = tower::service_fn(move |_| {
                    let connector = connector.clone();
                    async move {
                        let stream = tokio::net::TcpStream::connect(at).await?;
                        stream.set_nodelay(true)?;
                        let name = ServerName::try_from("localhost").unwrap();
                        connector.connect(name, stream).await.map(TokioIo::new)
                    }
                });
                endpoint.connect_with_connector(connect).await
            }
        };
        GateClient::new(channel.unwrap())
    }
}

/// One agent with a run of its own.
pub struct Agent {
    place: Place,
    client: GateClient<Channel>,
    token: AsciiMetadataValue,
    name: usize,
}

impl Agent {
    pub async fn open(place: &Place, name: usize) -> Self {
        let mut client = place.connect().await;
        let opening = pb::OpenRunRequest { model: "gpt-5-mini".into(), ..Default::default() };
        let opened = client.open_run(opening).await.unwrap().into_inner();
        let token = format!("Bearer {}", opened.run_token).parse().unwrap();
        Self { place: place.clone(), client, token, name }
    }

    /// One call over the connection it has.
    pub async fn ask(mut self, n: u64) -> Self {
        let mut request = Request::new(pb::ExecuteToolRequest {
            tool: "small".to_owned(),
            arguments: tool::body(256).to_vec(),
            call_id: format!("{}-{n}", self.name),
            wait_ms: 0,
            ..pb::ExecuteToolRequest::default()
        });
        request.metadata_mut().insert("authorization", self.token.clone());
        self.client.execute_tool(request).await.unwrap();
        self
    }

    /// One call over a connection of its own.
    pub async fn reconnect(mut self, n: u64) -> Self {
        self.client = self.place.connect().await;
        self.ask(n).await
    }

    /// Ends its run.
    pub async fn seal(self) {
        let mut client = self.place.connect().await;
        let mut request = Request::new(pb::SealRunRequest {});
        request.metadata_mut().insert("authorization", self.token);
        client.seal_run(request).await.unwrap();
    }
}
