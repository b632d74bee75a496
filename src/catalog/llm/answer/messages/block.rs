//! The blocks of a message.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::json::{Json, json};
use crate::llm::answer::acting::{refuse_acting, refuse_hosted, texts};
use crate::llm::answer::error::unexpected;
use crate::llm::answer::places::{At, SplicedJson};
use crate::llm::answer::{
    AnswerError, AnsweredCall, CallForm, DENIED_NAME, LIMITS, broken, parse, text_of,
};

pub(super) fn block_kind(block: &Json) -> Result<&str, AnswerError> {
    text_of(block, "type").ok_or_else(|| unexpected("content block"))
}

/// Refuses a block that must not leave. The answer is whether the provider ran it.
pub(super) fn refuse_block(block: &Json, allowed: &BTreeSet<String>) -> Result<bool, AnswerError> {
    let kind = block_kind(block)?;
    let ran = ["_tool_use", "_tool_result"].iter().any(|end| kind.ends_with(end));
    if ran || kind == "container_upload" {
        refuse_hosted(kind, text_of(block, "name"), allowed)?;
        return Ok(true);
    }
    refuse_acting(kind, block)?;
    Ok(false)
}

/// The input with which a block begins: `{}` says that it comes in pieces.
pub(super) fn begun_input(start: &str) -> Result<String, AnswerError> {
    let start = SplicedJson(start.to_owned());
    let input = start.at(&[At::Member("content_block"), At::Member("input")]);
    let is_empty = match input.map(parse).transpose()? {
        None | Some(Json::Null) => true,
        Some(Json::Object(members)) => members.is_empty(),
        Some(_) => false,
    };
    Ok(input.filter(|_| !is_empty).unwrap_or_default().to_owned())
}

/// Adds a delta to its block.
pub(super) fn grow_block(block: &mut Json, kind: &str, delta: &Json) {
    let (Json::Object(block), Json::Object(delta)) = (block, delta) else { return };
    for (name, value) in delta {
        match (name.as_str(), value) {
            ("type" | "partial_json", _) => {}
            ("citation", citation) => {
                let citations = block.entry("citations".into()).or_default();
                if let Json::Array(citations) = citations {
                    citations.push(citation.clone());
                } else {
                    *citations = vec![citation.clone()].into();
                }
            }
            (name, Json::String(more)) if kind != "signature_delta" => match block.get_mut(name) {
                Some(Json::String(text)) => text.push_str(more),
                _ => _ = block.insert(name.to_owned(), value.clone()),
            },
            (name, value) => _ = block.insert(name.to_owned(), value.clone()),
        }
    }
}

pub(super) fn answered(
    block: &Json,
    input: &str,
    index: usize,
) -> Result<AnsweredCall, AnswerError> {
    let text = |name: &str| text_of(block, name).map(str::to_owned);
    let name = text("name").ok_or_else(|| broken("a tool call without a name"))?;
    // No input is the empty one.
    let arguments = if input.is_empty() { "{}" } else { input }.to_owned();
    Ok(AnsweredCall { index, id: text("id").unwrap_or_default(), name, arguments, custom: false })
}

/// A block of a tool call, as it leaves in this form.
pub(super) fn released(block: &Json, input: &str, form: &CallForm) -> Json {
    let (name, input) = match form {
        CallForm::AsAnswered => (None, input),
        CallForm::Arguments(arguments) => (None, arguments.as_str()),
        CallForm::Denied(arguments) => (Some(DENIED_NAME), arguments.as_str()),
        CallForm::Text(text) => return json!({"type": "text", "text": text}),
    };
    let mut block = block.clone();
    if let Json::Object(members) = &mut block {
        let empty = || Json::Object(BTreeMap::new());
        // A model may break off within its input: the record keeps the text then.
        let read = Json::parse(input.as_bytes(), &LIMITS);
        let input = if input.is_empty() { empty() } else { read.unwrap_or_else(|_| input.into()) };
        members.insert("input".into(), input);
        if let Some(name) = name {
            members.insert("name".into(), name.into());
        }
    }
    block
}

/// The texts of a block or a delta.
pub(super) fn said(value: &Json) -> String {
    let mut found = Vec::new();
    texts(value, &mut found);
    found.concat()
}
