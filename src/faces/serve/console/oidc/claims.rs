//! What an ID token must say (OpenID Connect Core, 3.1.3.7).

use serde::Deserialize;

use crate::crypto::jose::TokenAudience;
use crate::domain::json::Json;
use crate::session::LOGIN_WITHIN;

/// Seconds that the issuer's clock may differ from ours.
const SKEW: i64 = 60;
/// Characters of a subject.
const SUBJECT_MAX: usize = 255;

/// Why an ID token is not for this login.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(in super::super) enum ClaimError {
    /// A claim is missing, or is something else.
    #[error("its claims are not those of an ID token: {0}")]
    Form(String),
    /// It is of another issuer.
    #[error("it is of another issuer")]
    Issuer,
    /// It is for another client, or for more than this one.
    #[error("it is for another client")]
    Audience,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// It is of the future, or older than a login may take.
    #[error("it was not issued just now")]
    Issued,
    /// It is of another login.
    #[error("it is of another login")]
    Nonce,
    /// It names a person whom no configuration could name.
    #[error("its subject is not 1 to 255 printable ASCII characters")]
    Subject,
}

/// The claims, as far as they are read.
#[derive(Deserialize)]
struct IdClaims {
    iss: String,
    sub: String,
    aud: TokenAudience,
    azp: Option<String>,
    exp: i64,
    iat: i64,
    nbf: Option<i64>,
    nonce: Option<String>,
}

/// What this login expects.
#[derive(Clone, Copy)]
pub(super) struct Expected<'a> {
    pub issuer: &'a str,
    pub client: &'a str,
    pub nonce: &'a str,
    /// Seconds since 1970.
    pub now: i64,
}

impl Expected<'_> {
    /// The subject of claims that are for this login.
    pub(super) fn subject(&self, claims: &Json) -> Result<String, ClaimError> {
        let claims: IdClaims =
            claims.read().map_err(|error| ClaimError::Form(error.to_string()))?;
        if claims.iss != self.issuer {
            return Err(ClaimError::Issuer);
        }
        // With several audiences the authorized party says whose token it is.
        let ours = match claims.azp.as_deref() {
            Some(party) => party == self.client && claims.aud.includes(self.client),
            None => claims.aud.is(self.client),
        };
        if !ours {
            return Err(ClaimError::Audience);
        }
        if self.now.saturating_sub(SKEW) >= claims.exp {
            return Err(ClaimError::Expired);
        }
        let longest = i64::try_from(LOGIN_WITHIN.as_secs()).unwrap_or(0).saturating_add(SKEW);
        let latest = self.now.saturating_add(SKEW);
        let just_now = claims.iat <= latest && self.now.saturating_sub(claims.iat) <= longest;
        if !just_now || claims.nbf.is_some_and(|begins| begins > latest) {
            return Err(ClaimError::Issued);
        }
        if claims.nonce.as_deref() != Some(self.nonce) {
            return Err(ClaimError::Nonce);
        }
        let printable = claims.sub.bytes().all(|b| b.is_ascii_graphic());
        if !printable || !(1..=SUBJECT_MAX).contains(&claims.sub.len()) {
            return Err(ClaimError::Subject);
        }
        Ok(claims.sub)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn sound() -> Value {
        json!({"iss": "https://id.example.com", "sub": "00u1", "aud": "console", "exp": NOW + 300,
            "iat": NOW - 5, "nonce": "n", "groups": ["admin"], "email": "anna@example.com"})
    }

    fn subject(claims: Value) -> Result<String, ClaimError> {
        let (issuer, client) = ("https://id.example.com", "console");
        Expected { issuer, client, nonce: "n", now: NOW }.subject(&Json::from(claims))
    }

    fn with(name: &str, value: Value) -> Result<String, ClaimError> {
        let mut claims = sound();
        claims[name] = value;
        subject(claims)
    }

    #[test]
    fn claims_for_this_login_name_its_subject() {
        assert_eq!(subject(sound()), Ok("00u1".to_owned()));
        assert_eq!(with("aud", json!(["console"])), Ok("00u1".to_owned()));
        assert_eq!(with("azp", json!("console")), Ok("00u1".to_owned()));
        let mut several = sound();
        several["aud"] = json!(["api", "console"]);
        assert_eq!(subject(several.clone()), Err(ClaimError::Audience));
        several["azp"] = json!("console");
        assert_eq!(subject(several), Ok("00u1".to_owned()));
    }

    #[test]
    fn claims_for_another_place_time_or_login_name_no_subject() {
        for (name, value, why) in [
            ("iss", json!("https://id.example.com/"), ClaimError::Issuer),
            ("iss", json!("https://evil.example"), ClaimError::Issuer),
            ("aud", json!("other"), ClaimError::Audience),
            ("aud", json!([]), ClaimError::Audience),
            ("azp", json!("other"), ClaimError::Audience),
            ("exp", json!(NOW - 60), ClaimError::Expired),
            ("iat", json!(NOW + 61), ClaimError::Issued),
            ("iat", json!(NOW - 661), ClaimError::Issued),
            ("nbf", json!(NOW + 61), ClaimError::Issued),
            ("nonce", json!("other"), ClaimError::Nonce),
            ("nonce", Value::Null, ClaimError::Nonce),
            ("sub", json!(""), ClaimError::Subject),
            ("sub", json!("anna\u{202e}"), ClaimError::Subject),
            ("sub", json!("a".repeat(256)), ClaimError::Subject),
        ] {
            assert_eq!(with(name, value.clone()), Err(why), "{name}: {value}");
        }
        for (name, value) in [
            ("exp", json!("1800000300")),
            ("exp", Value::Null),
            ("iat", Value::Null),
            ("aud", Value::Null),
            ("aud", json!({"console": true})),
            ("sub", json!(7)),
        ] {
            let why = with(name, value.clone());
            assert!(matches!(why, Err(ClaimError::Form(_))), "{name}: {value}: {why:?}");
        }
    }
}
