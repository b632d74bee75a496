//! Follows the bytes of HTTP/1.1 requests: where each begins and ends, and whether another reader
//! could frame it differently.
//!
//! The HTTP library follows the standard where it lets a server choose, and drops what it does not
//! need: a length beside chunks, a length said twice. Here both end the connection. This reader
//! never interprets a request; it can only end the connection.

use std::time::Duration;

/// From the first byte of a request to the end of its headers.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of one line that are looked at: enough for every name that matters and its value.
const LINE_BYTES_MAX: usize = 256;

/// The framing state of the client's bytes so far.
#[derive(Debug)]
pub(super) struct Framing {
    at: At,
    line: Vec<u8>,
    length: Option<u64>,
    chunked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// Before the first byte of a request.
    Between,
    /// In the first line or the headers.
    Head { first: bool },
    /// In a body, with so many bytes to come.
    Body(u64),
    /// In the line with the size of the next chunk.
    Size,
    /// In a chunk and the line break after it.
    Chunk(u64),
    /// In the lines after the last chunk.
    Trailers,
    /// The reader no longer looks: the client speaks another protocol, or the framing is ambiguous.
    Off,
}

/// The bytes can be read in two ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the framing of a request can be read in two ways")]
pub(super) struct Ambiguous;

impl Default for Framing {
    fn default() -> Self {
        Self { at: At::Between, line: Vec::new(), length: None, chunked: false }
    }
}

impl Framing {
    /// Whether a request's headers have begun and not ended.
    pub(super) fn in_head(&self) -> bool {
        matches!(self.at, At::Head { .. })
    }

    /// Whether every request that has begun has ended.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.at, At::Between)
    }

    /// Looks at the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), Ambiguous> {
        while !bytes.is_empty() {
            bytes = match self.at {
                At::Off => return Ok(()),
                At::Body(left) => self.skip(bytes, left, At::Between),
                At::Chunk(left) => self.skip(bytes, left, At::Size),
                At::Between | At::Head { .. } | At::Size | At::Trailers => self.lines(bytes)?,
            };
        }
        Ok(())
    }

    fn skip<'a>(&mut self, bytes: &'a [u8], left: u64, then: At) -> &'a [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left.saturating_sub(u64::try_from(here).unwrap_or(u64::MAX));
        self.at = match (left, then) {
            (0, then) => then,
            (left, At::Size) => At::Chunk(left),
            (left, _) => At::Body(left),
        };
        bytes.get(here..).unwrap_or_default()
    }

    /// Takes bytes up to the end of the line.
    fn lines<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Ambiguous> {
        let end = bytes.iter().position(|b| *b == b'\n');
        let (line, rest) = match end {
            Some(end) => (bytes.get(..end), bytes.get(end.saturating_add(1)..)),
            None => (Some(bytes), None),
        };
        let left = LINE_BYTES_MAX.saturating_sub(self.line.len());
        self.line.extend(line.unwrap_or_default().iter().take(left));
        if self.at == At::Between && self.line.first().is_some_and(|b| *b != b'\r') {
            self.at = At::Head { first: true };
        }
        let Some(rest) = rest else { return Ok(&[]) };
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        self.line_ends(&line)?;
        Ok(rest)
    }

    fn line_ends(&mut self, line: &[u8]) -> Result<(), Ambiguous> {
        match self.at {
            At::Head { first: true } => {
                (self.length, self.chunked) = (None, false);
                let other = line.starts_with(b"PRI * HTTP/2");
                self.at = if other { At::Off } else { At::Head { first: false } };
                Ok(())
            }
            At::Head { first: false } if line.is_empty() => {
                self.at = match (self.chunked, self.length) {
                    (true, Some(_)) => return Err(Ambiguous),
                    (true, None) => At::Size,
                    (false, None | Some(0)) => At::Between,
                    (false, Some(length)) => At::Body(length),
                };
                Ok(())
            }
            At::Head { first: false } => self.header(line),
            At::Size => {
                let digits = line.split(|b| *b == b';').next().unwrap_or_default();
                let digits = std::str::from_utf8(digits).map_err(|_| Ambiguous)?.trim_end();
                let size = u64::from_str_radix(digits, 16).map_err(|_| Ambiguous)?;
                // The chunk, and the line break after it.
                self.at = if size == 0 {
                    At::Trailers
                } else {
                    At::Chunk(size.checked_add(2).ok_or(Ambiguous)?)
                };
                Ok(())
            }
            At::Trailers => {
                if line.is_empty() {
                    self.at = At::Between;
                }
                Ok(())
            }
            At::Between | At::Body(_) | At::Chunk(_) | At::Off => Ok(()),
        }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Ambiguous> {
        let Some(colon) = line.iter().position(|b| *b == b':') else { return Ok(()) };
        let name = line.get(..colon).unwrap_or_default();
        let value = line.get(colon.saturating_add(1)..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value).map_err(|_| Ambiguous)?;
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            let length = digits.parse().ok().filter(|_| plain).ok_or(Ambiguous)?;
            if self.length.replace(length).is_some() {
                return Err(Ambiguous);
            }
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Ambiguous);
            }
            self.chunked = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\n\r\nab\ncd";
    const CHUNKS: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n\
                          3;x=1\r\na\r\n\r\nA\r\n0123456789\r\n0\r\nX: Content-Length\r\n\r\n";
    const NONE: &str = "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn requests_end_where_they_end_however_their_bytes_are_cut() {
        let all = [PLAIN, CHUNKS, NONE, PLAIN, NONE, CHUNKS].concat();
        for size in [1, 2, 3, 7, all.len()] {
            let mut framing = Framing::default();
            for piece in all.as_bytes().chunks(size) {
                framing.read(piece).unwrap();
            }
            assert_eq!(framing.at, At::Between, "in pieces of {size}");
        }
        let mut framing = Framing::default();
        framing.read(b"GET / HTTP/1.1\r\nHost: a\r\n").unwrap();
        assert!(framing.in_head());
        framing.read(b"\r\n").unwrap();
        assert!(!framing.in_head());
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_not_read() {
        let refused = |lines: &str| {
            let text = format!("POST / HTTP/1.1\r\n{lines}\r\n");
            Framing::default().read(text.as_bytes()).is_err()
        };
        let (length, chunked) = ("Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n");
        for lines in [
            format!("{length}{chunked}"),
            format!("{chunked}{length}"),
            format!("{length}{length}"),
            format!("{chunked}{chunked}"),
            "Content-Length: +3\r\n".to_owned(),
            "Content-Length: \r\n".to_owned(),
            "Content-Length: 3, 3\r\n".to_owned(),
            "Transfer-Encoding: xchunked\r\n".to_owned(),
            "Transfer-Encoding: gzip, chunked\r\n".to_owned(),
        ] {
            assert!(refused(&lines), "{lines}");
        }
        assert!(!refused(length) && !refused(chunked) && !refused(""));
        let mut framing = Framing::default();
        let request = format!("POST / HTTP/1.1\r\n{chunked}\r\nxyz\r\n");
        assert_eq!(framing.read(request.as_bytes()), Err(Ambiguous));
    }

    #[test]
    fn another_protocol_is_none_of_its_business() {
        let mut framing = Framing::default();
        framing.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00anything: at all\r\n").unwrap();
        assert_eq!(framing.at, At::Off);
    }
}
