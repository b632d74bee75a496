//! A passkey in software: what an authenticator answers, and what its browser makes of it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use wicketgate_crypto::passkey::P256Key;
use wicketgate_crypto::ssh::{SshKey, put};
use wicketgate_crypto::sshsig::{SshHash, covered};
use wicketgate_record::domain::digest::Digest;

/// A person was there, and was verified.
pub const VERIFIED: u8 = 0x05;
/// The same, by a passkey that devices share and that is shared.
pub const SYNCED: u8 = 0x1d;

/// How one signature is made.
#[derive(Clone, Debug)]
pub struct Ceremony {
    pub origin: String,
    /// The flags of the authenticator.
    pub flags: u8,
    /// `webauthn.get`, where nothing is wrong.
    pub kind: &'static str,
    /// What follows the origin in the browser's data.
    pub rest: &'static str,
    /// Of the authenticator, in CBOR.
    pub extensions: Vec<u8>,
    /// Another origin than the browser's in the signature.
    pub claimed: Option<String>,
}

impl Ceremony {
    /// A person who is verified signs here.
    pub fn at(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            flags: VERIFIED,
            kind: "webauthn.get",
            rest: r#","crossOrigin":false}"#,
            extensions: Vec::new(),
            claimed: None,
        }
    }
}

/// One passkey of one domain.
#[derive(Debug)]
pub struct Passkey {
    key: EcdsaKeyPair,
    application: String,
    counter: u32,
}

impl Passkey {
    pub fn new(application: &str) -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let secret = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(kind, secret.as_ref(), &random).unwrap();
        Self { key, application: application.to_owned(), counter: 7 }
    }

    pub fn public(&self) -> SshKey {
        let key = P256Key::from_point(self.key.public_key().as_ref()).unwrap();
        SshKey::Passkey { key, application: self.application.clone() }
    }

    /// The SSHSIG over this message in this namespace, armored, whatever is wrong with it.
    pub fn signs(&self, namespace: &str, message: &[u8], how: &Ceremony) -> String {
        armored(&self.blob(namespace, message, how))
    }

    /// The same without armor.
    pub fn blob(&self, namespace: &str, message: &[u8], how: &Ceremony) -> Vec<u8> {
        let challenge = covered(namespace, SshHash::Sha512, message);
        let client_data = format!(
            r#"{{"type":"{}","challenge":"{}","origin":"{}"{}"#,
            how.kind,
            URL_SAFE_NO_PAD.encode(challenge),
            how.origin,
            how.rest
        );
        let mut signed = Digest::of(&[self.application.as_bytes()]).as_bytes().to_vec();
        signed.push(how.flags);
        signed.extend(self.counter.to_be_bytes());
        signed.extend(&how.extensions);
        signed.extend(Digest::of(&[client_data.as_bytes()]).as_bytes());
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        let (r, s) = signature.as_ref().split_at(32);
        let mut both = Vec::new();
        put(&mut both, &number(r));
        put(&mut both, &number(s));
        let mut inner = Vec::new();
        put(&mut inner, b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com");
        put(&mut inner, &both);
        inner.push(how.flags);
        inner.extend(self.counter.to_be_bytes());
        put(&mut inner, how.claimed.as_ref().unwrap_or(&how.origin).as_bytes());
        put(&mut inner, client_data.as_bytes());
        put(&mut inner, &how.extensions);
        let mut blob = b"SSHSIG".to_vec();
        blob.extend(1_u32.to_be_bytes());
        put(&mut blob, &self.public().blob());
        put(&mut blob, namespace.as_bytes());
        put(&mut blob, b"");
        put(&mut blob, b"sha512");
        put(&mut blob, &inner);
        blob
    }
}

/// A positive number in SSH's shortest form.
fn number(bytes: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = bytes.iter().copied().skip_while(|b| *b == 0).collect();
    let negative = digits.first().is_some_and(|first| first & 0x80 != 0);
    if negative { [vec![0], digits].concat() } else { digits }
}

/// The armor of stock tools.
pub fn armored(blob: &[u8]) -> String {
    let packed = STANDARD.encode(blob);
    let lines: Vec<&str> =
        packed.as_bytes().chunks(70).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let lines = lines.join("\n");
    format!("-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n")
}
