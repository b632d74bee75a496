//! The one strict YAML reader: manifests, configuration and tests go through it.
//!
//! No duplicate keys, no anchors or aliases, no tags, no directives, no merge keys, no unknown
//! fields, one document; every error names file, line and column (and the key, if any). Input that
//! two readers could interpret differently is refused before anything is typed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

mod scan;

use crate::domain::pointer;
use scan::{Places, scan};

/// The most bytes of one document.
pub const BYTES_MAX: usize = 1 << 20;
/// The deepest nesting of mappings and sequences.
pub const DEPTH_MAX: usize = 32;
/// The most keys, scalars and collections of one document.
pub const NODES_MAX: usize = 50_000;

/// One thing wrong with a file, and where.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub struct Error {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1; 0 if the problem has no place in the text.
    pub line: u64,
    /// Column in characters, from 1; 0 as above.
    pub column: u64,
    /// The field, dotted (`spec.tools[0].tier`); empty for the document itself.
    pub key: String,
    /// What is wrong: lowercase, input in backticks.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        let separator = if self.file.is_empty() { "" } else { ": " };
        if self.key.is_empty() {
            return write!(f, "{separator}{}", self.message);
        }
        write!(f, "{separator}{}: {}", self.key, self.message)
    }
}

/// Reads one strict document into a type. `name` is the file, for the message.
///
/// # Errors
/// The first thing wrong with the text.
pub fn from_str<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, Error> {
    let places = scan(text, name)?;
    let refused = |e| typed(&e, &places, name);
    // The first reading knows places, but also accepts `"true"` for true and `5` for text. The
    // second reads each scalar by its own type and does not.
    let _: T = serde_saphyr::from_str_with_options(text, options()).map_err(refused)?;
    let value: Value = serde_saphyr::from_str_with_options(text, options()).map_err(refused)?;
    serde_json::from_value(value).map_err(|e| whole(name, 0, &e.to_string()))
}

/// As [`from_str`], from the bytes of a file: UTF-8 without a byte order mark.
///
/// # Errors
/// The first thing wrong with the bytes.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8], name: &str) -> Result<T, Error> {
    from_str(utf8(bytes, name)?, name)
}

/// A strict document with the places of its fields, for checks that report everything at once.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its value.
    pub value: Value,
    file: String,
    places: Places,
}

impl Document {
    /// Reads one strict document.
    ///
    /// # Errors
    /// The first thing wrong with the bytes as YAML.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, Error> {
        let text = utf8(bytes, name)?;
        let places = scan(text, name)?;
        let value = serde_saphyr::from_str_with_options(text, options())
            .map_err(|e| typed(&e, &places, name))?;
        Ok(Self { value, file: name.to_owned(), places })
    }

    /// The places of its fields, for errors found after the document is dropped.
    pub fn written(&self) -> Written {
        Written { file: self.file.clone(), places: Arc::new(self.places.clone()) }
    }

    /// An error at the field of this JSON pointer, or at the nearest written field above it.
    pub fn error(&self, pointer: &str, message: impl Into<String>) -> Error {
        let (line, column) =
            self.places.of(pointer).map_or((0, 0), |place| (place.line, place.column));
        let key = dotted(pointer, &self.value);
        Error { file: self.file.clone(), line, column, key, message: message.into() }
    }

    /// Everything that violates this JSON Schema, in the order of the file. One error per field.
    ///
    /// # Errors
    /// The schema itself is invalid.
    pub fn violations(
        &self,
        schema: &Value,
    ) -> Result<Vec<Error>, jsonschema::ValidationError<'static>> {
        let validator = jsonschema::draft202012::new(schema)?;
        let mut found = BTreeSet::new();
        for error in validator.iter_errors(&self.value) {
            let at = error.instance_path().to_string();
            for (pointer, message) in violation_message(&error, &at, schema) {
                found.insert(self.error(&pointer, message));
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// The places of a document's fields. By default those of a document without a file.
#[derive(Clone, Debug, Default)]
pub struct Written {
    file: String,
    places: Arc<Places>,
}

impl Written {
    /// An error at the field of this dotted key (`tools[0].http.url`), or at the nearest written
    /// one above it.
    pub fn error(&self, key: &str, message: impl Into<String>) -> Error {
        let (line, column) = self.places.named(key).map_or((0, 0), |at| (at.line, at.column));
        let (file, key) = (self.file.clone(), key.to_owned());
        Error { file, line, column, key, message: message.into() }
    }
}

/// The message of a schema violation, and its field.
fn violation_message(
    error: &jsonschema::ValidationError<'_>,
    at: &str,
    schema: &Value,
) -> Vec<(String, String)> {
    use jsonschema::error::ValidationErrorKind as Kind;
    let below = |name: &str| format!("{at}/{}", pointer::step(name));
    #[expect(clippy::wildcard_enum_match_arm, reason = "the enum is not ours and not exhaustive")]
    match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            unexpected.iter().map(|name| (below(name), "unknown field".to_owned())).collect()
        }
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![(at.to_owned(), format!("missing field `{name}`"))]
        }
        // The schema's own descriptions of patterns and alternatives are clearer than the pattern.
        _ => {
            let keyword = error.schema_path().to_string();
            let parent = keyword.rsplit_once('/').map_or("", |(parent, _)| parent);
            let title =
                schema.pointer(parent).and_then(|s| s.get("x-error")).and_then(Value::as_str);
            let message =
                title.map_or_else(|| error.masked_with("the value").to_string(), str::to_owned);
            vec![(at.to_owned(), message)]
        }
    }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: DEPTH_MAX + 1,
            max_nodes: NODES_MAX,
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
            max_total_scalar_bytes: BYTES_MAX,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        strict_booleans: true,
        legacy_octal_numbers: false,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        reject_tagged_field_names: true,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    }
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|e| {
        let before = bytes.get(..e.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|b| **b == b'\n').count().saturating_add(1);
        whole(name, line, "not UTF-8")
    })
}

