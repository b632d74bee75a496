use std::path::Path;

use super::argv::{Element, choose, fill, parse};
use super::inspect;
use crate::domain::json::{Json, Limits};
use crate::{Config, ConfigError, Surroundings};

fn template(yaml: &str) -> Vec<Element> {
    let written: Vec<serde_json::Value> = serde_saphyr::from_str(yaml).unwrap();
    written.iter().map(|element| parse(element).unwrap()).collect()
}

fn filled(yaml: &str, args: &str) -> Result<Vec<String>, super::argv::ArgumentMismatch> {
    fill(&template(yaml), &Json::parse(args.as_bytes(), &Limits::ARGUMENTS).unwrap())
}

fn errors(command: &str, more: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    checked(dir.path(), command, more).unwrap_err().iter().map(ToString::to_string).collect()
}

fn checked(dir: &Path, command: &str, more: &str) -> Result<String, Vec<ConfigError>> {
    let yaml = format!(
        "- name: t\n  description: d\n  kind: command\n  input_schema: {{type: object, properties: \
         {{a: {{type: string}}, b: {{type: boolean}}}}}}\n  command: {command}\n{more}"
    );
    let config: Config = serde_saphyr::from_str(&yaml).unwrap();
    let surroundings = Surroundings { base_dir: dir, env: &|_| None, forbidden: &[], own: &[] };
    config.check(&surroundings).map(|all| all.first().unwrap().definition.hex())
}

