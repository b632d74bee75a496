//! Servers from their configuration: their programs and variables, the facts a lock pins, the
//! errors.

use super::config::Config;
use super::*;
use crate::command::Level;
use crate::secret::tests as private;
use crate::{ConfigError, Surroundings};

fn env(name: &str) -> Option<String> {
    let all = [
        ("PATH", "/bin"),
        ("HOME", "/home/x"),
        ("LD_PRELOAD", "/evil.so"),
        ("AWS_SECRET_ACCESS_KEY", "gate's own"),
        ("TOKEN", "tok-12345678"),
    ];
    all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

fn check(yaml: &str) -> Result<Vec<Arc<Server>>, Vec<ConfigError>> {
    let dir = tempfile::tempdir().unwrap();
    private::write(&dir.path().join("secret"), "file-secret\n");
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    let config: Config = serde_saphyr::from_str(yaml).unwrap();
    config.check(&Surroundings { base_dir: dir.path(), env: &env, forbidden: &[], own: &[] })
}

fn one(yaml: &str) -> Arc<Server> {
    check(yaml).unwrap_or_else(|e| panic!("{e:?}")).remove(0)
}

fn stdio(server: &Server) -> &Stdio {
    let Transport::Stdio(stdio) = &server.transport else { panic!("not stdio") };
    stdio
}

const PROGRAM: &str = "- name: git
  tier: T1
  timeout_ms: 5000
  stdio:
    command: ./server
    args: [--repo, .]
    env: {MODE: fast, HOME: /elsewhere}
    credentials: [{env: API_KEY, from_env: TOKEN}, {env: OTHER, file: secret}]
    cwd: sub
  tools: {log: {tier: T0, read_only: true}, resources/read: {tier: T2, timeout_ms: 7}}
";

const REMOTE: &str = "- name: web
  http:
    url: 'https://mcp.test:8443/mcp?project=x'
    headers: {x-team: a}
    credentials: [{header: Authorization, prefix: 'Bearer ', env: TOKEN}]
";

#[test]
fn a_program_gets_a_few_variables_of_the_gate_and_what_is_configured_and_nothing_else() {
    let server = one(PROGRAM);
    let stdio = stdio(&server);
    let expected = [("HOME", "/elsewhere"), ("MODE", "fast"), ("PATH", "/bin")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(stdio.env, expected);
    let secrets: Vec<_> =
        stdio.secrets.iter().map(|(n, s, r)| format!("{n} {} {r}", &*s.expose())).collect();
    assert_eq!(secrets, ["API_KEY tok-12345678 env:TOKEN", "OTHER file-secret file:secret"]);
    assert!(stdio.program.starts_with('/') && stdio.program.ends_with("/server"));
    assert!(stdio.cwd.is_absolute() && stdio.cwd.ends_with("sub"));
    assert_eq!(server.secrets().len(), 2);
    assert_eq!((server.tier, server.timeout), (Some(Tier::T1), Duration::from_secs(5)));
    assert_eq!(server.tools["log"].tier, Some(Tier::T0));
    assert_eq!(server.tools["resources/read"].timeout, Some(Duration::from_millis(7)));
    let bare = one("- {name: a, stdio: {command: npx}}");
    let Transport::Stdio(bare) = &bare.transport else { panic!("not stdio") };
    assert_eq!(bare.program, "npx");
}

#[test]
fn a_remote_keeps_its_query_and_its_credential() {
    let server = one(REMOTE);
    let Transport::Http(remote) = &server.transport else { panic!("not http") };
    assert_eq!((remote.origin.authority().as_str(), remote.origin.tls), ("mcp.test:8443", true));
    assert_eq!(remote.target, "/mcp?project=x");
    assert_eq!(remote.credentials[0].reference, "env:TOKEN");
    assert_eq!((server.timeout, server.result_bytes_max), (Duration::from_secs(30), 1 << 20));
}

#[test]
fn the_binding_moves_with_how_it_is_reached_and_with_nothing_else() {
    let binding = |yaml: &str| one(yaml).binding;
    for (whole, from, to) in [
        (PROGRAM, "./server", "./server2"),
        (PROGRAM, "[--repo, .]", "[--repo, /]"),
        (PROGRAM, "MODE: fast", "MODE: slow"),
        (PROGRAM, "MODE: fast, ", ""),
        (PROGRAM, "from_env: TOKEN", "from_env: AWS_SECRET_ACCESS_KEY"),
        (PROGRAM, "cwd: sub", "cwd: ."),
        (PROGRAM, "cwd: sub", "cwd: sub\n    sandbox: {level: S1, read: [sub]}"),
        (REMOTE, "8443", "8444"),
        (REMOTE, "project=x", "project=y"),
        (REMOTE, "x-team: a", "x-team: b"),
        (REMOTE, "'Bearer '", "'Basic '"),
        (REMOTE, "    headers", "    private_addresses: [10.0.0.0/8]\n    headers"),
    ] {
        assert!(whole.contains(from), "{from}");
        assert_ne!(binding(whole), binding(&whole.replacen(from, to, 1)), "{from} -> {to}");
    }
    // An explicit `level: none` changes nothing.
    let (plain, sandboxed) = ("cwd: sub", "cwd: sub\n    sandbox: {level: none}");
    for (from, to) in
        [(plain, sandboxed), ("tier: T1", "tier: T2"), ("name: git", "name: got"), ("5000", "6000")]
    {
        assert_eq!(binding(PROGRAM), binding(&PROGRAM.replacen(from, to, 1)), "{from} -> {to}");
    }
}

const BOXED: &str = "- name: git
  stdio:
    command: ./server
    env: {MODE: fast}
    credentials: [{env: API_KEY, from_env: TOKEN}]
    sandbox: {level: S1, read: [sub], write: [secret], network: host}
";

#[test]
fn a_program_in_a_sandbox_gets_what_is_written_and_nothing_of_the_gates() {
    let server = one(BOXED);
    let stdio = stdio(&server);
    assert_eq!(stdio.env, [("MODE".to_owned(), "fast".to_owned())]);
    assert_eq!(stdio.path.as_deref(), Some("/bin"), "where it is looked for");
    let sandbox = stdio.isolation.sandbox().unwrap();
    assert!(sandbox.read[0].ends_with("sub") && sandbox.write[0].ends_with("secret"));
    assert_eq!(stdio.cwd, sandbox.read[0], "the first directory among what it is given");
    assert!(sandbox.network == Network::Host && sandbox.programs.is_empty());
    assert_eq!((sandbox.limits.memory_bytes, sandbox.limits.pids), (1 << 30, 128));
    assert_eq!(
        (server.demand().map(|demand| demand.level), server.isolation()),
        (Some(Level::S1), Some("S1"))
    );
    let binding = |yaml: &str| one(yaml).binding;
    for (from, to) in [
        ("S1", "S2"),
        ("read: [sub]", "read: [secret]"),
        ("write: [secret]", "write: [sub]"),
        ("host", "none"),
        ("host}", "host, pids: 9}"),
    ] {
        assert_ne!(binding(BOXED), binding(&BOXED.replacen(from, to, 1)), "{from} -> {to}");
    }
    for (from, to, why) in [
        ("S1", "none", "sandbox.read: means nothing"),
        ("S1", "S0", "sandbox.level: `S0`"),
        ("host", "some", "sandbox.network: `some`"),
        ("read: [sub]", "read: [gone]", "sandbox.read[0]: cannot open"),
        ("host}", "host, pids: 0}", "sandbox.pids: is 1 to"),
        ("host}", "host, memory_bytes: 1}", "sandbox.memory_bytes: is "),
        ("host}", "host, programs: [/bin/true]}", "sandbox.programs: processes of its own"),
        ("    sandbox", "    cwd: /usr\n    sandbox", "stdio.cwd: is neither below"),
    ] {
        let errors = check(&BOXED.replacen(from, to, 1)).unwrap_err();
        let problems = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(
            problems.contains(&format!("servers[0].stdio.{}", why.trim_start_matches("stdio."))),
            "{to}: {problems}"
        );
    }
}

#[test]
fn no_secret_shows_in_what_is_printed() {
    let printed = format!("{:?} {:?}", one(PROGRAM), one(REMOTE));
    assert!(!printed.contains("tok-1234") && !printed.contains("file-secret"), "{printed}");
}

#[test]
fn all_errors_in_servers_are_reported_at_once_with_their_keys() {
    let yaml = "
- {name: 'a.b', stdio: {command: ''}, tier: T9, timeout_ms: 0, result_bytes_max: 99999999}
- {name: a, stdio: {command: x}, http: {url: 'https://a.test/'}}
- {name: a}
- name: c
  stdio:
    command: x
    env: {'1A': x, B: y}
    credentials: [{env: B, from_env: TOKEN}, {env: C}, {env: D, from_env: NONE}, {env: E, value: s3cret}]
    cwd: nowhere
  tools: {'a/b': {}, log: {tier: T7, timeout_ms: 0}}
- name: d
  http:
    url: 'http://127.0.0.1:1/mcp'
    headers: {authorization: x, mcp-session-id: y, Accept: z}
    credentials: [{header: Origin, env: TOKEN}]
- {name: e, http: {url: 'https://{host}/mcp'}}
- {name: f, http: {url: 'https://a.test/{x}'}}
- {name: g, http: {url: 'https://u:p@a.test/'}}
";
    let found: Vec<String> = check(yaml).unwrap_err().iter().map(ToString::to_string).collect();
    let all = found.join("\n");
    for wanted in [
        "servers[0].name: `a.b` is not [a-z0-9_-]{1,32}",
        "servers[0].stdio.command: ",
        "servers[0].tier: ",
        "servers[0].timeout_ms: ",
        "servers[0].result_bytes_max: ",
        "servers[1]: give one of `stdio` and `http`",
        "servers[2].name: `a` occurs twice",
        "servers[2]: give one of",
        "servers[3].stdio.env.1A: ",
        "servers[3].stdio.credentials[0].env: `B` is set twice",
        "servers[3].stdio.credentials[1]: give one of `file` and `from_env`",
        "servers[3].stdio.credentials[2].from_env: `NONE` is not set",
        "servers[3].stdio.credentials[3].value: ",
        "servers[3].stdio.cwd: cannot open",
        "servers[3].tools.a/b: ",
        "servers[3].tools.log.tier: ",
        "servers[3].tools.log.timeout_ms: ",
        "servers[4].http.url: `127.0.0.1` is not on the public Internet",
        "servers[4].http.headers.authorization: a secret is given under",
        "servers[4].http.headers.mcp-session-id: `mcp-session-id` is written by the gate itself",
        "servers[4].http.headers.accept: ",
        "servers[4].http.credentials[0].header: ",
        "servers[5].http.url: ",
        "servers[6].http.url: the url of a server is literal",
        "servers[7].http.url: ",
    ] {
        assert!(all.contains(wanted), "{wanted} is not in\n{all}");
    }
    assert!(!all.contains("s3cret"));
}

#[test]
fn a_method_is_governed_by_a_name_without_slashes_and_nothing_else_with_one_is() {
    let name = |own| governed("git", own).map(|name| name.to_string());
    assert_eq!(name("log").unwrap(), "git.log");
    assert_eq!(name("resources/templates/list").unwrap(), "git.resources.templates.list");
    for own in ["", "tools/call", "a/b", "a b", &"x".repeat(125)] {
        assert_eq!(name(own), None, "{own}");
    }
    assert!(governed("a.b", "c").is_none() && governed("", "c").is_none());
}

#[test]
fn a_server_has_not_the_name_of_tools_that_agents_run() {
    let why = check(&REMOTE.replace("name: web", "name: client")).unwrap_err();
    assert_eq!(why[0].path, "servers[0].name");
    assert!(why[0].message.contains("tools that agents run themselves"), "{}", why[0]);
    assert_eq!(one(&REMOTE.replace("name: web", "name: clients")).name, "clients");
}
