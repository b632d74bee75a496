//! The resolver of the network: says what it was told, counts what it is asked.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;

use parking_lot::Mutex;

const HERE: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 53), 53);
const PUBLIC: &str = "93.184.216.34";
const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;

/// What there is to say about a name.
enum Said {
    Addresses(Vec<IpAddr>),
    /// Through so many other names first.
    Through(usize, IpAddr),
    Failure(u8),
    Nothing,
}

/// The resolver. Its threads end with the test's process.
pub struct Names {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Names {
    pub fn serve() -> Self {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let udp = UdpSocket::bind(HERE).unwrap();
        let tcp = TcpListener::bind(HERE).unwrap();
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut query = [0; 1500];
            while let Ok((length, from)) = udp.recv_from(&mut query) {
                let Some(answer) = answer(&query[..length], &seen, 512) else { continue };
                let _ = udp.send_to(&answer, from);
            }
        });
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let mut stream = stream.unwrap();
                let mut length = [0; 2];
                if stream.read_exact(&mut length).is_err() {
                    continue;
                }
                let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
                if stream.read_exact(&mut query).is_err() {
                    continue;
                }
                let Some(answer) = answer(&query, &seen, usize::from(u16::MAX)) else { continue };
                let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                let _ = stream.write_all(&length).and_then(|()| stream.write_all(&answer));
            }
        });
        Self { asked }
    }

    /// The names it was asked for, in order; a name as often as it was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

/// What is said of a name that was asked for `before` times already.
fn said(name: &str, before: usize) -> Said {
    let of = |list: &[&str]| Said::Addresses(list.iter().map(|ip| ip.parse().unwrap()).collect());
    match name {
        "mixed.test" => of(&[PUBLIC, "10.0.0.1"]),
        "mapped.test" => of(&[PUBLIC, "::ffff:10.0.0.1"]),
        "metadata.test" => of(&["169.254.169.254"]),
        "unique-local.test" => of(&["fd00:ec2::254"]),
        "nat64.test" => of(&["64:ff9b::a9fe:a9fe"]),
        "sixtofour.test" => of(&["2002:a9fe:a9fe::1"]),
        "alias.test" => Said::Through(8, "10.0.0.1".parse().unwrap()),
        "long.cdn.test" => Said::Through(8, PUBLIC.parse().unwrap()),
        "many.test" => Said::Addresses(vec![PUBLIC.parse().unwrap(); 300]),
        "rebind.test" if before > 1 => of(&["169.254.169.254"]),
        "servfail.test" => Said::Failure(2),
        "nothing.test" => Said::Failure(3),
        "silent.test" => Said::Nothing,
        known if known.ends_with(".test") || known.contains("internal") => of(&[PUBLIC]),
        _unknown => Said::Failure(3),
    }
}

fn answer(query: &[u8], asked: &Mutex<Vec<String>>, bytes_max: usize) -> Option<Vec<u8>> {
    let (name, after) = question(query)?;
    let kind = u16::from_be_bytes([*query.get(after)?, *query.get(after + 1)?]);
    let before = {
        let mut asked = asked.lock();
        let before = asked.iter().filter(|one| **one == name).count();
        asked.push(name.clone());
        before
    };
    let (code, records) = match said(&name, before) {
        Said::Nothing => return None,
        Said::Failure(code) => (code, Vec::new()),
        Said::Addresses(list) => {
            (0, list.iter().filter_map(|ip| address(kind, *ip, 0xc00c)).collect())
        }
        Said::Through(links, ip) => (0, chain(links, kind, ip)),
    };
    let head = |truncated: bool, count: usize| {
        let mut out = query[..2].to_vec();
        out.extend([0x81 | if truncated { 2 } else { 0 }, 0x80 | code, 0, 1]);
        out.extend(u16::try_from(count).unwrap().to_be_bytes());
        out.extend([0, 0, 0, 0]);
        out.extend(&query[12..after + 4]);
        out
    };
    let mut out = head(false, records.len());
    out.extend(records.concat());
    Some(if out.len() > bytes_max { head(true, 0) } else { out })
}

/// The name that is asked for, and where its type stands.
fn question(query: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*query.get(at)?);
        if length == 0 {
            return Some((labels.join("."), at + 1));
        }
        let label = query.get(at + 1..at + 1 + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += 1 + length;
    }
}

fn record(owner: u16, kind: u16, data: &[u8]) -> Vec<u8> {
    let mut out = owner.to_be_bytes().to_vec();
    out.extend(kind.to_be_bytes());
    // Class IN, no time to live: nobody may remember it.
    out.extend([0, 1, 0, 0, 0, 0]);
    out.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    out.extend(data);
    out
}

fn address(kind: u16, ip: IpAddr, owner: u16) -> Option<Vec<u8>> {
    match ip {
        IpAddr::V4(v4) if kind == A => Some(record(owner, A, &v4.octets())),
        IpAddr::V6(v6) if kind == AAAA => Some(record(owner, AAAA, &v6.octets())),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// Aliases, each of the one before, and the address at their end; names are written out in full.
fn chain(links: usize, kind: u16, ip: IpAddr) -> Vec<Vec<u8>> {
    let name = |i: usize| [&[2, b'n', b'0' + u8::try_from(i).unwrap()][..], b"\x04test\0"].concat();
    let owned = |owner: &[u8], record: Vec<u8>| [owner, &record[2..]].concat();
    let mut out = vec![record(0xc00c, CNAME, &name(0))];
    for i in 1..links {
        out.push(owned(&name(i - 1), record(0, CNAME, &name(i))));
    }
    out.extend(address(kind, ip, 0).map(|last| owned(&name(links - 1), last)));
    out
}
