//! The body of a server's response, as the agent receives it.

use base64::Engine as _;
use http::StatusCode;

use crate::domain::canonical;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{AnswerContent, Opaque, Unmasked};

/// The member of a result that holds a body.
pub(super) struct Body {
    /// The name and the value of the member.
    pub member: (&'static str, Json),
    /// The reason the firewall cannot scan the body, if it cannot.
    pub opaque: Option<Opaque>,
}

impl Body {
    /// The outcome with this member among others, for a response with this status.
    pub(super) fn among<const N: usize>(
        self,
        status: StatusCode,
        members: [(&'static str, Json); N],
    ) -> Unmasked {
        let number = ("status", Json::from(u64::from(status.as_u16())));
        let all = [number, self.member].into_iter().chain(members);
        // A partial response (RFC 9110, 15.3.7) is a part of something larger.
        let span = (status == StatusCode::PARTIAL_CONTENT).then_some(Opaque::Span);
        let result = AnswerContent::of(canonical::bytes(&Json::object(all)), self.opaque.or(span));
        Unmasked::Completed { result, status: status.as_u16().to_string() }
    }
}

/// The body as JSON if every reader reads it the same way, otherwise as text, otherwise as base64.
pub(super) fn body(content_type: &str, body: &[u8]) -> Body {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json = media_type == "application/json" || media_type.ends_with("+json");
    let parsed =
        if json { Json::parse(body, &Limits { depth_max: 60, ..Limits::FILE }).ok() } else { None };
    if let Some(value) = parsed {
        return Body { member: ("body", value), opaque: None };
    }
    match text(&charset(content_type), body) {
        Some(text) => Body { member: ("body", Json::from(text)), opaque: None },
        None => {
            let coded = base64::engine::general_purpose::STANDARD.encode(body);
            Body { member: ("body_base64", Json::from(coded)), opaque: Some(Opaque::Binary) }
        }
    }
}

/// The text in this character set. `None` if the bytes are invalid in it, or if the gate does not
/// support it.
fn text(charset: &str, body: &[u8]) -> Option<String> {
    match charset {
        "" | "utf-8" | "utf8" | "us-ascii" | "ascii" => {
            std::str::from_utf8(body).ok().map(Into::into)
        }
        // ISO-8859-1 maps bytes to characters directly; the 32 code points that windows-1252 adds
        // are left undecoded.
        "iso-8859-1" | "latin1" | "windows-1252" => {
            let plain = !body.iter().any(|byte| (0x80..0xa0).contains(byte));
            plain.then(|| body.iter().map(|byte| char::from(*byte)).collect())
        }
        "utf-16le" => utf16(body, u16::from_le_bytes),
        "utf-16be" => utf16(body, u16::from_be_bytes),
        "utf-16" => match body {
            [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
            _unmarked => None,
        },
        _unknown => None,
    }
}

fn utf16(body: &[u8], read: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = body.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let units: Vec<u16> = pairs.iter().map(|pair| read(*pair)).collect();
    String::from_utf16(&units).ok()
}

/// The `charset` parameter, lowercase; empty if there is none.
fn charset(content_type: &str) -> String {
    let parameters = content_type.split(';').skip(1);
    let value = parameters.filter_map(|parameter| parameter.split_once('=')).find_map(|(n, v)| {
        n.trim().eq_ignore_ascii_case("charset").then(|| v.trim().trim_matches('"'))
    });
    value.unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, body: &[u8]) -> String {
        let Body { member: (name, value), opaque } = super::body(content_type, body);
        assert_eq!(opaque.is_some(), name == "body_base64");
        format!("{name}={}", canonical::text(&value))
    }

    #[test]
    fn text_is_read_in_the_set_it_says_and_bytes_stay_bytes() {
        assert_eq!(read("text/html; Charset=\"UTF-8\"", "é".as_bytes()), "body=\"é\"");
        assert_eq!(read("text/plain", b"\xe9"), "body_base64=\"6Q==\"");
        assert_eq!(read("text/plain;charset=ISO-8859-1", b"\xe9"), "body=\"é\"");
        assert_eq!(read("text/plain;charset=windows-1252", b"\x80"), "body_base64=\"gA==\"");
        assert_eq!(read("text/plain;charset=utf-16", b"\xff\xfeh\0i\0"), "body=\"hi\"");
        assert_eq!(read("text/plain;charset=utf-16le", b"h\0i"), "body_base64=\"aABp\"");
        assert_eq!(read("text/plain;charset=shift_jis", b"hi"), "body_base64=\"aGk=\"");
        assert_eq!(
            read("application/json;charset=utf-8", b"{\"b\":1, \"a\":2}"),
            "body={\"a\":2,\"b\":1}"
        );
        assert_eq!(
            read("application/json", b"{\"a\":1,\"a\":2}"),
            "body=\"{\\\"a\\\":1,\\\"a\\\":2}\""
        );
    }
}
