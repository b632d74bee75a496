//! The checks of a `grpc` binding.

use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue};
use prost_reflect::{DescriptorError, DescriptorPool, MethodDescriptor};

use super::{Grpc, config, schema};
use crate::binding::CredentialTarget;
use crate::check::{Draft, Surroundings, bounded};
use crate::domain::digest::Digest;
use crate::host::Origin;
use crate::schema::Schema;
use crate::{Kind, Problems, Section, outbound};

/// Bytes of one descriptor set.
const DESCRIPTOR_BYTES_MAX: u64 = 4 << 20;
/// Maximum size of one request message in bytes.
pub(super) const REQUEST_BYTES: u64 = 1 << 20;
pub(super) const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// Why a file describes no service.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("`{}` is not a complete descriptor set: {why}", .0.display(), why = .1)]
    Incomplete(PathBuf, #[source] DescriptorError),
    #[error("`{}` describes no service", .0.display())]
    NoService(PathBuf),
}

impl Section for config::GrpcConfig {
    fn check(&self, draft: &Draft<'_>, problems: &mut Problems) -> Option<(Schema, Kind)> {
        draft.no_schema(problems);
        let (schema, grpc) = service(self, draft, problems)?;
        Some((schema, Kind::Grpc(Box::new(grpc))))
    }
}

/// What is reached, and the schema of the arguments: both come from the one reading of the file.
fn service(
    grpc: &config::GrpcConfig,
    draft: &Draft<'_>,
    problems: &mut Problems,
) -> Option<(Schema, Grpc)> {
    let Draft { tool, at, surroundings, .. } = *draft;
    let credentials = outbound::credentials(&tool.credentials, at, surroundings, problems);
    for (i, credential) in credentials.iter().enumerate() {
        let at = format!("{at}.credentials[{i}]");
        match &credential.place {
            CredentialTarget::Query(_) => {
                problems.add(at, "is given in metadata: name it under `header`");
            }
            CredentialTarget::Header(name) => {
                reserved(name.as_str(), &format!("{at}.header"), problems);
            }
        }
    }
    let at = format!("{at}.grpc");
    let ranges = outbound::ranges(&grpc.private_addresses, &at, problems);
    let origin = origin(&grpc.url, &at, problems);
    if let Some(origin) = &origin {
        outbound::reachable(origin, &ranges, !tool.credentials.is_empty(), &at, problems);
    }
    let ca = outbound::ca(grpc.ca_file.as_deref(), origin.as_ref(), &at, surroundings, problems);
    let metadata = metadata(grpc, &at, problems);
    let request = bounded(grpc.request_bytes_max, REQUEST_BYTES, REQUEST_BYTES_MAX);
    let request = problems.take(&format!("{at}.request_bytes_max"), request);
    let (method, descriptors) = method(grpc, &at, surroundings, problems)?;
    let at_method = format!("{at}.method");
    let json = problems.take(&at_method, schema::of(&method.input()));
    let schema = json.and_then(|json| problems.take(&at_method, Schema::compile(&json)));
    let grpc = Grpc {
        origin: origin?,
        method,
        descriptors,
        metadata,
        credentials,
        request_bytes_max: request?,
        private_addresses: ranges,
        ca: ca?,
    };
    Some((schema?, grpc))
}

fn origin(url: &str, at: &str, problems: &mut Problems) -> Option<Origin> {
    let at = format!("{at}.url");
    let (origin, path) = problems.take(&at, Origin::parse(url))?;
    if !matches!(path.as_str(), "" | "/") {
        problems.add(at, "has no path: service and method make one");
    }
    Some(origin)
}

/// Metadata that the protocol itself writes, or that is binary.
fn reserved(name: &str, at: &str, problems: &mut Problems) {
    if name.starts_with("grpc-") || name == "user-agent" {
        problems.add(at, format!("`{name}` is written by the gate itself"));
    }
    if name.ends_with("-bin") {
        problems.add(at, format!("`{name}`: binary metadata is not supported"));
    }
}

fn metadata(
    grpc: &config::GrpcConfig,
    at: &str,
    problems: &mut Problems,
) -> Vec<(HeaderName, HeaderValue)> {
    for name in grpc.metadata.keys() {
        reserved(&name.to_ascii_lowercase(), &format!("{at}.metadata.{name}"), problems);
    }
    outbound::literal(&grpc.metadata, &format!("{at}.metadata"), problems)
}

/// The unary method, and the digest of the bytes that describe it.
fn method(
    grpc: &config::GrpcConfig,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<(MethodDescriptor, Digest)> {
    let place = format!("{at}.descriptor_set");
    let bytes =
        problems.take(&place, surroundings.read(&grpc.descriptor_set, DESCRIPTOR_BYTES_MAX))?;
    let pool = problems.take(&place, described(&bytes, &grpc.descriptor_set))?;
    let Some(service) = pool.get_service_by_name(&grpc.service) else {
        let known = listed(pool.services().map(|service| service.full_name().to_owned()));
        let message = format!("`{}` is no service of the descriptor set; {known}", grpc.service);
        problems.add(format!("{at}.service"), message);
        return None;
    };
    let Some(method) = service.methods().find(|method| method.name() == grpc.method) else {
        let known = listed(service.methods().map(|method| method.name().to_owned()));
        let message = format!("`{}` is no method of `{}`; {known}", grpc.method, grpc.service);
        problems.add(format!("{at}.method"), message);
        return None;
    };
    if method.is_client_streaming() || method.is_server_streaming() {
        let message =
            format!("`{}` is a streaming method; only unary ones are called", grpc.method);
        problems.add(format!("{at}.method"), message);
        return None;
    }
    // WHY: they form the path of the request, and a descriptor set may be handmade.
    let path = format!("{}{}", grpc.service, grpc.method);
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')) {
        problems.add(format!("{at}.method"), "service and method are ASCII identifiers");
        return None;
    }
    Some((method, Digest::of(&[&bytes])))
}

/// The types of a descriptor set: a name that leads nowhere, or a missing import, is an error.
fn described(bytes: &[u8], file: &Path) -> Result<DescriptorPool, Error> {
    let pool =
        DescriptorPool::decode(bytes).map_err(|error| Error::Incomplete(file.to_owned(), error))?;
    if pool.services().len() == 0 {
        return Err(Error::NoService(file.to_owned()));
    }
    Ok(pool)
}

/// `it has a, b, …`
fn listed(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.take(9).map(|name| format!("`{name}`")).collect();
    if names.len() > 8 {
        names.truncate(8);
        names.push("…".to_owned());
    }
    format!("it has {}", names.join(", "))
}
