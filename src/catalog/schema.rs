//! JSON Schema 2020-12 of a tool's arguments: compiled at load, enforced before any policy.

use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::json::{self, Json, Limits};

/// Bytes of the largest schema.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Reasons for one set of arguments, at most.
const REASONS_MAX: usize = 8;
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A compiled schema. It refuses unknown arguments even if its author did not close it.
#[derive(Debug)]
pub struct Schema {
    json: Json,
    canonical: Vec<u8>,
    validator: Validator,
}

/// Why a schema of arguments is not used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Not strict JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// Another dialect than the one that operators write.
    #[error("expected the dialect `{DIALECT}`")]
    Dialect,
    /// A dialect of a server that this build does not know.
    #[error("its `$schema` names an unknown dialect")]
    UnknownDialect,
    /// Not an object.
    #[error("a schema must be an object")]
    Object,
    /// A root of another type.
    #[error("arguments must be an object: set the root's `type` to `object`")]
    Type,
    /// More bytes than [`SCHEMA_BYTES_MAX`].
    #[error("a schema must have at most {SCHEMA_BYTES_MAX} bytes")]
    Size,
    /// What the validator refuses, cut to 400 characters: its error repeats the schema.
    #[error("{0}")]
    Compile(String),
    /// The schema of one parameter.
    #[error("the schema of `{0}`: {1}")]
    Parameter(String, #[source] json::Error),
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn compile(schema: &Json) -> Result<Self, Error> {
        if let Some(dialect) = Keywords::of(schema).dialect
            && draft(dialect) != Some(Draft::Draft202012)
        {
            return Err(Error::Dialect);
        }
        Self::build(closed(schema)?, Draft::Draft202012)
    }

    /// Compiles the schema of a third party's tool: older dialects are understood, and one that
    /// says nothing at all about its arguments takes any, as the protocol says of it.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn of_server(schema: &Json) -> Result<Self, Error> {
        let draft = match Keywords::of(schema).dialect {
            None => Draft::Draft202012,
            Some(dialect) => draft(dialect).ok_or(Error::UnknownDialect)?,
        };
        let mut json = closed(schema)?;
        let says = |keyword: &str| schema.get(keyword).is_some();
        let open = !says("additionalProperties") && !says("unevaluatedProperties");
        let Json::Object(root) = &mut json else { return Err(Error::Object) };
        if open && !closes_by_itself(schema) {
            root.remove("additionalProperties");
        }
        // WHY: only the newer dialects can close a root that is described in parts, and an open one
        // would let through arguments that the operator never reviewed.
        let newer = matches!(draft, Draft::Draft202012 | Draft::Draft201909);
        if open && is_composed(schema) && !newer {
            root.remove("$schema");
            return Self::build(json, Draft::Draft202012);
        }
        Self::build(json, draft)
    }

    fn build(json: Json, draft: Draft) -> Result<Self, Error> {
        let canonical = canonical::bytes(&json);
        if canonical.len() > SCHEMA_BYTES_MAX {
            return Err(Error::Size);
        }
        let validator = jsonschema::options()
            .with_draft(draft)
            .offline()
            // Without backtracking, a caller cannot make an operator's pattern slow.
            .with_pattern_options(PatternOptions::regex().size_limit(1 << 20))
            .should_validate_formats(true)
            .with_keyword("type", TypeKeyword::factory)
            .build(&json.to_serde())
            .map_err(|error| Error::Compile(clip(&error.to_string(), 400)))?;
        Ok(Self { json, canonical, validator })
    }

    /// Reads and compiles schema text.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let limits = Limits { bytes_max: SCHEMA_BYTES_MAX, ..Limits::ARGUMENTS };
        Self::compile(&Json::parse(text, &limits)?)
    }

    /// The schema as agents see it.
    pub const fn json(&self) -> &Json {
        &self.json
    }

    /// Its canonical bytes.
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// Whether the root allows this argument.
    #[must_use]
    pub fn knows(&self, argument: &str) -> bool {
        let root = Keywords::of(&self.json);
        let listed = root.properties.and_then(|p| p.get(argument)).is_some();
        listed || !self.is_plain() || root.additional != Some(&Json::Bool(false))
    }

    /// Whether the root requires this argument.
    #[must_use]
    pub fn requires(&self, argument: &str) -> bool {
        !self.is_plain() || Keywords::of(&self.json).requires(argument)
    }

    fn is_plain(&self) -> bool {
        !is_composed(&self.json)
    }

    /// Why these arguments violate the schema, at most eight reasons; empty if they do not.
    pub fn check(&self, args: &Json) -> Vec<LayerReason> {
        let instance = args.to_serde();
        self.validator.iter_errors(&instance).take(REASONS_MAX).map(|e| reason(&e)).collect()
    }
}

