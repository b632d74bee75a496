use super::*;
use crate::secret::tests as private;

fn check_in(
    dir: &Path,
    forbidden: &[PathBuf],
    yaml: &str,
) -> Result<Vec<Binding>, Vec<ConfigError>> {
    let config: Config = serde_saphyr::from_str(yaml).unwrap();
    let env = |name: &str| (name == "TOKEN").then(|| "tok-12345678".to_owned());
    config.check(&Surroundings { base_dir: dir, env: &env, forbidden, own: &[] })
}

fn errors(yaml: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    check_in(dir.path(), &[], yaml).unwrap_err().iter().map(ToString::to_string).collect()
}

fn http(url: &str, more: &str) -> String {
    format!(
        "- name: orders.get\n  description: one order\n  kind: http\n  tier: T0\n  read_only: true\n  \
         input_schema: {{type: object, required: [id], properties: {{id: {{type: string}}}}}}\n  \
         http: {{method: GET, url: \"{url}\"}}\n{more}"
    )
}

fn definition(yaml: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    check_in(dir.path(), &[], yaml).unwrap()[0].definition.hex()
}

#[test]
fn a_good_binding_has_its_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = http("https://api.test/v1/orders/{id}", "").replace("  tier: T0\n", "");
    let binding = check_in(dir.path(), &[], &yaml).unwrap().remove(0);
    assert_eq!(binding.tier, Tier::T3);
    assert_eq!(binding.timeout, Duration::from_secs(30));
    assert_eq!(binding.result_bytes_max, 1 << 20);
    assert!(matches!(binding.kind, Kind::Http(_)));
}

#[test]
fn all_errors_in_tools_are_reported_at_once() {
    let found = errors(
        "- name: 'bad name'\n  description: ''\n  kind: smtp\n  tier: T9\n  timeout_ms: 0\n  \
         result_bytes_max: 9999999999\n- name: a\n  description: d\n  kind: http\n- name: a\n  \
         description: d\n  kind: file.read\n",
    );
    let all = found.join("\n");
    for wanted in [
        "tools[0].name: ",
        "tools[0].description: ",
        "tools[0].kind: `smtp` is not one of `http`, `fetch`, `file.read`",
        "tools[0].tier: ",
        "tools[0].timeout_ms: ",
        "tools[0].result_bytes_max: ",
        "tools[0].input_schema: is missing",
        "tools[1].http: ",
        "tools[2].name: `a` is bound twice",
        "tools[2].file: ",
    ] {
        assert!(all.contains(wanted), "{wanted} is not in\n{all}");
    }
}

#[test]
fn a_secret_written_into_the_configuration_is_refused() {
    let inline = http(
        "https://api.test/{id}",
        "  credentials: [{header: authorization, value: tok-12345678}]\n",
    );
    assert!(errors(&inline).iter().any(|e| e.contains("never inline")), "{:?}", errors(&inline));
    let header = http("https://api.test/{id}", "")
        .replace("method: GET,", "method: GET, headers: {Authorization: Bearer x},");
    assert!(errors(&header)[0].contains("never inline"));
    let unset =
        http("https://api.test/{id}", "  credentials: [{header: authorization, env: NOPE}]\n");
    assert_eq!(errors(&unset), ["tools[0].credentials[0].env: `NOPE` is not set"]);
}

#[test]
fn private_hosts_and_clear_text_credentials_need_private_addresses() {
    for url in [
        "http://127.0.0.1/{id}",
        "https://[::1]/{id}",
        "https://localhost/{id}",
        "https://db.internal/{id}",
        "https://169.254.169.254/{id}",
        "https://[::ffff:1.2.3.4]/{id}",
    ] {
        assert!(errors(&http(url, ""))[0].contains("private_addresses"), "{url}");
    }
    let open = "method: GET, private_addresses: [127.0.0.1/32],";
    let dir = tempfile::tempdir().unwrap();
    let yaml = http("http://127.0.0.1:8080/{id}", "").replace("method: GET,", open);
    assert!(check_in(dir.path(), &[], &yaml).is_ok());
    let other = http("http://127.0.0.2/{id}", "").replace("method: GET,", open);
    assert!(check_in(dir.path(), &[], &other).is_err());
    let clear =
        http("http://api.test/{id}", "  credentials: [{header: authorization, env: TOKEN}]\n");
    assert!(errors(&clear)[0].contains("in clear"));
}

