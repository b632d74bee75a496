//! The first days of five people: how many commands each needs, and how many words each has to read.

use crate::document::Document;

/// The pages, and the commands that each may need.
const DAYS: [(&str, usize); 5] = [
    ("docs/first-day/developer.md", 5),
    ("docs/first-day/policy-author.md", 6),
    ("docs/first-day/platform.md", 8),
    ("docs/first-day/operator.md", 4),
    ("docs/first-day/auditor.md", 3),
];

/// Words of the page, and of what its commands print on the terminal.
const WORDS_MAX: usize = 1_500;

/// What a page and what its commands printed are too long for; `None` for other pages and short days.
pub fn too_long(path: &str, printed: &str) -> Option<String> {
    DAYS.iter().find(|(day, _)| *day == path)?;
    let text = Document::read(path).text;
    let words = text.split_whitespace().chain(printed.split_whitespace()).count();
    (words > WORDS_MAX).then(|| format!("{path}: {words} words to read, {WORDS_MAX} at most"))
}

/// Commands that a person types. Files, variables and waiting are no commands.
fn commands(page: &Document) -> Vec<String> {
    let mut commands = Vec::new();
    for block in page.blocks().into_iter().filter(|block| block.language == "sh") {
        let mut file = false;
        for line in block.text.lines() {
            let begins_file =
                line.starts_with("cat > ") && line.ends_with("EOF") || line.ends_with("<<'EOF'");
            let sets = line.split_once('=').is_some_and(|(name, _)| {
                name.strip_prefix("export ")
                    .unwrap_or(name)
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c == '_')
            });
            let waits = line.starts_with("until ");
            let writes = line.starts_with("echo ");
            if !(file || begins_file || sets || waits || writes) {
                commands.push(line.to_owned());
            }
            file = (file || begins_file) && line != "EOF";
        }
    }
    commands
}

#[test]
fn a_first_day_needs_few_commands() {
    for (path, most) in DAYS {
        let commands = commands(&Document::read(path));
        assert!((1..=most).contains(&commands.len()), "{path}: {commands:#?}");
    }
}

#[test]
fn every_page_of_a_first_day_is_one_of_these() {
    let folder = std::fs::read_dir(crate::top().join("docs/first-day")).unwrap();
    let mut pages: Vec<_> = folder
        .map(|entry| format!("docs/first-day/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    let mut days = DAYS.map(|(path, _)| path.to_owned());
    pages.sort();
    days.sort();
    assert_eq!(pages, days);
}

#[test]
fn a_day_with_too_many_words_is_found() {
    let (path, _) = DAYS[0];
    assert_eq!(too_long(path, "short"), None);
    assert!(too_long(path, &"word ".repeat(WORDS_MAX)).is_some());
}
