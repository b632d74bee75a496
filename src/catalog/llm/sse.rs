//! Server-sent events, as far as MCP, models and the events of calls use them (HTML, "Server-sent events").

/// A `message` event that carries one JSON-RPC message, ready to send.
#[must_use]
pub fn message(json: &[u8]) -> Vec<u8> {
    event("message", None, json)
}

/// An event of this name that carries JSON, ready to send. A client that comes back names the `id`
/// of the last event that it has.
#[must_use]
pub fn event(name: &str, id: Option<u64>, json: &[u8]) -> Vec<u8> {
    framed(Some(name), id, json)
}

/// As [`event`]; without a name it is an event of the default kind.
#[must_use]
pub fn framed(name: Option<&str>, id: Option<u64>, json: &[u8]) -> Vec<u8> {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let mut event = (name + &id).into_bytes();
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

/// Several `message` events.
#[must_use]
pub fn messages(all: &[Vec<u8>]) -> Vec<u8> {
    all.iter().flat_map(|json| message(json)).collect()
}

/// One event of a stream. Bytes that a blank line does not end are no event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// Its data, the lines joined by line feeds; never empty.
    pub data: String,
}

/// Reads events from bytes as they come.
#[derive(Debug)]
pub struct Reader {
    line: Vec<u8>,
    name: Option<String>,
    id: Option<String>,
    data: Option<String>,
    after_return: bool,
    begun: bool,
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
            name: None,
            id: None,
            data: None,
            after_return: false,
            begun: false,
            bytes_max,
        }
    }

    /// The events that these bytes complete. An event without data is passed over.
    ///
    /// # Errors
    /// An event grew too large; the stream is unusable from here on.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            if self.bytes().saturating_add(line.len()) > self.bytes_max {
                return Err(TooLarge(self.bytes_max));
            }
            self.line.extend_from_slice(line);
            let Some(end) = end else { break };
            self.after_return = rest.get(end) == Some(&b'\r');
            events.extend(self.end_line());
            rest = rest.get(end.saturating_add(1)..).unwrap_or_default();
        }
        Ok(events)
    }

    /// The bytes that are kept of the event that comes.
    fn bytes(&self) -> usize {
        let kept =
            [&self.name, &self.id, &self.data].map(|text| text.as_ref().map_or(0, String::len));
        kept.into_iter().fold(self.line.len(), usize::saturating_add)
    }

    fn end_line(&mut self) -> Option<Event> {
        let mut line = std::mem::take(&mut self.line);
        // A byte-order mark may stand before the first line and nowhere else.
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(&[0xEF, 0xBB, 0xBF]) {
            line.drain(..3);
        }
        if line.is_empty() {
            let (name, id) = (self.name.take(), self.id.take());
            let data = self.data.take().filter(|data| !data.is_empty())?;
            return Some(Event { name: name.filter(|name| !name.is_empty()), id, data });
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                self.data = Some(match self.data.take() {
                    Some(before) => before + "\n" + value,
                    None => value.to_owned(),
                });
            }
            "event" => self.name = Some(value.to_owned()),
            "id" => self.id = Some(value.to_owned()),
            // Comments, `retry` and unknown fields.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(events: &[Event]) -> Vec<&str> {
        events.iter().map(|event| event.data.as_str()).collect()
    }

    #[test]
    fn events_are_read_however_the_bytes_are_cut() {
        let text = b": hello\r\nevent: message\r\ndata: {\"a\":\ndata:1}\nid: 7\n\n\ndata\n\nevent: x\n\ndata: cut";
        let whole = Reader::new(99).push(text).unwrap();
        let mut reader = Reader::new(99);
        let cut: Vec<_> = text.iter().flat_map(|b| reader.push(&[*b]).unwrap()).collect();
        assert_eq!(whole, cut);
        let event = Event {
            name: Some("message".into()),
            id: Some("7".into()),
            data: "{\"a\":\n1}".into(),
        };
        assert_eq!(whole, [event]);
        assert_eq!(Reader::new(8).push(b"data: 123456789"), Err(TooLarge(8)));
        assert_eq!(Reader::new(8).push(b"data: 1\ndata: 2\n\n").map(|events| events.len()), Ok(1));
        let long = b"data: 123456\ndata: 123456\ndata: 123456\n\n";
        assert_eq!(Reader::new(24).push(long), Err(TooLarge(24)));
    }

    #[test]
    fn lines_end_in_a_line_feed_a_return_or_both() {
        let text =
            "\u{feff}event: a\ndata: 1\n\n: x\nretry: 9\nevent: b\ndata: 2\ndata: 3\n\ndata: 4\n\n";
        let plain = Reader::new(99).push(text.as_bytes()).unwrap();
        assert_eq!(data(&plain), ["1", "2\n3", "4"]);
        let names: Vec<_> = plain.iter().map(|event| event.name.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("b"), None]);
        for end in ["\r\n", "\r"] {
            let text = text.replace('\n', end);
            let whole = Reader::new(99).push(text.as_bytes()).unwrap();
            assert_eq!(whole, plain, "{end:?}");
            let mut reader = Reader::new(99);
            let bytes = text.bytes();
            let cut: Vec<_> = bytes.flat_map(|b| reader.push(&[b]).unwrap()).collect();
            assert_eq!(cut, plain, "{end:?}");
        }
    }

    #[test]
    fn a_character_that_two_reads_share_stays_whole() {
        let text = "data: 😀\n\n".as_bytes();
        for at in 0..text.len() {
            let mut reader = Reader::new(99);
            let mut events = reader.push(&text[..at]).unwrap();
            events.extend(reader.push(&text[at..]).unwrap());
            assert_eq!(data(&events), ["😀"]);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let json = b"{\"a\":\n 1}";
        let events = Reader::new(99).push(&message(json)).unwrap();
        assert_eq!(data(&events), [std::str::from_utf8(json).unwrap()]);
    }
}
