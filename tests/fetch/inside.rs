//! Nothing inside is reached, by whatever way a URL or a resolver leads there.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use wicketgate_support::agent::Refused;

use serde_json::json;

use crate::servers::PUBLIC;
use crate::world;

#[test]
fn no_spelling_of_a_url_leads_inside_and_none_is_looked_up() {
    world::run("inside::no_spelling_of_a_url_leads_inside_and_none_is_looked_up", async |world| {
        for (url, detail) in [
            ("http://127.0.0.1/", "fetch.private_address"),
            ("http://localhost/", "fetch.private_address"),
            ("http://LOCALHOST./", "fetch.private_address"),
            ("http://10.0.0.1/", "fetch.private_address"),
            ("http://169.254.169.254/latest/meta-data/", "fetch.private_address"),
            ("http://168.63.129.16/", "fetch.private_address"),
            ("http://100.64.0.1/", "fetch.private_address"),
            ("http://[::1]/", "fetch.private_address"),
            ("http://[::ffff:169.254.169.254]/", "fetch.private_address"),
            ("http://[::ffff:a9fe:a9fe]/", "fetch.private_address"),
            ("http://[64:ff9b::a9fe:a9fe]/", "fetch.private_address"),
            ("http://[2002:a9fe:a9fe::1]/", "fetch.private_address"),
            ("http://[fd00:ec2::254]/", "fetch.private_address"),
            ("http://127.1/", "fetch.host"),
            ("http://2130706433/", "fetch.host"),
            ("http://0xa9.0xfe.0xa9.0xfe/", "fetch.host"),
            ("http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/", "fetch.host"),
            ("http:///127.0.0.1/", "fetch.url"),
            ("http:\\\\127.0.0.1\\", "fetch.url"),
            ("http://allowed.test\\@127.0.0.1/", "fetch.url"),
            ("http://user:pass@allowed.test/", "fetch.user_info"),
            ("http://allowed.test@169.254.169.254/", "fetch.user_info"),
            ("http://allowed.test%2f@evil.test/", "fetch.user_info"),
            ("http://metadata.google.internal/", "fetch.internal_name"),
            ("http://foo.internal/", "fetch.internal_name"),
            ("http://printer.local/", "fetch.internal_name"),
            ("http://a.svc.cluster.local/", "fetch.internal_name"),
            ("http://evil.test/", "fetch.host"),
            ("http://allowed.test.evil.test/", "fetch.host"),
            ("http://a.allowed.test/", "fetch.host"),
            ("http://evilcdn.test/", "fetch.host"),
            ("http://cdn.test/", "fetch.host"),
            ("http://xn--allowed-test.test/", "fetch.host"),
            ("http://\u{430}llowed.test/", "fetch.host"),
            ("http://93.184.216.34/", "fetch.host"),
            ("http://allowed.test:6379/", "fetch.port"),
            ("http://allowed.test:0/", "fetch.port"),
            ("dict://127.0.0.1:11211/stats", "fetch.scheme"),
            ("file:///etc/passwd", "fetch.scheme"),
            ("unix:///var/run/docker.sock", "fetch.scheme"),
            ("http://allowed.test/x/..%2f..%2fadmin", "fetch.path_traversal"),
        ] {
            let said = world.refused(url).await;
            assert_eq!(said, ("effect.refused".to_owned(), detail.to_owned()), "{url}");
        }
        assert!(world.servers.reached().is_empty(), "{:?}", world.servers.reached());
        assert!(world.names.asked().is_empty(), "{:?}", world.names.asked());
    });
}

/// More ways to write an address that is not the public one: each is refused by itself, whatever for.
const SPELLINGS: &[&str] = &[
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://017700000001/",
    "http://127.0.0.1./",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://%31%32%37.0.0.1/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b:1::a9fe:a9fe]/",
    "http://[2001:0:7f00:1::1]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25lo]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://0.0.0.0/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://169.254.170.2/v2/credentials/",
    "http://100.100.100.200/",
    "http://ip6-localhost/",
    "http://kubernetes.default.svc/",
    "http://router/",
    "gopher://allowed.test/",
    "ftp://allowed.test/",
    "ws://allowed.test/",
    "data:text/plain,x",
    "//allowed.test/",
    "allowed.test",
    "http://allowed.test:80:443/",
    "http://allowed.test:65536/",
    "http://allowed.test:+80/",
    "http://allowed.test;evil.test/",
    "http://allowed.test%00.evil.test/",
    "http://allowed.test\t/",
    "http://allowed.test/\r\nHost: evil.test",
    " http://evil.test/",
];

/// How a call is refused before any policy is asked.
const NOT_ASKED: [&str; 2] = ["effect.refused", "arguments.invalid"];

