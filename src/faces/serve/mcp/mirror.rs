//! Headers that repeat the body (2026-07-28): a proxy that routes by the headers and the gate that
//! runs the body must see the same.

use http::HeaderMap;

use super::message::McpRequest;
use super::reply::ReplyRefusal;
use crate::domain::json::{Json, Limits};
use crate::mcp::http::{METHOD, NAME, VERSION, name_of};
use crate::mcp::{META_VERSION, header};
use crate::serve::problem::exchange::Broken;

fn mismatch(message: String) -> ReplyRefusal {
    ReplyRefusal::broken(Broken::Mirror, message)
}

/// Checks the headers every request has.
pub(super) fn standard(headers: &HeaderMap, ask: &McpRequest) -> Result<(), ReplyRefusal> {
    let version = text(headers, VERSION)?;
    let version = version.ok_or_else(|| mismatch(format!("the header `{VERSION}` is missing")))?;
    if let Some(in_meta) = ask.meta(META_VERSION).and_then(Json::as_str) {
        same(VERSION, version, in_meta)?;
    }
    let method = text(headers, METHOD)?;
    let method = method.ok_or_else(|| mismatch(format!("the header `{METHOD}` is missing")))?;
    same(METHOD, method, &ask.method)?;
    let Some(named) = name_of(&ask.method).and_then(|name| ask.text(name)) else { return Ok(()) };
    let name = text(headers, NAME)?;
    let name = name.ok_or_else(|| mismatch(format!("the header `{NAME}` is missing")))?;
    same(NAME, &decoded(NAME, name)?, named)
}

/// Checks the headers that mirror parameters of a tool with this schema.
pub(super) fn params(headers: &HeaderMap, schema: &[u8], args: &Json) -> Result<(), ReplyRefusal> {
    // WHY: few schemas contain the marker, and parsing every schema for every call costs more than
    // this search.
    if !schema.windows(MARK.len()).any(|window| window == MARK) {
        return Ok(());
    }
    let schema = Json::parse(schema, &Limits::FILE).ok();
    let mirrored = schema.and_then(|schema| header::mirrored(&schema).ok()).unwrap_or_default();
    for parameter in mirrored {
        let name = parameter.header();
        match (text(headers, &name)?, header::value(args, &parameter.path)) {
            (None, None) => {}
            (Some(shown), Some(argument)) => {
                let shown = decoded(&name, shown)?;
                if !same_number(&shown, args, &parameter.path) {
                    same(&name, &shown, &argument)?;
                }
            }
            (None, Some(_)) => return Err(mismatch(format!("the header `{name}` is missing"))),
            (Some(_), None) => {
                return Err(mismatch(format!("the header `{name}` repeats nothing in the body")));
            }
        }
    }
    Ok(())
}

const MARK: &[u8] = b"x-mcp-header";

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ReplyRefusal> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text =
        value.to_str().map_err(|_| mismatch(format!("the header `{name}` is no plain text")));
    text.map(|text| Some(text.trim_matches([' ', '\t'])))
}

fn decoded(name: &str, value: &str) -> Result<String, ReplyRefusal> {
    header::decoded(value).ok_or_else(|| mismatch(format!("the header `{name}` cannot be decoded")))
}

fn same(name: &str, header: &str, body: &str) -> Result<(), ReplyRefusal> {
    if header == body {
        return Ok(());
    }
    let shown = |text: &str| text.chars().take(64).collect::<String>();
    let (header, body) = (shown(header), shown(body));
    Err(mismatch(format!("the header `{name}` says `{header}` and the body `{body}`")))
}

/// `42.0` and `42` are one number.
fn same_number(header: &str, args: &Json, path: &[String]) -> bool {
    let found = path.iter().try_fold(args, |here, name| here.get(name));
    let Some(Json::Int(number)) = found else { return false };
    let whole = header
        .split_once('.')
        .filter(|(_, rest)| !rest.is_empty() && rest.bytes().all(|b| b == b'0'));
    whole.is_some_and(|(whole, _)| whole == number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params_of(headers: &[(&str, &str)], args: &str) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            map.insert(name, value.parse().unwrap());
        }
        let schema = br#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}"#;
        let args = Json::parse(args.as_bytes(), &Limits::ARGUMENTS).unwrap();
        params(&map, schema, &args).is_ok()
    }

    #[test]
    fn a_mirrored_parameter_is_in_both_places_or_in_none() {
        let (region, n) = ("mcp-param-region", "mcp-param-n");
        for (headers, args) in [
            (&[][..], "{}"),
            (&[(region, "us")][..], r#"{"region":"us"}"#),
            (&[(region, "=?base64?w6k=?=")][..], r#"{"region":"é"}"#),
            (&[(n, "42")][..], r#"{"deep":{"n":42}}"#),
            (&[(n, "42.0")][..], r#"{"deep":{"n":42}}"#),
            (&[][..], r#"{"region":null}"#),
            (&[("mcp-param-other", "x")][..], "{}"),
        ] {
            assert!(params_of(headers, args), "{headers:?} {args}");
        }
        for (headers, args) in [
            (&[][..], r#"{"region":"us"}"#),
            (&[(region, "us")][..], "{}"),
            (&[(region, "eu")][..], r#"{"region":"us"}"#),
            (&[(region, "US")][..], r#"{"region":"us"}"#),
            (&[(region, "=?base64?***?=")][..], r#"{"region":"us"}"#),
            (&[(n, "42.5")][..], r#"{"deep":{"n":42}}"#),
            (&[(n, "42.")][..], r#"{"deep":{"n":42}}"#),
        ] {
            assert!(!params_of(headers, args), "{headers:?} {args}");
        }
    }
}
