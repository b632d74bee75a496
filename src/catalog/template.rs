//! Templates of a binding, filled from validated arguments: a value can fill only its place.

use crate::domain::canonical;
use crate::domain::json::Json;
use crate::domain::pointer::steps;

/// Why a text is not a template.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A brace that stays open.
    #[error("`{0}` opens a `{{` that is never closed")]
    Open(String),
    /// A closing brace without an opening one.
    #[error("`{0}` closes a `}}` that was never opened")]
    Close(String),
    /// Braces with an empty step between them, or with no content.
    #[error("expected a place: `{{argument}}` or `{{/json/pointer}}`")]
    Place,
    /// A path that does not begin at the root.
    #[error("a path must start with `/`")]
    Relative,
    /// A path that servers shorten.
    #[error("`{0}` has an empty, `.` or `..` segment")]
    Segment(String),
    /// A literal that has to be encoded.
    #[error("`{0}` has a character that a path cannot contain")]
    Character(String),
}

/// Why a template cannot be filled from these arguments.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FillError {
    /// The argument is not there.
    #[error("argument `{0}` is missing")]
    Missing(String),
    /// The argument is an object, an array or null where text is needed.
    #[error("argument `{0}` is not a text, number or boolean")]
    NotText(String),
    /// The value would change the path's shape.
    #[error("argument `{0}` does not fit into one path segment")]
    Segment(String),
}

/// Text with places for arguments: `{name}` for a top-level one, `{/a/b}` by JSON pointer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Literal(String),
    Argument(Vec<String>),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) =
                after.split_once('}').ok_or_else(|| Error::Open(text.to_owned()))?;
            push_literal(&mut parts, before, text)?;
            parts.push(Part::Argument(pointer(name)?));
            rest = after;
        }
        push_literal(&mut parts, rest, text)?;
        Ok(Self { text: text.to_owned(), parts })
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Top-level arguments it needs.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Argument(steps) => steps.first().map(String::as_str),
            Part::Literal(_) => None,
        })
    }

    /// The one argument, if the template consists of nothing else.
    pub fn whole<'a>(&self, args: &'a Json) -> Option<Option<&'a Json>> {
        match self.parts.as_slice() {
            [Part::Argument(steps)] => Some(find(args, steps)),
            _ => None,
        }
    }

    /// The text with every place filled.
    ///
    /// # Errors
    /// A missing argument, or one that is not text.
    pub fn fill(&self, args: &Json) -> Result<String, FillError> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Argument(steps) => out.push_str(&value(args, steps)?),
            }
        }
        Ok(out)
    }

    /// One path segment, percent-encoded.
    ///
    /// A value that holds a slash, a backslash, a control character or an already encoded byte is
    /// refused and not encoded: some servers decode before they split.
    fn fill_segment(&self, args: &Json) -> Result<String, FillError> {
        let (mut plain, mut encoded) = (String::new(), String::new());
        for part in &self.parts {
            match part {
                Part::Literal(text) => {
                    plain.push_str(text);
                    encoded.push_str(text);
                }
                Part::Argument(steps) => {
                    let value = value(args, steps)?;
                    if value.is_empty() || breaks_segment(&value) {
                        return Err(FillError::Segment(steps.join("/")));
                    }
                    encode(&value, &mut encoded);
                    plain.push_str(&value);
                }
            }
        }
        if self.parts.iter().any(|part| matches!(part, Part::Argument(_)))
            && matches!(plain.as_str(), "" | "." | "..")
        {
            return Err(FillError::Segment(self.text.clone()));
        }
        Ok(encoded)
    }
}

fn breaks_segment(value: &str) -> bool {
    let bytes = value.as_bytes();
    let encoded = bytes.windows(3).any(|w| match w {
        [b'%', a, b] => a.is_ascii_hexdigit() && b.is_ascii_hexdigit(),
        _ => false,
    });
    encoded
        || matches!(value, "." | "..")
        || value.chars().any(|c| c.is_control() || "/\\".contains(c))
}

fn push_literal(parts: &mut Vec<Part>, literal: &str, text: &str) -> Result<(), Error> {
    if literal.contains('}') {
        return Err(Error::Close(text.to_owned()));
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal.to_owned()));
    }
    Ok(())
}

fn pointer(name: &str) -> Result<Vec<String>, Error> {
    let steps: Vec<String> =
        if name.starts_with('/') { steps(name).collect() } else { vec![name.to_owned()] };
    if steps.iter().any(String::is_empty) {
        return Err(Error::Place);
    }
    Ok(steps)
}

fn find<'a>(args: &'a Json, steps: &[String]) -> Option<&'a Json> {
    steps.iter().try_fold(args, |at, step| match at {
        Json::Object(members) => members.get(step),
        Json::Array(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => None,
    })
}