#[test]
fn places_must_name_arguments_and_headers_of_the_gate_stay_its_own() {
    assert!(errors(&http("https://api.test/{idd}", ""))[0].contains("no argument of the schema"));
    let optional = http("https://api.test/{id}", "").replace("required: [id], ", "");
    assert!(errors(&optional)[0].contains("must require it"));
    for header in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "Proxy-Authorization",
        "X-Wicketgate-Call",
    ] {
        let yaml = http("https://api.test/{id}", "")
            .replace("method: GET,", &format!("method: GET, headers: {{{header}: x}},"));
        assert!(check_in(Path::new("/"), &[], &yaml).is_err(), "{header}");
    }
    let post = http("https://api.test/{id}", "").replace("method: GET", "method: POST");
    assert!(errors(&post)[0].starts_with("tools[0].http.body: say what"));
    let connect = http("https://api.test/{id}", "").replace("method: GET", "method: CONNECT");
    assert!(errors(&connect)[0].starts_with("tools[0].http.method"));
}

#[test]
fn a_root_over_the_sidecars_own_files_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("state/sub")).unwrap();
    std::fs::create_dir_all(dir.path().join("work")).unwrap();
    private::write(&dir.path().join("work/token"), "tok-12345678");
    let state = [dir.path().join("state")];
    let yaml = |root: &str| {
        format!("- {{name: f, description: d, kind: file.read, file: {{root: {root}, name: r}}}}\n")
    };
    for root in ["state", "state/sub", ".", "/", "/proc/self", "/sys", "missing", "work/token"] {
        assert!(check_in(dir.path(), &state, &yaml(root)).is_err(), "{root}");
    }
    assert!(check_in(dir.path(), &state, &yaml("work")).is_ok());
    let with_secret = format!(
        "{}{}",
        yaml("work"),
        http(
            "https://api.test/{id}",
            "  credentials: [{header: authorization, file: work/token}]\n"
        )
    );
    let found = check_in(dir.path(), &state, &with_secret).unwrap_err();
    assert!(found[0].message.contains("holds a credential"), "{found:?}");
}

#[test]
fn the_definition_digest_moves_with_everything_but_the_secret() {
    let base = http("https://api.test/v1/{id}", "");
    let changed = [
        http("https://api2.test/v1/{id}", ""),
        http("https://api.test/v2/{id}", ""),
        base.replace("one order", "one  order"),
        base.replace("tier: T0", "tier: T1"),
        base.replace("method: GET", "method: DELETE"),
        base.replace("read_only: true", "read_only: false"),
        base.replace("{type: string}", "{type: string, maxLength: 3}"),
        format!("{base}  timeout_ms: 5\n"),
        format!("{base}  credentials: [{{header: authorization, env: TOKEN}}]\n"),
        format!("{base}  credentials: [{{header: x-token, env: TOKEN}}]\n"),
        base.replace("method: GET,", "method: GET, private_addresses: [10.0.0.0/8],"),
    ];
    let mut seen = BTreeSet::from([definition(&base)]);
    for yaml in changed {
        assert!(seen.insert(definition(&yaml)), "{yaml}");
    }
    let dir = tempfile::tempdir().unwrap();
    let yaml = format!("{base}  credentials: [{{header: authorization, file: t}}]\n");
    let digest = |secret: &str| {
        private::write(&dir.path().join("t"), secret);
        check_in(dir.path(), &[], &yaml).unwrap()[0].definition
    };
    assert_eq!(digest("tok-12345678"), digest("tok-rotated-9"));
}

#[test]
fn a_name_of_tools_that_agents_run_is_refused() {
    let named = |name: &str| http("https://api.test/{id}", "").replace("orders.get", name);
    for name in ["client.Bash", "client.", "client.a.b"] {
        let found = errors(&named(name));
        assert!(
            found.join("\n").contains("tools[0].name: names that begin with `client.`"),
            "{name}"
        );
    }
    for name in ["client", "clients.get", "Client.get", "a.client.b"] {
        definition(&named(name));
    }
}
