//! A `grpc` section of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{REQUEST_BYTES, REQUEST_BYTES_MAX};
use crate::form::FilePath;

/// One unary method of a gRPC service.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrpcConfig {
    /// Scheme, host and port. `http` means HTTP/2 without TLS.
    #[schemars(extend("examples" = ["https://orders.example.com", "http://127.0.0.1:50051"]))]
    pub url: String,
    /// File of a serialized `google.protobuf.FileDescriptorSet` with all its imports, relative to the configuration
    /// file. The gate reads it once; its digest is part of the tool's definition.
    #[schemars(with = "FilePath")]
    pub descriptor_set: PathBuf,
    /// Full name of the service.
    #[schemars(example = "shop.v1.Orders")]
    pub service: String,
    /// Name of the method.
    #[schemars(extend("examples" = ["GetOrder"]))]
    pub method: String,
    /// Literal metadata of every request.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Maximum size of one request message in bytes.
    #[schemars(range(min = 1, max = REQUEST_BYTES_MAX), extend("default" = REQUEST_BYTES))]
    pub request_bytes_max: Option<u64>,
    /// Address ranges outside the public Internet that the service may be reached at.
    #[serde(default)]
    #[schemars(example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
}
