//! Lines in, lines out, each on a thread of its own: a client that sends nothing, or reads nothing,
//! delays neither a call nor the end of the process.

use std::io::{BufRead, Read as _, Write as _};

use tokio::sync::{mpsc, oneshot};

/// Bytes of one line from the client. Larger than any acceptable arguments.
pub const LINE_BYTES_MAX: usize = 4 << 20;
/// Lines that wait to be handled or written.
const WAITING_MAX: usize = 64;

/// What the client wrote.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientLine {
    /// One line without its end.
    Whole(Vec<u8>),
    /// A line of more than [`LINE_BYTES_MAX`] bytes, thrown away.
    TooLong,
}

/// The lines of standard input, until its end.
pub fn incoming() -> mpsc::Receiver<ClientLine> {
    let (out, lines) = mpsc::channel(WAITING_MAX);
    // No task joins this thread: it ends with the input or with the process.
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        while let Ok(Some(line)) = read(&mut input) {
            if out.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The next line; `None` at the end of the input.
fn read(input: &mut impl BufRead) -> std::io::Result<Option<ClientLine>> {
    let mut line = Vec::new();
    let most = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(ClientLine::Whole(line)));
    }
    if line.len() <= LINE_BYTES_MAX {
        return Ok(Some(ClientLine::Whole(line)));
    }
    skip(input)?;
    Ok(Some(ClientLine::TooLong))
}

/// Goes past the end of the line.
fn skip(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let piece = input.fill_buf()?;
        if piece.is_empty() {
            return Ok(());
        }
        let end = piece.iter().position(|b| *b == b'\n');
        let used = end.map_or(piece.len(), |at| at.saturating_add(1));
        input.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

/// Writes every message as one line to standard output. The second value comes when the last one is
/// written, or the reader has closed the pipe.
pub fn outgoing() -> (mpsc::Sender<Vec<u8>>, oneshot::Receiver<()>) {
    let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING_MAX);
    let (done, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let mut output = std::io::stdout().lock();
        while let Some(message) = waiting.blocking_recv() {
            let mut line = flat(message);
            line.push(b'\n');
            if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
        let _ = done.send(());
    });
    (lines, ended)
}

/// One message on one line: JSON holds raw line breaks between its parts only.
fn flat(mut message: Vec<u8>) -> Vec<u8> {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_one_by_one_and_an_endless_one_is_passed_over() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let text = format!("one\n\n{long}\ntwo\r\nlast");
        let mut input = std::io::BufReader::with_capacity(7, text.as_bytes());
        let mut seen = Vec::new();
        while let Some(line) = read(&mut input).unwrap() {
            seen.push(line);
        }
        let whole = |text: &str| ClientLine::Whole(text.as_bytes().to_vec());
        let expected =
            [whole("one"), whole(""), ClientLine::TooLong, whole("two\r"), whole("last")];
        assert_eq!(seen, expected);
        let exact = "y".repeat(LINE_BYTES_MAX);
        let text = format!("{exact}\nz");
        let mut input = text.as_bytes();
        assert_eq!(read(&mut input).unwrap(), Some(whole(&exact)));
        assert_eq!(read(&mut input).unwrap(), Some(whole("z")));
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(flat(b"{\"a\":\r\n 1}".to_vec()), b"{\"a\":   1}");
    }
}
