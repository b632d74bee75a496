//! A server's description of its services, fetched once by an operator's command and written to a
//! file. A serving gate never fetches it: a description that can change under a policy must not be
//! trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use prost_reflect::DescriptorPool;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::status::GrpcStatus;
use super::{GrpcAnswerError, GrpcReply, PREFIX, framed, is_grpc, whole};
use crate::catalog::address::Cidr;
use crate::catalog::host::Origin;
use crate::ledger::fuse::Fuse;
use crate::tool::net::{self, Client, Resolve, TrustRoots};

/// The reflection services, newest first.
const PATHS: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// Bytes of all responses to one request, and of the resulting file.
const BYTES_MAX: u64 = 4 << 20;
/// Files in one description.
const FILES_MAX: usize = 1024;
/// The time limit of one request.
const ANSWER: Duration = Duration::from_secs(30);

/// A server that may describe itself.
#[derive(Debug)]
pub struct Server {
    client: Client,
    origin: Origin,
}

/// A complete description.
#[derive(Debug)]
pub struct ServiceDescription {
    /// A serialized `FileDescriptorSet`, every file after those it imports.
    pub bytes: Vec<u8>,
    /// Full names of the services in it.
    pub services: Vec<String>,
}

/// Why there is no description.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server does not support this version of reflection, or none.
    #[error("the server offers no reflection")]
    Unimplemented,
    /// The server's error message, without control characters.
    #[error("the server says: {0}")]
    Words(String),
    /// The request ended with this status.
    #[error("{}", .0.describe())]
    Status(GrpcStatus),
    /// More names than fit into one message.
    #[error("a question is too long")]
    Question,
    /// The request cannot be built.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// The connector made no connection.
    #[error(transparent)]
    Refused(#[from] net::ConnectError),
    /// The connection failed during the exchange.
    #[error("the connection failed")]
    Connection,
    /// The response is not gRPC.
    #[error("it does not speak gRPC here")]
    NoGrpc,
    /// The connection was lost before the status.
    #[error("the connection was lost")]
    Lost,
    /// The response has more bytes than the gate reads.
    #[error("its answer is too large")]
    Size,
    /// The response did not arrive in time.
    #[error("it does not answer")]
    Late,
    /// The response is not of the reflection protocol.
    #[error("its answer is not of this protocol")]
    Protocol,
    /// A file in the response is not a descriptor.
    #[error("a file of the answer is no descriptor")]
    NoDescriptor,
    /// The description has more files than the gate accepts.
    #[error("the description has more than {FILES_MAX} files")]
    Files,
    /// The description has more bytes than the gate accepts.
    #[error("the description has more than {BYTES_MAX} bytes")]
    Bytes,
    /// A file imports a file that the server does not send.
    #[error("the server does not describe all that `{0}` imports")]
    Import(String),
    /// The files contradict each other.
    #[error(transparent)]
    Pool(#[from] prost_reflect::DescriptorError),
    /// The description lacks a requested service.
    #[error("the server does not describe `{0}`")]
    NoService(String),
}

impl Server {
    /// Prepares a client without connecting. `open` lists address ranges beyond the public
    /// Internet; `ca` is PEM text of the only authorities to trust.
    ///
    /// # Errors
    /// The certificate authorities cannot be used.
    pub fn new(
        origin: Origin,
        open: &[Cidr],
        ca: Option<&[u8]>,
        resolve: Arc<dyn Resolve>,
    ) -> Result<Self, net::Error> {
        let client = Client::http2(&origin, open, &TrustRoots::of_http2(ca)?, resolve);
        Ok(Self { client, origin })
    }

    /// The description of these services, or of all services if none is named.
    ///
    /// # Errors
    /// The server does not respond, does not know a service, or describes it incompletely.
    pub async fn describe(&self, services: &[String]) -> Result<ServiceDescription, Error> {
        let (path, all) = self.services().await?;
        let wanted = if services.is_empty() { all } else { services.to_vec() };
        let mut files = BTreeMap::new();
        let requests = wanted.iter().cloned().map(MessageRequest::FileContainingSymbol);
        let mut requests: Vec<MessageRequest> = requests.collect();
        let mut asked = BTreeSet::new();
        while !requests.is_empty() {
            let answers = self.ask(path, &requests).await?;
            for answer in answers {
                take(answer, &mut files)?;
            }
            let imported = files.values().flat_map(|file: &FileDescriptorProto| &file.dependency);
            let missing: BTreeSet<String> =
                imported.filter(|name| !files.contains_key(*name)).cloned().collect();
            // A file that was requested once and did not arrive is not requested again.
            let missing = missing.into_iter().filter(|name| asked.insert(name.clone()));
            requests = missing.map(MessageRequest::FileByFilename).collect();
        }
        complete(&files, &wanted)
    }

    /// The reflection path that the server supports, and its services.
    async fn services(&self) -> Result<(&'static str, Vec<String>), Error> {
        let requests = [MessageRequest::ListServices(String::new())];
        for path in PATHS {
            let answers = match self.ask(path, &requests).await {
                Ok(answers) => answers,
                Err(Error::Unimplemented) => continue,
                Err(other) => return Err(other),
            };
            let mut names = Vec::new();
            for answer in answers {
                match answer {
                    MessageResponse::ListServicesResponse(list) => {
                        names.extend(list.service.into_iter().map(|service| service.name));
                    }
                    MessageResponse::ErrorResponse(error) => {
                        return Err(server_error(&error.error_message));
                    }
                    MessageResponse::FileDescriptorResponse(_)
                    | MessageResponse::AllExtensionNumbersResponse(_) => {}
                }
            }
            names.retain(|name| !name.starts_with("grpc.reflection."));
            return Ok((path, names));
        }
        Err(Error::Unimplemented)
    }

    /// Sends all requests at once and reads all responses.
    async fn ask(
        &self,
        path: &str,
        requests: &[MessageRequest],
    ) -> Result<Vec<MessageResponse>, Error> {
        let mut body = Vec::new();
        for wanted in requests {
            let request = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(wanted.clone()),
            };
            let framed = framed(&request).ok_or(Error::Question)?;
            body.extend_from_slice(&framed);
        }
        let uri = format!("{}://{}/{path}", self.origin.scheme(), self.origin.authority());
        let request = http::Request::post(uri)
            .header(header::TE, "trailers")
            .header(header::CONTENT_TYPE, "application/grpc+proto")
            .body(Full::new(Bytes::from(body)))?;
        let answering = async {
            let sent = self.client.send(request, &Fuse::never()).await;
            let (head, body) = sent.map_err(|error| refused(&error))?.into_parts();
            if head.status != StatusCode::OK || !is_grpc(&head.headers) {
                return Err(Error::NoGrpc);
            }
            if let Some(status) = GrpcStatus::of(&head.headers) {
                return Err(status.into());
            }
            match whole(body, BYTES_MAX).await {
                Ok(GrpcReply { message, status: Some(status) }) if status.is_ok() => Ok(message),
                Ok(GrpcReply { status: Some(status), .. }) => Err(status.into()),
                Ok(GrpcReply { status: None, .. }) | Err(GrpcAnswerError::Broken) => {
                    Err(Error::Lost)
                }
                Err(GrpcAnswerError::TooLarge) => Err(Error::Size),
            }
        };
        let answered = tokio::time::timeout(ANSWER, answering).await;
        answers(&answered.map_err(|_elapsed| Error::Late)??)
    }
}

