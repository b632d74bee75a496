//! A closed form of a value, compiled from the JSON Schema in `entry-1.json`.
//!
//! It knows the keywords which that file uses, and refuses to compile any other, so that nothing the file
//! asks for goes unchecked. It reads our own values as they are: every entry passes through here, when it
//! is written and whenever it is read.

use std::collections::BTreeMap;

use super::pattern::Pattern;
use crate::domain::json::Json;

/// References inside references.
const REFERENCES_MAX: usize = 8;

/// What a value may be.
#[derive(Debug, Default)]
pub(super) struct Form {
    types: Option<Vec<Type>>,
    /// Of an object: what its members may be, by name in ascending order.
    members: Option<Vec<Member>>,
    items: Option<Box<Self>>,
    items_min: usize,
    items_max: Option<usize>,
    /// Texts and truth values that are allowed; no others are.
    values: Option<Vec<Json>>,
    pattern: Option<Pattern>,
    length_max: Option<usize>,
    minimum: Option<i64>,
    maximum: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Type {
    Object,
    Array,
    Text,
    Integer,
    Truth,
}

#[derive(Debug)]
struct Member {
    name: String,
    required: bool,
    form: Form,
}

/// Where a value departs from its form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    /// Names and indexes from the value itself inwards, each after a `/`.
    pub(super) path: String,
    /// How, for a person.
    pub(super) why: String,
}

impl Fault {
    const fn here(why: String) -> Self {
        Self { path: String::new(), why }
    }

    fn under(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self.path.insert(0, '/');
        self
    }
}

impl Form {
    /// Compiles a schema, its references taken from `definitions`.
    ///
    /// # Errors
    /// The keyword, or the use of one, that is not supported.
    pub(super) fn compile(schema: &Json, definitions: &Json) -> Result<Self, String> {
        Self::nested(schema, definitions, 0)
    }

    fn nested(schema: &Json, definitions: &Json, depth: usize) -> Result<Self, String> {
        let keywords = schema.as_object().ok_or("a schema that is not an object")?;
        if let Some(reference) = keywords.get("$ref") {
            let name = reference.as_str().and_then(|r| r.strip_prefix("#/$defs/"));
            let target = name.and_then(|name| definitions.get(name));
            return match target.filter(|_| keywords.len() == 1 && depth < REFERENCES_MAX) {
                Some(target) => Self::nested(target, definitions, depth.saturating_add(1)),
                None => Err("a `$ref` to nowhere, in a circle or beside other keywords".to_owned()),
            };
        }
        let mut form = Self::default();
        for (keyword, value) in keywords {
            form.keyword(keyword, value).map_err(|why| format!("`{keyword}`: {why}"))?;
        }
        if let Some(properties) = keywords.get("properties") {
            let required = keywords.get("required");
            form.members = Some(members(properties, required, definitions, depth)?);
        }
        if form.members.is_some() != keywords.contains_key("additionalProperties") {
            return Err(
                "`properties` without `additionalProperties: false`, or the other way".into()
            );
        }
        if let Some(items) = keywords.get("items") {
            form.items = Some(Box::new(Self::nested(items, definitions, depth)?));
        }
        Ok(form)
    }

