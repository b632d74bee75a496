//! The status with which a service ends a call.

use http::HeaderMap;

/// The header or trailer with the status code.
const STATUS: &str = "grpc-status";
/// The header or trailer with the status message.
const MESSAGE: &str = "grpc-message";

const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// A status from the trailers or the headers of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrpcStatus {
    name: &'static str,
    message: String,
}

impl GrpcStatus {
    /// The status in these headers, if there is one. An unknown code becomes `UNKNOWN`; details are
    /// not read.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let code = headers.get(STATUS)?.to_str().unwrap_or_default();
        let number = code.parse::<usize>().ok().filter(|number| number.to_string() == code);
        let name = number.and_then(|number| NAMES.get(number)).copied().unwrap_or("UNKNOWN");
        let message = headers.get(MESSAGE).map(|text| unescaped(text.as_bytes()));
        Some(Self { name, message: message.unwrap_or_default() })
    }

    /// Whether the call succeeded.
    pub(super) fn is_ok(&self) -> bool {
        self.name == "OK"
    }

    /// Whether the service lacks the method.
    pub(super) fn is_unimplemented(&self) -> bool {
        self.name == "UNIMPLEMENTED"
    }

    /// The cause of an end that leaves open whether the service acted, if this is one.
    pub(super) fn unsure(&self) -> Option<&'static str> {
        match self.name {
            "CANCELLED" => Some("cancelled"),
            "DEADLINE_EXCEEDED" => Some("deadline"),
            "UNAVAILABLE" => Some("unavailable"),
            _ => None,
        }
    }

    /// ``the service answered `NOT_FOUND`: its own words``, at full length: `Scrub` masks it before
    /// it is cut.
    pub(super) fn describe(&self) -> String {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let message: String = self.message.chars().map(plain).collect();
        let colon = if message.is_empty() { "" } else { ": " };
        format!("the service answered `{}`{colon}{message}", self.name)
    }
}

/// Percent-decodes a text; invalid UTF-8 is replaced, as the protocol requires.
fn unescaped(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.split_at_checked(2).filter(|_| *first == b'%');
        let decoded = escaped.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let byte = u8::from_str_radix(digits, 16).ok().filter(|_| hex)?;
            Some((byte, after))
        });
        let (byte, after) = decoded.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[(&'static str, &'static [u8])]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, http::HeaderValue::from_bytes(value).unwrap());
        }
        GrpcStatus::of(&headers).map(|status| status.describe())
    }

    #[test]
    fn a_status_is_read_however_odd_it_is() {
        const S: &str = STATUS;
        const M: &str = MESSAGE;
        assert_eq!(of(&[(M, b"x")]), None);
        assert_eq!(of(&[(S, b"5")]).unwrap(), "the service answered `NOT_FOUND`");
        let text = of(&[(S, b"9"), (M, b"a%20b%C3%A9%0a100%")]).unwrap();
        assert_eq!(text, "the service answered `FAILED_PRECONDITION`: a b\u{e9} 100%");
        for code in [&b"17"[..], b"-1", b"05", b"", b"5 ", b"\xff", b"99999999999999999999999"] {
            let mut headers = HeaderMap::new();
            headers.insert(S, http::HeaderValue::from_bytes(code).unwrap());
            assert_eq!(GrpcStatus::of(&headers).unwrap().name, "UNKNOWN", "{code:?}");
        }
        // Values over which another library aborts the process.
        let details: &[(&str, &[u8])] =
            &[(S, b"13"), ("grpc-status-details-bin", b"!!! no base64")];
        assert_eq!(of(details).unwrap(), "the service answered `INTERNAL`");
        assert!(of(&[(S, b"2"), (M, b"%ff%fe%+1")]).unwrap().ends_with("\u{fffd}\u{fffd}%+1"));
    }
}
