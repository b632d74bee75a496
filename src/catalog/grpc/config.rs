//! A `grpc` section of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::catalog::described::described;

described! {
/// One unary method of a gRPC service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grpc {
    /// Scheme, host and port: `https://orders.example.com`; `http://127.0.0.1:50051` is HTTP/2 in clear.
    pub url: String,
    /// A serialized `google.protobuf.FileDescriptorSet` with all its imports, relative to the configuration
    /// file. Read once; its digest is part of the tool's definition.
    pub descriptor_set: PathBuf,
    /// Full name of the service: `shop.v1.Orders`.
    pub service: String,
    /// Name of the method: `GetOrder`.
    pub method: String,
    /// Literal metadata of every request.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Bytes of one request message: 1 to 4,194,304, 1,048,576 if absent.
    pub request_bytes_max: Option<u64>,
    /// Address ranges outside the public Internet that the service may be reached at.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    pub ca_file: Option<PathBuf>,
}
}
