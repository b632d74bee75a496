//! The `tools:` list of the configuration, and the sections that several kinds share, exactly as an
//! operator may write them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Tool;
use crate::form::FilePath;

/// Every binding of one sidecar, not yet checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Config(pub Vec<Tool>);

/// Where one secret goes and where it comes from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialConfig {
    /// Name of the request header that holds the secret.
    pub header: Option<String>,
    /// Name of the query parameter that holds the secret.
    pub query: Option<String>,
    /// The one origin that a `fetch` sends the secret to.
    #[schemars(example = "https://docs.example.com")]
    pub origin: Option<String>,
    /// Text before the secret in a header.
    #[schemars(extend("examples" = ["Bearer "]))]
    pub prefix: Option<String>,
    /// File that holds the secret, relative to the configuration file. The gate reads it again when it changes.
    #[schemars(with = "Option<FilePath>")]
    pub file: Option<PathBuf>,
    /// Environment variable that holds the secret. The gate reads it once.
    pub env: Option<String>,
    /// Refused: a secret is given by `file` or `env`, never inline.
    #[schemars(with = "Option<serde_json::Value>")]
    pub value: Option<serde::de::IgnoredAny>,
}
