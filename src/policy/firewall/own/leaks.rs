//! Rules in the form of gitleaks: an expression that is asked where a word of it stands.
//!
//! Every expression runs in linear time and in bounded memory. What an expression finds is cut to whole
//! characters, because a mask replaces text.

use std::ops::Range;

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::super::kinds::Confidence;
use super::super::patterns::WIDTH;
use super::super::plain::Pass;
use super::toml::{self, TomlTable, TomlValue};
use super::{RULES_MAX, RuleError, no_kind};

/// Bytes of a compiled expression, and of what it keeps while it runs.
const COMPILED_MAX: usize = 1 << 20;
/// Findings of one rule in one text. Further ones are found once these are masked.
const MATCHES_MAX: usize = 256;

/// One rule.
#[derive(Clone, Debug)]
pub(in super::super) struct LeakRule {
    /// The kind of its findings.
    pub kind: String,
    /// What it finds, in a few words.
    pub about: String,
    /// Words of which one stands in every text with a finding, in lower case.
    pub keywords: Vec<String>,
    regex: Regex,
    /// The group that is the secret; without it the first one, and without any all of it.
    group: Option<usize>,
    /// Bits of entropy for each letter of a secret, at least.
    entropy: f64,
    allowed: Vec<Allowed>,
}

/// What is no finding.
#[derive(Clone, Debug, Default)]
struct Allowed {
    regexes: Vec<Regex>,
    words: Vec<String>,
    target: AllowTarget,
}

/// What an expression of an allowance is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum AllowTarget {
    #[default]
    Secret,
    Match,
    Line,
}

/// How many regular expressions a file has.
fn expressions(tables: &[TomlTable]) -> usize {
    let written = tables.iter().flat_map(|table| &table.members);
    let each = written.map(|(name, _, value)| match (name.as_str(), value) {
        ("regexes", TomlValue::Texts(texts)) => texts.len(),
        (name, _) => usize::from(name == "regex"),
    });
    each.sum()
}

/// Reads a file.
pub(super) fn read(text: &str, name: &str) -> Result<Vec<LeakRule>, RuleError> {
    let flaw =
        |(line, what): (usize, String)| RuleError::Gitleaks { file: name.to_owned(), line, what };
    let tables = toml::read(text).map_err(flaw)?;
    let most = RULES_MAX.saturating_mul(2);
    // WHY before the first is compiled: a verifier reads the rules of others.
    if expressions(&tables) > most {
        return Err(flaw((1, format!("more than {most} expressions"))));
    }
    let (mut rules, mut global): (Vec<LeakRule>, Vec<Allowed>) = (Vec::new(), Vec::new());
    for table in &tables {
        let done = match (table.name.as_str(), table.is_item) {
            ("", false) => only(table, &["title", "description", "minVersion"], "the file"),
            ("allowlist", false) | ("allowlists", true) => {
                allowed(table, "the file").map(|one| global.push(one))
            }
            ("rules", true) => rule(table).map(|one| rules.push(one)),
            ("rules.allowlist", false) | ("rules.allowlists", true) => match rules.last_mut() {
                Some(rule) => {
                    let id = rule.kind.clone();
                    allowed(table, &id).map(|one| rule.allowed.push(one))
                }
                None => Err((table.line, "an allowance stands before every rule".to_owned())),
            },
            (other, _) => Err((table.line, format!("`{other}` is not supported here"))),
        };
        done.map_err(flaw)?;
    }
    if rules.len() > RULES_MAX {
        return Err(flaw((1, format!("more than {RULES_MAX} rules"))));
    }
    for rule in &mut rules {
        rule.allowed.extend(global.iter().cloned());
    }
    Ok(rules)
}

type Flaw = (usize, String);

/// Refuses every member but these.
fn only(table: &TomlTable, known: &[&str], whose: &str) -> Result<(), Flaw> {
    let other = table.members.iter().find(|(name, ..)| !known.contains(&name.as_str()));
    match other {
        None => Ok(()),
        Some((name, line, _)) => {
            Err((*line, format!("`{name}` of {whose} is not supported: leave it out")))
        }
    }
}

