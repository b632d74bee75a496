//! The Secret of the injector: its certificate, and the authorities that sign it.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::crypto::issue::{CertificateKey, IssueError, IssuedCertificate};
use crate::crypto::renewal::{Authority, HeldCertificates, Leaf};
use crate::domain::time::Timestamp;

/// A certificate with its key.
pub(super) struct CertifiedKey {
    pub(super) certificate: IssuedCertificate,
    pub(super) key: CertificateKey,
}

/// What the Secret holds. A part that is absent or cannot be used is none.
#[derive(Default)]
pub(super) struct InjectorSecret {
    pub(super) signing: Option<CertifiedKey>,
    /// Since when `signing` signs.
    pub(super) since: Option<Timestamp>,
    pub(super) next: Option<CertifiedKey>,
    /// Every authority that stands in the bundles.
    pub(super) bundle: Vec<IssuedCertificate>,
    pub(super) leaf: Option<CertifiedKey>,
}

/// The bytes of one member of a Secret.
fn member(secret: &Value, name: &str) -> Option<Vec<u8>> {
    STANDARD.decode(secret.get("data")?.get(name)?.as_str()?).ok()
}

fn certified(secret: &Value, name: &str) -> Option<CertifiedKey> {
    let chain = IssuedCertificate::chain(&member(secret, &format!("{name}.crt"))?).ok()?;
    let certificate = chain.into_iter().next()?;
    let key = CertificateKey::read(&member(secret, &format!("{name}.key"))?).ok()?;
    certificate.is_of(&key).then_some(CertifiedKey { certificate, key })
}

/// What the plan knows of an authority.
pub(super) fn authority(certificate: &IssuedCertificate) -> Authority {
    Authority { id: certificate.id, begins: certificate.begins, ends: certificate.ends }
}

/// A bundle as PEM.
pub(super) fn pem(bundle: &[IssuedCertificate]) -> String {
    bundle.iter().map(|one| one.pem.as_str()).collect()
}

impl InjectorSecret {
    /// Reads a Secret.
    pub(super) fn read(secret: &Value) -> Self {
        let bundle = member(secret, "ca.crt").unwrap_or_default();
        let since = member(secret, "signing.since").and_then(|text| String::from_utf8(text).ok());
        Self {
            signing: certified(secret, "signing"),
            since: since.and_then(|text| Timestamp::parse(text.trim())),
            next: certified(secret, "next"),
            bundle: IssuedCertificate::chain(&bundle).unwrap_or_default(),
            leaf: certified(secret, "tls"),
        }
    }

    /// What the plan needs to know. A certificate for other names than these is none.
    pub(super) fn held(&self, names: &[String]) -> HeldCertificates {
        let signing = self.signing.as_ref().map(|one| authority(&one.certificate));
        let of = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
        let leaf = self.leaf.as_ref().map(|one| &one.certificate);
        let leaf = leaf.filter(|leaf| of(&leaf.names) == of(names));
        let signers = self.signing.iter().map(|one| &one.certificate).chain(&self.bundle);
        let signer = |leaf: &IssuedCertificate| {
            signers.clone().find(|one| leaf.is_signed_by(one)).map(|one| one.id)
        };
        HeldCertificates {
            // Without a date it is as if it had begun to sign when it began.
            signing: signing.map(|one| (one, self.since.unwrap_or(one.begins))),
            next: self.next.as_ref().map(|one| authority(&one.certificate)),
            bundle: self.bundle.iter().map(authority).collect(),
            leaf: leaf.and_then(|leaf| {
                let (begins, ends) = (leaf.begins, leaf.ends);
                Some(Leaf { signer: signer(leaf)?, begins, ends })
            }),
        }
    }

    /// The Secret with these contents; what else it has stays.
    pub(super) fn write(&self, secret: &Value) -> Result<Value, IssueError> {
        let mut written = secret.clone();
        let Some(object) = written.as_object_mut() else { return Ok(written) };
        let data = object.entry("data").or_insert(Value::Null);
        if data.is_null() {
            *data = json!({});
        }
        let Some(data) = data.as_object_mut() else { return Ok(written) };
        let mut put = |name: String, text: Option<&str>| match text {
            Some(text) => drop(data.insert(name, json!(STANDARD.encode(text)))),
            None => drop(data.remove(&name)),
        };
        put("ca.crt".to_owned(), Some(&pem(&self.bundle)));
        put("signing.since".to_owned(), self.since.map(|at| at.to_string()).as_deref());
        for (name, of) in [("signing", &self.signing), ("next", &self.next), ("tls", &self.leaf)] {
            let key = of.as_ref().map(|one| one.key.pem()).transpose()?;
            put(format!("{name}.crt"), of.as_ref().map(|one| one.certificate.pem.as_str()));
            put(format!("{name}.key"), key.as_ref().map(|text| text.as_str()));
        }
        Ok(written)
    }
}