/// The keywords of one schema that determine an object's members, as they are written.
#[derive(Clone, Copy)]
pub(super) struct Keywords<'a> {
    dialect: Option<&'a Json>,
    pub properties: Option<&'a Json>,
    pub additional: Option<&'a Json>,
    required: Option<&'a Json>,
}

impl<'a> Keywords<'a> {
    pub fn of(schema: &'a Json) -> Self {
        Self {
            dialect: schema.get("$schema"),
            properties: schema.get("properties"),
            additional: schema.get("additionalProperties"),
            required: schema.get("required"),
        }
    }

    /// Whether an object needs this member.
    pub fn requires(&self, name: &str) -> bool {
        let required = self.required.and_then(Json::as_array).unwrap_or_default();
        required.iter().any(|one| one.as_str() == Some(name))
    }
}

/// Whether arguments may be described elsewhere than in the root's own list.
pub(super) fn is_composed(schema: &Json) -> bool {
    schema.as_object().is_some_and(|root| composed(root.keys()))
}

/// Whether this gate closes a server's schema that does not treat undescribed arguments itself: it
/// describes some, so all others are unknown.
pub(super) fn closes_by_itself(schema: &Json) -> bool {
    Keywords::of(schema).properties.is_some() || is_composed(schema)
}

/// The draft of this `$schema`.
fn draft(dialect: &Json) -> Option<Draft> {
    let dialect = dialect.as_str()?.trim_end_matches('#');
    match dialect.strip_prefix("https://").or_else(|| dialect.strip_prefix("http://"))? {
        "json-schema.org/draft/2020-12/schema" => Some(Draft::Draft202012),
        "json-schema.org/draft/2019-09/schema" => Some(Draft::Draft201909),
        "json-schema.org/draft-07/schema" => Some(Draft::Draft7),
        "json-schema.org/draft-06/schema" => Some(Draft::Draft6),
        "json-schema.org/draft-04/schema" => Some(Draft::Draft4),
        _ => None,
    }
}

fn composed<'a>(mut names: impl Iterator<Item = &'a String>) -> bool {
    const APPLICATORS: [&str; 10] = [
        "$ref",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "patternProperties",
    ];
    names.any(|name| APPLICATORS.contains(&name.as_str()))
}

/// The schema with its root closed: an object, and no argument that the schema does not describe.
fn closed(schema: &Json) -> Result<Json, Error> {
    let mut root = schema.as_object().ok_or(Error::Object)?.clone();
    if root.entry("type".into()).or_insert_with(|| "object".into()).as_str() != Some("object") {
        return Err(Error::Type);
    }
    let open =
        !root.contains_key("additionalProperties") && !root.contains_key("unevaluatedProperties");
    if open {
        // Members described inside `allOf` and the like are unknown to the root's own list.
        let keyword =
            if composed(root.keys()) { "unevaluatedProperties" } else { "additionalProperties" };
        root.insert(keyword.into(), Json::Bool(false));
    }
    Ok(Json::Object(root))
}

fn reason(error: &ValidationError<'_>) -> LayerReason {
    let pointer = error.instance_path().to_string();
    let place = if pointer.is_empty() { "arguments" } else { pointer.as_str() };
    // Masked: the value itself is never repeated, it may be large or secret.
    let masked = error.masked().to_string();
    let mut message = format!("`{}`: {}", clip(place, 128), lower_first(&clip(&masked, 200)));
    while message.ends_with('.') {
        message.pop();
    }
    LayerReason {
        code: Code::ArgumentsInvalid,
        detail: detail(&keyword(error)),
        message,
        rule: "schema".into(),
    }
}

/// The keyword that failed; for a subschema `false`, the keyword around it.
fn keyword(error: &ValidationError<'_>) -> String {
    let keyword = error.kind().keyword();
    let path = error.schema_path().to_string();
    let last = path.rsplit('/').next().unwrap_or_default();
    if keyword == "falseSchema" && matches!(last, "additionalProperties" | "unevaluatedProperties")
    {
        return last.to_owned();
    }
    keyword.to_owned()
}

fn detail(keyword: &str) -> String {
    let mut out = String::from("schema.");
    match keyword {
        "unevaluatedProperties" => out.push_str("additional_properties"),
        "$ref" => out.push_str("ref"),
        plain => {
            for c in plain.chars() {
                if c.is_ascii_uppercase() {
                    out.push('_');
                }
                out.push(c.to_ascii_lowercase());
            }
        }
    }
    out
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}

