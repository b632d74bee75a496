//! Time stamps: stock `openssl ts` is the authority, and reads what we keep.

use wicketgate::clock::{SystemClock, SystemEntropy};
use wicketgate::crypto::tsp::{self, ExpectedResponse, Fault, Stamp};
use wicketgate::domain::digest::Digest;
use wicketgate::witness::tsa::{Error, Tsa};

use crate::authority::openssl;
pub use crate::authority::{Authority, Made, NONCE, USUAL};
use crate::process::{Log, now};

fn verify(response: &[u8], data: &[u8], authority: &Authority) -> Result<Stamp, Fault> {
    let imprint = Digest::of(&[data]);
    let asked = ExpectedResponse { imprint: &imprint, nonce: Some(&NONCE) };
    tsp::verify(response, asked, &authority.trusted())
}

#[test]
fn stamps_of_stock_authorities_hold_and_stock_tools_read_what_we_keep() {
    let variants = [
        USUAL,
        Made { key: "P-384", digest: "sha384", ..USUAL },
        Made { key: "P-256", digest: "sha384", ..USUAL },
        Made { key: "rsa", ess: "sha1", ..USUAL },
        Made { key: "rsa", digest: "sha512", ess: "sha512", ..USUAL },
        Made { key: "rsa", digest: "sha384", ess: "sha384", ..USUAL },
    ];
    for made in variants {
        let authority = Authority::new(made);
        let data = b"log.example/a\n1\nroot\n";
        let response = authority.stamp(data);
        let stamp = verify(&response, data, &authority)
            .unwrap_or_else(|e| panic!("{} {}: {e}", made.key, made.digest));
        assert!((stamp.millis / 1000).abs_diff(now() as i64) < 60);
        assert_eq!(stamp.accuracy_millis, 1500);
        assert!(stamp.authority.contains("test tsa"), "{}", stamp.authority);
        std::fs::write(authority.path().join("data"), data).unwrap();
        let check = ["ts", "-verify", "-in", "r.tsr", "-data", "data", "-CAfile", "ca.pem"];
        openssl(authority.path(), &check);
    }
}

#[test]
fn a_stamp_of_something_else_or_for_another_question_is_refused() {
    let authority = Authority::new(USUAL);
    let response = authority.stamp(b"data");
    let refused = verify(&response, b"other", &authority).unwrap_err();
    assert_eq!(refused, Fault::Invalid("the imprint is of something else".into()));
    let imprint = Digest::of(&[b"data"]);
    let asked = ExpectedResponse { imprint: &imprint, nonce: Some(&[1; 16]) };
    let refused = tsp::verify(&response, asked, &authority.trusted()).unwrap_err();
    assert_eq!(refused, Fault::Invalid("the nonce is not the one that was sent".into()));
    let asked = ExpectedResponse { imprint: &imprint, nonce: None };
    tsp::verify(&response, asked, &authority.trusted()).unwrap();
    for nonce in [[0; 16], [0x7f; 16], [0xff; 16], [[0; 8], [9; 8]].concat().try_into().unwrap()] {
        let response = authority.answer(&tsp::request(&imprint, &nonce).unwrap());
        let asked = ExpectedResponse { imprint: &imprint, nonce: Some(&nonce) };
        tsp::verify(&response, asked, &authority.trusted()).unwrap();
    }
    // A refusal is a response, too.
    let mut unknown = tsp::request(&imprint, &NONCE).unwrap();
    let oid =
        unknown.windows(9).position(|w| w == [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1]).unwrap();
    unknown[oid + 8] = 7;
    let refused = tsp::verify(&authority.answer(&unknown), asked, &authority.trusted());
    assert!(refused.unwrap_err().to_string().contains("refused with status 2"));
}

