//! The `anthropic-beta` header: which features of the provider a request may switch on.

/// The features that no request may switch on unless the operator allows it: each lets the provider
/// run, fetch or keep something past the gate. A `*` at the end fits whatever follows.
pub const BETAS_DENIED: [&str; 5] =
    ["mcp-client-*", "code-execution-*", "web-fetch-*", "files-api-*", "skills-*"];

/// The tokens of the header without its denied ones. They are removed and not
/// refused, because a client that is refused tries again with other features. A token that is not
/// of letters, digits and `.-_` is removed too.
#[must_use]
pub fn betas(values: &[&str], denied: &[&str]) -> Vec<String> {
    let is_token = |token: &&str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        !token.is_empty() && token.bytes().all(fits)
    };
    let is_denied = |token: &str| {
        let token = token.to_ascii_lowercase();
        denied.iter().any(|denied| match denied.strip_suffix('*') {
            Some(beginning) => token.starts_with(beginning),
            None => token == *denied,
        })
    };
    let tokens = values.iter().flat_map(|value| value.split(',')).map(str::trim);
    let kept = tokens.filter(is_token).filter(|token| !is_denied(token));
    kept.map(str::to_owned).collect()
}
