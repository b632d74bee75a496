//! What a form sends: names and values, each name once.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderMap};
use http_body_util::{BodyExt as _, Limited};
use zeroize::Zeroizing;

/// Bytes of a form.
const BYTES_MAX: usize = 64 * 1024;
/// How long it may take to arrive.
const WITHIN: Duration = Duration::from_secs(10);

/// The fields of a form that was sent. A field may be a token: nothing of it stays in memory.
#[derive(Default)]
pub(super) struct Form(BTreeMap<String, Zeroizing<String>>);

impl Form {
    /// Reads a form: no other type of body counts, because a page elsewhere could send some of them.
    pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Self, &'static str> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
        if !kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err("only a form of this console can change something here");
        }
        let read = Limited::new(body, BYTES_MAX).collect();
        match tokio::time::timeout(WITHIN, read).await {
            Ok(Ok(body)) => Self::parse(&body.to_bytes()),
            Ok(Err(_)) => Err("the form is larger than 64 KiB"),
            Err(_late) => Err("the form did not arrive in time"),
        }
    }

    /// Reads fields as they are encoded in a form, or in the query of an address.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut fields = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(bytes) {
            let value = Zeroizing::new(value.into_owned());
            if fields.insert(name.into_owned(), value).is_some() {
                return Err("the form has a field twice");
            }
        }
        Ok(Self(fields))
    }

    /// The field of this name; empty if there is none.
    pub(super) fn field(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_each_field_once() {
        let form = Form::parse(b"name=a+b%26&reason=").unwrap_or_default();
        assert_eq!(
            [form.field("name"), form.field("reason"), form.field("other")],
            ["a b&", "", ""]
        );
        assert!(Form::parse(b"token=a&token=b").is_err());
        assert!(Form::parse(b"").is_ok());
    }

    #[tokio::test]
    async fn what_is_no_form_is_not_read() {
        let read = |kind: &'static str, body: &'static str| async move {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
            Form::read(&headers, Body::from(body)).await.is_ok()
        };
        assert!(read("application/x-www-form-urlencoded; charset=utf-8", "a=1").await);
        for kind in ["text/plain", "application/json", "multipart/form-data; boundary=x", ""] {
            assert!(!read(kind, "a=1").await, "{kind}");
        }
        let long = Body::from("a".repeat(BYTES_MAX + 1));
        let mut headers = HeaderMap::new();
        let kind = http::HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, kind);
        assert!(Form::read(&headers, long).await.is_err());
    }
}