#[test]
fn another_authority_an_expired_one_and_one_of_another_purpose_are_refused() {
    let authority = Authority::new(USUAL);
    let response = authority.stamp(b"data");
    let refused = verify(&response, b"data", &Authority::new(USUAL)).unwrap_err();
    assert!(matches!(&refused, Fault::Invalid(why) if why.contains("certificate")), "{refused}");
    let asked = ExpectedResponse { imprint: &Digest::of(&[b"data"]), nonce: None };
    assert!(matches!(tsp::verify(&response, asked, &[]), Err(Fault::Invalid(_))));
    let made = [
        (Made { valid: ("20200101000000Z", "20210101000000Z"), ..USUAL }, "Expired"),
        (Made { valid: ("20480101000000Z", "20490101000000Z"), ..USUAL }, "NotValidYet"),
    ];
    for (made, why) in made {
        let authority = Authority::new(made);
        let refused = verify(&authority.stamp(b"data"), b"data", &authority).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(matches!(refused, Fault::Invalid(_)));
    }
    // Stock `openssl` refuses to stamp with such certificates, so the token is made with a good one and
    // the certificate is put in its place.
    for usage in [
        "extendedKeyUsage = timeStamping\n",
        "extendedKeyUsage = critical,timeStamping,codeSigning\n",
        "extendedKeyUsage = critical,codeSigning\n",
        "",
        "extendedKeyUsage = critical,timeStamping\nkeyUsage = critical,keyEncipherment\n",
    ] {
        let authority = Authority::new(Made { usage, ..USUAL });
        let der = pem_to_der(&authority, "tsa.pem");
        let refused = tsp_purpose(&der, &authority);
        assert!(matches!(&refused, Err(Fault::Invalid(_))), "{usage:?}: {refused:?}");
    }
}

fn pem_to_der(authority: &Authority, name: &str) -> Vec<u8> {
    let text = std::fs::read(authority.path().join(name)).unwrap();
    tsp::authorities(&text).unwrap().remove(0)
}

/// What is made of a token by an authority with this certificate, signed by `openssl cms`: it stamps
/// with any certificate.
fn tsp_purpose(_certificate: &[u8], authority: &Authority) -> Result<Stamp, Fault> {
    let good = Authority::new(USUAL);
    let response = good.stamp(b"data");
    // The content of a good token, signed again by the other key.
    let token = content_of(&good, &response);
    std::fs::write(authority.path().join("tst.der"), token).unwrap();
    let sign = [
        "cms",
        "-sign",
        "-binary",
        "-in",
        "tst.der",
        "-nodetach",
        "-signer",
        "tsa.pem",
        "-inkey",
        "tsa.key",
        "-econtent_type",
        "1.2.840.113549.1.9.16.1.4",
        "-cades",
        "-md",
        "sha256",
        "-outform",
        "DER",
        "-out",
        "token.der",
    ];
    openssl(authority.path(), &sign);
    let token = std::fs::read(authority.path().join("token.der")).unwrap();
    let mut body = vec![0x30, 3, 2, 1, 0];
    body.extend(token);
    let mut response = vec![0x30, 0x82];
    response.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    response.extend(body);
    verify(&response, b"data", authority)
}

fn content_of(authority: &Authority, response: &[u8]) -> Vec<u8> {
    std::fs::write(authority.path().join("r.tsr"), response).unwrap();
    openssl(authority.path(), &["ts", "-reply", "-in", "r.tsr", "-token_out", "-out", "t.der"]);
    let out = ["cms", "-verify", "-noverify", "-in", "t.der", "-inform", "DER", "-out", "tst"];
    openssl(authority.path(), &out);
    std::fs::read(authority.path().join("tst")).unwrap()
}

#[test]
fn a_token_that_is_signed_by_hand_with_a_good_certificate_holds() {
    // So that what is refused above is refused for its certificate.
    let authority = Authority::new(USUAL);
    let der = pem_to_der(&authority, "tsa.pem");
    tsp_purpose(&der, &authority).unwrap();
}

