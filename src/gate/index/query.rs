//! The query language of calls and runs: terms `word:value`, all of which must match.
//!
//! The console, the API and the command line read it here, and only here.

use std::fmt;

use crate::domain::closed::texts;
use crate::domain::decision::Verdict;
use crate::domain::near;
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;
use crate::record::Nonce;

/// Bytes of a query.
pub const BYTES_MAX: usize = 1024;
/// Terms of a query.
const TERMS_MAX: usize = 32;

texts! {
    /// What a term compares.
    pub enum Field {
        /// The agent, by its manifest.
        Agent = "agent",
        /// A person who approved or refused the call.
        By = "by",
        /// The id of the call.
        Call = "call",
        /// The chain.
        Chain = "chain",
        /// A code of a reason, or the finer code below it.
        Code = "code",
        /// Whether the verdict was enforced.
        Enforced = "enforced",
        /// What the gate found in the call.
        Finding = "finding",
        /// A host that the call reaches, as the configuration of its tool names it.
        Host = "host",
        /// How the call ended: a status, a class of failure or a cause.
        Outcome = "outcome",
        /// The run that delegated to the run.
        Parent = "parent",
        /// The rule that decided.
        Rule = "rule",
        /// The run.
        Run = "run",
        /// How far the call is.
        State = "state",
        /// The tier of the tool.
        Tier = "tier",
        /// The tool.
        Tool = "tool",
        /// The verdict.
        Verdict = "verdict",
        /// The version of the manifest.
        Version = "version",
    }
}

texts! {
    /// How far a call is.
    pub enum CallState {
        /// It waits for an approval.
        Held = "held",
        /// It was allowed, and its end is not recorded yet.
        Running = "running",
        /// The tool returned a result.
        Completed = "completed",
        /// It ended without a result.
        Failed = "failed",
        /// The tool may or may not have run.
        Unknown = "unknown",
        /// It was stopped.
        Cancelled = "cancelled",
        /// It was not approved in time.
        Expired = "expired",
        /// It did not run.
        Denied = "denied",
    }
}

texts! {
    /// What the gate found in a call, as far as its entries say.
    pub enum CallFinding {
        /// Passages of its arguments are copies of what its run has read.
        Copied = "copied",
        /// Its arguments hold a credential of the gate.
        Credential = "credential",
        /// The gate refused it for something else that the firewall found.
        Firewall = "firewall",
        /// Places of its result were masked.
        Masked = "masked",
        /// The gate refused it for personal data.
        Personal = "personal",
        /// Its arguments hold a secret of somewhere else.
        Secret = "secret",
        /// A part of its result could not be searched.
        Unscanned = "unscanned",
    }
}

impl Field {
    /// The only values of this field; empty if it takes any.
    const fn values(self) -> &'static [&'static str] {
        match self {
            Self::Enforced => &["yes", "no"],
            Self::Finding => CallFinding::TEXTS,
            Self::State => CallState::TEXTS,
            Self::Tier => Tier::TEXTS,
            Self::Verdict => Verdict::TEXTS,
            Self::Agent
            | Self::By
            | Self::Call
            | Self::Chain
            | Self::Code
            | Self::Host
            | Self::Outcome
            | Self::Parent
            | Self::Rule
            | Self::Run
            | Self::Tool
            | Self::Version => &[],
        }
    }
}

/// One condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// What it compares; `None`: any of run, call, agent, tool, code and host.
    pub field: Option<Field>,
    /// The value.
    pub value: String,
    /// Whether a value that begins so matches, too.
    pub prefix: bool,
    /// Whether it must not match.
    pub negated: bool,
}

/// A query. Without terms it matches everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// The terms; all must match.
    pub terms: Vec<Term>,
    /// Only what began at this time or later.
    pub since: Option<Timestamp>,
    /// Only what began before this time.
    pub until: Option<Timestamp>,
}

/// Why a text is not a query: the word, where it stands and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{word}` at column {column}: {why}")]
pub struct QueryError {
    /// The word.
    pub word: String,
    /// The place of its first character, from 1.
    pub column: usize,
    /// What is wrong.
    pub why: QueryFlaw,
}

/// What is wrong with a word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueryFlaw {
    /// The query is too long.
    Long,
    /// It has too many terms.
    Many,
    /// A quotation mark has no partner.
    Unclosed,
    /// No field has this name.
    Field(String),
    /// The value is empty.
    Empty,
    /// `*` stands before the end.
    Star,
    /// The field has other values.
    Value(Field),
    /// `since` or `until` with another value.
    Time,
    /// `since` or `until` stands twice or is negated.
    Once,
}

