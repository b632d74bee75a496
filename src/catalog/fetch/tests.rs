use super::check::METHODS;
use super::*;
use crate::{Binding, Kind, Surroundings, config};

fn matches(pattern: &str, host: &str) -> bool {
    HostPattern::parse(pattern).unwrap().matches(&read_host(host).unwrap())
}

#[test]
fn a_wildcard_ends_at_a_label_and_does_not_take_the_domain_itself() {
    assert!(matches("*.cdn.test", "a.cdn.test"));
    assert!(matches("*.cdn.test", "A.B.CDN.test."));
    for other in ["cdn.test", "evilcdn.test", "a.cdn.test.evil.test", "1.2.3.4"] {
        assert!(!matches("*.cdn.test", other), "{other}");
    }
    assert!(matches("allowed.test", "ALLOWED.test."));
    assert!(!matches("allowed.test", "a.allowed.test"));
    assert!(matches("bücher.example", "xn--bcher-kva.example"));
    for wide in ["*", "*.test", "*.com", "a.*.test", "*cdn.test", "*.1.2.3.4", "**.a.test", "*."] {
        assert!(HostPattern::parse(wide).is_err(), "{wide}");
    }
}

fn load(yaml: &str) -> Result<Vec<Binding>, Vec<String>> {
    let config: config::Config = serde_saphyr::from_str(yaml).unwrap();
    let env = |name: &str| name.ends_with("TOKEN").then(|| "tok-12345678".to_owned());
    let surroundings =
        Surroundings { base_dir: std::path::Path::new("/"), env: &env, forbidden: &[], own: &[] };
    config.check(&surroundings).map_err(|all| all.iter().map(ToString::to_string).collect())
}

fn tool(fetch: &str, more: &str) -> String {
    format!("- name: web\n  description: d\n  kind: fetch\n  fetch: {{{fetch}}}\n{more}")
}

#[test]
fn the_example_loads_and_what_it_leaves_out_has_its_defaults() {
    let all = load(include_str!("../../../examples/fetch/tools.yaml")).unwrap();
    let Kind::Fetch(first) = &all[0].kind else { panic!("a fetch") };
    assert_eq!((first.schemes.as_slice(), first.ports.len()), (["https"].as_slice(), 0));
    assert_eq!(first.methods, METHODS);
    let denied = |url: &str| {
        let denials = first.denials(&WebUrl::parse(url).unwrap());
        denials.iter().map(|denied| denied.detail).collect::<Vec<_>>()
    };
    assert_eq!(denied("https://docs.example.com/x"), [""; 0]);
    assert_eq!(denied("https://a.b.cdn.example.com/x"), [""; 0]);
    assert_eq!(denied("http://example.com:8080/"), ["fetch.host", "fetch.scheme", "fetch.port"]);
    assert_eq!(denied("https://10.0.0.1/"), ["fetch.private_address"]);
}

#[test]
fn a_binding_that_opens_more_than_it_says_is_refused_with_its_line() {
    for (fetch, more, wanted) in [
        ("hosts: []", "", "tools[0].fetch.hosts: lists 1 to 256 hosts"),
        ("hosts: ['*.com']", "", "tools[0].fetch.hosts[0]: `*.com` is too broad"),
        ("hosts: [a.internal]", "", "tools[0].fetch.hosts[0]: leads inside"),
        ("hosts: [10.0.0.1]", "", "tools[0].fetch.hosts[0]: is not on the public Internet"),
        (
            "hosts: ['*.a.test'], private_addresses: [10.0.0.0/8]",
            "",
            "tools[0].fetch.hosts[0]: a wildcard and `private_addresses`",
        ),
        (
            "hosts: [a.test], private_addresses: [169.254.0.0/16]",
            "",
            "tools[0].fetch.private_addresses[0]: `169.254.0.0/16` holds the metadata service",
        ),
        ("hosts: [a.test], schemes: [ftp]", "", "tools[0].fetch.schemes[0]: `ftp` is not one of"),
        ("hosts: [a.test], methods: [POST]", "", "tools[0].fetch.methods[0]: `POST` is not one of"),
        ("hosts: [a.test], ports: [0]", "", "tools[0].fetch.ports: "),
        (
            "hosts: [a.test], headers_allowed: [Authorization]",
            "",
            "tools[0].fetch.headers_allowed[0]: `Authorization` is the gate's own",
        ),
        (
            "hosts: [a.test]",
            "  credentials: [{header: x-token, env: TOKEN}]\n",
            "tools[0].credentials[0].origin: a `fetch` sends a credential to one origin",
        ),
        (
            "hosts: [a.test]",
            "  credentials: [{header: x-token, env: TOKEN, origin: 'https://b.test'}]\n",
            "tools[0].credentials[0].origin: is no origin of this tool",
        ),
        (
            "hosts: [a.test], schemes: [http]",
            "  credentials: [{header: x-token, env: TOKEN, origin: 'http://a.test'}]\n",
            "tools[0].credentials[0].origin: credentials travel in clear only",
        ),
        (
            "hosts: [a.test], headers_allowed: [x-token]",
            "  credentials: [{header: x-token, env: TOKEN, origin: 'https://a.test'}]\n",
            "tools[0].credentials[0].header: `x-token` may be set by the agent",
        ),
        ("hosts: [a.test]", "  http: {method: GET, url: 'https://a.test/'}\n", "tools[0].http: "),
    ] {
        let error = load(&tool(fetch, more)).unwrap_err();
        assert!(error.iter().any(|line| line.starts_with(wanted)), "{fetch}: {error:?}");
    }
    assert!(load(&tool("hosts: [wiki.internal], private_addresses: [10.1.0.0/16]", "")).is_ok());
}