#[test]
fn a_value_is_one_item_and_never_two() {
    let argv = filled("['-n', '--', {arg: a}]", r#"{"a":"x; touch /y $(id) `id` | 'z' \"w\""}"#);
    assert_eq!(argv.unwrap(), ["-n", "--", "x; touch /y $(id) `id` | 'z' \"w\""]);
    let list = filled("[{arg: a}]", r#"{"a":["one two","three"]}"#);
    assert_eq!(list.unwrap(), ["one two", "three"]);
}

#[test]
fn a_value_cannot_become_an_option() {
    assert!(
        filled("[{arg: a}]", r#"{"a":"-exec"}"#)
            .unwrap_err()
            .to_string()
            .contains("`a` begins with `-`")
    );
    assert!(filled("[{arg: a}, '--']", r#"{"a":"--x"}"#).is_err());
    assert!(filled("[{arg: a}]", r#"{"a":["x","-y"]}"#).is_err());
    assert!(filled("[{arg: a}]", r#"{"a":-5}"#).is_err());
    assert_eq!(filled("['--', {arg: a}]", r#"{"a":"-exec"}"#).unwrap(), ["--", "-exec"]);
    assert_eq!(filled("[{arg: a, prefix: '-m'}]", r#"{"a":"-5"}"#).unwrap(), ["-m-5"]);
    let argv = filled("[{arg: a, may_start_with_dash: true}]", r#"{"a":"-exec"}"#);
    assert_eq!(argv.unwrap(), ["-exec"]);
    // A value `--` does not end the options: only the operator's `--` does.
    assert!(
        filled("[{arg: a, may_start_with_dash: true}, {arg: b}]", r#"{"a":"--","b":"-x"}"#)
            .is_err()
    );
}

#[test]
fn a_path_stays_below_and_holds_nothing_odd() {
    for value in ["/etc/passwd", "../x", "a/../../x", "~/x", "@args", "", "a\\nb"] {
        let args = format!(r#"{{"a":"{value}"}}"#);
        assert!(filled("['--', {arg: a, as: path}]", &args).is_err(), "{value}");
    }
    assert_eq!(filled("[{arg: a, as: path}]", r#"{"a":"src/a..b.rs"}"#).unwrap(), ["src/a..b.rs"]);
    for escape in ["\\u0000", "\\u001b[2J", "\\u0085"] {
        assert!(filled("[{arg: a}]", &format!(r#"{{"a":"x{escape}"}}"#)).is_err(), "{escape}");
    }
}

#[test]
fn flags_numbers_and_what_is_absent() {
    let yaml = "[{flag: '-i', when: b}, {arg: max, prefix: '-m'}, '--', {arg: a}]";
    assert_eq!(filled(yaml, r#"{"a":"x","b":true,"max":3}"#).unwrap(), ["-i", "-m3", "--", "x"]);
    assert_eq!(filled(yaml, r#"{"a":"x","b":false}"#).unwrap(), ["--", "x"]);
    assert!(filled(yaml, r#"{"a":"x","b":"true"}"#).is_err());
    assert!(filled(yaml, r#"{"a":{"x":1}}"#).is_err());
}

/// Forms as an agent's list chooses among them.
const FORMS: &str = "[['-m', unittest], ['-m', unittest, {arg: test}], ['-n', {arg: max, prefix: '-j'}], \
                     [show, '--', {arg: file, as: path}], [show, {arg: file, as: path}]]";

fn chosen(args: &str) -> Result<Vec<String>, String> {
    let written: Vec<Vec<serde_json::Value>> = serde_saphyr::from_str(FORMS).unwrap();
    let form = |form: &Vec<serde_json::Value>| form.iter().map(|one| parse(one).unwrap()).collect();
    let forms: Vec<Vec<Element>> = written.iter().map(form).collect();
    let args = Json::parse(args.as_bytes(), &Limits::ARGUMENTS).unwrap();
    choose(&forms, &args).map_err(|why| why.to_string())
}

#[test]
fn an_agents_own_list_has_one_of_the_forms_item_by_item() {
    for (argv, wanted) in [
        (r#"["-m","unittest"]"#, vec!["-m", "unittest"]),
        (r#"["-m","unittest","tests.test_sum"]"#, vec!["-m", "unittest", "tests.test_sum"]),
        (r#"["-n","-j4"]"#, vec!["-n", "-j4"]),
        (r#"["show","a/b.py"]"#, vec!["show", "a/b.py"]),
        (r#"["show","--","-b.py"]"#, vec!["show", "--", "-b.py"]),
    ] {
        assert_eq!(chosen(&format!(r#"{{"argv":{argv}}}"#)).unwrap(), wanted);
    }
}

#[test]
fn a_list_of_no_form_is_refused_with_the_forms_and_a_value_with_its_reason() {
    for argv in [
        "[]",
        r#"["-c","import os"]"#,
        r#"["-m","unittest","a","b"]"#,
        r#"["-m","http.server"]"#,
        r#"["-m","unittest",1]"#,
        r#"["-m unittest"]"#,
        r#"["-n","4"]"#,
        r#"["show","--","a","b"]"#,
    ] {
        let why = chosen(&format!(r#"{{"argv":{argv}}}"#)).unwrap_err();
        assert!(why.contains(r#"["-m","unittest","<test>"]"#), "{argv}: {why}");
    }
    for (argv, wanted) in [
        (r#"["-m","unittest","--locals"]"#, "`test` begins with `-`"),
        (r#"["show","../x"]"#, "`file` leaves the command's directory"),
        (r#"["show","--","/etc/passwd"]"#, "`file` is not a path below"),
        (r#"["-m","unittest",""]"#, "`test` is empty"),
    ] {
        let why = chosen(&format!(r#"{{"argv":{argv}}}"#)).unwrap_err();
        assert!(why.contains(wanted), "{argv}: {why}");
    }
    for args in ["{}", r#"{"argv":"-m unittest"}"#, r#"{"argv":null}"#] {
        assert!(chosen(args).unwrap_err().contains("not a list of texts"), "{args}");
    }
}

#[test]
fn a_command_with_forms_tells_the_model_which() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "- name: t\n  description: d\n  kind: command\n  command: {program: /bin/ls, forms: [['-l'], \
                ['-l', {arg: file, as: path}]], stdin: text}\n";
    let config: Config = serde_saphyr::from_str(yaml).unwrap();
    let surroundings =
        Surroundings { base_dir: dir.path(), env: &|_| None, forbidden: &[], own: &[] };
    let bindings = config.check(&surroundings).unwrap();
    let schema = String::from_utf8_lossy(bindings.first().unwrap().schema.canonical());
    assert!(schema.contains(r#"one of: [\"-l\"], [\"-l\",\"<file>\"]"#), "{schema}");
    assert!(schema.contains(r#""text""#), "{schema}");
}

#[test]
fn errors_in_a_command_tool_name_the_key() {
    for (command, more, wanted) in [
        (
            "{program: /bin/ls, forms: [[a]], argv: [a]}",
            "",
            "forms: give one of `argv` and `forms`",
        ),
        ("{program: /bin/ls, forms: [[a]]}", "", "forms: `forms` need the argument `argv`"),
        (
            "{program: /bin/ls, forms: [[{flag: a, when: b}]]}",
            "",
            "forms[0][0]: a form has no flags",
        ),
        ("{program: /bin/sh, forms: [['-c', {arg: a}]]}", "", "runs what its arguments say"),
        ("{program: /bin/ls, directory: missing}", "", "command.directory: cannot open"),
        ("{program: /bin/ls, directory: /proc}", "", "command.directory: "),
        ("{program: /bin/ls, sandbox: S1, directory: .}", "", "directory: a directory to write"),
        (
            "{program: /bin/ls, workspace: run, directory: .}",
            "",
            "one of `workspace` and `directory`",
        ),
        ("{program: grep}", "", "tools[0].command.program: expected an absolute path"),
        ("{program: /nowhere/x}", "", "tools[0].command.program: cannot open"),
        ("{program: /etc/passwd}", "", "tools[0].command.program: `/etc/passwd` is not executable"),
        ("{program: /bin/ls, sha256: '00'}", "", "tools[0].command.sha256: is 64"),
        ("{program: /bin/ls, argv: [{arg: zz}]}", "", "argv[0]: `zz` is no argument"),
        ("{program: /bin/ls, argv: [{ar: a}]}", "", "argv[0]: is a text, `{arg: NAME}`"),
        ("{program: /bin/ls, argv: [{arg: a, as: url}]}", "", "`as: url`"),
        ("{program: /bin/ls, argv: [{arg: a, x: 1}]}", "", "an unknown member `x`"),
        ("{program: /bin/sh, argv: ['-c', {arg: a}]}", "", "runs what its arguments say"),
        ("{program: /bin/ls, sandbox: S0}", "", "`S0` is not one of `S1`, `S2`"),
        ("{program: /bin/ls, sandbox: S1, workspace: per_call}", "", "needs `sandbox: S2`"),
        ("{program: /bin/ls, sandbox: S1, children: [/bin/cat]}", "", "need `sandbox: S2`"),
        ("{program: /bin/ls, env: {LD_PRELOAD: x}}", "", "load or run what it names"),
        ("{program: /bin/ls, read: [/proc]}", "", "which no tool may read"),
        ("{program: /bin/ls, read: [missing]}", "", "command.read[0]: cannot open"),
        ("{program: /bin/ls, limits: {memory_bytes: 1}}", "", "limits.memory_bytes: is 16777216"),
        (
            "{program: /bin/ls}",
            "  http: {method: GET, url: 'https://a.test/'}\n",
            "means nothing for kind `command`",
        ),
    ] {
        let all = errors(command, more).join("\n");
        assert!(all.contains(wanted), "{command}: {wanted} is not in\n{all}");
    }
    let pin = "0".repeat(64);
    let all = errors(&format!("{{program: /bin/ls, sha256: '{pin}'}}"), "").join("\n");
    assert!(all.contains("has another: "), "{all}");
}

#[test]
fn the_definition_moves_with_everything_that_would_run() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for command in [
        "{program: /bin/ls}",
        "{program: /bin/cat}",
        "{program: /bin/ls, argv: ['-l']}",
        "{program: /bin/ls, argv: [{arg: a}]}",
        "{program: /bin/ls, argv: [{arg: a, may_start_with_dash: true}]}",
        "{program: /bin/ls, sandbox: S1}",
        "{program: /bin/ls, workspace: per_call}",
        "{program: /bin/ls, read: [data]}",
        "{program: /bin/ls, directory: data}",
        "{program: /bin/ls, children: [/bin/cat]}",
        "{program: /bin/ls, env: {A: b}}",
        "{program: /bin/ls, stdin: a}",
        "{program: /bin/ls, exit_codes: [0]}",
        "{program: /bin/ls, limits: {pids: 3}}",
    ] {
        assert!(seen.insert(checked(dir.path(), command, "").unwrap()), "{command}");
    }
}

#[test]
fn a_program_is_elf_and_names_its_loader() {
    let elf = inspect(&std::fs::read("/bin/ls").unwrap()).unwrap();
    assert!(elf.interpreter.unwrap().is_absolute());
    assert!(inspect(b"#!/bin/sh\n").unwrap_err().to_string().contains("script"));
    assert!(inspect(b"MZ").unwrap_err().to_string().contains("not a 64-bit ELF"));
    let whole = std::fs::read("/bin/ls").unwrap();
    for cut in [6, 20, 40, 60, 70] {
        assert!(inspect(&whole[..cut]).is_err(), "{cut}");
    }
}
