//! Types of `google.protobuf` that have a form of their own in JSON.

use prost_reflect::MessageDescriptor;

/// One of those types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WellKnownType {
    /// Any message, with the name of its type.
    Any,
    /// RFC 3339.
    Timestamp,
    /// Seconds: `1.5s`.
    Duration,
    /// Paths: `a,b.cD`.
    FieldMask,
    /// An object of any members.
    Struct,
    /// Anything.
    Value,
    /// A list of anything.
    ListValue,
    /// An object without members.
    Empty,
    /// The one value that is wrapped.
    Wrapper,
}

impl WellKnownType {
    /// Which one this message is, if it is one.
    pub fn of(message: &MessageDescriptor) -> Option<Self> {
        Some(match message.full_name().strip_prefix("google.protobuf.")? {
            "Any" => Self::Any,
            "Timestamp" => Self::Timestamp,
            "Duration" => Self::Duration,
            "FieldMask" => Self::FieldMask,
            "Struct" => Self::Struct,
            "Value" => Self::Value,
            "ListValue" => Self::ListValue,
            "Empty" => Self::Empty,
            "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value"
            | "UInt32Value" | "BoolValue" | "StringValue" | "BytesValue" => Self::Wrapper,
            _ => return None,
        })
    }

    /// Whether it is an object in JSON, as arguments have to be.
    #[must_use]
    pub const fn is_object(self) -> bool {
        matches!(self, Self::Any | Self::Struct | Self::Empty)
    }
}
