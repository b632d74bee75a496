//! Signed tokens of an issuer (JWS, RFC 7515) by the keys that it publishes (JWK, RFC 7517), as OpenID Connect uses them.
//!
//! WHY our own: three algorithms over `ring`, which verifies for us anyway, are less than a library that also decrypts,
//! signs and accepts a dozen other algorithms. A token counts only in the compact form, with an algorithm of this list and
//! the id of a key, and without critical headers. Other headers, which may bring a key along, are not read. The key says
//! which algorithm it is for; the token cannot choose another.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;

use crate::domain::closed::texts;
use crate::domain::json::{Json, Limits};

/// Bytes of a token.
pub const TOKEN_MAX: usize = 32 * 1024;
/// The limits of each part of a token, and of a set of keys.
const PARTS: Limits =
    Limits { bytes_max: 256 * 1024, depth_max: 16, values_max: 16_384, key_bytes_max: 1024 };
/// Bytes of a coordinate on P-256, and of a key on Ed25519.
const COORDINATE: usize = 32;

texts! {
    /// How a token may be signed. `none` and every algorithm with a shared secret is missing on purpose.
    pub enum TokenAlgorithm {
        /// RSA with PKCS #1 v1.5 and SHA-256.
        Rs256 = "RS256",
        /// ECDSA on P-256 with SHA-256.
        Es256 = "ES256",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

/// The claim `aud` (RFC 7519, section 4.1.3).
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged)]
pub enum TokenAudience {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl TokenAudience {
    /// Whether it is this one and no other.
    #[must_use]
    pub fn is(&self, only: &str) -> bool {
        match self {
            Self::One(one) => one == only,
            Self::Several(all) => !all.is_empty() && all.iter().all(|one| one == only),
        }
    }

    /// Whether this is one of them.
    #[must_use]
    pub fn includes(&self, wanted: &str) -> bool {
        match self {
            Self::One(one) => one == wanted,
            Self::Several(all) => all.iter().any(|one| one == wanted),
        }
    }
}

/// Why a token does not count.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// It is not three parts in base64url, or too long.
    #[error("it has not the form of a signed token")]
    Form,
    /// A part of it is no JSON that is read in one way only.
    #[error("its {0} cannot be read")]
    Part(&'static str),
    /// It is signed otherwise than by one of the allowed algorithms.
    #[error("its algorithm is not one of RS256, ES256 and EdDSA")]
    Algorithm,
    /// It has headers that must be understood, and that are not.
    #[error("it has critical headers")]
    Critical,
    /// It does not name its key.
    #[error("it names no key")]
    NoKey,
    /// The issuer has no key of this id for this algorithm, or several.
    #[error("the issuer publishes no such key for its algorithm")]
    UnknownKey,
    /// The signature is not of this key.
    #[error("its signature does not verify")]
    Signature,
    /// The set of keys cannot be read.
    #[error("the keys of the issuer cannot be read")]
    Keys,
}

/// A public key of an issuer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Material {
    /// Modulus and exponent.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// The uncompressed point.
    P256(Vec<u8>),
    /// The 32 bytes.
    Ed25519(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct TokenKey {
    id: String,
    material: Material,
}

/// The keys that an issuer signs tokens with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TokenKeys(Vec<TokenKey>);

/// A set of keys as it is published; keys for other purposes may stand in it.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Json>,
}

/// One key, as far as it is read.
#[derive(Deserialize)]
struct PublishedKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The header of a token, as far as it is read.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Json>,
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// A number without the zeros that some issuers put before it.
fn number(text: &str) -> Option<Vec<u8>> {
    bytes(text).map(|digits| digits.into_iter().skip_while(|digit| *digit == 0).collect())
}

impl PublishedKey {
    /// The key, if tokens may be signed with it.
    fn usable(self) -> Option<TokenKey> {
        let signs = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        let coordinate = |text: Option<&String>| bytes(text?).filter(|x| x.len() == COORDINATE);
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", None) => {
                Material::Rsa { n: number(self.n.as_ref()?)?, e: number(self.e.as_ref()?)? }
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (coordinate(self.x.as_ref())?, coordinate(self.y.as_ref())?);
                Material::P256([vec![4], x, y].concat())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(coordinate(self.x.as_ref())?),
            _ => return None,
        };
        let named = self.alg.as_deref();
        let fits = named.is_none_or(|named| named == material.algorithm().as_str());
        let id = self.kid.filter(|id| !id.is_empty())?;
        (signs && fits).then_some(TokenKey { id, material })
    }
}

