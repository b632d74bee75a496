//! Splits a stream into lines of bounded length, a message each; a longer line is skipped, not
//! kept.

/// Bytes kept of each end of a line that is too long.
const END_BYTES: usize = 4 * 1024;

/// One line, without its line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// Its first and its last bytes, one after the other: the line is too long.
    Ends(&'a [u8]),
}

/// A line does not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a line does not end")]
pub struct Endless;

/// Splits a stream into lines.
#[derive(Debug)]
pub struct LineSplitter {
    bytes_max: usize,
    skipped_max: usize,
    kept: Vec<u8>,
    last: Vec<u8>,
    skipped: usize,
}

impl LineSplitter {
    /// Keeps lines of at most `bytes_max` bytes, and skips lines of at most `skipped_max`.
    #[must_use]
    pub fn new(bytes_max: usize, skipped_max: usize) -> Self {
        Self { bytes_max, skipped_max, kept: Vec::new(), last: Vec::new(), skipped: 0 }
    }

    /// Passes to `each` every line that these bytes complete.
    ///
    /// # Errors
    /// The error of `each`, or a line that does not end.
    pub fn push<E: From<Endless>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(at);
            bytes = rest.get(1..).unwrap_or_default();
            if self.kept.is_empty() && self.skipped == 0 && line.len() <= self.bytes_max {
                each(Line::Whole(line))?;
                continue;
            }
            self.add(line)?;
            self.end(&mut each)?;
        }
        self.add(bytes).map_err(E::from)
    }

    /// Passes to `each` a last line without a line break, if there is one.
    ///
    /// # Errors
    /// The error of `each`.
    pub fn finish<E>(mut self, each: impl FnMut(Line<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.kept.is_empty() && self.skipped == 0 { Ok(()) } else { self.end(each) }
    }

    fn end<E>(&mut self, mut each: impl FnMut(Line<'_>) -> Result<(), E>) -> Result<(), E> {
        let (kept, last) = (std::mem::take(&mut self.kept), std::mem::take(&mut self.last));
        if std::mem::take(&mut self.skipped) == 0 {
            each(Line::Whole(&kept))
        } else {
            each(Line::Ends(&[kept, last].concat()))
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), Endless> {
        let mut bytes = bytes;
        if self.skipped == 0 {
            let left = self.bytes_max.saturating_sub(self.kept.len());
            let (fits, rest) = bytes.split_at(left.min(bytes.len()));
            self.kept.extend_from_slice(fits);
            bytes = rest;
            if bytes.is_empty() {
                return Ok(());
            }
            self.skipped = self.kept.len();
            let end = self.kept.len().saturating_sub(END_BYTES).max(END_BYTES);
            self.last = self.kept.get(end..).unwrap_or_default().to_vec();
            self.kept.truncate(END_BYTES);
            self.kept.shrink_to_fit();
        }
        self.skipped = self.skipped.saturating_add(bytes.len()).max(1);
        self.last.extend_from_slice(bytes);
        let over = self.last.len().saturating_sub(END_BYTES);
        self.last.drain(..over);
        if self.skipped > self.skipped_max { Err(Endless) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines, each with whether it is whole, and the result.
    type Seen = (Vec<(bool, Vec<u8>)>, Result<(), Endless>);

    fn all(bytes_max: usize, chunks: &[&[u8]]) -> Seen {
        let mut lines = LineSplitter::new(bytes_max, bytes_max * 16);
        let mut seen = Vec::new();
        let ended = chunks.iter().try_for_each(|chunk| {
            lines.push(chunk, |line| {
                seen.push(match line {
                    Line::Whole(text) => (true, text.to_vec()),
                    Line::Ends(ends) => (false, ends.to_vec()),
                });
                Ok(())
            })
        });
        (seen, ended)
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_are_cut() {
        let text = b"one\n\ntwo and more\nrest";
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        let (whole, cut) = (all(20, &[text]).0, all(20, &bytes).0);
        assert_eq!(whole, cut);
        let expected: [&[u8]; 3] = [b"one", b"", b"two and more"];
        assert_eq!(whole, expected.map(|line| (true, line.to_vec())));
    }

    #[test]
    fn a_long_line_leaves_its_ends_and_harms_no_other() {
        let middle = vec![b'x'; 50_000];
        let line = [b"{\"id\":1".as_slice(), &middle, b"last}\nnext\n"].concat();
        for size in [1, 1000, 100_000] {
            let chunks: Vec<&[u8]> = line.chunks(size).collect();
            let (seen, ended) = all(10_000, &chunks);
            ended.unwrap();
            let (whole, ends) = &seen[0];
            assert!(!whole && ends.starts_with(b"{\"id\":1") && ends.ends_with(b"last}"));
            assert!(ends.len() <= 2 * END_BYTES);
            assert_eq!(seen[1..], [(true, b"next".to_vec())]);
        }
    }

    #[test]
    fn a_line_without_end_ends_the_connection() {
        let chunk = [b'x'; 1000];
        let chunks: Vec<&[u8]> = vec![&chunk; 200];
        assert!(all(10_000, &chunks).1.is_err());
    }
}