impl fmt::Display for QueryFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long => write!(f, "a query has at most {BYTES_MAX} bytes"),
            Self::Many => write!(f, "a query has at most {TERMS_MAX} terms"),
            Self::Unclosed => f.write_str("the closing quotation mark is missing"),
            Self::Field(name) => {
                let all = Field::TEXTS.iter().chain(&TIMES).map(|name| (*name).to_owned());
                let near = near::names(name, all);
                match near.first() {
                    Some(near) => write!(f, "unknown word; did you mean `{near}`?"),
                    None => write!(
                        f,
                        "unknown word; use {}, since or until",
                        Field::TEXTS.join(", ")
                    ),
                }
            }
            Self::Empty => f.write_str("the value is empty"),
            Self::Star => f.write_str("`*` may stand only at the end of a value"),
            Self::Value(field) => write!(f, "use one of {}", field.values().join(", ")),
            Self::Time => f.write_str(
                "use a date (`2026-11-20`), a time (`2026-11-20T14:00:00Z`) or a duration back from now (`30s`, `90m`, \
                 `2h`, `7d`, `4w`)",
            ),
            Self::Once => f.write_str("`since` and `until` may each stand once, without `-`"),
        }
    }
}

/// The words that bound the time.
const TIMES: [&str; 2] = ["since", "until"];

/// One word as it was written: an optional name, and a value in which quotation marks are resolved.
struct Written<'a> {
    text: &'a str,
    column: usize,
    negated: bool,
    name: Option<String>,
    value: String,
    quoted: bool,
}

impl Written<'_> {
    fn wrong(&self, why: QueryFlaw) -> QueryError {
        QueryError { word: self.text.to_owned(), column: self.column, why }
    }
}

impl Query {
    /// Reads a query; `now` is what durations count back from.
    ///
    /// # Errors
    /// The first word that is wrong.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, QueryError> {
        if text.len() > BYTES_MAX {
            let word = text.chars().take(16).collect();
            return Err(QueryError { word, column: 1, why: QueryFlaw::Long });
        }
        let mut query = Self::default();
        for (column, text) in split(text) {
            let written = written(column, text)?;
            match written.name.as_deref() {
                Some("since") => query.since = Some(bound(&written, query.since, now)?),
                Some("until") => query.until = Some(bound(&written, query.until, now)?),
                Some(_) | None => query.terms.push(term(&written)?),
            }
            if query.terms.len() > TERMS_MAX {
                return Err(written.wrong(QueryFlaw::Many));
            }
        }
        Ok(query)
    }
}

/// The words between blanks that stand in no quotation marks, each with its column.
fn split(text: &str) -> Vec<(usize, &str)> {
    let (mut words, mut start, mut quoted) = (Vec::new(), None, false);
    for (column, (at, c)) in text.char_indices().enumerate() {
        quoted ^= c == '"';
        match (c.is_whitespace() && !quoted, start) {
            (false, None) => start = Some((column, at)),
            (true, Some((column, from))) => {
                words.extend(text.get(from..at).map(|word| (column.saturating_add(1), word)));
                start = None;
            }
            (true, None) | (false, Some(_)) => {}
        }
    }
    if let Some((column, from)) = start {
        words.extend(text.get(from..).map(|word| (column.saturating_add(1), word)));
    }
    words
}

fn written(column: usize, text: &str) -> Result<Written<'_>, QueryError> {
    let wrong = |why| QueryError { word: text.to_owned(), column, why };
    let rest = text.strip_prefix('-');
    let (negated, rest) = (rest.is_some(), rest.unwrap_or(text));
    let named = rest.split_once(':').filter(|(name, _)| !name.contains('"'));
    let (name, value) = named.map_or((None, rest), |(name, value)| (Some(name), value));
    let quoted = value.contains('"');
    if value.matches('"').count() % 2 == 1 {
        return Err(wrong(QueryFlaw::Unclosed));
    }
    let (name, value) = (name.map(str::to_owned), value.replace('"', ""));
    if value.is_empty() {
        return Err(wrong(QueryFlaw::Empty));
    }
    Ok(Written { text, column, negated, name, value, quoted })
}

