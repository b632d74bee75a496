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
