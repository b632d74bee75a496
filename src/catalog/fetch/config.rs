//! A `fetch` section of the configuration, exactly as it may be written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{HOSTS_MAX, LIST_MAX};
use crate::form::FilePath;

/// URLs of the agent's choice, within bounds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchConfig {
    /// Hosts that the agent may request. `*.example.com` stands for every name below the domain,
    /// but not for the domain itself.
    #[schemars(length(min = 1, max = HOSTS_MAX), example = ["docs.example.com", "*.example.org"])]
    pub hosts: Vec<String>,
    /// Allowed TCP ports. Default: 443 for `https` and 80 for `http`.
    #[serde(default)]
    #[schemars(length(max = LIST_MAX))]
    pub ports: Vec<u16>,
    /// Allowed schemes: `https`, `http` or both. Default: `https` only.
    #[serde(default)]
    pub schemes: Vec<String>,
    /// Allowed methods: `GET`, `HEAD` or both. Default: both.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Request headers that the agent may set. Default: `accept` and `accept-language`.
    #[schemars(length(max = LIST_MAX))]
    pub headers_allowed: Option<Vec<String>>,
    /// Response headers that the agent receives. Default: those about caching, language, links and
    /// retries.
    #[schemars(length(max = LIST_MAX))]
    pub headers_returned: Option<Vec<String>>,
    /// Address ranges outside the public Internet. They need hosts that are named one by one.
    #[serde(default)]
    #[schemars(example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
}
