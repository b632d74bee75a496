//! Values with one spelling: closed sets of strings, and types that are written as text.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Visitor};

/// Reads a string with its parser.
///
/// # Errors
/// The value is not a string, or the parser refuses it.
pub fn read<'de, D: Deserializer<'de>, T>(
    from: D,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    from.deserialize_str(ClosedReader { expected, parse, of: PhantomData })
}

struct ClosedReader<T, P> {
    expected: &'static str,
    parse: P,
    of: PhantomData<T>,
}

impl<T, P: Fn(&str) -> Option<T>> Visitor<'_> for ClosedReader<T, P> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::custom(format_args!("not {}", self.expected)))
    }
}

/// Writes bytes as lowercase hex digits. WHY not `hex::encode`: it collects a string character by character, and an entry has
/// dozens of digests.
pub(crate) fn write_hex<const BYTES: usize>(
    bytes: &[u8; BYTES],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut digits = [[0_u8; 2]; BYTES];
    hex::encode_to_slice(bytes, digits.as_flattened_mut()).map_err(|_| fmt::Error)?;
    f.write_str(std::str::from_utf8(digits.as_flattened()).map_err(|_| fmt::Error)?)
}

/// Declares an enum of strings: each value has one text in files, messages and documents.
#[macro_export]
macro_rules! texts {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        $vis enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of their declaration.
            #[allow(dead_code, reason = "not every set is enumerated")]
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The text of every value, in the same order.
            #[allow(dead_code, reason = "not every set is listed")]
            pub const TEXTS: &'static [&'static str] = &[$($text,)*];

            /// Its text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Reads its text.
            #[allow(dead_code, reason = "not every set is read")]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                const EXPECTED: &str = concat!("one of" $(, " `", $text, "`")*);
                $crate::domain::closed::read(from, EXPECTED, Self::parse)
            }
        }
    };
}

/// Declares an enum of strings that entries have: `texts`, with its schema.
macro_rules! closed {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $text:literal,)*
    }) => {
        $crate::domain::closed::texts! {
            $(#[$meta])* $vis enum $name { $($(#[$doc])* $variant = $text,)* }
        }

        #[cfg(test)]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool { true }
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"enum": [$($text),*]})
            }
        }
    };
}

/// Declares the closed objects of entries: a member that is absent is left out, one that the
/// object does not have is refused.
macro_rules! members {
    ($($(#[$meta:meta])* pub struct $name:ident { $($member:tt)* })*) => {$(
        #[serde_with_macros::skip_serializing_none]
        #[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        $(#[$meta])*
        pub struct $name { $($member)* }
    )*};
}

/// Reads and writes a type in files and entries as text, with its `parse` and `Display`.
macro_rules! textual {
    ($name:ty, $expected:literal, $pattern:literal) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::domain::closed::read(from, $expected, Self::parse)
            }
        }

        #[cfg(test)]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool { true }
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "pattern": $pattern})
            }
        }
    };
}

/// Declares a name that callers choose: letters, digits, `_`, `.` and `-`.
macro_rules! name {
    ($(#[$doc:meta])* pub struct $name:ident($expected:literal, $most:literal, $pattern:literal)) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(String);

        impl $name {
            /// Reads it.
            pub fn parse(text: &str) -> Option<Self> {
                let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
                let fits = (1..=$most).contains(&text.len()) && text.bytes().all(plain);
                fits.then(|| Self(text.to_owned()))
            }

            /// Its text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        $crate::domain::closed::textual!($name, $expected, $pattern);
    };
}

/// A `Debug` of a type with keys, stores or functions: only the members that name the value.
#[macro_export]
macro_rules! debug_by {
    ($type:ty $(: $($member:ident),+)?) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($type));
                $($(shown.field(stringify!($member), &self.$member);)+)?
                shown.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use {closed, members, name, textual};
pub use {debug_by, texts};
