//! What files of gitleaks use of TOML, and nothing else: tables, lists of tables, texts, lists, numbers,
//! truth.
//!
//! WHY own: the one reader of TOML in the tree is a builder's, which is no part of the program.

/// One table of a file, as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct TomlTable {
    /// Its name, dotted; empty for what stands before the first one.
    pub name: String,
    /// Whether it is one of a list.
    pub is_item: bool,
    /// Its line, from 1.
    pub line: usize,
    /// Its members, with their lines.
    pub members: Vec<(String, usize, TomlValue)>,
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum TomlValue {
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// A number.
    Number(f64),
    /// True or false.
    Truth(bool),
}

/// What is wrong with a file: the line, from 1, and why.
pub(super) type TomlFlaw = (usize, String);

/// The tables of a file, in order.
pub(super) fn read(text: &str) -> Result<Vec<TomlTable>, TomlFlaw> {
    let mut reader = TomlReader { text, at: 0 };
    let first = TomlTable { name: String::new(), is_item: false, line: 1, members: Vec::new() };
    let mut tables = vec![first];
    loop {
        reader.skip(true);
        let Some(next) = reader.peek() else { return Ok(tables) };
        let line = reader.line();
        if next == '[' {
            let is_item = reader.take("[[");
            if !is_item {
                reader.take("[");
            }
            let name = reader.word("a name of a table", |c| c != ']' && c != '\n')?;
            if !reader.take(if is_item { "]]" } else { "]" }) {
                return Err(reader.flaw("the name of a table does not end"));
            }
            let name = name.trim().to_owned();
            tables.push(TomlTable { name, is_item, line, members: Vec::new() });
        } else {
            let key = reader.word("a name", |c| c.is_ascii_alphanumeric() || "_-".contains(c))?;
            reader.skip(false);
            if !reader.take("=") {
                return Err(reader.flaw("`=` is missing behind a name"));
            }
            reader.skip(false);
            let value = reader.value()?;
            if let Some(table) = tables.last_mut() {
                if table.members.iter().any(|(name, ..)| *name == key) {
                    return Err((line, format!("`{key}` stands twice in a table")));
                }
                table.members.push((key, line, value));
            }
        }
        reader.skip(false);
        if reader.peek().is_some_and(|next| next != '\n' && next != '\r') {
            return Err(reader.flaw("more than one thing in a line"));
        }
    }
}

struct TomlReader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> TomlReader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, front: &str) -> bool {
        let is_there = self.rest().starts_with(front);
        self.at += if is_there { front.len() } else { 0 };
        is_there
    }

    fn line(&self) -> usize {
        let before = self.text.get(..self.at).unwrap_or_default();
        before.bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    fn flaw(&self, why: &str) -> TomlFlaw {
        (self.line(), why.to_owned())
    }

    /// Passes white space and comments; over ends of lines, if `lines`.
    fn skip(&mut self, lines: bool) {
        loop {
            let rest = self.rest();
            let is_space = |c: char| c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r');
            let spaces = rest.len() - rest.trim_start_matches(is_space).len();
            self.at += spaces;
            if self.peek() != Some('#') {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn word(&mut self, what: &str, is_part: impl Fn(char) -> bool) -> Result<String, TomlFlaw> {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        if word.is_empty() {
            return Err(self.flaw(&format!("{what} is missing")));
        }
        self.at += end;
        Ok(word.to_owned())
    }

    fn value(&mut self) -> Result<TomlValue, TomlFlaw> {
        match self.peek() {
            Some('"' | '\'') => self.text().map(TomlValue::Text),
            Some('[') => self.list().map(TomlValue::Texts),
            _ => {
                let part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
                let word = self.word("a value", part)?;
                match word.as_str() {
                    "true" => Ok(TomlValue::Truth(true)),
                    "false" => Ok(TomlValue::Truth(false)),
                    number => number.parse().map(TomlValue::Number).map_err(|_| {
                        self.flaw(&format!("`{number}` is no text, list, number or truth"))
                    }),
                }
            }
        }
    }

    fn list(&mut self) -> Result<Vec<String>, TomlFlaw> {
        self.take("[");
        let mut texts = Vec::new();
        loop {
            self.skip(true);
            if self.take("]") {
                return Ok(texts);
            }
            if !matches!(self.peek(), Some('"' | '\'')) {
                return Err(self.flaw("a list has texts"));
            }
            texts.push(self.text()?);
            self.skip(true);
            if !self.take(",") && self.peek() != Some(']') {
                return Err(self.flaw("a list does not end"));
            }
        }
    }

    fn text(&mut self) -> Result<String, TomlFlaw> {
        let marks = ["'''", "\"\"\"", "'", "\""];
        let mark = marks.into_iter().find(|mark| self.take(mark)).unwrap_or_default();
        if mark.len() == 3 && !self.take("\r\n") {
            self.take("\n");
        }
        let (mut text, is_raw) = (String::new(), mark.starts_with('\''));
        loop {
            if self.take(mark) {
                return Ok(text);
            }
            let Some(next) = self.peek() else { return Err(self.flaw("a text does not end")) };
            if next == '\n' && mark.len() == 1 {
                return Err(self.flaw("a text does not end in its line"));
            }
            self.at += next.len_utf8();
            text.push(if next == '\\' && !is_raw { self.escaped()? } else { next });
        }
    }

    fn escaped(&mut self) -> Result<char, TomlFlaw> {
        let next = self.peek();
        self.at += next.map_or(0, char::len_utf8);
        let length = match next {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(same @ ('"' | '\\')) => return Ok(same),
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(self.flaw("an escape that TOML does not have")),
        };
        let digits = self.rest().get(..length).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        self.at += if digits.is_some() { length } else { 0 };
        digits.and_then(char::from_u32).ok_or_else(|| self.flaw("an escape of no character"))
    }
}
