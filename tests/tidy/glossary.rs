//! Texts that people read use the words of the field.

use regex::Regex;

use crate::source::{Source, quotes};

/// Words of this house alone; `docs` holds the help of the command line to the same list.
const PRIVATE: &str = r"(?i)\b(?:books|office|desk|door|staff|whoever|somebody|nobody|anybody|everybody|told|heard|rehearse\w*|prologue|curtain|words? counts?)\b";

/// Texts with a blank between quotes: names of members and codes have none.
fn texts<'a>(source: &Source, value: &'a Regex) -> impl Iterator<Item = (usize, String)> + use<'a> {
    let texts = quotes(source.without_tests()).into_iter();
    texts
        .map(move |(line, text)| (line, value.replace_all(&text, "").into_owned()))
        .filter(|(_, text)| text.contains(' '))
}

/// Private words in texts of the product.
pub fn private_words(tree: &[Source]) -> Vec<String> {
    let private = Regex::new(PRIVATE).unwrap();
    let value = Regex::new(r"\{[^{} ]*\}").unwrap();
    let mut wrong = Vec::new();
    for source in tree.iter().filter(|source| source.is_product()) {
        for (line, text) in texts(source, &value) {
            let words = private.find_iter(&text);
            wrong.extend(
                words.map(|word| format!("{}:{line}: `{}` in {text}", source.path, word.as_str())),
            );
        }
    }
    wrong
}

#[test]
fn a_private_word_in_a_text_is_found() {
    for text in [
        "say(\"it is on the books\");",
        "say(\"ask the \\\n    office first\");",
        "fail(r\"nobody is told\");",
        "say(\"THE WORD COUNTS\");",
    ] {
        assert!(!private_words(&[Source::of("src/cli/a.rs", text)]).is_empty(), "{text}");
    }
    for text in [
        "// nobody is told\nfn told() {}",
        "json!({\"told\": 1})",
        "say(\"{told} of {nobody}\");",
        "#[cfg(test)]\nmod tests {\n    fn a() { b(\"nobody is told\") }\n}\n",
    ] {
        let wrong = private_words(&[Source::of("src/cli/a.rs", text)]);
        assert_eq!(wrong, Vec::<String>::new(), "{text}");
    }
}
