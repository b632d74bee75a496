//! Converts PostgreSQL values, which arrive as text, to JSON, and JSON to text for a parameter.

use crate::domain::canonical;
use crate::domain::json::{Json, Limits};
use crate::tool::sql::answer::{self, Cell};

/// The name of a type by its number; user-defined types have none here.
#[rustfmt::skip]
pub(super) const fn type_name(oid: u32) -> &'static str {
    match oid {
        16 => "boolean", 17 => "bytea", 18 => "char", 19 => "name", 20 => "bigint", 21 => "smallint",
        23 => "integer", 25 => "text", 26 => "oid", 114 => "json", 142 => "xml", 700 => "real",
        701 => "double precision", 790 => "money", 869 => "inet", 650 => "cidr", 829 => "macaddr",
        1000 => "boolean[]", 1005 => "smallint[]", 1007 => "integer[]", 1009 => "text[]",
        1015 => "varchar[]", 1016 => "bigint[]", 1042 => "character", 1043 => "varchar", 1082 => "date",
        1083 => "time", 1114 => "timestamp", 1184 => "timestamptz", 1186 => "interval", 1231 => "numeric[]",
        1266 => "timetz", 1560 => "bit", 1562 => "varbit", 1700 => "numeric", 2278 => "void",
        2950 => "uuid", 3614 => "tsvector", 3615 => "tsquery", 3802 => "jsonb", 3904 => "int4range",
        3906 => "numrange", 3908 => "tsrange", 3910 => "tstzrange", 3912 => "daterange",
        3926 => "int8range", 705 => "unknown", _ => "other",
    }
}

/// A value as it is released.
pub(super) fn cell(oid: u32, text: &str) -> Cell {
    let bytes = text.strip_prefix("\\x").filter(|_| oid == 17);
    match bytes.and_then(|digits| hex::decode(digits).ok()) {
        Some(bytes) => Cell::of_bytes(&bytes),
        // A list of binary values is a text of their digits.
        None if oid == 1001 => Cell::Bytes(Json::from(text)),
        None => Cell::Value(json(oid, text)),
    }
}

fn json(oid: u32, text: &str) -> Json {
    let plain = || Json::from(text);
    match oid {
        16 => match text {
            "t" => Json::from(true),
            "f" => Json::from(false),
            _ => plain(),
        },
        20 | 21 | 23 | 26 => text.parse::<i64>().map_or_else(|_| plain(), answer::integer),
        700 | 701 => text.parse::<f64>().map_or_else(|_| plain(), answer::float),
        // A fraction stays text: JSON readers would lose precision.
        1700 => text.parse::<i64>().map_or_else(|_| plain(), answer::integer),
        114 | 3802 => {
            let limits = Limits { depth_max: 48, ..Limits::FILE };
            Json::parse(text.as_bytes(), &limits).unwrap_or_else(|_| plain())
        }
        1114 => Json::from(moment(text, false)),
        1184 => Json::from(moment(text, true)),
        _ => plain(),
    }
}

/// A timestamp of the common era in RFC 3339 form; the session's time zone is UTC.
fn moment(text: &str, zoned: bool) -> String {
    let usual = text.len() >= 19 && text.as_bytes().first().is_some_and(u8::is_ascii_digit);
    if !usual || text.ends_with("BC") {
        return text.to_owned();
    }
    let text = text.replacen(' ', "T", 1);
    match text.strip_suffix("+00") {
        Some(local) if zoned => format!("{local}Z"),
        Some(_) | None => text,
    }
}

/// A parameter as text; the server converts it to the type at its place.
pub(super) fn parameter(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::Bool(truth) => Some(truth.to_string()),
        Json::String(text) => Some(text.clone()),
        Json::Int(_) | Json::Float(_) | Json::Array(_) | Json::Object(_) => {
            Some(canonical::text(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_what_they_are() {
        for (oid, text, json_text) in [
            (16, "t", "true"),
            (23, "-5", "-5"),
            (20, "9007199254740993", "\"9007199254740993\""),
            (1700, "12", "12"),
            (1700, "12.50", "\"12.50\""),
            (1700, "NaN", "\"NaN\""),
            (701, "0.5", "0.5"),
            (701, "Infinity", "\"Infinity\""),
            (17, "\\x6869", "\"aGk=\""),
            (3802, "{\"a\": [1, null]}", "{\"a\":[1,null]}"),
            (114, "{\"a\":1,\"a\":2}", "\"{\\\"a\\\":1,\\\"a\\\":2}\""),
            (1184, "2026-11-20 10:00:00.5+00", "\"2026-11-20T10:00:00.5Z\""),
            (1114, "2026-11-20 10:00:00", "\"2026-11-20T10:00:00\""),
            (1184, "infinity", "\"infinity\""),
            (1082, "2026-11-20", "\"2026-11-20\""),
            (99_999, "happy", "\"happy\""),
        ] {
            let (Cell::Value(value) | Cell::Bytes(value)) = cell(oid, text);
            assert_eq!(canonical::text(&value), json_text, "{oid} {text}");
        }
    }
}