/// The text of a scalar; `None` for null, arrays and objects.
fn scalar(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Int(_) | Json::Float(_) | Json::Bool(_) => Some(canonical::text(value)),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

fn value(args: &Json, steps: &[String]) -> Result<String, FillError> {
    let found = find(args, steps).ok_or_else(|| FillError::Missing(steps.join("/")))?;
    scalar(found).ok_or_else(|| FillError::NotText(steps.join("/")))
}

/// Percent-encodes everything but RFC 3986 unreserved characters.
pub fn encode(text: &str, out: &mut String) {
    const HEX: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for nibble in [byte >> 4, byte & 15] {
                out.push(HEX.get(usize::from(nibble)).copied().unwrap_or('0'));
            }
        }
    }
}

/// The path of a binding: segments, each a template of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathTemplate(Vec<Template>);

impl PathTemplate {
    /// Reads `/v1/orders/{id}`.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn parse(path: &str) -> Result<Self, Error> {
        let rest = path.strip_prefix('/').ok_or(Error::Relative)?;
        if rest.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let mut segments = Vec::new();
        for segment in split_segments(rest) {
            let template = Template::parse(segment)?;
            if matches!(segment, "" | "." | "..") {
                return Err(Error::Segment(path.to_owned()));
            }
            let legal = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c);
            for part in &template.parts {
                if let Part::Literal(text) = part
                    && !text.chars().all(legal)
                {
                    return Err(Error::Character(text.clone()));
                }
            }
            segments.push(template);
        }
        Ok(Self(segments))
    }

    /// The path as it was written.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for segment in &self.0 {
            out.push('/');
            out.push_str(segment.as_str());
        }
        if out.is_empty() { "/".into() } else { out }
    }

    /// Top-level arguments it needs.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(Template::arguments)
    }

    /// The exact path to send.
    ///
    /// # Errors
    /// An argument that is missing, no text, or more than one segment.
    pub fn fill(&self, args: &Json) -> Result<String, FillError> {
        let mut out = String::new();
        for segment in &self.0 {
            out.push('/');
            out.push_str(&segment.fill_segment(args)?);
        }
        Ok(if out.is_empty() { "/".into() } else { out })
    }
}

/// Splits at slashes that are not inside a `{/json/pointer}`.
fn split_segments(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    let (mut inside, mut start) = (false, 0);
    for (at, c) in path.char_indices() {
        match c {
            '{' => inside = true,
            '}' => inside = false,
            '/' if !inside => {
                segments.push(path.get(start..at).unwrap_or_default());
                start = at.saturating_add(1);
            }
            _ => {}
        }
    }
    segments.push(path.get(start..).unwrap_or_default());
    segments
}

/// The query pairs of one `name: template`: empty when its argument is absent or null, several when
/// it is an array.
///
/// # Errors
/// An argument that is not text.
pub fn query_pairs(
    name: &str,
    template: &Template,
    args: &Json,
) -> Result<Vec<(String, String)>, FillError> {
    let not_text = || FillError::NotText(template.as_str().to_owned());
    match template.whole(args) {
        Some(None | Some(Json::Null)) => Ok(Vec::new()),
        Some(Some(Json::Array(items))) => items
            .iter()
            .map(|item| scalar(item).map(|text| (name.to_owned(), text)).ok_or_else(not_text))
            .collect(),
        Some(Some(_)) | None => Ok(vec![(name.to_owned(), template.fill(args)?)]),
    }
}

/// What is sent as the body.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    /// Nothing.
    None,
    /// The canonical arguments, all of them.
    Args,
    /// A JSON value whose `{places}` are filled.
    Json(Box<BodyTemplate>),
}

/// A JSON value with places.
#[derive(Clone, PartialEq, Debug)]
pub enum BodyTemplate {
    /// No place in it.
    Literal(Json),
    /// A string with places; a string of only one place keeps the argument's own type.
    Text(Template),
    /// Items in order.
    Array(Vec<BodyTemplate>),
    /// Members; one whose only place is absent is left out.
    Object(Vec<(String, BodyTemplate)>),
}

