//! The credential of a request: each SDK sends it in the header of its own provider.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::domain::code::Code;
use crate::identity::IdentityError;
use crate::serve::guard;
use crate::serve::problem::Problem;
use crate::serve::problem::exchange::Broken;

/// Where SDKs send a key, besides `authorization`.
const KEYS: [&str; 2] = ["x-api-key", "x-goog-api-key"];

/// Bytes of a key.
const KEY_BYTES_MAX: usize = 8192;

/// The one credential of a request; `None` without one.
///
/// WHY two are refused, even if they are equal: another reader could use the other one.
pub(super) fn shown(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let bearer = headers.contains_key(AUTHORIZATION).then_some("authorization");
    let keys = KEYS.into_iter().filter(|name| headers.contains_key(*name));
    let mut names = bearer.into_iter().chain(keys);
    let (name, other) = (names.next(), names.next());
    match (name, other) {
        (None, _) => Ok(None),
        (Some(name), Some(other)) => {
            let message = format!(
                "the request carries two credentials, in `{name}` and `{other}`: send one of them"
            );
            Err(Broken::Ambiguous.because(message).detail("credential.twice").into())
        }
        (Some("authorization"), None) => Ok(guard::bearer(headers)?),
        (Some(name), None) => Ok(Some(key_in(headers, name)?)),
    }
}

/// The key in this header.
fn key_in<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Problem> {
    let mut values = headers.get_all(name).iter();
    let key = values.next().and_then(|value| value.to_str().ok());
    let fits = |key: &&str| {
        (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic())
    };
    match (key.filter(fits), values.next()) {
        (Some(key), None) => Ok(key),
        (Some(_) | None, _) => {
            let message = format!("`{name}` must hold one credential of printable characters");
            Err(Problem::new(Code::IdentityMissing, IdentityError::Malformed.detail(), message))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn exactly_one_credential_counts_in_whichever_header_it_stands() {
        let read = |lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            shown(&headers)
                .map(|key| key.map(str::to_owned))
                .map_err(|problem| (problem.http_status().as_u16(), problem.detail))
        };
        let key = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("authorization", "Bearer a")]), key("a"));
        assert_eq!(read(&[("x-api-key", "a")]), key("a"));
        assert_eq!(read(&[("x-goog-api-key", "a")]), key("a"));
        let twice = Err((400, "credential.twice".to_owned()));
        for lines in [
            [("authorization", "Bearer a"), ("x-api-key", "a")],
            [("x-api-key", "a"), ("x-goog-api-key", "b")],
            [("authorization", ""), ("x-goog-api-key", "b")],
        ] {
            assert_eq!(read(&lines), twice, "{lines:?}");
        }
        let malformed = Err((401, "credential.malformed".to_owned()));
        for lines in [
            &[("authorization", "Basic a")][..],
            &[("x-api-key", "")],
            &[("x-api-key", "a b")],
            &[("x-api-key", "a"), ("x-api-key", "a")],
            &[("authorization", "Bearer a"), ("authorization", "Bearer a")],
        ] {
            assert_eq!(read(lines), malformed, "{lines:?}");
        }
    }
}
