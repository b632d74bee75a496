//! The members of one line of a recording, read by name.

use crate::domain::digest::{Digest, Salt};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// One JSON object whose members are asked for by name; what is missing or of another kind says so.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a>(pub &'a Json);

impl<'a> Members<'a> {
    fn missing<T>(found: Option<T>, name: &str) -> Result<T, String> {
        found.ok_or_else(|| format!("`{name}` is missing or malformed"))
    }

    /// A text.
    pub fn text(self, name: &str) -> Result<&'a str, String> {
        Self::missing(self.0.get(name).and_then(Json::as_str), name)
    }

    /// A text that need not be there.
    pub fn maybe(self, name: &str) -> Option<&'a str> {
        self.0.get(name).and_then(Json::as_str)
    }

    /// A number that is not negative.
    pub fn number(self, name: &str) -> Result<u64, String> {
        Self::missing(self.0.get(name).and_then(Json::as_u64), name)
    }

    /// A digest.
    pub fn digest(self, name: &str) -> Result<Digest, String> {
        Self::missing(self.maybe(name).and_then(Digest::parse), name)
    }

    /// A time.
    pub fn time(self, name: &str) -> Result<Timestamp, String> {
        Self::missing(self.maybe(name).and_then(Timestamp::parse), name)
    }

    /// Any value.
    pub fn value(self, name: &str) -> Result<&'a Json, String> {
        Self::missing(self.0.get(name), name)
    }

    /// A list.
    pub fn list(self, name: &str) -> Result<&'a [Json], String> {
        Self::missing(self.0.get(name).and_then(Json::as_array), name)
    }

    /// The salt of a commitment.
    pub fn salt(self, name: &str) -> Result<Salt, String> {
        let salt = self.maybe(name).and_then(|text| hex::decode(text).ok());
        Self::missing(salt.and_then(|bytes| Salt::try_from(bytes).ok()), name)
    }
}
