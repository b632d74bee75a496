//! What providers count.

use std::collections::BTreeMap;

use crate::domain::dialect::Dialect;
use crate::domain::json::Json;

/// The tokens of one answer, in one meaning for all providers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TokenUsage {
    /// All tokens of the request, those in caches included. Anthropic counts these beside its
    /// `input_tokens`, OpenAI within its `prompt_tokens`; here they are always within.
    pub input: u64,
    /// All tokens of the answer, those of its reasoning included.
    pub output: u64,
    /// Those of `input` that the provider read from a cache.
    pub cached_input: u64,
    /// Those of `input` that the provider wrote into a cache, for any time.
    pub cache_write: u64,
    /// Those of `cache_write` that it keeps for an hour.
    pub cache_write_1h: u64,
    /// Those of `output` that the model spent on reasoning.
    pub reasoning: u64,
}

impl TokenUsage {
    /// Reads the member of an answer that counts, or the answer of Ollama, which counts itself; `None`
    /// if it counts nothing.
    pub fn read(dialect: Dialect, usage: &Json) -> Option<Self> {
        let count = |path: &[&str]| {
            let value = path.iter().try_fold(usage, |value, name| value.get(name));
            value.and_then(Json::as_u64)
        };
        let part = |path: &[&str]| count(path).unwrap_or_default();
        let (input, output) = match dialect {
            Dialect::Chat => (count(&["prompt_tokens"]), count(&["completion_tokens"])),
            Dialect::Responses | Dialect::Messages => {
                (count(&["input_tokens"]), count(&["output_tokens"]))
            }
            Dialect::Gemini => (count(&["promptTokenCount"]), count(&["candidatesTokenCount"])),
            Dialect::Ollama => (count(&["prompt_eval_count"]), count(&["eval_count"])),
        };
        if input.is_none() && output.is_none() {
            return None;
        }
        let (input, output) = (input.unwrap_or_default(), output.unwrap_or_default());
        Some(match dialect {
            Dialect::Chat => Self {
                input,
                output,
                cached_input: part(&["prompt_tokens_details", "cached_tokens"]),
                cache_write: part(&["prompt_tokens_details", "cache_write_tokens"]),
                cache_write_1h: 0,
                reasoning: part(&["completion_tokens_details", "reasoning_tokens"]),
            },
            Dialect::Responses => Self {
                input,
                output,
                cached_input: part(&["input_tokens_details", "cached_tokens"]),
                cache_write: part(&["input_tokens_details", "cache_write_tokens"]),
                cache_write_1h: 0,
                reasoning: part(&["output_tokens_details", "reasoning_tokens"]),
            },
            // Thoughts are counted beside the answer, and what tools of the provider read beside the
            // request.
            Dialect::Gemini => {
                let reasoning = part(&["thoughtsTokenCount"]);
                Self {
                    input: input.saturating_add(part(&["toolUsePromptTokenCount"])),
                    output: output.saturating_add(reasoning),
                    cached_input: part(&["cachedContentTokenCount"]),
                    reasoning,
                    ..Self::default()
                }
            }
            Dialect::Ollama => Self { input, output, ..Self::default() },
            Dialect::Messages => {
                let cached_input = part(&["cache_read_input_tokens"]);
                let cache_write = part(&["cache_creation_input_tokens"]);
                Self {
                    input: input.saturating_add(cached_input).saturating_add(cache_write),
                    output,
                    cached_input,
                    cache_write,
                    cache_write_1h: part(&["cache_creation", "ephemeral_1h_input_tokens"]),
                    reasoning: 0,
                }
            }
        })
    }
}

/// Adds a later report: its counters win, those that it does not name stay.
pub(super) fn merge(usage: &mut Json, later: &Json) {
    let Json::Object(later) = later else { return };
    if let Json::Object(members) = usage {
        merge_members(members, later);
    } else {
        *usage = Json::Object(later.clone());
    }
}

pub(super) fn merge_members(members: &mut BTreeMap<String, Json>, later: &BTreeMap<String, Json>) {
    for (name, value) in later {
        match (members.get_mut(name), value) {
            (_, Json::Null) => _ = members.entry(name.clone()).or_default(),
            (Some(Json::Object(own)), Json::Object(more)) => merge_members(own, more),
            (_, value) => _ = members.insert(name.clone(), value.clone()),
        }
    }
}
