//! An `http` section of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::form::FilePath;

/// An HTTP request with places for arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Method of the request.
    #[schemars(extend("examples" = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]))]
    pub method: String,
    /// URL with literal scheme, host and port. `{places}` for arguments are allowed in path segments only.
    #[schemars(example = "https://api.example.com/orders/{id}")]
    pub url: String,
    /// Query parameters. A parameter that consists only of an absent argument is left out.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// Literal headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body of the request: `none`, `args` (the arguments as JSON), or a JSON object with `{places}` for arguments. POST,
    /// PUT and PATCH need it.
    pub body: Option<serde_json::Value>,
    /// Address ranges outside the public Internet that this tool may be reached at.
    #[serde(default)]
    #[schemars(example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
}
