//! One tool object of a server: what must hold before it can be governed.

use crate::domain::canonical;
use crate::domain::id::ToolName;
use crate::domain::json::Json;
use crate::mcp::header::{self, Mirrored};
use crate::schema::Schema;
use crate::server::{METHODS, governed};

/// Bytes of the largest tool object.
const TOOL_BYTES_MAX: usize = 256 * 1024;

/// A tool object that can be governed.
#[derive(Debug)]
pub struct Pinned {
    /// The server's own name for it.
    pub own: String,
    /// `<server>.<own>`.
    pub name: ToolName,
    /// Its description, else its title, else nothing.
    pub description: String,
    /// What arguments it takes.
    pub schema: Schema,
    /// Parameters mirrored into headers.
    pub mirrored: Vec<Mirrored>,
    /// The object, canonical.
    pub canonical: Vec<u8>,
    /// The object with its qualified name, canonical: what agents are shown.
    pub shown: Json,
}

/// Reads one tool object of this server.
///
/// # Errors
/// Which rule it breaks: its name, its schema, or what it wants mirrored into headers.
pub fn pinned(server: &str, tool: &Json) -> Result<Pinned, String> {
    let members = tool.as_object().ok_or("is no object")?;
    let own = tool.get("name").and_then(Json::as_str).ok_or("has no name")?;
    let name = governed(server, own).filter(|_| !METHODS.contains(&own));
    let name =
        name.ok_or("has a name that is not [A-Za-z0-9_.-], or is too long with the server's")?;
    let canonical = canonical::bytes(tool);
    if canonical.len() > TOOL_BYTES_MAX {
        return Err(format!("has more than {TOOL_BYTES_MAX} bytes"));
    }
    let text = |name: &str| match tool.get(name) {
        None => Ok(None),
        Some(text) => text.as_str().map(Some).ok_or_else(|| format!("`{name}` is no text")),
    };
    let (description, title) = (text("description")?, text("title")?);
    let schema = tool.get("inputSchema").ok_or("has no `inputSchema`")?;
    let mirrored = header::mirrored(schema)?;
    let schema = Schema::of_server(schema).map_err(|why| format!("`inputSchema`: {why}"))?;
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
