//! `wicketgate check`, before a gate runs.

use serde_json::Value;

use crate::folder::Folder;

const SMALL: &str = "trust: {manifest_keys: [k.pub]}
agents:
- manifest: agent.yaml
  callers: [{uid: 1000}]
operator: {listen: '127.0.0.1:0'}
";

fn folder(text: &str) -> Folder {
    let folder = Folder::with_manifest();
    folder.write("wicketgate.yaml", text);
    folder
}

/// The outcomes of one section, each with its text.
fn section(list: &Value, name: &str) -> Vec<(String, String)> {
    let sections = list["sections"].as_array().unwrap();
    let of = sections.iter().find(|section| section["section"] == name);
    let checks = of.unwrap_or_else(|| panic!("no section `{name}` in {list}"))["checks"].as_array();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    checks.unwrap().iter().map(|one| (text(&one["outcome"]), text(&one["text"]))).collect()
}

#[test]
fn before_a_gate_runs_everything_it_needs_is_one_list() {
    let folder = folder(SMALL);
    let said = folder.run(&["check", "--pre"]).ends(0);
    for line in [
        "configuration\n  √ `wicketgate.yaml` can be read",
        "agents\n  √ agent `",
        "state\n  √ ",
        "listeners\n  √ operator.listen: ",
        " passed",
    ] {
        assert!(said.out.contains(line), "`{line}` is not in {}", said.out);
    }
    let list = folder.run(&["check", "--pre", "--json"]).ends(0).json();
    assert_eq!((&list["ok"], &list["exit"]), (&Value::from(true), &Value::from("ok")));
    let (outcome, text) = &section(&list, "agents")[0];
    assert_eq!(outcome, "passed");
    assert!(text.contains("signed by 1 trusted key"), "{text}");
    let policy = section(&list, "policy");
    assert_eq!(policy[0].0, "warned", "a gate without a bundle starts and denies: {policy:?}");
}

#[test]
fn without_a_gate_the_check_of_a_running_one_is_unknown_and_says_how_to_go_on() {
    let folder = folder(SMALL);
    let said = folder.run(&["check"]).ends(2);
    assert!(said.out.contains("gate\n  ? "), "{}", said.out);
    assert!(said.out.contains("do: start it with `wicketgate serve`"), "{}", said.out);
    assert!(!said.out.contains("listeners"), "{}", said.out);
}

#[test]
fn every_wrong_part_is_named_in_its_own_section_and_the_exit_code_is_78() {
    let broken = folder(SMALL);
    broken.run(&["config", "keygen", "--out", "other"]).ends(0);
    broken.run(&["manifest", "sign", "agent.yaml", "--key", "other", "--out", "x.sig"]);
    broken.edit("wicketgate.yaml", "k.pub", "other.pub");
    let list = broken.run(&["check", "--pre", "--json"]).ends(78).json();
    assert_eq!(section(&list, "agents")[0].0, "failed", "{list}");
    assert_eq!(section(&list, "configuration")[0].0, "passed", "{list}");
    let upstreams = &section(&list, "upstreams")[0];
    assert_eq!(upstreams.0, "skipped", "{upstreams:?}");

    let unreadable = folder("agents: [\n");
    let said = unreadable.run(&["check"]).ends(78);
    assert!(said.out.contains("configuration\n  × wicketgate.yaml:"), "{}", said.out);
    assert!(!said.out.contains("ledger"), "nothing else can be checked: {}", said.out);
}

#[test]
fn a_port_in_use_and_a_state_directory_of_others_fail_with_what_to_do() {
    use std::os::unix::fs::PermissionsExt as _;
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let folder = folder(SMALL);
    let address = taken.local_addr().unwrap().to_string();
    folder.edit("wicketgate.yaml", "127.0.0.1:0", &address);
    std::fs::create_dir(folder.path("state")).unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path("state"), open).unwrap();
    folder.edit("wicketgate.yaml", "agents:", "state: state\nagents:");
    let list = folder.run(&["check", "--pre", "--json"]).ends(1).json();
    let (outcome, text) = &section(&list, "listeners")[0];
    assert_eq!(outcome, "failed");
    assert!(text.contains(&address), "{text}");
    let state = section(&list, "state");
    assert!(state[0].1.contains("0755") && state[0].0 == "failed", "{state:?}");
    let said = folder.run(&["check", "--pre"]).ends(1);
    assert!(said.out.contains("do: chmod 0700 "), "{}", said.out);
    assert!(said.out.contains("2 failed"), "{}", said.out);
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let folder = folder(SMALL);
    folder.run(&["check", "--pre", "--as-agent"]).ends(64);
    folder.run(&["check", "--offline", "--as-agent"]).ends(64);
}

/// Values of the chart with this configuration, and the arguments that put the folder's other files there.
fn chart(folder: &Folder, config: &str, more: &str) -> Vec<String> {
    let text = config.replace('\n', "\n      ");
    let values = format!("gate:\n  files:\n    wicketgate.yaml: |\n      {text}\n{more}");
    folder.write("values.yaml", &values);
    let files = ["agent.yaml", "agent.yaml.sig.json", "k.pub"].map(|file| {
        let key = file.replace('.', "\\.");
        ["--set-file".to_owned(), format!("gate.files.keys/{key}={file}")]
    });
    let first = ["check", "--chart", "values.yaml"].map(str::to_owned);
    first.into_iter().chain(files.into_iter().flatten()).collect()
}

const MOUNTED: &str = "trust: {manifest_keys: [/etc/wicketgate/keys/k.pub]}
agents:
- manifest: keys/agent.yaml
  callers: [{uid: 10001}]
