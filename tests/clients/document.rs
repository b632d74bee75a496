//! Blocks of code in a document of the repository.

use wicketgate_support::program::top;

/// A document, or a section of one.
pub struct Document(String);

impl Document {
    #[track_caller]
    pub fn read(path: &str) -> Self {
        Self(std::fs::read_to_string(top().join(path)).unwrap())
    }

    /// From this heading to the next one of its level.
    #[track_caller]
    pub fn section(&self, heading: &str) -> Self {
        let rest = self.0.split_once(&format!("\n## {heading}\n")).unwrap().1;
        Self(rest.split("\n## ").next().unwrap().to_owned())
    }

    /// The blocks of one language, in order.
    #[track_caller]
    pub fn blocks(&self, language: &str) -> Vec<String> {
        let mut found = Vec::new();
        for block in self.0.split("\n```").skip(1).step_by(2) {
            let (named, text) = block.split_once('\n').unwrap();
            if named == language {
                found.push(format!("{text}\n"));
            }
        }
        assert!(!found.is_empty(), "no block of `{language}`");
        found
    }
}
