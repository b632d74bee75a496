//! What names a cluster, and things in it, on the command line.

use std::path::PathBuf;

use super::api_server::{ApiServer, ApiServerError};

/// The API server of the cluster; by default that of the pod in which the command runs.
#[derive(Debug, clap::Args)]
pub(super) struct ClusterArgs {
    /// URL of the API server
    #[arg(long, value_name = "URL", default_value = "https://kubernetes.default.svc")]
    api: String,
    /// Authorities of its certificate (PEM)
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    )]
    ca_file: PathBuf,
    /// Token of the service account
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    token_file: PathBuf,
}

impl ClusterArgs {
    /// The API server.
    pub fn server(&self) -> Result<ApiServer, ApiServerError> {
        ApiServer::new(&self.api, &self.ca_file, &self.token_file)
    }
}

/// A name of Kubernetes.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if (1..=253).contains(&text.len()) && text.chars().all(known) {
        Ok(text.to_owned())
    } else {
        Err("must have 1 to 253 lowercase letters, digits, `-` and `.`".to_owned())
    }
}

/// A webhook configuration by its name.
#[derive(Clone, Debug)]
pub(super) struct WebhookConfiguration {
    /// As the command line has it.
    pub given: String,
    /// Its path at the API server.
    pub path: String,
}

/// Reads `mutating/NAME` or `validating/NAME`.
pub(super) fn webhook(text: &str) -> Result<WebhookConfiguration, String> {
    let (kind, name) = text.split_once('/').unwrap_or((text, ""));
    if !matches!(kind, "mutating" | "validating") {
        return Err("must be `mutating/NAME` or `validating/NAME`".to_owned());
    }
    let name = object_name(name)?;
    let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}");
    Ok(WebhookConfiguration { given: text.to_owned(), path })
}