#[test]
fn what_is_not_understood_is_not_believed() {
    // Stock `openssl` signs with it, the library that verifies here does not know it.
    for made in [
        Made { key: "P-256", digest: "sha512", ..USUAL },
        Made { key: "P-521", digest: "sha256", ..USUAL },
        Made { key: "rsa1024", ..USUAL },
    ] {
        let authority = Authority::new(made);
        let refused = verify(&authority.stamp(b"data"), b"data", &authority);
        assert!(refused.is_err(), "{} {}", made.key, made.digest);
    }
}

#[test]
fn no_byte_of_a_response_can_be_changed() {
    let authority = Authority::new(USUAL);
    let response = authority.stamp(b"data");
    verify(&response, b"data", &authority).unwrap();
    let trusted = authority.trusted();
    let imprint = Digest::of(&[b"data"]);
    let asked = ExpectedResponse { imprint: &imprint, nonce: Some(&NONCE) };
    let mut held = Vec::new();
    for at in 0..response.len() {
        let mut changed = response.clone();
        changed[at] ^= 1;
        if tsp::verify(&changed, asked, &trusted).is_ok() {
            held.push(at);
        }
        assert!(tsp::verify(&response[..at], asked, &trusted).is_err());
    }
    // What nobody signed: the status may say "granted with modifications", and a certificate beside the
    // authority's own may be any.
    let ca = pem_to_der(&authority, "ca.pem");
    let at = response.windows(ca.len()).position(|w| w == ca).unwrap();
    held.retain(|byte| !(at..at + ca.len()).contains(byte));
    let status = response.windows(5).position(|w| w == [0x30, 3, 2, 1, 0]).map(|at| at + 4);
    let held: Vec<_> = held.iter().map(|at| (*at, &response[at - 4..at + 4])).collect();
    assert!(held.len() == 1 && status == Some(held[0].0), "{held:x?} of {}", response.len());
}

/// One answer over HTTP by a stock authority.
fn http_authority(
    authority: Authority,
    kind: &'static str,
) -> (String, std::thread::JoinHandle<()>) {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tsa/", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut length, mut line) = (0, String::new());
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "POST /tsa/ HTTP/1.1\r\n");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let lower = line.to_lowercase();
            if let Some(n) = lower.strip_prefix("content-length: ") {
                length = n.trim().parse().unwrap();
            }
        }
        let mut request = vec![0; length];
        reader.read_exact(&mut request).unwrap();
        let answer = authority.answer(&request);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let mut stream = reader.into_inner();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&answer).unwrap();
    });
    (url, serving)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_is_stamped_over_http() {
    let log = Log::new("log.example/a", 3);
    let ask = async |kind: &'static str, skew: i64| {
        let authority = Authority::new(USUAL);
        let trusted = authority.trusted();
        let (url, serving) = http_authority(authority, kind);
        let tsa = Tsa::new(&url, trusted.clone(), None, skew).unwrap();
        let told = tsa.stamp(&log.head(3), &SystemClock::new(), &SystemEntropy).await;
        serving.join().unwrap();
        (told, trusted)
    };
    let (stamped, trusted) = ask("application/timestamp-reply", 60_000).await;
    let stamped = stamped.unwrap();
    let imprint = Digest::of(&[log.head(3).body().as_bytes()]);
    let asked = ExpectedResponse { imprint: &imprint, nonce: None };
    assert_eq!(tsp::verify(&stamped.response, asked, &trusted), Ok(stamped.stamp));
    let (refused, _) = ask("text/html", 60_000).await;
    assert!(matches!(refused, Err(Error::Refused { status: 200, .. })), "{refused:?}");
    let (refused, _) = ask("application/timestamp-reply", -5_000).await;
    assert!(matches!(refused, Err(Error::Skew(_))), "{refused:?}");
    assert!(matches!(Tsa::new("http://x.example", vec![], None, 1), Err(Error::Settings(_))));
}
