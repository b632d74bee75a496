//! Server-sent events, as far as MCP and the events of calls use them (HTML, "Server-sent events").

/// A `message` event that carries one JSON-RPC message, ready to send.
#[must_use]
pub fn message(json: &[u8]) -> Vec<u8> {
    event("message", None, json)
}

/// An event of this name that carries JSON, ready to send. A client that comes back names the `id`
/// of the last event that it has.
#[must_use]
pub fn event(name: &str, id: Option<u64>, json: &[u8]) -> Vec<u8> {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let mut event = format!("event: {name}\n{id}").into_bytes();
    // JSON of the gate has line breaks only escaped in strings; a server's JSON may span several
    // lines, and each needs its `data:`.
    for line in json.split(|b| *b == b'\n' || *b == b'\r') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event
}

/// Several such events.
#[must_use]
pub fn messages(all: &[Vec<u8>]) -> Vec<u8> {
    all.iter().flat_map(|json| message(json)).collect()
}

/// Reads what events carry from bytes as they come.
#[derive(Debug)]
pub struct Reader {
    line: Vec<u8>,
    data: Option<String>,
    after_return: bool,
    bytes_max: usize,
}

/// One event, or one line, is larger than allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an event has more than {0} bytes")]
pub struct TooLarge(pub usize);

impl Reader {
    /// A reader that takes events of at most this many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { line: Vec::new(), data: None, after_return: false, bytes_max }
    }

    /// The data of the events that these bytes complete, its lines joined. An event without data
    /// is passed over.
    ///
    /// # Errors
    /// An event grew too large; the stream is unusable from here on.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, TooLarge> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.line()),
                byte => self.line.push(byte),
            }
            let data = self.data.as_ref().map_or(0, String::len);
            if self.line.len().saturating_add(data) > self.bytes_max {
                return Err(TooLarge(self.bytes_max));
            }
        }
        Ok(events)
    }

    fn line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.data.take().filter(|data| !data.is_empty());
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if field == "data" {
            self.data = Some(match self.data.take() {
                Some(before) => before + "\n" + value,
                None => value.to_owned(),
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_the_bytes_are_cut() {
        let text = b": hello\r\nevent: message\r\ndata: {\"a\":\ndata:1}\nid: 7\n\n\ndata\n\nevent: x\n\ndata: cut";
        let whole = Reader::new(99).push(text).unwrap();
        let mut reader = Reader::new(99);
        let cut: Vec<_> = text.iter().flat_map(|b| reader.push(&[*b]).unwrap()).collect();
        assert_eq!(whole, cut);
        assert_eq!(whole, ["{\"a\":\n1}"]);
        assert_eq!(Reader::new(8).push(b"data: 123456789"), Err(TooLarge(8)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let json = b"{\"a\":\n 1}";
        let events = Reader::new(99).push(&message(json)).unwrap();
        assert_eq!(events, [std::str::from_utf8(json).unwrap()]);
    }
}
