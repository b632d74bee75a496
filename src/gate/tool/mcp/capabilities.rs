//! The capabilities that a server declares.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use crate::catalog::server::METHODS;
use crate::domain::json::Json;
use crate::tool::shape::lenient;

/// The capabilities that the gate uses. A capability is present whatever its value.
#[derive(Clone, Default, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Capabilities {
    /// Tools can be listed and called.
    #[serde(default, deserialize_with = "tools")]
    pub tools: Option<ToolsCapability>,
    /// The server can log to its client.
    #[serde(default, deserialize_with = "there")]
    pub logging: bool,
    #[serde(default, deserialize_with = "there")]
    resources: bool,
    #[serde(default, deserialize_with = "there")]
    prompts: bool,
    #[serde(default, deserialize_with = "there")]
    completions: bool,
}

/// The server's `tools` capability.
#[derive(Clone, Default, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolsCapability {
    /// The server announces changes of its tools.
    #[serde(default, deserialize_with = "lenient")]
    pub list_changed: Option<bool>,
}

impl Capabilities {
    /// Reads the `capabilities` member of the server.
    pub fn of(json: &Json) -> Self {
        json.read().unwrap_or_default()
    }

    /// The methods besides `tools/call` that the capabilities promise.
    pub fn methods(&self) -> Vec<&'static str> {
        let begin = [
            (self.resources, "resources/"),
            (self.prompts, "prompts/"),
            (self.completions, "completion/"),
        ];
        let promised =
            |method: &str| begin.iter().any(|(is, name)| *is && method.starts_with(name));
        METHODS.into_iter().filter(|method| promised(method)).collect()
    }
}

fn there<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(from).map(|_any| true)
}

fn tools<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ToolsCapability>, D::Error> {
    Ok(Some(Json::deserialize(from)?.read().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    fn of(text: &str) -> Capabilities {
        Capabilities::of(&Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap())
    }

    #[test]
    fn a_capability_is_there_whatever_its_value_is() {
        let all = of(r#"{"tools":null,"logging":{},"resources":7,"x":{},"prompts":{}}"#);
        assert!(all.logging && all.tools == Some(ToolsCapability::default()));
        let methods = [
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "prompts/list",
            "prompts/get",
        ];
        assert_eq!(all.methods(), methods);
        assert_eq!((of("{}"), of("[]")), (Capabilities::default(), Capabilities::default()));
    }

    #[test]
    fn list_changed_is_read_only_from_a_boolean() {
        for (text, says) in
            [("true", Some(true)), ("false", Some(false)), ("1", None), ("null", None)]
        {
            let tools = of(&format!(r#"{{"tools":{{"listChanged":{text}}}}}"#)).tools.unwrap();
            assert_eq!(tools.list_changed, says, "{text}");
        }
    }
}