fn member<'t>(table: &'t TomlTable, name: &str) -> Option<(usize, &'t TomlValue)> {
    let found = table.members.iter().find(|(member, ..)| member == name);
    found.map(|(_, line, value)| (*line, value))
}

fn text<'t>(table: &'t TomlTable, name: &str) -> Result<Option<(usize, &'t str)>, Flaw> {
    match member(table, name) {
        None => Ok(None),
        Some((line, TomlValue::Text(text))) => Ok(Some((line, text))),
        Some((line, _)) => Err((line, format!("`{name}` is no text"))),
    }
}

fn texts(table: &TomlTable, name: &str) -> Result<(usize, Vec<String>), Flaw> {
    match member(table, name) {
        None => Ok((table.line, Vec::new())),
        Some((line, TomlValue::Texts(texts))) => Ok((line, texts.clone())),
        Some((line, _)) => Err((line, format!("`{name}` is no list"))),
    }
}

fn number(table: &TomlTable, name: &str) -> Result<Option<f64>, Flaw> {
    match member(table, name) {
        None => Ok(None),
        Some((_, TomlValue::Number(number))) => Ok(Some(*number)),
        Some((line, _)) => Err((line, format!("`{name}` is no number"))),
    }
}

fn compiled(line: usize, whose: &str, pattern: &str) -> Result<Regex, Flaw> {
    let built = RegexBuilder::new(pattern)
        // As gitleaks reads them: classes of letters are those of ASCII.
        .unicode(false)
        .size_limit(COMPILED_MAX)
        .dfa_size_limit(COMPILED_MAX)
        .build();
    built.map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        (line, format!("the expression of `{whose}` is not supported: {why}"))
    })
}

const RULE_MEMBERS: [&str; 7] =
    ["id", "description", "regex", "keywords", "entropy", "secretGroup", "tags"];

fn rule(table: &TomlTable) -> Result<LeakRule, Flaw> {
    let (line, id) = text(table, "id")?.ok_or((table.line, "a rule has no `id`".to_owned()))?;
    let of = |what: &str| format!("the rule `{id}` {what}");
    only(table, &RULE_MEMBERS, &format!("the rule `{id}`"))?;
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let kind: String = id.chars().map(letter).collect();
    if let Some(why) = no_kind(&kind) {
        return Err((line, of(&format!("has no name of a kind: {why}"))));
    }
    let (at, pattern) = text(table, "regex")?.ok_or((table.line, of("has no `regex`")))?;
    let regex = compiled(at, id, pattern)?;
    let (at, keywords) = texts(table, "keywords")?;
    if keywords.is_empty() {
        return Err((at, of("has no `keywords`: name a word that stands in every finding")));
    }
    let is_word = |word: &String| (WIDTH..=64).contains(&word.len()) && word.is_ascii();
    if let Some(word) = keywords.iter().find(|word| !is_word(word)) {
        return Err((at, of(&format!("has the keyword `{word}`: {WIDTH} to 64 letters of ASCII"))));
    }
    let group = number(table, "secretGroup")?;
    let group = match group {
        None => None,
        Some(number) => {
            let place = (0..regex.captures_len()).find(|place| same(*place, number));
            Some(place.ok_or_else(|| (table.line, of("has no group of its `secretGroup`")))?)
        }
    };
    Ok(LeakRule {
        about: text(table, "description")?
            .map_or_else(|| id.to_owned(), |(_, text)| text.to_owned()),
        kind,
        keywords: keywords.iter().map(|word| word.to_ascii_lowercase()).collect(),
        regex,
        group: group.filter(|place| *place > 0),
        entropy: number(table, "entropy")?.unwrap_or_default(),
        allowed: Vec::new(),
    })
}

fn same(place: usize, number: f64) -> bool {
    u32::try_from(place).is_ok_and(|place| (f64::from(place) - number).abs() < 1e-9)
}

const ALLOW_MEMBERS: [&str; 5] =
    ["description", "condition", "regexTarget", "regexes", "stopwords"];

