//! Tools for models without tool calls: instructions that describe them, and one fenced block that asks
//! for a call.

use serde_json::{Value, json};

use super::answer::AskedTool;
use crate::enforce::ManagedTool;
use crate::mcp::raw::Members;

/// The line that opens a block.
const OPENS: &str = "```tool_call";
/// The line that closes it.
const CLOSES: &str = "```";

/// How a model asks for a tool. The gate's own text: its digest is in the entries of the requests that
/// have it.
const HOW: &str = "You can call tools. To call one, write exactly one block of this form and nothing after it:\n\
```tool_call\n{\"tool\": \"NAME\", \"arguments\": {}}\n```\n\
You are then sent the result, and can call the next tool. If you need no tool, answer in plain text without such a block.\n\
The tools, each with the JSON Schema of its arguments:\n";

/// The instructions that offer these tools.
pub(super) fn instructions(tools: &[ManagedTool]) -> String {
    let one = |tool: &ManagedTool| {
        let schema = String::from_utf8_lossy(&tool.tool.input_schema);
        format!("- {}: {}\n  {schema}\n", tool.offered, tool.tool.description)
    };
    let tools: String = tools.iter().map(one).collect();
    format!("{HOW}{tools}")
}

/// The tool call that the first block of an answer asks for. An answer without such a block is text,
/// and so is one whose first block is not exactly that.
pub(in crate::serve) fn read(text: &str) -> Option<AskedTool> {
    let mut lines = text.lines().skip_while(|line| line.trim_end() != OPENS);
    lines.next()?;
    let mut block = String::new();
    loop {
        let line = lines.next()?;
        if line.trim_end() == CLOSES {
            break;
        }
        block.push_str(line);
        block.push('\n');
    }
    let members = Members::parse(block.trim().as_bytes()).ok()?;
    if members.iter().any(|(name, _)| !["tool", "arguments"].contains(&name)) {
        return None;
    }
    let arguments = members.get("arguments")?.get();
    arguments.starts_with('{').then_some(())?;
    Some(AskedTool {
        id: String::new(),
        name: members.text("tool")?,
        arguments: arguments.to_owned(),
    })
}

/// What a call gave, as the model reads it.
pub(super) fn result(asked: &AskedTool, text: &str) -> Value {
    let result = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let told = json!({"tool": asked.name, "result": result});
    json!({"role": "user", "content": format!("```tool_result\n{told}\n```")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_asks_for_a_call_and_everything_else_is_text() {
        let asked = read("I look.\n```tool_call\n{\"tool\": \"a__b\",\n \"arguments\": {\"x\": 1.0}}\n```\nThen:\n```tool_call\n{\"tool\": \"c\", \"arguments\": {}}\n```").unwrap();
        assert_eq!((asked.name.as_str(), asked.arguments.as_str()), ("a__b", "{\"x\": 1.0}"));
        for text in [
            "",
            "plain",
            "```json\n{\"tool\": \"a\", \"arguments\": {}}\n```",
            "```tool_call\n{\"tool\": \"a\", \"arguments\": {}}",
            "```tool_call {\"tool\": \"a\", \"arguments\": {}} ```",
            "```tool_call\n{\"tool\": \"a\"}\n```",
            "```tool_call\n{\"tool\": \"a\", \"arguments\": []}\n```",
            "```tool_call\n{\"tool\": 1, \"arguments\": {}}\n```",
            "```tool_call\n{\"tool\": \"a\", \"arguments\": {}, \"more\": 1}\n```",
            "```tool_call\n{\"tool\": \"a\", \"tool\": \"b\", \"arguments\": {}}\n```",
            "```tool_call\nnone\n```\n```tool_call\n{\"tool\": \"a\", \"arguments\": {}}\n```",
        ] {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_result_is_one_block_and_cannot_close_it() {
        let asked = AskedTool { id: String::new(), name: "a".into(), arguments: "{}".into() };
        let message = result(&asked, "x\n```\ny");
        let content = message["content"].as_str().unwrap();
        assert_eq!(content.lines().count(), 3, "{content}");
        assert!(result(&asked, "{\"n\":1}")["content"].as_str().unwrap().contains("{\"n\":1}"));
    }
}
