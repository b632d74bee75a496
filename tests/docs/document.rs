//! The documents, and what of them is prose, code and heading.

use std::path::Path;

use crate::top;

/// One Markdown file.
pub struct Document {
    /// Path from the top of the repository.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// A fenced block of code.
pub struct Block {
    /// What stands after the opening fence: `sh`, `console`, `text`…
    pub language: String,
    /// The lines between the fences.
    pub text: String,
}

impl Document {
    /// A document that exists only in a test of a check.
    pub fn of(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Reads one from the repository.
    pub fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(top().join(path));
        Self { path: path.to_owned(), text: text.unwrap_or_else(|e| panic!("{path}: {e}")) }
    }

    /// Its fenced blocks, in order.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for line in self.text.lines() {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    open = Some(Block { language: language.to_owned(), text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.path);
        blocks
    }

    /// The text outside of fenced blocks.
    pub fn prose(&self) -> String {
        let mut inside = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                prose.push_str(line);
                prose.push('\n');
            }
        }
        prose
    }

    /// The document from this heading on, up to the next one of the same or a higher level.
    pub fn section(&self, anchor: &str) -> Option<Self> {
        let (mut level, mut inside) = (0, false);
        let mut text = String::new();
        for line in self.text.lines() {
            inside ^= line.trim_start().starts_with("```");
            // A comment of a shell is no heading.
            let depth = if inside { 0 } else { line.chars().take_while(|c| *c == '#').count() };
            match level {
                0 if depth > 0 && slug(&line[depth..]) == anchor => level = depth,
                0 => {}
                _ if depth > 0 && depth <= level => break,
                _ => {}
            }
            if level > 0 {
                text.push_str(line);
                text.push('\n');
            }
        }
        (level > 0).then(|| Self { path: self.path.clone(), text })
    }

    /// The anchors of its headings, as GitHub makes them.
    pub fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for line in self.prose().lines().filter(|line| line.starts_with('#')) {
            let slug = slug(line.trim_start_matches('#'));
            let same = anchors.iter().filter(|anchor| {
                **anchor == slug || anchor.strip_prefix(&format!("{slug}-")).is_some_and(is_number)
            });
            match same.count() {
                0 => anchors.push(slug),
                n => anchors.push(format!("{slug}-{n}")),
            }
        }
        anchors
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The anchor of a heading: letters, digits, `-` and `_`; blanks become `-`.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// Every document: those at the top, those below `docs/`, and the README of every folder that has one for people.
pub fn documents() -> Vec<Document> {
    let mut found = Vec::new();
    for name in ["README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        found.push(Document::read(name));
    }
    for client in ["python", "typescript"] {
        found.push(Document::read(&format!("clients/{client}/README.md")));
    }
    for folder in ["docs", "deploy", "examples", "policies", "benches", "fuzz"] {
        below(&top().join(folder), &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn below(folder: &Path, found: &mut Vec<Document>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(Document::read(path.strip_prefix(top()).unwrap().to_str().unwrap()));
        }
    }
}

/// The pages below `docs/`.
pub fn pages() -> impl Iterator<Item = Document> {
    documents().into_iter().filter(|document| document.path.starts_with("docs/"))
}

#[test]
fn the_first_documents_are_short() {
    for (name, kib) in
        [("README.md", 6), ("SECURITY.md", 12), ("ARCHITECTURE.md", 10), ("CONTRIBUTING.md", 8)]
    {
        let bytes = Document::read(name).text.len();
        assert!(bytes <= kib * 1024, "{name}: {bytes} bytes of {kib} KiB");
    }
}

#[test]
fn blocks_prose_sections_and_anchors_are_distinguished() {
    let text = "# A b\n\ntext\n```sh\n# c\nls\n```\n## Of `x` (y)\n```\n# d\n```\n## A b\nend\n";
    let document = Document::of("a.md", text);
    let blocks = document.blocks();
    assert_eq!((blocks.len(), blocks[0].language.as_str()), (2, "sh"));
    assert_eq!(blocks[0].text, "# c\nls\n");
    assert_eq!(document.prose(), "# A b\n\ntext\n## Of `x` (y)\n## A b\nend\n");
    assert_eq!(document.anchors(), ["a-b", "of-x-y", "a-b-1"]);
    assert_eq!(document.section("of-x-y").unwrap().text, "## Of `x` (y)\n```\n# d\n```\n");
    assert!(document.section("none").is_none());
}
