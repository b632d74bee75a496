//! Keys of an issuer of OpenID Connect, and the tokens it signs: sound ones, and any other.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair as RsaKeyPair, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use serde_json::{Value, json};

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// One key, under its id.
pub struct TokenSigner {
    id: String,
    pair: Pair,
}

fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The two parts of a token that are signed.
pub fn signed_part(header: &Value, claims: &Value) -> String {
    format!("{}.{}", text(header.to_string().as_bytes()), text(claims.to_string().as_bytes()))
}

impl TokenSigner {
    /// A key that stock `openssl` makes.
    pub fn rsa(id: &str) -> Self {
        let made = Command::new("openssl")
            .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
            .output()
            .expect("openssl");
        let pem = String::from_utf8(made.stdout).unwrap();
        let packed: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let pair = RsaKeyPair::from_pkcs8(&STANDARD.decode(packed).unwrap()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Rsa(pair) }
    }

    pub fn ec(id: &str) -> Self {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let secret = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(kind, secret.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ec(pair) }
    }

    pub fn ed(id: &str) -> Self {
        let secret = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(secret.as_ref()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ed(pair) }
    }

    /// The public half, as an issuer publishes it.
    pub fn published(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Rsa(pair) => {
                let PublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                json!({"kty": "RSA", "n": text(&n), "e": text(&e)})
            }
            Pair::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "x": text(x), "y": text(y)})
            }
            Pair::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref())})
            }
        };
        key["kid"] = json!(self.id);
        key["use"] = json!("sig");
        key
    }

    /// The header of its tokens.
    pub fn header(&self) -> Value {
        let alg = match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
        };
        json!({"alg": alg, "kid": self.id, "typ": "JWT"})
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with this header over these claims, whatever they say.
    pub fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = signed_part(header, claims);
        let signature = text(&self.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// A token that is signed with a shared secret, which may be a public key.
pub fn with_secret(secret: &[u8], header: &Value, claims: &Value) -> String {
    let signed = signed_part(header, claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", text(tag.as_ref()))
}