/// A text of at most so many characters; what was cut is marked.
pub fn clip(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max).chain(['…']).collect()
}

/// The `type` keyword, with one difference: `1.0` is not an integer here.
///
/// By the specification it is one, but the tool behind the gate may read it differently, so the
/// wire form has to match the schema.
struct TypeKeyword(Vec<String>);

impl TypeKeyword {
    fn factory<'a>(
        _parent: &'a Map<String, Value>,
        value: &'a Value,
        _path: jsonschema::paths::Location,
    ) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
        let names = match value {
            Value::String(name) => vec![name.clone()],
            Value::Array(names) => {
                names.iter().filter_map(|n| n.as_str().map(str::to_owned)).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
        };
        let known = ["array", "boolean", "integer", "null", "number", "object", "string"];
        if names.is_empty() || names.iter().any(|name| !known.contains(&name.as_str())) {
            return Err(ValidationError::schema("`type` names no known type"));
        }
        Ok(Box::new(Self(names)))
    }

    fn fits(&self, instance: &Value) -> bool {
        self.0.iter().any(|name| match (name.as_str(), instance) {
            ("integer", Value::Number(n)) => n.is_i64() || n.is_u64(),
            ("array", Value::Array(_))
            | ("boolean", Value::Bool(_))
            | ("null", Value::Null)
            | ("number", Value::Number(_))
            | ("object", Value::Object(_))
            | ("string", Value::String(_)) => true,
            _ => false,
        })
    }
}