impl From<GrpcStatus> for Error {
    fn from(status: GrpcStatus) -> Self {
        if status.is_unimplemented() { Self::Unimplemented } else { Self::Status(status) }
    }
}

/// The server's error message, for a terminal; `Scrub` masks it before it is cut.
fn server_error(message: &str) -> Error {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Error::Words(message.chars().map(plain).collect())
}

fn refused(error: &(dyn std::error::Error + 'static)) -> Error {
    let refusal = crate::tool::request::refusal(error).cloned();
    refusal.map_or(Error::Connection, Error::Refused)
}

/// The messages of a stream.
fn answers(mut body: &[u8]) -> Result<Vec<MessageResponse>, Error> {
    let mut out = Vec::new();
    while !body.is_empty() {
        let (prefix, rest) = body.split_at_checked(PREFIX).ok_or(Error::Protocol)?;
        let (compressed, length) = prefix.split_first().ok_or(Error::Protocol)?;
        let length = u32::from_be_bytes(length.try_into().map_err(|_error| Error::Protocol)?);
        let length = usize::try_from(length).map_err(|_error| Error::Protocol)?;
        let (message, rest) = rest.split_at_checked(length).ok_or(Error::Protocol)?;
        if *compressed != 0 {
            return Err(Error::Protocol);
        }
        let message =
            ServerReflectionResponse::decode(message).map_err(|_error| Error::Protocol)?;
        out.push(message.message_response.ok_or(Error::Protocol)?);
        body = rest;
    }
    Ok(out)
}

/// Adds the files of one response, by name.
fn take(
    answer: MessageResponse,
    files: &mut BTreeMap<String, FileDescriptorProto>,
) -> Result<(), Error> {
    match answer {
        MessageResponse::FileDescriptorResponse(all) => {
            for bytes in all.file_descriptor_proto {
                let file = FileDescriptorProto::decode(bytes.as_slice());
                let file = file.map_err(|_error| Error::NoDescriptor)?;
                files.insert(file.name().to_owned(), file);
            }
            if files.len() > FILES_MAX {
                return Err(Error::Files);
            }
            Ok(())
        }
        MessageResponse::ErrorResponse(error) => Err(server_error(&error.error_message)),
        MessageResponse::ListServicesResponse(_)
        | MessageResponse::AllExtensionNumbersResponse(_) => Ok(()),
    }
}

/// The descriptor set of these files, if every file they import is present.
fn complete(
    files: &BTreeMap<String, FileDescriptorProto>,
    wanted: &[String],
) -> Result<ServiceDescription, Error> {
    let mut set = FileDescriptorSet::default();
    let mut placed = BTreeSet::new();
    // Every round places the files whose imports are placed. Files left at the end import
    // themselves or a missing file.
    loop {
        let ready: Vec<&FileDescriptorProto> = files
            .values()
            .filter(|file| !placed.contains(file.name()))
            .filter(|file| file.dependency.iter().all(|name| placed.contains(name.as_str())))
            .collect();
        if ready.is_empty() {
            break;
        }
        for file in ready {
            placed.insert(file.name());
            set.file.push(file.clone());
        }
    }
    if let Some(left) = files.keys().find(|name| !placed.contains(name.as_str())) {
        return Err(Error::Import(left.clone()));
    }
    let bytes = set.encode_to_vec();
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > BYTES_MAX {
        return Err(Error::Bytes);
    }
    let pool = DescriptorPool::decode(bytes.as_slice())?;
    if let Some(missing) = wanted.iter().find(|name| pool.get_service_by_name(name).is_none()) {
        return Err(Error::NoService(missing.clone()));
    }
    let services = pool.services().map(|service| service.full_name().to_owned()).collect();
    Ok(ServiceDescription { bytes, services })
}