    fn keyword(&mut self, keyword: &str, value: &Json) -> Result<(), String> {
        let count = || value.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or("not a count");
        match keyword {
            "type" => self.types = Some(types(value)?),
            "additionalProperties" if value.as_bool() == Some(false) => {}
            "required" | "properties" | "items" => {}
            "minItems" => self.items_min = count()?,
            "maxItems" => self.items_max = Some(count()?),
            "maxLength" => self.length_max = Some(count()?),
            "minimum" => self.minimum = Some(value.as_int().ok_or("not an integer")?),
            "maximum" => self.maximum = Some(value.as_int().ok_or("not an integer")?),
            "pattern" => {
                self.pattern = Some(Pattern::compile(value.as_str().ok_or("not a text")?)?);
            }
            "const" if plain(value) => self.values = Some(vec![value.clone()]),
            "enum" if value.as_array().is_some_and(|all| all.iter().all(plain)) => {
                self.values = value.as_array().map(<[Json]>::to_vec);
            }
            _ => return Err("not supported here".to_owned()),
        }
        Ok(())
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The first departure.
    pub(super) fn check(&self, value: &Json) -> Result<(), Fault> {
        if let Some(types) = &self.types
            && !kind(value).is_some_and(|kind| types.contains(&kind))
        {
            return Err(Fault::here(format!("it is not of the type {types:?}")));
        }
        if let Some(values) = &self.values
            && !values.contains(value)
        {
            return Err(Fault::here("it is none of the values that are allowed".to_owned()));
        }
        match value {
            Json::String(text) => self.text(text),
            Json::Int(number) => self.number(*number),
            Json::Array(items) => self.array(items),
            Json::Object(members) => self.object(members),
            // A whole float is an integer to JSON Schema (see `kind`), and within ±2^53 by the reader.
            Json::Float(number) => {
                format!("{number:.0}").parse().map_or(Ok(()), |number| self.number(number))
            }
            Json::Null | Json::Bool(_) => Ok(()),
        }
    }

    fn text(&self, text: &str) -> Result<(), Fault> {
        if let Some(most) = self.length_max
            && text.len() > most
            && text.chars().count() > most
        {
            return Err(Fault::here(format!("it is longer than {most} characters")));
        }
        match &self.pattern {
            Some(pattern) if !pattern.matches(text) => {
                Err(Fault::here("it does not match the pattern".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn number(&self, number: i64) -> Result<(), Fault> {
        if let Some(least) = self.minimum.filter(|least| number < *least) {
            return Err(Fault::here(format!("{number} is less than {least}")));
        }
        if let Some(most) = self.maximum.filter(|most| number > *most) {
            return Err(Fault::here(format!("{number} is more than {most}")));
        }
        Ok(())
    }

    fn array(&self, items: &[Json]) -> Result<(), Fault> {
        let most = self.items_max.unwrap_or(usize::MAX);
        if items.len() < self.items_min || items.len() > most {
            return Err(Fault::here(format!("{} items are too few or too many", items.len())));
        }
        let Some(form) = &self.items else { return Ok(()) };
        for (at, item) in items.iter().enumerate() {
            form.check(item).map_err(|fault| fault.under(&at.to_string()))?;
        }
        Ok(())
    }

    /// Both lists are sorted by name, so one walk through them meets every member.
    fn object(&self, members: &BTreeMap<String, Json>) -> Result<(), Fault> {
        let Some(known) = &self.members else { return Ok(()) };
        let missing = |member: &Member| {
            if member.required {
                Err(Fault::here(format!("`{}` is missing", member.name)))
            } else {
                Ok(())
            }
        };
        let mut known = known.iter();
        'members: for (name, value) in members {
            for member in known.by_ref() {
                if member.name == *name {
                    member.form.check(value).map_err(|fault| fault.under(name))?;
                    continue 'members;
                }
                if member.name > *name {
                    break;
                }
                missing(member)?;
            }
            return Err(Fault::here(format!("the member `{name}` is not known")));
        }
        known.try_for_each(missing)
    }
}

fn members(
    properties: &Json,
    required: Option<&Json>,
    definitions: &Json,
    depth: usize,
) -> Result<Vec<Member>, String> {
    let properties = properties.as_object().ok_or("`properties` that are not an object")?;
    let names = required.map_or(Some(&[][..]), Json::as_array).ok_or("`required` is no list")?;
    let names: Vec<&str> = names.iter().filter_map(Json::as_str).collect();
    if let Some(stray) = names.iter().find(|name| !properties.contains_key(**name)) {
        return Err(format!("`{stray}` is required and not among the properties"));
    }
    let member = |(name, schema): (&String, &Json)| {
        let form =
            Form::nested(schema, definitions, depth).map_err(|e| format!("`{name}`: {e}"))?;
        let required = names.contains(&name.as_str());
        Ok(Member { name: name.clone(), required, form })
    };
    properties.iter().map(member).collect()
}

/// Whether a value can be compared as it is: numbers have several spellings.
const fn plain(value: &Json) -> bool {
    matches!(value, Json::String(_) | Json::Bool(_))
}

fn types(value: &Json) -> Result<Vec<Type>, String> {
    let one = |word: &Json| match word.as_str() {
        Some("object") => Ok(Type::Object),
        Some("array") => Ok(Type::Array),
        Some("string") => Ok(Type::Text),
        Some("integer") => Ok(Type::Integer),
        Some("boolean") => Ok(Type::Truth),
        Some(_) | None => Err("a type that is not supported".to_owned()),
    };
    value.as_array().map_or_else(|| Ok(vec![one(value)?]), |all| all.iter().map(one).collect())
}

/// The type of a value; a float that is whole is an integer, as JSON Schema has it.
fn kind(value: &Json) -> Option<Type> {
    match value {
        Json::Null => None,
        Json::Bool(_) => Some(Type::Truth),
        Json::Int(_) => Some(Type::Integer),
        Json::Float(number) => (number.fract() == 0.0).then_some(Type::Integer),
        Json::String(_) => Some(Type::Text),
        Json::Array(_) => Some(Type::Array),
        Json::Object(_) => Some(Type::Object),
    }
}