fn term(written: &Written<'_>) -> Result<Term, QueryError> {
    let field = match &written.name {
        None => None,
        Some(name) => {
            let field = Field::parse(name);
            Some(field.ok_or_else(|| written.wrong(QueryFlaw::Field(name.clone())))?)
        }
    };
    // In quotation marks a star is a star.
    let stem = written.value.strip_suffix('*').filter(|_| !written.quoted);
    let value = stem.unwrap_or(&written.value);
    if value.is_empty() {
        return Err(written.wrong(QueryFlaw::Empty));
    }
    if value.contains('*') && !written.quoted {
        return Err(written.wrong(QueryFlaw::Star));
    }
    if let Some(field) = field.filter(|field| !field.values().is_empty())
        && (stem.is_some() || !(field.values().contains(&value) || is_mark(field, value)))
    {
        return Err(written.wrong(QueryFlaw::Value(field)));
    }
    let prefix = stem.is_some() || (field.is_none() && !written.quoted);
    // As rows are kept: PostgreSQL takes no NUL in a text.
    let value = value.replace('\0', "\u{fffd}");
    Ok(Term { field, value, prefix, negated: written.negated })
}

/// Whether a value is the mark of what was found: 32 digits, of which no list can be given.
fn is_mark(field: Field, value: &str) -> bool {
    field == Field::Finding && Nonce::parse(value).is_some()
}

fn bound(
    written: &Written<'_>,
    before: Option<Timestamp>,
    now: Timestamp,
) -> Result<Timestamp, QueryError> {
    if before.is_some() || written.negated {
        return Err(written.wrong(QueryFlaw::Once));
    }
    time(&written.value, now).ok_or_else(|| written.wrong(QueryFlaw::Time))
}

/// A date (its first instant, UTC), a time of RFC 3339, or a duration back from now.
pub fn time(text: &str, now: Timestamp) -> Option<Timestamp> {
    let date = || Timestamp::parse(&format!("{text}T00:00:00.000Z"));
    ago(text, now).or_else(date).or_else(|| Timestamp::parse_rfc3339(text))
}

