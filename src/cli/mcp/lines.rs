//! Lines in, lines out, each on a thread of its own: a client that sends nothing, or reads nothing,
//! delays neither a call nor the end of the process.

use std::io::{BufRead, Write as _};

use tokio::sync::{mpsc, oneshot};

use crate::cli::Cause;
use crate::mcp::lines::{Line, LineSplitter};

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
        // However it ends, there is nothing more to read.
        let _ = read(std::io::stdin().lock(), |line| Ok(out.blocking_send(line)?));
    });
    lines
}

/// Passes on every line until the input ends.
fn read(
    mut input: impl BufRead,
    mut each: impl FnMut(ClientLine) -> Result<(), Cause>,
) -> Result<(), Cause> {
    let mut each = |line: Line<'_>| {
        each(match line {
            Line::Whole(text) => ClientLine::Whole(text.to_vec()),
            Line::Ends(_) => ClientLine::TooLong,
        })
    };
    let mut lines = LineSplitter::new(LINE_BYTES_MAX, usize::MAX);
    loop {
        let piece = input.fill_buf()?;
        let bytes = piece.len();
        if bytes == 0 {
            return lines.finish(each);
        }
        lines.push(piece, &mut each)?;
        input.consume(bytes);
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
        let all = |input: &mut dyn BufRead| {
            let mut seen = Vec::new();
            read(input, |line| {
                seen.push(line);
                Ok(())
            })
            .unwrap();
            seen
        };
        let seen = all(&mut std::io::BufReader::with_capacity(7, text.as_bytes()));
        let whole = |text: &str| ClientLine::Whole(text.as_bytes().to_vec());
        let expected =
            [whole("one"), whole(""), ClientLine::TooLong, whole("two\r"), whole("last")];
        assert_eq!(seen, expected);
        let exact = "y".repeat(LINE_BYTES_MAX);
        let text = format!("{exact}\nz");
        assert_eq!(all(&mut text.as_bytes()), [whole(&exact), whole("z")]);
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(flat(b"{\"a\":\r\n 1}".to_vec()), b"{\"a\":   1}");
    }
}