fn whole(name: &str, line: usize, message: &str) -> Error {
    let line = u64::try_from(line).unwrap_or(0);
    let (file, message) = (name.into(), message.into());
    Error { file, line, column: line.min(1), key: String::new(), message }
}

/// An error of the typing library, with its place and the field there.
fn typed(error: &serde_saphyr::Error, places: &Places, name: &str) -> Error {
    let at = error.location().map_or((0, 0), |l| (l.line(), l.column()));
    let text = error.without_snippet().to_string();
    // The library appends the place, which this error has already.
    let message = [" at line ", "line "]
        .iter()
        .find_map(|mark| text.rsplit_once(mark).filter(|(_, rest)| rest.contains("column")))
        .map_or(text.as_str(), |(before, _)| before);
    let mut key = places.before(at);
    if message.contains("missing field") {
        key = key.rsplit_once('.').map_or(String::new(), |(parent, _)| parent.to_owned());
    }
    let message = message.trim().to_owned();
    Error { file: name.into(), line: at.0, column: at.1, key, message }
}

fn dotted(place: &str, value: &Value) -> String {
    let (mut shown, mut here) = (String::new(), Some(value));
    for name in pointer::steps(place) {
        if here.is_some_and(Value::is_array) {
            shown.push_str(&format!("[{name}]"));
            here = here.and_then(|v| v.get(name.parse::<usize>().ok()?));
        } else {
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
            here = here.and_then(|v| v.get(&name));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the reading is under test")]
    struct Inner {
        on: bool,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the reading is under test")]
    struct Outer {
        name: String,
        list: Vec<Inner>,
    }

    fn refused(text: &str) -> String {
        from_str::<Value>(text, "f.yaml").unwrap_err().to_string()
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused_with_its_place() {
        let cases = [
            ("a: &x 1\nb: *x\n", "f.yaml:1:7: a: anchors are not allowed"),
            ("a: 1\nb: *x\n", "f.yaml:2:4: b: aliases are not allowed"),
            ("a: !!python/object/apply:os.system [id]\n", "tags are not allowed"),
            ("a: !!str 1\n", "tags are not allowed"),
            ("!x a: 1\n", "tags are not allowed"),
            ("a:\n  b: 1\n  b: 2\n", "f.yaml:3:3: a.b: duplicate key `b`"),
            ("l:\n- {x: 1, \"x\": 2}\n", "f.yaml:2:10: l[0].x: duplicate key `x`"),
            ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a: more than one document"),
            ("%YAML 1.1\n---\na: 1\n", "f.yaml:1:1: "),
            ("a: {<<: {b: 1}}\n", "merge keys are not allowed"),
            ("? [a]\n: 1\n", "a key must be a plain string"),
            ("\u{feff}a: 1\n", "byte order mark"),
            ("", "the file is empty"),
            ("# only a comment\n", "the file is empty"),
            ("a: .nan\n", "f.yaml:1:4: a"),
            ("a: [1\n", "f.yaml:"),
        ];
        for (text, expected) in cases {
            let message = refused(text);
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused_with_their_line() {
        let error = from_slice::<Value>(b"a: 1\nb: \xff\n", "f.yaml").unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (2, "not UTF-8"));
    }

    #[test]
    fn a_bomb_of_aliases_ends_at_its_first_anchor() {
        let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (last, next) in "abcdefgh".chars().zip("bcdefghi".chars()) {
            text.push_str(&format!("{next}: &{next} [{}]\n", format!("*{last},").repeat(9)));
        }
        assert_eq!(refused(&text), "f.yaml:1:7: a: anchors are not allowed");
    }

    #[test]
    fn depth_size_and_count_are_limited() {
        for depth in [33, 200, 100_000] {
            let message = refused(&format!("a: {}{}", "[".repeat(depth), "]".repeat(depth)));
            assert!(message.contains("nested deeper than 32"), "{message}");
        }
        assert!(refused(&"a".repeat(BYTES_MAX + 1)).contains("at most 1048576"));
        assert!(refused(&format!("[{}]", "1,".repeat(60_000))).contains("more than 50000 values"));
    }

    #[test]
    fn only_true_and_false_are_truth_values() {
        assert!(from_str::<Outer>("name: x\nlist: [{on: \"true\"}]\n", "f.yaml").is_err());
        assert!(from_str::<Outer>("name: 5\nlist: []\n", "f.yaml").is_err());
        for word in ["yes", "no", "on", "off", "y", "1"] {
            let text = format!("name: x\nlist:\n- on: {word}\n");
            let error = from_str::<Outer>(&text, "f.yaml").unwrap_err();
            assert_eq!((error.line, error.key.as_str()), (3, "list[0].on"), "{word}: {error}");
            let value: Value = from_str(&format!("a: {word}"), "f").unwrap();
            assert!(!value["a"].is_boolean(), "{word}");
        }
        assert!(from_str::<Outer>("name: x\nlist: [{on: true}]\n", "f.yaml").is_ok());
    }

    #[test]
    fn an_unknown_and_a_missing_field_are_named_with_their_place() {
        let error = from_str::<Outer>("name: x\nlist: []\nextra: 1\n", "f.yaml").unwrap_err();
        assert_eq!((error.line, error.column, error.key.as_str()), (3, 1, "extra"), "{error}");
        assert!(error.message.contains("unknown field"), "{error}");
        assert!(!error.message.contains("column"), "{error}");
        let error = from_str::<Outer>("name: x\nlist:\n- {}\n", "f.yaml").unwrap_err();
        assert!(error.to_string().contains("missing field `on`"), "{error}");
    }

    #[test]
    fn numbers_of_doubtful_spelling_stay_text() {
        let value: Value = from_str("{a: 010, b: 1_000, c: 12}", "f").unwrap();
        assert_eq!(value, serde_json::json!({"a": "010", "b": "1_000", "c": 12}));
    }

    #[test]
    fn every_violation_of_a_schema_is_reported_with_its_place() {
        let schema = serde_json::json!({
            "type": "object", "additionalProperties": false, "required": ["z"],
            "properties": {"a": {"type": "integer"}, "b": {"type": "object",
                "additionalProperties": false, "properties": {}}, "z": {}}
        });
        let document = Document::parse(b"a: x\nb:\n  c: 1\n", "f.yaml").unwrap();
        let violations: Vec<_> =
            document.violations(&schema).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(violations.len(), 3, "{violations:?}");
        assert!(
            violations[0].starts_with("f.yaml:1:1: ")
                && violations[0].contains("missing field `z`")
        );
        assert!(violations[1].starts_with("f.yaml:1:1: a: "), "{violations:?}");
        assert_eq!(violations[2], "f.yaml:3:3: b.c: unknown field");
    }
}