impl<'i> Keyword<'i> for TypeKeyword {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.fits(instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("is not of type `{}`", self.0.join("`, `"))))
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.fits(instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap()
    }

    fn details(schema: &str, args: &str) -> Vec<String> {
        let schema = Schema::parse(schema.as_bytes()).unwrap();
        schema.check(&json(args)).into_iter().map(|reason| reason.detail).collect()
    }

    const ORDER: &str = r#"{"type":"object","required":["id"],"properties":{
        "id":{"type":"string","maxLength":8},"qty":{"type":"integer","maximum":9},
        "many":{"type":"array","items":{"type":"integer"},"maxItems":2},
        "or":{"anyOf":[{"type":"integer"},{"type":"null"}]},"price":{"type":"number"}}}"#;

    #[test]
    fn each_failure_names_its_keyword() {
        assert_eq!(details(ORDER, r#"{"id":"a","qty":3}"#), Vec::<String>::new());
        assert_eq!(details(ORDER, "{}"), ["schema.required"]);
        assert_eq!(details(ORDER, r#"{"id":1}"#), ["schema.type"]);
        assert_eq!(details(ORDER, r#"{"id":"a","qty":null}"#), ["schema.type"]);
        assert_eq!(details(ORDER, r#"{"id":"a","x":1}"#), ["schema.additional_properties"]);
        assert_eq!(details(ORDER, r#"{"id":"123456789"}"#), ["schema.max_length"]);
        assert_eq!(details(ORDER, r#"{"id":"a","qty":10}"#), ["schema.maximum"]);
    }

    #[test]
    fn one_point_zero_is_not_an_integer_anywhere_in_a_schema() {
        assert_eq!(details(ORDER, r#"{"id":"a","qty":1.0}"#), ["schema.type"]);
        assert_eq!(details(ORDER, r#"{"id":"a","qty":1e0}"#), ["schema.type"]);
        assert_eq!(details(ORDER, r#"{"id":"a","many":[1,1.0]}"#), ["schema.type"]);
        assert_eq!(details(ORDER, r#"{"id":"a","or":1.0}"#), ["schema.any_of"]);
        assert_eq!(details(ORDER, r#"{"id":"a","price":1.0}"#), Vec::<String>::new());
        let bare = r#"{"properties":{"l":{"type":"array","items":{"type":"integer"}}}}"#;
        assert_eq!(details(bare, r#"{"l":[1.0]}"#), ["schema.type"]);
        let listed = r#"{"properties":{"l":{"type":["integer","string"]}}}"#;
        assert_eq!(details(listed, r#"{"l":1.0}"#), ["schema.type"]);
        let extra = r#"{"type":"object","additionalProperties":{"type":"integer"}}"#;
        assert_eq!(details(extra, r#"{"l":1.0}"#), ["schema.type"]);
        assert_eq!(details(extra, r#"{"l":1}"#), Vec::<String>::new());
    }

    #[test]
    fn a_schema_that_forgot_to_close_itself_is_closed() {
        assert_eq!(details("{}", r#"{"x":1}"#), ["schema.additional_properties"]);
        let composed = r#"{"allOf":[{"properties":{"a":{"type":"string"}}}]}"#;
        assert_eq!(details(composed, r#"{"a":"x"}"#), Vec::<String>::new());
        assert_eq!(details(composed, r#"{"a":"x","b":1}"#), ["schema.additional_properties"]);
        assert_eq!(details(r#"{"additionalProperties":true}"#, r#"{"x":1}"#), Vec::<String>::new());
    }

    #[test]
    fn a_message_points_at_the_place_and_never_repeats_the_value() {
        let schema = Schema::parse(ORDER.as_bytes()).unwrap();
        let secret = "s3cr3t-".repeat(1000);
        let reasons = schema.check(&Json::object([("id", Json::from(secret.as_str()))]));
        assert!(reasons[0].message.starts_with("`/id`: "), "{}", reasons[0].message);
        assert!(!reasons[0].message.contains("s3cr3t") && reasons[0].message.len() < 400);
        let many = format!("{{\"id\":\"a\",\"many\":[{}\"x\"]}}", "\"y\",".repeat(50));
        assert_eq!(schema.check(&json(&many)).len(), 8);
    }

    #[test]
    fn a_servers_schema_may_be_of_an_older_dialect_and_is_closed_all_the_same() {
        let of = |schema: &str| Schema::of_server(&json(schema));
        let details = |schema: &str, args: &str| -> Vec<String> {
            let schema = of(schema).unwrap_or_else(|why| panic!("{why}: {schema}"));
            schema.check(&json(args)).into_iter().map(|r| r.detail).collect()
        };
        for dialect in [
            "draft-04/schema#",
            "draft-06/schema#",
            "draft-07/schema#",
            "draft/2019-09/schema",
            "draft/2020-12/schema",
        ] {
            let tuple = if dialect.contains("2020") { "prefixItems" } else { "items" };
            let schema = format!(
                r#"{{"$schema":"http://json-schema.org/{dialect}","type":"object","properties":{{"n":{{"type":"integer"}},
                "t":{{"{tuple}":[{{"type":"string"}}]}}}}}}"#
            );
            assert_eq!(details(&schema, r#"{"n":1,"t":["a"]}"#), Vec::<String>::new(), "{dialect}");
            assert_eq!(details(&schema, r#"{"n":1.0}"#), ["schema.type"], "{dialect}");
            assert_eq!(details(&schema, r#"{"t":[1]}"#), ["schema.type"], "{dialect}");
            assert_eq!(
                details(&schema, r#"{"x":1}"#),
                ["schema.additional_properties"],
                "{dialect}"
            );
            let parts = format!(
                r#"{{"$schema":"http://json-schema.org/{dialect}","type":"object","allOf":[{{"properties":{{"a":{{"type":"string"}}}}}}]}}"#
            );
            assert_eq!(details(&parts, r#"{"a":"x"}"#), Vec::<String>::new(), "{dialect}");
            assert_eq!(
                details(&parts, r#"{"b":1}"#),
                ["schema.additional_properties"],
                "{dialect}"
            );
        }
        // By the protocol, this schema takes any object.
        assert_eq!(details(r#"{"type":"object"}"#, r#"{"x":1}"#), Vec::<String>::new());
        for closed in [r#"{"properties":{}}"#, r#"{"additionalProperties":false}"#] {
            assert_eq!(details(closed, r#"{"x":1}"#), ["schema.additional_properties"], "{closed}");
        }
        for schema in [
            r#"{"$schema":"https://example.com/mine"}"#,
            r#"{"$schema":1}"#,
            r#"{"properties":{"a":{"$ref":"https://example.com/x.json"}}}"#,
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"other.json"}}}"#,
            r#"{"type":"array"}"#,
            "7",
        ] {
            assert!(of(schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn schemas_that_reach_out_or_mean_nothing_do_not_compile() {
        for schema in [
            r#"{"$ref":"http://169.254.169.254/schema"}"#,
            r#"{"properties":{"a":{"$ref":"https://example.com/x.json"}}}"#,
            r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#,
            r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
            r#"{"type":"array"}"#,
            r#"{"properties":{"a":{"type":"intger"}}}"#,
            r#"{"properties":{"a":{"pattern":"(a"}}}"#,
            r#"{"properties":{"a":{"minLength":"x"}}}"#,
            r#"[]"#,
        ] {
            assert!(Schema::parse(schema.as_bytes()).is_err(), "{schema}");
        }
        let local =
            r##"{"$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"}}}"##;
        assert_eq!(details(local, r#"{"a":1.0}"#), ["schema.type"]);
        let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        assert!(Schema::parse(large.as_bytes()).is_err());
    }
}
