//! `tls` of a listener: its certificate, and whose clients' certificates count.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::serve::tls::{self, Clients, Files};
use crate::tool::net::identity::Wrong;

/// `listen.tls`, `operator.tls` and their like.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The listener's certificate chain (PEM), its own first.
    pub cert: PathBuf,
    /// Its private key (PEM), mode 0600.
    pub key: PathBuf,
    /// Authorities of clients' certificates (PEM); without them nobody is asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

impl Tls {
    /// What the listener works with; who shows no certificate may still ask what needs none.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn open(&self) -> Result<tls::Tls, Wrong> {
        self.open_for(self.client_ca.clone().map_or(Clients::Unasked, Clients::Asked))
    }

    /// The same, but nobody is served without a certificate.
    ///
    /// # Errors
    /// As [`Self::open`]; or nobody's certificate would count.
    pub fn demand(&self) -> Result<tls::Tls, Wrong> {
        let why = "set it: agents are known by certificates, and these are their authorities";
        let missing = || Wrong { field: "client_ca", why: why.to_owned() };
        self.open_for(Clients::Demanded(self.client_ca.clone().ok_or_else(missing)?))
    }

    fn open_for(&self, clients: Clients) -> Result<tls::Tls, Wrong> {
        let (cert, key) = (self.cert.clone(), self.key.clone());
        tls::Tls::load(Files { cert, key, clients })
    }
}

/// The part of the schema; clients' certificates only where they are of use.
pub(super) fn schema(path: &dyn Fn(&str) -> Value, clients: bool) -> Value {
    let mut properties = json!({
        "cert": path("certificate chain of the listener (PEM), its own first"),
        "key": path("private key of the certificate (PEM), mode 0600"),
    });
    if let (true, Some(members)) = (clients, properties.as_object_mut()) {
        let text =
            "authorities of clients' certificates (PEM); without them nobody is asked for one";
        members.insert("client_ca".to_owned(), path(text));
    }
    json!({"type": "object", "additionalProperties": false, "required": ["cert", "key"],
        "description": "TLS 1.2 and 1.3; needed to listen beyond loopback", "properties": properties})
}

/// Makes the paths absolute.
pub(super) fn resolve(value: &mut Value, at: &str, one: &dyn Fn(&mut Value)) {
    for name in ["cert", "key", "client_ca"] {
        if let Some(path) = value.pointer_mut(&format!("{at}/{name}")) {
            one(path);
        }
    }
}

/// What the schema cannot say: files that cannot be used.
pub(super) fn check(
    config: &Value,
    at: &str,
    open: fn(&Tls) -> Result<tls::Tls, Wrong>,
) -> Vec<(String, String)> {
    // What has the wrong shape was said already.
    let read = config.pointer(at).and_then(|tls| Tls::deserialize(tls).ok());
    let wrong = read.and_then(|tls| open(&tls).err());
    wrong.map(|Wrong { field, why }| (format!("{at}/{field}"), why)).into_iter().collect()
}
