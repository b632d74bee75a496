//! A dialect of models is one module: no other code of a face or of a tool asks which one it is.

use regex::Regex;

use crate::source::{Source, line_of};

/// Where no dialect is named.
const ROOMS: [&str; 2] = ["src/faces/", "src/gate/tool/"];

/// But in a dialect's own module, in the tables that find it, and in the loop, which speaks one.
const PLACES: [&str; 5] = [
    "src/faces/serve/dialect/",
    "src/faces/serve/llm/route.rs",
    "src/faces/serve/llm/mod.rs",
    "src/faces/serve/llm/managed/mod.rs",
    "src/gate/tool/model/masking/mod.rs",
];

/// The places that name a dialect.
pub fn forks(tree: &[Source]) -> Vec<String> {
    let named = Regex::new(r"\bDialect::[A-Z][a-z]\w*").unwrap();
    let begins = |source: &Source, with: &[&str]| with.iter().any(|at| source.path.starts_with(at));
    let sources = tree.iter().filter(|source| begins(source, &ROOMS) && !begins(source, &PLACES));
    let sources = sources.filter(|source| !source.path.ends_with("/tests.rs"));
    let found = sources.flat_map(|source| {
        let code = source.code();
        let all: Vec<String> = named
            .find_iter(&code)
            .map(|seen| {
                let line = line_of(&code, seen.start());
                format!(
                    "{}:{line} asks for `{}`: let the dialect's module say it",
                    source.path,
                    seen.as_str()
                )
            })
            .collect();
        all
    });
    found.collect()
}

#[test]
fn a_fork_outside_of_a_dialect_is_found() {
    let fork = "match dialect {\n    Dialect::Chat => a(),\n    other => b(other),\n}\n";
    let of = |path: &str, text: &str| forks(&[Source::of(path, text)]).len();
    assert_eq!(of("src/faces/serve/llm/stream.rs", fork), 1);
    assert_eq!(of("src/gate/tool/model/exchange.rs", "if self.dialect == Dialect::Gemini {}"), 1);
    assert_eq!(of("src/faces/serve/dialect/chat.rs", fork), 0);
    assert_eq!(of("src/catalog/llm/ask/form.rs", fork), 0);
    assert_eq!(of("src/faces/serve/llm/stream.rs", "Dialect::ALL.iter()"), 0);
    let test = format!("#[cfg(test)]\nmod tests {{\n{fork}}}\n");
    assert_eq!(of("src/faces/serve/llm/stream.rs", &test), 0);
}