fn ago(text: &str, now: Timestamp) -> Option<Timestamp> {
    let unit = text.chars().last()?;
    let second = 1000_i64;
    let millis = match unit {
        's' => second,
        'm' => second * 60,
        'h' => second * 3600,
        'd' => second * 86_400,
        'w' => second * 604_800,
        _ => return None,
    };
    let digits = text.strip_suffix(unit).filter(|digits| digits.len() <= 6)?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let count: i64 = plain.then(|| digits.parse().ok()).flatten()?;
    Some(Timestamp::from_millis(now.millis().checked_sub(count.checked_mul(millis)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_763_755_503_123);

    fn parsed(text: &str) -> Query {
        Query::parse(text, NOW).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn one(text: &str) -> Term {
        let query = parsed(text);
        assert_eq!(query.terms.len(), 1, "{text}");
        query.terms[0].clone()
    }

    #[test]
    fn terms_are_words_with_values_and_bare_words_are_beginnings() {
        let term = |field, value: &str, prefix, negated| Term {
            field,
            value: value.to_owned(),
            prefix,
            negated,
        };
        for (text, expected) in [
            ("tool:payments.refund", term(Some(Field::Tool), "payments.refund", false, false)),
            ("tool:payments.*", term(Some(Field::Tool), "payments.", true, false)),
            ("-verdict:allow", term(Some(Field::Verdict), "allow", false, true)),
            ("rule:\"a b\"", term(Some(Field::Rule), "a b", false, false)),
            ("tool:\"a*\"", term(Some(Field::Tool), "a*", false, false)),
            ("4f1c", term(None, "4f1c", true, false)),
            ("-4f1c*", term(None, "4f1c", true, true)),
            ("\"4f1c\"", term(None, "4f1c", false, false)),
            ("\"a:b\"", term(None, "a:b", false, false)),
            ("outcome:a:b", term(Some(Field::Outcome), "a:b", false, false)),
        ] {
            assert_eq!(one(text), expected, "{text}");
        }
        assert_eq!(one("tool:a\0b").value, "a\u{fffd}b", "as a row has it");
        assert_eq!(parsed("  "), Query::default());
        let all = parsed("tool:a  agent:b -code:c\tsince:2h");
        assert_eq!((all.terms.len(), all.since.is_some(), all.until), (3, true, None));
    }

    #[test]
    fn times_are_dates_instants_and_durations() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let ago = |millis: i64| Timestamp::from_millis(NOW.millis() - millis);
        for (text, expected) in [
            ("2026-11-20", at("2026-11-20T00:00:00.000Z")),
            ("2026-11-20T14:02:03Z", at("2026-11-20T14:02:03.000Z")),
            ("2026-11-20T14:02:03.5Z", at("2026-11-20T14:02:03.500Z")),
            ("2026-11-20T14:02:03+02:00", at("2026-11-20T12:02:03.000Z")),
            ("0s", NOW),
            ("30s", ago(30_000)),
            ("90m", ago(5_400_000)),
            ("2h", ago(7_200_000)),
            ("7d", ago(604_800_000)),
            ("4w", ago(2_419_200_000)),
        ] {
            assert_eq!(parsed(&format!("since:{text}")).since, Some(expected), "{text}");
            assert_eq!(parsed(&format!("until:{text}")).until, Some(expected), "{text}");
        }
    }

    #[test]
    fn a_finding_is_one_of_a_few_words_or_the_mark_of_a_value() {
        let mark = "finding:00112233445566778899aabbccddeeff";
        assert!(Query::parse(mark, NOW).is_ok());
        for wrong in [mark.trim_end_matches('f'), "finding:00112233445566778899AABBCCDDEEFF"] {
            assert!(Query::parse(wrong, NOW).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_names_the_word_its_column_and_what_to_write() {
        for (text, word, column, why) in [
            ("tool:a verdikt:deny", "verdikt:deny", 8, "did you mean `verdict`?"),
            ("xylophone:1", "xylophone:1", 1, "unknown word; use agent, by,"),
            ("  verdict:maybe", "verdict:maybe", 3, "allow, deny, require_approval"),
            ("verdict:all*", "verdict:all*", 1, "use one of"),
            ("tier:t9", "tier:t9", 1, "T0, T1, T2, T3"),
            ("state:gone", "state:gone", 1, "held, running"),
            ("enforced:maybe", "enforced:maybe", 1, "yes, no"),
            (
                "finding:card",
                "finding:card",
                1,
                "credential, firewall, masked, personal, secret, unscanned",
            ),
            ("findings:masked", "findings:masked", 1, "did you mean `finding`?"),
            ("tool:", "tool:", 1, "empty"),
            ("tool:*", "tool:*", 1, "empty"),
            ("- a", "-", 1, "empty"),
            ("tool:a*b", "tool:a*b", 1, "only at the end"),
            ("ü tool:\"a", "tool:\"a", 3, "quotation mark"),
            ("since:yesterday", "since:yesterday", 1, "a date"),
            ("since:2026-13-01", "since:2026-13-01", 1, "a date"),
            ("since:9999999d", "since:9999999d", 1, "a date"),
            ("since:1h since:2h", "since:2h", 10, "once"),
            ("-until:1h", "-until:1h", 1, "without `-`"),
        ] {
            let error = Query::parse(text, NOW).unwrap_err();
            assert_eq!((error.word.as_str(), error.column), (word, column), "{text}");
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
        let long = "a".repeat(BYTES_MAX + 1);
        assert_eq!(Query::parse(&long, NOW).unwrap_err().why, QueryFlaw::Long);
        let many = "a ".repeat(TERMS_MAX + 1);
        assert_eq!(Query::parse(&many, NOW).unwrap_err().why, QueryFlaw::Many);
    }

    proptest! {
        #[test]
        fn any_text_is_a_query_or_an_error_about_one_of_its_words(text in "[ a-z:\"*\\-0-9.ü]{0,60}") {
            match Query::parse(&text, NOW) {
                Ok(query) => prop_assert!(query.terms.len() <= TERMS_MAX),
                Err(error) => {
                    let from: String = text.chars().skip(error.column - 1).collect();
                    prop_assert!(from.starts_with(&error.word), "{:?} in {:?}", error, text);
                }
            }
        }

        #[test]
        fn a_term_reads_back_as_it_was_written(
            field in prop::sample::select(vec![Field::Agent, Field::Tool, Field::Run, Field::Rule, Field::By]),
            value in "[a-zA-Z0-9_./:@-]{1,20}",
            negated: bool,
            prefix: bool,
        ) {
            let text = format!(
                "{}{field}:{value}{}",
                if negated { "-" } else { "" },
                if prefix { "*" } else { "" }
            );
            let term = Term { field: Some(field), value, prefix, negated };
            prop_assert_eq!(parsed(&text).terms, vec![term]);
        }
    }
}
