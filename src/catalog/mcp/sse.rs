//! Server-sent events, as far as MCP uses them (HTML, "Server-sent events").

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// `event`, if given.
    pub kind: Option<String>,
    /// `id`, if given.
    pub id: Option<String>,
    /// `data`, its lines joined.
    pub data: String,
}

/// A `message` event that carries one JSON-RPC message, ready to send.
#[must_use]
pub fn message(json: &[u8]) -> Vec<u8> {
    // JSON of the gate has line breaks only escaped in strings; a server's JSON may span several
    // lines, and each needs its `data:`.
    let mut event = b"event: message\n".to_vec();
    for line in json.split(|b| *b == b'\n' || *b == b'\r') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event
}

/// Reads events from bytes as they come.
#[derive(Debug)]
pub struct Reader {
    line: Vec<u8>,
    event: Event,
    filled: bool,
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
        Self {
            line: Vec::new(),
            event: Event::default(),
            filled: false,
            after_return: false,
            bytes_max,
        }
    }

    /// The events these bytes complete.
    ///
    /// # Errors
    /// An event grew too large; the stream is unusable from here on.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.line()),
                byte => self.line.push(byte),
            }
            if self.line.len().saturating_add(self.event.data.len()) > self.bytes_max {
                return Err(TooLarge(self.bytes_max));
            }
        }
        Ok(events)
    }

    fn line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.filled).then_some(event);
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.filled {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.filled = true;
            }
            "event" => self.event.kind = Some(value.to_owned()),
            "id" => self.event.id = Some(value.to_owned()),
            _ => {}
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
        let first = Event {
            kind: Some("message".into()),
            id: Some("7".into()),
            data: "{\"a\":\n1}".into(),
        };
        assert_eq!(whole, [first, Event::default()]);
        assert_eq!(Reader::new(8).push(b"data: 123456789"), Err(TooLarge(8)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let json = b"{\"a\":\n 1}";
        let events = Reader::new(99).push(&message(json)).unwrap();
        assert_eq!(events.first().map(|e| e.data.as_bytes()), Some(json.as_slice()));
    }
}
