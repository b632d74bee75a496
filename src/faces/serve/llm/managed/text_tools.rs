//! Tools for models without tool calls: instructions that describe them, and what in an answer asks for a call: one fenced
//! block, or, from a server that holds its models to a schema, the whole answer.

use serde_json::{Value, json};

use super::answer::AskedTool;
use crate::enforce::ManagedTool;
use crate::identity::callers::{ANSWER_FORM, TextTools, offer};
use crate::mcp::raw::{Members, ObjectWriter, array, quoted};

/// The line that opens a block.
const OPENS: &str = "```tool_call";
/// The line that closes it.
const CLOSES: &str = "```";
/// The member of a schema that refers to another one.
const REFERENCE: &[u8] = b"\"$ref\"";

/// How a model asks for a tool. The gate's own text: its digest is in the entries of the requests that
/// have it.
const HOW: &str = "You can call tools. To call one, write exactly one block of this form and nothing after it:\n\
```tool_call\n{\"tool\": \"NAME\", \"arguments\": {}}\n```\n\
You are then sent the result, and can call the next tool. If you need no tool, answer in plain text without such a block.\n";

/// The same for a model whose whole answer follows [`form`].
const HOW_WHOLE: &str = "You can call tools. Your whole answer is one JSON object. To call a tool, it is\n\
{\"tool_call\": {\"tool\": \"NAME\", \"arguments\": {}}}\n\
You are then sent the result, and can call the next tool. If you need no tool, it is\n\
{\"answer\": \"your answer as text\"}\n";

const TOOLS: &str = "The tools, each with the JSON Schema of its arguments:\n";

/// The instructions that offer these tools.
pub(super) fn instructions(tools: &[ManagedTool], how: TextTools) -> String {
    let one = |tool: &ManagedTool| {
        let schema = String::from_utf8_lossy(&tool.tool.input_schema);
        offer(&tool.offered, &tool.tool.description, &schema)
    };
    let tools: String = tools.iter().map(one).collect();
    let how = match how {
        TextTools::Schema => HOW_WHOLE,
        TextTools::Auto | TextTools::Never => HOW,
    };
    format!("{how}{TOOLS}{tools}")
}

/// The `response_format` for answers that call one of these tools or are text.
pub(super) fn form(tools: &[ManagedTool]) -> Vec<u8> {
    let mut forms: Vec<Vec<u8>> = tools.iter().map(call_form).collect();
    forms.push(object(&[("answer", br#"{"type":"string"}"#.to_vec())]));
    let schema = ObjectWriter::default().member("anyOf", &array(&forms)).end();
    let named = ObjectWriter::default().text("name", ANSWER_FORM).member("schema", &schema).end();
    ObjectWriter::default().text("type", "json_schema").member("json_schema", &named).end()
}

/// The schema of an answer that calls this tool.
fn call_form(tool: &ManagedTool) -> Vec<u8> {
    let schema = tool.tool.input_schema.as_slice();
    // WHY: a reference counts from the top of the whole schema, which is another one here.
    let refers = schema.windows(REFERENCE.len()).any(|part| part == REFERENCE);
    let arguments = if refers { br#"{"type":"object"}"# } else { schema };
    let name = format!("{{\"const\":{}}}", quoted(&tool.offered)).into_bytes();
    let call = object(&[("tool", name), ("arguments", arguments.to_vec())]);
    object(&[("tool_call", call)])
}

/// The schema of an object that has exactly these members.
fn object(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let properties = members
        .iter()
        .fold(ObjectWriter::default(), |written, (name, schema)| written.member(name, schema));
    let required: Vec<Vec<u8>> =
        members.iter().map(|(name, _)| quoted(name).into_bytes()).collect();
    ObjectWriter::default()
        .text("type", "object")
        .member("properties", &properties.end())
        .member("required", &array(&required))
        .member("additionalProperties", b"false")
        .end()
}

/// The tool call that an answer asks for with its first block, or as a whole. Every other answer is text, also one whose
/// first block is not exactly that.
pub(in crate::serve) fn read(text: &str) -> Option<AskedTool> {
    match whole(text, "tool_call") {
        Some(call) => call_of(call.get("tool_call")?.get()),
        None => call_of(&block(text)?),
    }
}

/// The text of an answer that is the object of a text.
pub(super) fn answered(text: &str) -> Option<String> {
    whole(text, "answer")?.text("answer")
}

/// An answer that is one object with this member alone.
fn whole<'a>(text: &'a str, member: &str) -> Option<Members<'a>> {
    let members = Members::parse(text.trim().as_bytes()).ok()?;
    members.iter().map(|(name, _)| name).eq([member]).then_some(members)
}

/// What stands in the first block.
fn block(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.trim_end() != OPENS);
    lines.next()?;
    let mut block = String::new();
    loop {
        let line = lines.next()?;
        if line.trim_end() == CLOSES {
            return Some(block);
        }
        block.push_str(line);
        block.push('\n');
    }
}

/// The call in `{"tool", "arguments"}`.
fn call_of(text: &str) -> Option<AskedTool> {
    let members = Members::parse(text.trim().as_bytes()).ok()?;
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
    fn a_whole_answer_asks_for_a_call_or_is_text() {
        let call = r#" {"tool_call": {"tool": "a__b", "arguments": {"x": 1.0}}} "#;
        let asked = read(call).unwrap();
        assert_eq!((asked.name.as_str(), asked.arguments.as_str()), ("a__b", "{\"x\": 1.0}"));
        assert_eq!(answered(r#"{"answer": "{\"tool_call\": 1}"}"#).unwrap(), "{\"tool_call\": 1}");
        for text in [
            r#"{"tool": "a", "arguments": {}}"#,
            r#"{"tool_call": {"tool": "a", "arguments": {}}, "answer": "x"}"#,
            r#"{"tool_call": {"tool": "a", "arguments": {}}} and more"#,
            r#"{"tool_call": {"tool": "a", "arguments": {}}, "tool_call": {"tool": "b", "arguments": {}}}"#,
            r#"{"tool_call": {"tool": "a"}}"#,
            r#"{"tool_call": "a"}"#,
            r#"[{"tool_call": {"tool": "a", "arguments": {}}}]"#,
            r#"{"answer": 1}"#,
            r#"{"answer": "x", "more": 1}"#,
        ] {
            assert!(read(text).is_none() && answered(text).is_none(), "{text}");
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