impl Material {
    /// The one algorithm that the key is for.
    const fn algorithm(&self) -> TokenAlgorithm {
        match self {
            Self::Rsa { .. } => TokenAlgorithm::Rs256,
            Self::P256(_) => TokenAlgorithm::Es256,
            Self::Ed25519(_) => TokenAlgorithm::EdDsa,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

impl TokenKeys {
    /// Reads a set of keys. Keys that no token can be verified with are left out.
    ///
    /// # Errors
    /// [`Error::Keys`].
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let set = Json::parse(text, &PARTS).map_err(|_| Error::Keys)?;
        let set: KeySet = set.read().map_err(|_| Error::Keys)?;
        let read = set.keys.iter().filter_map(|key| key.read::<PublishedKey>().ok());
        Ok(Self(read.filter_map(PublishedKey::usable).collect()))
    }

    /// Whether no token can be verified with them.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The claims of a token that one of these keys signed. What they say is not checked.
    ///
    /// # Errors
    /// Why the token does not count.
    pub fn open(&self, token: &str) -> Result<Json, Error> {
        if token.len() > TOKEN_MAX {
            return Err(Error::Form);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Error::Form)?;
        let (header, claims) = signed.split_once('.').ok_or(Error::Form)?;
        let part = |text: &str| bytes(text).ok_or(Error::Form);
        let (header, claims, signature) = (part(header)?, part(claims)?, part(signature)?);
        let header = Json::parse(&header, &PARTS).map_err(|_| Error::Part("header"))?;
        let header: Header = header.read().map_err(|_| Error::Part("header"))?;
        let algorithm = TokenAlgorithm::parse(&header.alg).ok_or(Error::Algorithm)?;
        if header.crit.is_some() {
            return Err(Error::Critical);
        }
        let id = header.kid.ok_or(Error::NoKey)?;
        let mut named =
            self.0.iter().filter(|key| key.id == id && key.material.algorithm() == algorithm);
        let (Some(key), None) = (named.next(), named.next()) else {
            return Err(Error::UnknownKey);
        };
        if !key.material.verifies(signed.as_bytes(), &signature) {
            return Err(Error::Signature);
        }
        Json::parse(&claims, &PARTS).map_err(|_| Error::Part("claims"))
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    };

    use super::*;

    const CLAIMS: &str = r#"{"iss":"https://id.example.com","sub":"anna"}"#;

    fn text(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// A token with this header over these claims.
    fn token(header: &str, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let signed = format!("{}.{}", text(header.as_bytes()), text(claims.as_bytes()));
        let signature = text(&sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    struct Issuer {
        ed: Ed25519KeyPair,
        ec: EcdsaKeyPair,
    }

    impl Issuer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let ec = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
            let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            Self {
                ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
                ec: EcdsaKeyPair::from_pkcs8(kind, ec.as_ref(), &random).unwrap(),
            }
        }

        fn by_ed(&self, message: &[u8]) -> Vec<u8> {
            self.ed.sign(message).as_ref().to_vec()
        }

        fn by_ec(&self, message: &[u8]) -> Vec<u8> {
            self.ec.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
        }

        /// Its keys; `more` stands in each.
        fn published(&self, more: &str) -> String {
            let (x, y) = self.ec.public_key().as_ref()[1..].split_at(32);
            format!(
                r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"ed","x":"{}"{more}}},{{"kty":"EC","crv":"P-256","kid":"ec","x":"{}","y":"{}"{more}}},{{"kty":"oct","kid":"secret","k":"AA"}},{{"kty":7}}]}}"#,
                text(self.ed.public_key().as_ref()),
                text(x),
                text(y),
            )
        }
    }

    fn keys(text: &str) -> TokenKeys {
        TokenKeys::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_token_counts_by_the_named_key_and_the_algorithm_of_that_key() {
        let issuer = Issuer::new();
        let keys = keys(&issuer.published(r#","use":"sig""#));
        assert_eq!(keys.0.len(), 2);
        let of_ed = |header: &str| keys.open(&token(header, CLAIMS, |m| issuer.by_ed(m)));
        let of_ec = |header: &str| keys.open(&token(header, CLAIMS, |m| issuer.by_ec(m)));
        let claims = Json::parse(CLAIMS.as_bytes(), &PARTS).unwrap();
        assert_eq!(of_ed(r#"{"alg":"EdDSA","kid":"ed","typ":"JWT"}"#), Ok(claims.clone()));
        assert_eq!(of_ec(r#"{"alg":"ES256","kid":"ec"}"#), Ok(claims));
        for (header, why) in [
            (r#"{"alg":"EdDSA"}"#, Error::NoKey),
            (r#"{"alg":"EdDSA","kid":"ec"}"#, Error::UnknownKey),
            (r#"{"alg":"EdDSA","kid":"other"}"#, Error::UnknownKey),
            (r#"{"alg":"ES256","kid":"ed"}"#, Error::UnknownKey),
            (r#"{"alg":"ES256","kid":"ec"}"#, Error::Signature),
            (r#"{"alg":"none","kid":"ed"}"#, Error::Algorithm),
            (r#"{"alg":"HS256","kid":"ed"}"#, Error::Algorithm),
            (r#"{"alg":"eddsa","kid":"ed"}"#, Error::Algorithm),
            (r#"{"alg":"EdDSA","kid":"ed","crit":["exp"]}"#, Error::Critical),
            (r#"{"alg":"EdDSA","alg":"none","kid":"ed"}"#, Error::Part("header")),
            (r#"["EdDSA","ed"]"#, Error::Part("header")),
        ] {
            assert_eq!(of_ed(header), Err(why), "{header}");
        }
    }

    #[test]
    fn a_token_in_another_form_and_a_changed_one_do_not_count() {
        let issuer = Issuer::new();
        let keys = keys(&issuer.published(""));
        let header = r#"{"alg":"EdDSA","kid":"ed"}"#;
        let sound = token(header, CLAIMS, |m| issuer.by_ed(m));
        assert!(keys.open(&sound).is_ok());
        let (signed, signature) = sound.rsplit_once('.').unwrap();
        let (head, claims) = signed.split_once('.').unwrap();
        let other = text(CLAIMS.replace("anna", "otto").as_bytes());
        assert_eq!(keys.open(&format!("{head}.{other}.{signature}")), Err(Error::Signature));
        assert_eq!(keys.open(&format!("{signed}.")), Err(Error::Signature));
        for token in [
            "",
            ".",
            "..",
            signed,
            &format!("{sound}."),
            &format!("{sound}="),
            &format!("{sound} "),
            &format!("{head}.{claims}+.{signature}"),
            &format!("{head}.{claims}.{signature}.{signature}"),
            &format!("{sound}{}", "A".repeat(TOKEN_MAX)),
        ] {
            let why = keys.open(token).unwrap_err();
            assert!(matches!(why, Error::Form | Error::Part("header")), "{token}: {why}");
        }
        let twice = r#"{"sub":"anna","sub":"otto"}"#;
        let twice = token(header, twice, |m| issuer.by_ed(m));
        assert_eq!(keys.open(&twice), Err(Error::Part("claims")));
    }

    #[test]
    fn keys_of_other_uses_and_two_of_one_name_sign_nothing() {
        let issuer = Issuer::new();
        for more in [r#","use":"enc""#, r#","alg":"RS256""#, r#","alg":"HS256""#] {
            assert_eq!(keys(&issuer.published(more)).0.len(), 0, "{more}");
        }
        let mut twice = keys(&issuer.published(""));
        twice.0.extend(keys(&Issuer::new().published("")).0);
        let sound = token(r#"{"alg":"EdDSA","kid":"ed"}"#, CLAIMS, |m| issuer.by_ed(m));
        assert_eq!(twice.open(&sound), Err(Error::UnknownKey));
        for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[],"keys":[]}"#] {
            assert_eq!(TokenKeys::parse(text.as_bytes()), Err(Error::Keys), "{text}");
        }
    }
}
