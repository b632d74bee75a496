//! One tool object of a server, and the conditions for governing it.

use crate::domain::canonical;
use crate::domain::id::ToolName;
use crate::domain::json::Json;
use crate::mcp::header::{self, Mirrored};
use crate::schema::{self, Schema};
use crate::server::{METHODS, governed};

/// Bytes of the largest tool object.
const TOOL_BYTES_MAX: usize = 256 * 1024;

/// Which rule a tool object breaks; follows its name in a sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ToolError {
    /// Not an object.
    #[error("is not an object")]
    Object,
    /// No `name`, or no text.
    #[error("has no name")]
    NoName,
    /// A name that cannot be governed.
    #[error("has a name that is not [A-Za-z0-9_.-], or is too long with the server's")]
    Name,
    /// More bytes than a tool object may have.
    #[error("has more than {TOOL_BYTES_MAX} bytes")]
    Size,
    /// A member that is not text.
    #[error("`{0}` is not a text")]
    NoText(&'static str),
    /// No `inputSchema`.
    #[error("has no `inputSchema`")]
    NoSchema,
    /// What it wants mirrored into headers.
    #[error(transparent)]
    Header(#[from] header::Error),
    /// Its `inputSchema`.
    #[error("`inputSchema`: {0}")]
    Schema(#[from] schema::Error),
}

/// A tool object that can be governed.
#[derive(Debug)]
pub struct Pinned {
    /// The server's own name for it.
    pub own: String,
    /// `<server>.<own>`.
    pub name: ToolName,
    /// Its description, else its title, else empty.
    pub description: String,
    /// What arguments it takes.
    pub schema: Schema,
    /// Parameters mirrored into headers.
    pub mirrored: Vec<Mirrored>,
    /// The object, canonical.
    pub canonical: Vec<u8>,
    /// The object with its qualified name, canonical, as agents see it.
    pub shown: Json,
}

/// The server's own name for its tool, if the object has one.
#[must_use]
pub fn own_name(tool: &Json) -> Option<&str> {
    tool.get("name")?.as_str()
}

/// Reads one tool object of this server.
///
/// # Errors
/// See [`ToolError`].
pub fn pinned(server: &str, tool: &Json) -> Result<Pinned, ToolError> {
    let members = tool.as_object().ok_or(ToolError::Object)?;
    let own = own_name(tool).ok_or(ToolError::NoName)?;
    let name = governed(server, own).filter(|_| !METHODS.contains(&own));
    let name = name.ok_or(ToolError::Name)?;
    let canonical = canonical::bytes(tool);
    if canonical.len() > TOOL_BYTES_MAX {
        return Err(ToolError::Size);
    }
    let text = |name: &'static str| match tool.get(name) {
        None => Ok(None),
        Some(text) => text.as_str().map(Some).ok_or(ToolError::NoText(name)),
    };
    let (description, title) = (text("description")?, text("title")?);
    let schema = tool.get("inputSchema").ok_or(ToolError::NoSchema)?;
    let mirrored = header::mirrored(schema)?;
    let schema = Schema::of_server(schema)?;
    let mut shown = members.clone();
    shown.insert("name".into(), Json::from(name.as_str()));
    Ok(Pinned {
        own: own.to_owned(),
        description: description.or(title).unwrap_or_default().to_owned(),
        name,
        schema,
        mirrored,
        canonical,
        shown: Json::Object(shown),
    })
}