tools:
- {name: repo.read, description: Reads, kind: file.read, tier: T0, read_only: true, file: {root: /etc/wicketgate/keys, name: keys}}
";

#[test]
fn the_files_in_values_of_the_chart_are_checked_as_the_container_reads_them() {
    let folder = Folder::with_manifest();
    let args = chart(&folder, MOUNTED, "");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = folder.run(&args).ends(0);
    assert!(said.out.contains("`/etc/wicketgate/wicketgate.yaml` can be read"), "{}", said.out);
    assert!(said.out.contains("agents\n  √ agent `example-agent`"), "{}", said.out);
    assert!(said.out.contains("tools\n  √ "), "{}", said.out);
    assert!(!said.out.contains("wicketgate-check-"), "no path of this machine: {}", said.out);

    folder.edit("values.yaml", "keys/k.pub]", "keys/other.pub]");
    let list = folder.run(&[&args[..], &["--json"]].concat()).ends(78).json();
    let (outcome, text) = &section(&list, "configuration")[0];
    assert_eq!(outcome, "failed", "{list}");
    assert!(text.contains("/etc/wicketgate/keys/other.pub"), "{text}");
}

#[test]
fn what_only_the_cluster_mounts_is_skipped_and_what_the_chart_sets_counts() {
    let folder = Folder::with_manifest();
    let tool = "- {name: api.get, description: Gets, kind: http, tier: T1, read_only: true, input_schema: {type: object}, http: {method: GET, url: 'https://api.test/x'}, credentials: [{file: /run/secrets/wicketgate/token, header: Authorization}]}\n- {name: api.put, description: Puts, kind: http, tier: T1, input_schema: {type: object}, http: {method: POST, url: 'https://api.test/y', body: args}, credentials: [{env: API_KEY, header: Authorization}]}\n";
    let more = "  env: [{name: WICKETGATE__LIMITS__HOLD_SECONDS, value: '0'}, {name: API_KEY, valueFrom: {}}]\n";
    let args = chart(&folder, &format!("{MOUNTED}{tool}"), more);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = folder.run(&args).ends(78);
    assert!(said.out.contains("WICKETGATE__LIMITS__HOLD_SECONDS"), "{}", said.out);

    folder.edit("values.yaml", "HOLD_SECONDS, value: '0'", "HOLD_SECONDS, value: '5'");
    let said = folder.run(&args).ends(0);
    for part in ["/run/secrets/wicketgate/token", "API_KEY"] {
        let line = said.out.lines().find(|line| line.contains(part)).unwrap_or_default();
        assert!(line.starts_with("  - not checked here, it is the cluster's: "), "{}", said.out);
    }

    // What cannot be read without a Secret leaves the rest unknown.
    let said = Folder::with_manifest();
    let operators = "operators: [{subject: ada@example.com, roles: [operator], token_file: /run/secrets/wicketgate/ada.token}]\n";
    let args_of = chart(&said, &format!("{MOUNTED}{operators}"), "");
    let list = said.run(&args_of.iter().map(String::as_str).chain(["--json"]).collect::<Vec<_>>());
    let list = list.ends(2).json();
    let sections = ["configuration", "cluster"].map(|name| section(&list, name)[0].0.clone());
    assert_eq!(sections, ["skipped", "unknown"], "{list}");

    // Nothing of the chart gives it: that is a mistake in the values.
    folder.edit("values.yaml", "name: API_KEY", "name: OTHER_KEY");
    folder.run(&args).ends(78);
}

#[test]
fn a_container_below_a_directory_is_checked_and_values_that_are_none_are_named() {
    let folder = Folder::with_manifest();
    // Longer than a socket's path may be: the container has other paths.
    let root = &format!("image-{}", "x".repeat(107));
    let config = &format!("{root}/etc/wicketgate/wicketgate.yaml");
    std::fs::create_dir_all(folder.path(&format!("{root}/etc/wicketgate/keys"))).unwrap();
    for file in ["agent.yaml", "agent.yaml.sig.json", "k.pub"] {
        folder.write(&format!("{root}/etc/wicketgate/keys/{file}"), folder.read(file));
    }
    folder.write(config, MOUNTED);
    let check = ["check", "--root", root, "--config", config];
    let said = folder.run(&check).ends(0);
    assert!(said.out.contains("√ agent `example-agent`"), "{}", said.out);
    let longest = format!("/{}", "s".repeat(106));
    folder.write(config, format!("listen: {{socket: {longest}}}\n{MOUNTED}"));
    folder.run(&check).ends(0);
    folder.edit(config, &longest, &format!("{longest}s"));
    let said = folder.run(&check).ends(78);
    assert!(said.out.contains("listen.socket: the socket path has 108 bytes"), "{}", said.out);
    folder.write(config, MOUNTED);
    folder.edit(config, "keys/agent.yaml", "keys/other.yaml");
    let said = folder.run(&check).ends(78);
    assert!(said.out.contains("`/etc/wicketgate/keys/other.yaml`"), "{}", said.out);

    folder.write("values.yaml", "gate: {files: {agent.yaml: x}}\n");
    let said = folder.run(&["check", "--chart", "values.yaml"]).ends(78);
    assert!(said.err.contains("--set-file gate.files.wicketgate"), "{}", said.err);
    folder.write("values.yaml", "gate: {files: {wicketgate.yaml: '{}', ../x: ''}}\n");
    let said = folder.run(&["check", "--chart", "values.yaml"]).ends(78);
    assert!(said.err.contains("`gate.files.../x`"), "{}", said.err);
    let said = folder.run(&["check", "--set-file", "gate.files"]).ends(78);
    assert!(said.err.contains("expected KEY=FILE"), "{}", said.err);
}