impl BodyTemplate {
    /// Reads a template value.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn parse(value: &Json) -> Result<Self, Error> {
        Ok(match value {
            Json::String(text) => Self::Text(Template::parse(text)?),
            Json::Array(items) => {
                Self::Array(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Json::Object(members) => Self::Object(
                members
                    .iter()
                    .map(|(k, v)| Ok((k.clone(), Self::parse(v)?)))
                    .collect::<Result<_, Error>>()?,
            ),
            Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => {
                Self::Literal(value.clone())
            }
        })
    }

    /// Top-level arguments it needs.
    pub fn arguments(&self) -> Vec<&str> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Text(template) => template.arguments().collect(),
            Self::Array(items) => items.iter().flat_map(Self::arguments).collect(),
            Self::Object(members) => members.iter().flat_map(|(_, v)| v.arguments()).collect(),
        }
    }

    /// The value with its places filled; `None` if it is one place and that is absent.
    ///
    /// # Errors
    /// An argument is missing, or is not text inside a longer text.
    pub fn fill(&self, args: &Json) -> Result<Option<Json>, FillError> {
        Ok(match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Text(template) => match template.whole(args) {
                Some(found) => found.cloned(),
                None => Some(Json::String(template.fill(args)?)),
            },
            Self::Array(items) => {
                let filled: Result<Vec<_>, _> = items.iter().map(|i| i.fill(args)).collect();
                Some(Json::Array(filled?.into_iter().flatten().collect()))
            }
            Self::Object(members) => {
                let mut out = std::collections::BTreeMap::new();
                for (name, value) in members {
                    if let Some(value) = value.fill(args)? {
                        out.insert(name.clone(), value);
                    }
                }
                Some(Json::Object(out))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;
    use proptest::prelude::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap()
    }

    #[test]
    fn a_value_that_could_leave_its_segment_is_refused() {
        let path = PathTemplate::parse("/v1/orders/{id}").unwrap();
        for text in [
            "../../admin",
            "1%2f..%2f..%2fadmin",
            "..",
            ".",
            "",
            "a/b",
            "a\\b",
            "a\r\nb",
            "%2e%2e",
            "a\u{0}b",
            "1%2F",
        ] {
            let args = Json::object([("id", Json::from(text))]);
            assert!(matches!(path.fill(&args), Err(FillError::Segment(_))), "{text:?}");
        }
        assert!(matches!(path.fill(&json("{}")), Err(FillError::Missing(_))));
        for text in ["null", "[1]", "{}"] {
            let args = json(&format!("{{\"id\":{text}}}"));
            assert!(matches!(path.fill(&args), Err(FillError::NotText(_))), "{text}");
        }
    }

    #[test]
    fn reserved_characters_are_encoded() {
        let path = PathTemplate::parse("/v1/orders/{id}").unwrap();
        let args = Json::object([("id", Json::from("a?b#c d;e=ü&100%"))]);
        assert_eq!(path.fill(&args).unwrap(), "/v1/orders/a%3Fb%23c%20d%3Be%3D%C3%BC%26100%25");
        assert_eq!(path.fill(&json(r#"{"id":42}"#)).unwrap(), "/v1/orders/42");
        let two = PathTemplate::parse("/{a}{/b/c}/x").unwrap();
        assert!(two.fill(&json(r#"{"a":".","b":{"c":"."}}"#)).is_err());
        assert_eq!(two.fill(&json(r#"{"a":"x","b":{"c":"y"}}"#)).unwrap(), "/xy/x");
    }

    #[test]
    fn templates_that_are_not_well_formed_are_refused() {
        for text in
            ["v1", "/a//b", "/a/../b", "/a/./b", "/{id", "/id}", "/{}", "/a%2fb", "/a b", "/a/"]
        {
            assert!(PathTemplate::parse(text).is_err(), "{text}");
        }
        assert_eq!(PathTemplate::parse("/").unwrap().fill(&json("{}")).unwrap(), "/");
    }

    #[test]
    fn an_absent_argument_leaves_its_query_pair_and_member_out() {
        let template = Template::parse("{q}").unwrap();
        assert_eq!(query_pairs("q", &template, &json("{}")).unwrap(), []);
        let many = query_pairs("q", &template, &json(r#"{"q":["a",1]}"#)).unwrap();
        assert_eq!(many, [("q".into(), "a".into()), ("q".into(), "1".into())]);
        let body = BodyTemplate::parse(&json(r#"{"n":"{n}","t":"no {n}","gone":"{x}"}"#)).unwrap();
        let filled = body.fill(&json(r#"{"n":5}"#)).unwrap().unwrap();
        assert_eq!(canonical::text(&filled), r#"{"n":5,"t":"no 5"}"#);
    }

    proptest! {
        #[test]
        fn whatever_the_value_the_path_keeps_its_shape(id in any::<String>()) {
            let path = PathTemplate::parse("/v1/orders/{id}/items").unwrap();
            if let Ok(filled) = path.fill(&Json::object([("id", Json::from(id.as_str()))])) {
                let url = url::Url::parse(&format!("https://api.test{filled}")).unwrap();
                prop_assert_eq!(url.path(), filled.as_str());
                let segments: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!(segments.len(), 4);
                prop_assert_eq!(segments[3], "items");
                prop_assert!(url.query().is_none() && url.fragment().is_none());
            }
        }
    }
}
