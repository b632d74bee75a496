//! Text that is written to steer a model: marks of a conversation, forged decisions, phrases.
//!
//! Phrases find few of such texts, and texts about them. They warn, and no action of theirs blocks.

use super::kinds::Confidence::{High, Low};
use super::plain::Pass;
use super::special;

/// Marks that begin a turn of a conversation in some model's own format.
pub(super) const MARKUP: [&str; 20] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|im_sep|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|endoftext|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<|begin_of_text|>",
    "<|channel|>",
    "<|end_of_turn|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[inst]",
    "[/inst]",
    "<<sys>>",
    "<</sys>>",
    "[system_prompt]",
    "<|turn|>",
];

/// What pretends to be a call of a tool, an answer of one, or a decision.
pub(super) const FORGED: [&str; 14] = [
    "<tool_call>",
    "<tool_calls>",
    "<tool_result>",
    "<function_calls>",
    "<function_results>",
    "<invoke name=",
    "<system-reminder>",
    "[tool_calls]",
    "\"verdict\":\"allow\"",
    "\"verdict\": \"allow\"",
    "\"decision\":\"allow\"",
    "\"decision\": \"allow\"",
    "\"role\":\"system\"",
    "\"role\": \"system\"",
];

/// Phrases in six languages, in lower case; white space of any kind is one space.
pub(super) const PHRASES: [&str; 40] = [
    "ignore all previous instructions",
    "ignore previous instructions",
    "ignore the previous instructions",
    "ignore all prior instructions",
    "ignore your instructions",
    "ignore the above instructions",
    "ignore everything above",
    "disregard all previous",
    "disregard the above",
    "disregard your instructions",
    "forget all previous instructions",
    "forget your instructions",
    "override your instructions",
    "your new instructions are",
    "new system prompt",
    "reveal your system prompt",
    "print your system prompt",
    "repeat your system prompt",
    "do not tell the user",
    "don't tell the user",
    "without telling the user",
    "you are now in developer mode",
    "you must now follow",
    "instead of your task",
    "ignoriere alle vorherigen anweisungen",
    "ignoriere die vorherigen anweisungen",
    "vergiss alle vorherigen anweisungen",
    "sage dem nutzer nichts",
    "ignorez toutes les instructions pr",
    "ignore les instructions pr",
    "oubliez toutes les instructions",
    "ignora todas las instrucciones anteriores",
    "ignora las instrucciones anteriores",
    "olvida todas las instrucciones",
    "ignora tutte le istruzioni precedenti",
    "ignora le istruzioni precedenti",
    "dimentica tutte le istruzioni",
    "ignore todas as instru",
    "ignore as instru",
    "esque\u{e7}a todas as instru",
];

/// Where a text that no page shows begins.
pub(super) const HIDDEN: [&str; 7] = [
    "<!--",
    "display:none",
    "display: none",
    "visibility:hidden",
    "visibility: hidden",
    "font-size:0",
    "font-size: 0",
];

/// Bytes of hidden text that are looked through for an order.
const HIDDEN_MAX: usize = 1024;
/// Words of an order to a model.
const ORDERS: [&[u8]; 10] = [
    b"you must",
    b"assistant",
    b"system prompt",
    b"instruction",
    b"ignore ",
    b"do not tell",
    b"send the",
    b"ai agent",
    b"language model",
    b"call the tool",
];

/// How long a phrase is that a text begins with: white space of any kind is one space.
pub(super) fn phrase(text: &[u8], phrase: &str) -> Option<usize> {
    let mut at = 0_usize;
    for wanted in phrase.bytes() {
        let byte = text.get(at)?;
        if wanted == b' ' {
            let gap =
                text.get(at..)?.iter().take(8).take_while(|b| b.is_ascii_whitespace()).count();
            at += (gap > 0).then_some(gap)?;
        } else {
            at += (byte.to_ascii_lowercase() == wanted).then_some(1)?;
        }
    }
    Some(at)
}

/// Notes a mark of a conversation.
pub(super) fn markup(pass: &mut Pass<'_>, at: usize, behind: usize) {
    pass.note("chat_markup", High, at..behind);
}

/// Notes what pretends to come from the machinery around a model.
pub(super) fn forged(pass: &mut Pass<'_>, at: usize, behind: usize) {
    pass.note("forged_turn", High, at..behind);
}

/// Notes a phrase.
pub(super) fn instruction(pass: &mut Pass<'_>, at: usize, behind: usize) {
    if pass.begins_at(at) {
        pass.note("instruction", Low, at..behind);
    }
}

/// Notes an order in what no page shows.
pub(super) fn hidden(pass: &mut Pass<'_>, at: usize, behind: usize) {
    if pass.is_in("hidden_order", at) {
        return;
    }
    let rest = pass.text.get(behind..).unwrap_or_default();
    let near = rest.get(..HIDDEN_MAX.min(rest.len())).unwrap_or_default();
    let near = special::up_to_next(near, pass.text.get(at..behind).unwrap_or_default());
    let is_comment = pass.byte(at) == Some(b'<');
    let end = if is_comment {
        near.windows(3).position(|three| three == b"-->")
    } else {
        near.windows(2).position(|two| two == b"</")
    };
    let end = end.unwrap_or(near.len());
    let shown = near.get(..end).unwrap_or_default().to_ascii_lowercase();
    if ORDERS.iter().any(|order| shown.windows(order.len()).any(|part| part == *order)) {
        pass.note("hidden_order", Low, at..behind + end);
    }
}
