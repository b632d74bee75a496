//! The JSON Schema of a section of the configuration, from the very types it is read into: every field with the words
//! that stand at it, and none that the types do not have.

use serde_json::{Map, Value, json};

/// A type that may be written in the configuration.
pub trait Described {
    /// Whether a field of this type may be left out by itself.
    const OPTIONAL: bool = false;
    /// What may be written, as JSON Schema. `x-error` is what a person is told who wrote something else.
    fn schema() -> Value;
}

/// What stands before a field.
#[derive(Clone, Copy, Debug)]
pub enum Attribute {
    /// One line of its description.
    Doc(&'static str),
    /// It has a default.
    Serde,
}

/// The schema of one struct, field by field.
#[derive(Debug, Default)]
pub struct Members {
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Members {
    /// Adds a field of this type.
    pub fn add<T: Described>(&mut self, name: &str, attributes: &[Attribute]) {
        let mut schema = T::schema();
        let lines = attributes.iter().filter_map(|attribute| match attribute {
            Attribute::Doc(line) => Some(line.trim()),
            Attribute::Serde => None,
        });
        let text = lines.collect::<Vec<_>>().join(" ");
        if let Some(members) = schema.as_object_mut() {
            members.insert("description".into(), text.into());
        }
        self.properties.insert(name.to_owned(), schema);
        let optional = attributes.iter().any(|one| matches!(one, Attribute::Serde));
        if !optional && !T::OPTIONAL {
            self.required.push(name.into());
        }
    }

    /// The object with these members and no others.
    #[must_use]
    pub fn closed(self) -> Value {
        let Self { properties, required } = self;
        json!({"type": "object", "additionalProperties": false, "properties": properties,
            "required": required, "x-error": "expected a mapping"})
    }
}

/// Defines structs as they stand, and their schema with them.
macro_rules! described {
    ($(
        $(#[$($of_type:tt)*])*
        pub struct $name:ident {
            $( $(#[$($of_field:tt)*])* pub $field:ident: $type:ty, )*
        }
    )*) => {$(
        $(#[$($of_type)*])*
        pub struct $name {
            $( $(#[$($of_field)*])* pub $field: $type, )*
        }

        impl $crate::catalog::described::Described for $name {
            fn schema() -> ::serde_json::Value {
                let mut members = $crate::catalog::described::Members::default();
                $( members.add::<$type>(
                    stringify!($field),
                    &[$( $crate::catalog::described::attribute!($($of_field)*) ),*],
                ); )*
                members.closed()
            }
        }
    )*};
}

macro_rules! attribute {
    (doc = $text:literal) => {
        $crate::catalog::described::Attribute::Doc($text)
    };
    (serde($($rest:tt)*)) => {
        $crate::catalog::described::Attribute::Serde
    };
}

pub(super) use {attribute, described};

impl Described for String {
    fn schema() -> Value {
        json!({"type": "string", "x-error": "expected text"})
    }
}

impl Described for std::path::PathBuf {
    fn schema() -> Value {
        json!({"type": "string", "minLength": 1, "x-error": "expected a path"})
    }
}

impl Described for bool {
    fn schema() -> Value {
        json!({"type": "boolean", "x-error": "expected `true` or `false`"})
    }
}

fn whole(most: u64) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": most, "x-error": format!("expected a whole number from 0 to {most}")})
}

impl Described for u64 {
    fn schema() -> Value {
        whole(Self::MAX)
    }
}

impl Described for u16 {
    fn schema() -> Value {
        whole(Self::MAX.into())
    }
}

impl Described for u8 {
    fn schema() -> Value {
        whole(Self::MAX.into())
    }
}

impl Described for Value {
    fn schema() -> Value {
        json!({})
    }
}

impl Described for serde::de::IgnoredAny {
    fn schema() -> Value {
        json!({})
    }
}

impl<T: Described> Described for Option<T> {
    const OPTIONAL: bool = true;

    fn schema() -> Value {
        let mut schema = T::schema();
        // What is null is as good as left out.
        if let Some(kind) = schema.get_mut("type") {
            *kind = json!([kind.clone(), "null"]);
        }
        schema
    }
}

impl<T: Described> Described for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema(), "x-error": "expected a list"})
    }
}

impl<T: Described> Described for std::collections::BTreeMap<String, T> {
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": T::schema(), "x-error": "expected a mapping"})
    }
}