#[test]
fn no_other_way_to_write_it_leads_inside_and_plain_urls_are_fetched() {
    let name = "inside::no_other_way_to_write_it_leads_inside_and_plain_urls_are_fetched";
    world::run(name, async |world| {
        for url in SPELLINGS {
            let (code, detail) = world.refused(url).await;
            assert!(NOT_ASKED.contains(&code.as_str()), "{url}: {code} {detail}");
        }
        // An argument of an http tool is one piece of its path, and no header and no other host.
        for args in [
            json!({"id": "../../admin"}),
            json!({"id": ".."}),
            json!({"id": "1%2f..%2f..%2fadmin"}),
            json!({"id": "1/../admin"}),
            json!({"id": "1\\admin"}),
            json!({"id": "1", "headers": {"Host": "evil.test"}}),
            json!({"id": "1", "headers": {"Authorization": "Bearer of-the-agent"}}),
            json!({"id": "1", "url": "http://evil.test/"}),
        ] {
            let Refused { code, .. } =
                world.call("api.orders", &args).await.expect_err(&args.to_string());
            assert!(NOT_ASKED.contains(&code.as_str()), "{args}: {code}");
        }
        assert!(world.servers.reached().is_empty(), "{:?}", world.servers.reached());
        assert!(world.names.asked().is_empty(), "{:?}", world.names.asked());
        for url in [
            "http://a.cdn.test/x.js?v=1",
            "http://allowed.test",
            "http://ALLOWED.test:80/",
            "http://allowed.test/a%20b?q=1&q=2",
            "https://tools.test:443/",
        ] {
            assert!(world.fetch(url).await.is_ok(), "{url}");
        }
        world.untouched();
    });
}

#[test]
fn no_answer_of_a_resolver_leads_inside() {
    world::run("inside::no_answer_of_a_resolver_leads_inside", async |world| {
        for name in [
            "mixed",
            "mapped",
            "metadata",
            "unique-local",
            "nat64",
            "sixtofour",
            "alias",
            "servfail",
            "nothing",
            "silent",
            "many",
        ] {
            for scheme in ["http", "https"] {
                let said = world.refused(&format!("{scheme}://{name}.test/")).await;
                assert_eq!(said, ("tool.failed".to_owned(), "connect".to_owned()), "{name}");
            }
        }
        assert!(world.servers.reached().is_empty(), "{:?}", world.servers.reached());
        // The same road works where the answers are good, through long chains of names too.
        for url in ["http://allowed.test/", "http://long.cdn.test/"] {
            assert_eq!(world.fetch(url).await.unwrap()["body"], "hello", "{url}");
        }
    });
}

#[test]
fn a_name_that_leads_elsewhere_the_second_time_is_refused_then() {
    world::run(
        "inside::a_name_that_leads_elsewhere_the_second_time_is_refused_then",
        async |world| {
            assert_eq!(world.fetch("http://rebind.test/").await.unwrap()["body"], "hello");
            // One connection, one lookup: the two address families of one question.
            assert_eq!(world.names.asked(), ["rebind.test"; 2]);
            assert_eq!(world.refused("http://rebind.test/").await.1, "connect");
            world.untouched();
            assert_eq!(world.servers.reached(), [(PUBLIC, 80)]);
        },
    );
}

#[test]
fn a_redirect_is_named_or_refused_and_never_followed() {
    world::run("inside::a_redirect_is_named_or_refused_and_never_followed", async |world| {
        for place in [
            "metadata",
            "mapped",
            "decimal",
            "evil",
            "relative",
            "backslash",
            "user",
            "port",
            "file",
        ] {
            let url = format!("http://allowed.test/to/{place}");
            let Refused { code, detail, message, .. } = world.fetch(&url).await.unwrap_err();
            assert_eq!((code.as_str(), detail.as_str()), ("tool.failed", "protocol"), "{place}");
            assert!(message.contains("redirects to"), "{message}");
        }
        let named = world.fetch("http://allowed.test/to/here").await.unwrap();
        assert_eq!(named["redirect"], "http://allowed.test/json?x=1");
        assert_eq!(named["status"], 302);
        let again = world.fetch("http://allowed.test/to/itself").await.unwrap();
        assert_eq!(again["redirect"], "http://allowed.test/to/itself");
        assert_eq!(world.servers.heads("/to/itself").len(), 1);
        assert!(world.servers.heads("/json?x=1").is_empty());
        world.untouched();
    });
}

#[test]
fn the_canaries_are_alive() {
    world::run("inside::the_canaries_are_alive", async |world| {
        let all = [
            "127.0.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "168.63.129.16",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "::1",
            "fd00:ec2::254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "::ffff:169.254.169.254",
        ];
        for address in all {
            let ip: IpAddr = address.parse().unwrap();
            for port in [80, 8080] {
                let mut stream = TcpStream::connect((ip, port)).unwrap();
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                assert!(text.ends_with("canary"), "{address}: {text}");
                let reached = world.servers.reached();
                assert_eq!(reached.last(), Some(&(ip.to_canonical(), port)));
            }
        }
    });
}
