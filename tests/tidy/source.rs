//! Files as the rules read them: with and without comments, strings and tests.

use std::path::Path;

/// One text file of the tree.
pub struct Source {
    /// Path from the top of the repository, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// A file that exists only in a test of a rule.
    pub fn of(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Whether it is a Rust file of the product.
    pub fn is_product(&self) -> bool {
        self.path.starts_with("src/") && self.is_rust()
    }

    /// Whether it is the manifest of a member of the workspace.
    pub fn is_member(&self) -> bool {
        ["src/", "tests/"].iter().any(|top| self.path.starts_with(top))
            && self.path.ends_with("/Cargo.toml")
    }

    /// Whether it is a Rust file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is a test: `tests.rs`, `…_tests.rs`, or below a folder `tests`.
    pub fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("_tests.rs")
    }

    /// The text before the tests at its end; nothing if the file is a test.
    pub fn without_tests(&self) -> &str {
        if self.is_test() {
            return "";
        }
        let mut at = 0;
        let mut lines = self.text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            let opens = |next: &&str| next.trim_start().starts_with("mod ") && next.contains('{');
            if line.trim_end() == "#[cfg(test)]" && lines.peek().is_some_and(opens) {
                return &self.text[..at];
            }
            at += line.len();
        }
        &self.text
    }

    /// The product's code: no tests, comments or text in quotes; every line where it was.
    pub fn code(&self) -> String {
        blank(self.without_tests())
    }

    /// All of its code, tests included: no comments or text in quotes.
    pub fn all_code(&self) -> String {
        blank(&self.text)
    }
}

/// What a text in quotes says, without the line breaks that the compiler leaves out.
pub fn quotes(text: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let end = literal_or_comment(&chars, at).max(at + 1);
        let part: String = chars[at..end].iter().collect();
        if part.starts_with(['"', 'r']) && end > at + 1 {
            found.push((line, part.replace("\\\n", "")));
        }
        line += part.matches('\n').count();
        at = end;
    }
    found
}

/// The line of a byte, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Rust text with comments and literals blanked out.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_or_comment(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// The end of the comment or literal that begins here; the same place if none does.
fn literal_or_comment(chars: &[char], at: usize) -> usize {
    let next = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    let word_before = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match (chars[at], next(1)) {
        ('/', '/') => (at..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len()),
        ('/', '*') => block_comment(chars, at),
        ('"', _) => quoted(chars, at),
        ('r', '"' | '#') if !word_before || chars[at - 1] == 'b' => raw(chars, at),
        ('\'', '\\') => (at + 3..chars.len()).find(|i| chars[*i] == '\'').map_or(at, |i| i + 1),
        ('\'', _) if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn block_comment(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn quoted(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

fn raw(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let closes = |i: &usize| {
        chars[*i] == '"'
            && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (at + 2 + hashes..chars.len()).find(closes).map_or(chars.len(), |i| i + 1 + hashes)
}

/// Every text file of the repository; not what was built or fetched.
pub fn tree() -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if ["target", ".git", "node_modules", "__pycache__"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let path = path.strip_prefix(top).unwrap().to_string_lossy().into_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

#[test]
fn comments_literals_and_tests_are_not_code() {
    let text =
        "let a = \"x // y\"; // z\n/* b /* c */ d */ let e = 'f'; g::<'h>(r#\"i\"#, '\\'');\n";
    let code = Source::of("src/a.rs", text).code();
    for gone in ['x', 'y', 'z', 'b', 'c', 'd', 'f', 'i'] {
        assert!(!code.contains(gone), "`{gone}` is still in {code}");
    }
    assert!(code.contains("let a") && code.contains("let e") && code.contains("g::<'h>("));
    assert_eq!(code.lines().count(), 2);
    let with_tests =
        Source::of("src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n");
    assert_eq!(with_tests.code(), "fn a() {}\n");
    let elsewhere = Source::of("src/a.rs", "#[cfg(test)]\nmod tests;\nfn c() {}\n");
    assert!(elsewhere.code().contains("fn c"));
}
