//! HTTP/2 by hand: a server that reads one request and then does what a test says.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What the server does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Bytes that are no frames.
    Garbage,
    /// Answers as a server of HTTP/1.1 does.
    Http1,
    /// Resets the stream.
    Reset,
    /// Closes the connection.
    Close,
    /// Closes its half and reads on.
    HalfClose,
    /// Header fields without end.
    Flood,
    /// A message, and the end of the stream without a status.
    NoStatus,
    /// A message that says it is compressed.
    Compressed,
    /// Two messages where one is the answer.
    Twice,
    /// A message that is shorter than it says.
    Short,
    /// Bytes that are no message of this type.
    NoMessage,
    /// A page.
    Html,
    /// HTTP 503.
    Refused,
    /// A status whose details are no base64.
    OddStatus,
    /// Never answers.
    Silent,
    /// Answers well.
    Well,
}

/// A listener whose connections are served one thread each.
pub struct Server {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    connections: Mutex<usize>,
    requests: Mutex<usize>,
    /// Codes of the resets that came from the other side.
    resets: Mutex<Vec<u32>>,
}

impl Server {
    /// Does this with every request, and the second thing with those of later connections.
    pub fn start(act: Act, later: Act) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let of_all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&of_all);
                let first = {
                    let mut connections = shared.connections.lock();
                    *connections += 1;
                    *connections == 1
                };
                let act = if first { act } else { later };
                std::thread::spawn(move || serve(stream, act, &shared));
            }
        });
        Server { port, shared }
    }

    pub fn connections(&self) -> usize {
        *self.shared.connections.lock()
    }

    pub fn requests(&self) -> usize {
        *self.shared.requests.lock()
    }

    pub fn resets(&self) -> Vec<u32> {
        self.shared.resets.lock().clone()
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// One header field, literal and never indexed.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0x10, u8::try_from(name.len()).unwrap()];
    out.extend(name.as_bytes());
    out.push(u8::try_from(value.len()).unwrap());
    out.extend(value.as_bytes());
    out
}

fn fields(all: &[(&str, &str)]) -> Vec<u8> {
    all.iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// A message of this protocol, with a prefix that says so much.
fn message(compressed: u8, length: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![compressed];
    out.extend(length.to_be_bytes());
    out.extend(bytes);
    out
}

const GRPC: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc")];
/// `Answer{text: "well"}`.
const WELL: &[u8] = b"\x0a\x04well";

/// A whole answer: a head, a body and a status.
fn answer(stream: u32, body: &[u8]) -> Vec<u8> {
    let mut out = frame(HEADERS, END_HEADERS, stream, &fields(&GRPC));
    out.extend(frame(DATA, 0, stream, body));
    let end = fields(&[("grpc-status", "0")]);
    out.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &end));
    out
}

fn serve(mut stream: TcpStream, act: Act, shared: &Shared) {
    let mut preface = [0_u8; 24];
    if stream.read_exact(&mut preface).is_err() {
        return;
    }
    let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[]));
    loop {
        let mut head = [0_u8; 9];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0_u8; length as usize];
        if stream.read_exact(&mut payload).is_err() {
            return;
        }
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match head[3] {
            SETTINGS if head[4] == 0 => drop(stream.write_all(&frame(SETTINGS, 1, 0, &[]))),
            PING if head[4] == 0 => drop(stream.write_all(&frame(PING, 1, 0, &payload))),
            RESET => {
                let code = u32::from_be_bytes(payload[..4].try_into().unwrap());
                shared.resets.lock().push(code);
            }
            DATA | HEADERS if head[4] & END_STREAM != 0 => {
                *shared.requests.lock() += 1;
                if !act.on(&mut stream, id) {
                    return;
                }
            }
            _ => {}
        }
    }
}

impl Act {
    /// Whether the connection goes on.
    fn on(self, stream: &mut TcpStream, id: u32) -> bool {
        let long = u32::try_from(WELL.len()).unwrap();
        let well = message(0, long, WELL);
        let bytes = match self {
            Self::Silent => return true,
            Self::Close => {
                let _ = stream.shutdown(Shutdown::Both);
                return false;
            }
            Self::HalfClose => {
                let _ = stream.shutdown(Shutdown::Write);
                return true;
            }
            Self::Flood => return flood(stream, id),
            Self::Garbage => vec![0xff; 4096],
            Self::Http1 => b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_vec(),
            Self::Reset => frame(RESET, 0, id, &2_u32.to_be_bytes()),
            Self::NoStatus => {
                let mut out = frame(HEADERS, END_HEADERS, id, &fields(&GRPC));
                out.extend(frame(DATA, END_STREAM, id, &well));
                out
            }
            Self::Compressed => answer(id, &message(1, long, WELL)),
            Self::Twice => answer(id, &[well.clone(), well].concat()),
            Self::Short => answer(id, &message(0, 99, WELL)),
            Self::NoMessage => answer(id, &message(0, 3, b"\x0a\x63x")),
            Self::Html => {
                let head = fields(&[(":status", "200"), ("content-type", "text/html")]);
                frame(HEADERS, END_HEADERS | END_STREAM, id, &head)
            }
            Self::Refused => {
                let head = fields(&[(":status", "503"), ("content-type", "text/plain")]);
                frame(HEADERS, END_HEADERS | END_STREAM, id, &head)
            }
            Self::OddStatus => {
                let odd = [("grpc-status", "13"), ("grpc-status-details-bin", "!!! no base64 !")];
                let head = fields(&[&GRPC[..], &odd].concat());
                frame(HEADERS, END_HEADERS | END_STREAM, id, &head)
            }
            Self::Well => answer(id, &well),
        };
        let _ = stream.write_all(&bytes);
        true
    }
}

/// Header fields until nobody takes more, or 64 MiB of them.
fn flood(stream: &mut TcpStream, id: u32) -> bool {
    let value = "y".repeat(100);
    let more = fields(&[("x-more", value.as_str()); 100]);
    let mut sent = stream.write_all(&frame(HEADERS, 0, id, &fields(&GRPC)));
    for _ in 0..6_000 {
        if sent.is_err() {
            return false;
        }
        sent = stream.write_all(&frame(CONTINUATION, 0, id, &more));
    }
    false
}
