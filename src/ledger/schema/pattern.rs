//! The patterns that `entry-1.json` uses, and no others: anchored, of ASCII, with classes, counts, and
//! groups that stand once or not at all.
//!
//! WHY: a general regular expression costs more per entry than the rest of the check together.

/// A pattern of a whole text.
#[derive(Debug)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
}

/// ASCII bytes that may stand at one place, bit by bit.
#[derive(Clone, Copy, Debug, Default)]
struct Set(u128);

#[derive(Debug)]
enum Atom {
    One(Set),
    /// Any one of these.
    Group(Vec<Vec<Piece>>),
}

#[derive(Debug)]
struct Piece {
    atom: Atom,
    least: usize,
    most: usize,
}

impl Set {
    const fn has(self, byte: u8) -> bool {
        byte.is_ascii() && (self.0 >> byte) & 1 == 1
    }

    fn add(&mut self, from: u8, to: u8) -> Result<(), String> {
        if from > to || !to.is_ascii() {
            return Err("a class that is not of ascending ASCII".to_owned());
        }
        for byte in from..=to {
            self.0 |= 1_u128 << byte;
        }
        Ok(())
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What in it is not supported.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let bad = |why: String| format!("pattern `{text}`: {why}");
        let inner = text.strip_prefix('^').and_then(|t| t.strip_suffix('$'));
        let inner = inner.ok_or_else(|| bad("it is not anchored at both ends".into()))?;
        let mut reader = Reader { rest: inner.as_bytes() };
        let mut ways = reader.ways().map_err(bad)?;
        match (ways.pop(), ways.is_empty(), reader.rest.is_empty()) {
            (Some(pieces), true, true) => Ok(Self { pieces }),
            _ => Err(bad("alternatives outside a group, or a group that is not open".into())),
        }
    }

    /// Whether the whole text is of this pattern.
    pub(super) fn matches(&self, text: &str) -> bool {
        run(&self.pieces, text.as_bytes(), &<[u8]>::is_empty)
    }
}

fn run(pieces: &[Piece], text: &[u8], then: &dyn Fn(&[u8]) -> bool) -> bool {
    let Some((piece, rest)) = pieces.split_first() else { return then(text) };
    match &piece.atom {
        Atom::One(set) => {
            let there = text.iter().take(piece.most).take_while(|byte| set.has(**byte)).count();
            let after = |count| text.get(count..).is_some_and(|after| run(rest, after, then));
            (piece.least..=there).rev().any(after)
        }
        Atom::Group(ways) => {
            ways.iter().any(|way| run(way, text, &|after| run(rest, after, then)))
                || (piece.least == 0 && run(rest, text, then))
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn next(&mut self) -> Result<u8, String> {
        let (first, rest) = self.rest.split_first().ok_or("it ends too early")?;
        self.rest = rest;
        Ok(*first)
    }

    fn takes(&mut self, byte: u8) -> bool {
        let there = self.rest.first() == Some(&byte);
        if there {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        there
    }

    /// Alternatives, up to the end of the group they stand in.
    fn ways(&mut self) -> Result<Vec<Vec<Piece>>, String> {
        let mut ways = vec![Vec::new()];
        while let Some(byte) = self.rest.first() {
            match byte {
                b')' => break,
                b'|' => {
                    self.next()?;
                    ways.push(Vec::new());
                }
                _ => {
                    let piece = self.piece()?;
                    if let Some(way) = ways.last_mut() {
                        way.push(piece);
                    }
                }
            }
        }
        Ok(ways)
    }

    fn piece(&mut self) -> Result<Piece, String> {
        let mut set = Set::default();
        let atom = match self.next()? {
            b'[' => Atom::One(self.class()?),
            b'(' => {
                let ways = self.ways()?;
                if !self.takes(b')') {
                    return Err("a group is not closed".to_owned());
                }
                Atom::Group(ways)
            }
            b'\\' => {
                let byte = self.next()?;
                if byte.is_ascii_alphanumeric() {
                    return Err("an escape that is not of a punctuation mark".to_owned());
                }
                set.add(byte, byte)?;
                Atom::One(set)
            }
            byte @ (b'.' | b'^' | b'$' | b'*' | b'+' | b'?' | b'{' | b'}' | b']') => {
                return Err(format!("`{}` is not supported here", char::from(byte)));
            }
            byte => {
                set.add(byte, byte)?;
                Atom::One(set)
            }
        };
        let (least, most) = self.count()?;
        if matches!(atom, Atom::Group(_)) && most != 1 {
            return Err("a group that stands more than once".to_owned());
        }
        Ok(Piece { atom, least, most })
    }

    fn class(&mut self) -> Result<Set, String> {
        let mut set = Set::default();
        loop {
            let from = self.next()?;
            match from {
                b']' => return Ok(set),
                b'^' | b'\\' | b'[' => return Err("a class that is not a plain list".to_owned()),
                _ => {}
            }
            // A `-` at the end of a class is itself.
            if self.rest.first() == Some(&b'-') && self.rest.get(1) != Some(&b']') {
                self.next()?;
                let to = self.next()?;
                set.add(from, to)?;
            } else {
                set.add(from, from)?;
            }
        }
    }

    fn count(&mut self) -> Result<(usize, usize), String> {
        if self.takes(b'?') {
            return Ok((0, 1));
        }
        if self.takes(b'*') {
            return Ok((0, usize::MAX));
        }
        if !self.takes(b'{') {
            return Ok((1, 1));
        }
        let least = self.number()?;
        let most = if self.takes(b',') { self.number()? } else { least };
        if !self.takes(b'}') || most < least {
            return Err("a count that is not `{n}` or `{n,m}`".to_owned());
        }
        Ok((least, most))
    }

    fn number(&mut self) -> Result<usize, String> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at_checked(digits).unwrap_or_default();
        self.rest = rest;
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| "a count without a number".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KNOWN: [&str; 6] = [
        "^(sha256:)?[0-9a-f]{4}$",
        "^([0-9a-f]{3})?$",
        "^-?[0-9]{1,3}$",
        "^(0|[1-9][0-9]*)$",
        "^[A-Za-z0-9_.-]{1,4}$",
        "^[0-9]{2}:[0-9]{2}\\.[0-9]Z$",
    ];

    #[test]
    fn what_is_not_supported_is_refused_and_not_guessed_at() {
        for text in [
            "[a]",
            "^a",
            "a$",
            "^a|b$",
            "^(ab$",
            "^ab)$",
            "^(ab)*$",
            "^(ab){2}$",
            "^a+$",
            "^.$",
            "^[^a]$",
            "^[\\d]$",
            "^\\d$",
            "^[b-a]$",
            "^a{2,}$",
            "^a{}$",
            "^ä$",
            "^[a$",
            "^a{3,2}$",
            "^(?:a)$",
        ] {
            assert!(Pattern::compile(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_regular_expressions(text in "[0-9a-fZsh:\\-._]{0,8}|(sha256:)?[0-9a-f]{3,5}|[0-9]{2}:[0-9]{2}\\.[0-9]Z\n?|é") {
            for known in KNOWN {
                let theirs = regex::Regex::new(known).unwrap().is_match(&text);
                prop_assert_eq!(Pattern::compile(known).unwrap().matches(&text), theirs, "{} {:?}", known, text);
            }
        }
    }
}