fn allowed(table: &TomlTable, whose: &str) -> Result<Allowed, Flaw> {
    only(table, &ALLOW_MEMBERS, &format!("an allowance of `{whose}`"))?;
    if let Some((line, other)) = text(table, "condition")?.filter(|(_, is)| *is != "OR") {
        return Err((line, format!("the condition `{other}` of `{whose}` is not supported")));
    }
    let target = match text(table, "regexTarget")? {
        None | Some((_, "secret")) => AllowTarget::Secret,
        Some((_, "match")) => AllowTarget::Match,
        Some((_, "line")) => AllowTarget::Line,
        Some((line, other)) => {
            return Err((line, format!("the `regexTarget` `{other}` is not supported")));
        }
    };
    let (line, patterns) = texts(table, "regexes")?;
    let regexes: Result<Vec<Regex>, Flaw> =
        patterns.iter().map(|pattern| compiled(line, whose, pattern)).collect();
    let (_, words) = texts(table, "stopwords")?;
    let words = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    Ok(Allowed { regexes: regexes?, words, target })
}

impl Allowed {
    fn allows(&self, secret: &[u8], whole: &[u8], line: &[u8]) -> bool {
        let asked = match self.target {
            AllowTarget::Secret => secret,
            AllowTarget::Match => whole,
            AllowTarget::Line => line,
        };
        let folded = secret.to_ascii_lowercase();
        let has = |word: &String| folded.windows(word.len().max(1)).any(|at| at == word.as_bytes());
        self.regexes.iter().any(|regex| regex.is_match(asked)) || self.words.iter().any(has)
    }
}

/// Notes what a rule finds in a text in which one of its words stands.
pub(in super::super) fn find(pass: &mut Pass<'_>, rule: &'static LeakRule) {
    let text = pass.text;
    for found in rule.regex.captures_iter(text).take(MATCHES_MAX) {
        let Some(secret) = rule.secret(&found) else { continue };
        let whole = found.get(0).map(|all| all.range()).unwrap_or_default();
        let of = |range: Range<usize>| text.get(range).unwrap_or_default();
        let line = line(text, &whole);
        let bytes = of(secret.clone());
        let is_allowed = || {
            rule.allowed.iter().any(|one| one.allows(bytes, of(whole.clone()), of(line.clone())))
        };
        if bytes.is_empty() || entropy(bytes) < rule.entropy || is_allowed() {
            continue;
        }
        // WHY never low: an agent can write `example` beside a key. A rule says by its allowances what is none.
        pass.note(&rule.kind, Confidence::High, whole_characters(text, secret));
    }
}

impl LeakRule {
    fn secret(&self, found: &Captures<'_>) -> Option<Range<usize>> {
        let group = match self.group {
            Some(group) => found.get(group),
            None => found.iter().skip(1).flatten().find(|one| !one.is_empty()).or(found.get(0)),
        };
        group.map(|group| group.range())
    }
}

/// The line around a finding.
fn line(text: &[u8], of: &Range<usize>) -> Range<usize> {
    let before = text.get(..of.start).unwrap_or_default();
    let after = text.get(of.end..).unwrap_or_default();
    let is_end = |byte: &u8| *byte == b'\n';
    let start = before.iter().rposition(is_end).map_or(0, |at| at + 1);
    let end = after.iter().position(is_end).map_or(text.len(), |at| of.end + at);
    start..end
}

/// The same, from the beginning of a character to the end of one.
fn whole_characters(text: &[u8], of: Range<usize>) -> Range<usize> {
    let is_inner = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let start = (0..=of.start).rev().find(|at| !is_inner(*at)).unwrap_or_default();
    let end = (of.end..text.len()).find(|at| !is_inner(*at)).unwrap_or(text.len());
    start..end
}

/// Bits of entropy for each byte of a text, as gitleaks counts it.
fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let all = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let share = |count: &u32| f64::from(*count) / all;
    let bits = |share: f64| -share * share.log2();
    counts.iter().filter(|count| **count > 0).map(share).map(bits).sum()
}
