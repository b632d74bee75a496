//! The command line as a whole: groups and former names, help, variables, errors of `--json`.

use serde_json::Value;

use crate::folder::Folder;
use wicketgate_support::program;

/// The one object on standard error.
fn error(err: &str) -> Value {
    let value: Value = serde_json::from_str(err.trim()).unwrap_or_else(|e| panic!("{e}: {err}"));
    let members: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(members, ["code", "hint", "message"], "{err}");
    value
}

#[test]
fn a_former_name_gives_the_help_of_its_command() {
    let folder = Folder::new();
    let top = folder.run(&["--help"]).ends(0).out;
    for (name, group) in wicketgate::cli::MOVED {
        let former = folder.run(&[name, "--help"]).ends(0).out;
        assert_eq!(former, folder.run(&[group, name, "--help"]).ends(0).out, "{name}");
        assert_eq!(former, folder.run(&["help", name]).ends(0).out, "{name}");
        assert!(former.contains(&format!("Usage: wicketgate {group} {name}")), "{former}");
        assert!(!top.contains(&format!("\n  {name} ")), "`{name}` is shown: {top}");
    }
    let below = folder.run(&["mcp", "wrap", "--help"]).ends(0).out;
    assert_eq!(below, folder.run(&["serve", "mcp", "wrap", "--help"]).ends(0).out);
    let guess = folder.run(&["keyge"]).ends(64);
    assert!(!guess.err.contains("keygen"), "hidden commands are no suggestion: {}", guess.err);
}

#[test]
fn at_most_fifteen_groups_are_shown_and_help_and_version_exist() {
    let [program, _] = wicketgate::cli::programs();
    let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
    let shown: Vec<&str> = shown.map(clap::Command::get_name).collect();
    assert_eq!(shown.len(), 15 + 2, "{shown:?}");
    assert_eq!(shown[..4], ["quickstart", "init", "serve", "check"]);
    assert_eq!(shown[15..], ["version", "help"]);
    let folder = Folder::new();
    assert_eq!(folder.run(&["help"]).ends(0).out, folder.run(&["--help"]).ends(0).out);
    let of_one = folder.run(&["help", "policy", "test"]).ends(0).out;
    assert_eq!(of_one, folder.run(&["policy", "test", "--help"]).ends(0).out);
    assert_eq!(folder.run(&["version"]).ends(0).out, folder.run(&["--version"]).ends(0).out);
    let version: Value =
        serde_json::from_str(&folder.run(&["version", "--json"]).ends(0).out).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn hidden_commands_are_in_no_completion() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.run(&["config", "completions", shell]).ends(0).out;
        assert!(script.contains("backtest"), "{shell}");
        for hidden in ["self-test", "self__test", "quickstart-tools", "quickstart__tools"] {
            assert!(!script.contains(hidden), "{shell}: {hidden}");
        }
    }
}

#[test]
fn variables_give_configuration_operator_url_and_token() {
    let folder = Folder::new();
    let set = [("WICKETGATE_CONFIG", "of-env.yaml")];
    // With a default, required, and as one of several places of a ledger.
    for args in [&["config", "check"][..], &["ledger", "key", "show"], &["ledger", "tail"]] {
        assert!(folder.run_with(args, &set).err.contains("of-env.yaml"), "{args:?}");
        let named = [args, &["-c", "named.yaml"]].concat();
        let ran = folder.run_with(&named, &set);
        assert!(ran.err.contains("named.yaml") && !ran.err.contains("of-env"), "{}", ran.err);
    }
    folder.run(&["ledger", "tail"]).ends(64).complains("--config <FILE>|--sqlite <PATH>");
    // A place that is named excludes the variable.
    folder.run_with(&["ledger", "tail", "--sqlite", "l.db"], &set).ends(2).complains("l.db");
    // Commands below `serve` are no conflict with a variable of `serve` itself.
    folder.run_with(&["serve", "mcp"], &set).ends(78).complains("of-env.yaml");

    folder.write("token", "wgo_nonsense");
    let set =
        [("WICKETGATE_OPERATOR_URL", "http://127.0.0.1:9"), ("WICKETGATE_TOKEN_FILE", "absent")];
    folder.run_with(&["approval", "list"], &set).ends(2).complains("absent");
    let named = ["approval", "list", "--token-file", "other"];
    folder.run_with(&named, &set).ends(2).complains("other");
    let cert = ["approval", "list", "--cert", "c.pem", "--cert-key", "k.pem"];
    folder.run_with(&cert, &set).ends(2).complains("c.pem");
    folder.run(&["approval", "list"]).ends(64).complains("--token-file <FILE>");
    folder.run_with(&["control", "health"], &set).ends(2).complains("http://127.0.0.1:9");
    for args in [&["approval", "list", "--help"][..], &["evidence", "export", "--help"]] {
        let help = folder.run(args).ends(0).out;
        for name in ["WICKETGATE_TOKEN_FILE", "WICKETGATE_CONFIG", "WICKETGATE_OPERATOR_URL"] {
            let has = help.contains(&format!("[env: {name}"));
            let expected = match name {
                "WICKETGATE_TOKEN_FILE" => true,
                "WICKETGATE_CONFIG" => args[0] == "evidence",
                _ => args[0] == "approval",
            };
            assert_eq!(has, expected, "{name}: {help}");
        }
    }
}

#[test]
fn with_json_an_error_is_one_object() {
    let folder = Folder::new();
    let [program, _] = wicketgate::cli::programs();
    let mut open = vec![(program, Vec::new())];
    let mut count = 0;
    while let Some((command, path)) = open.pop() {
        if command.get_arguments().any(|arg| arg.get_long() == Some("json")) {
            let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
            args.extend(["--json", "--no-such-option"]);
            let error = error(&folder.run(&args).ends(64).err);
            assert_eq!(error["code"], "usage", "{args:?}");
            assert!(error["message"].as_str().unwrap().contains("--no-such-option"), "{error}");
            assert_eq!(error["hint"], "run the same command with `--help`");
            count += 1;
        }
        for below in command.get_subcommands() {
            let path = path.iter().cloned().chain([below.get_name().to_owned()]).collect();
            open.push((below.clone(), path));
        }
    }
    assert!(count > 60, "{count} commands have --json");

    let config = error(&folder.run(&["serve", "--json", "-c", "none.yaml"]).ends(78).err);
    assert_eq!(config["code"], "config");
    assert!(config["message"].as_str().unwrap().contains("none.yaml"));
    let ledger = error(&folder.run(&["ledger", "tail", "--sqlite", "l.db", "--json"]).ends(2).err);
    assert_eq!((&ledger["code"], &ledger["hint"]), (&"unverifiable".into(), &Value::Null));
    let verify = ["evidence", "verify", "bundle", "--trust", "none.txt", "--json"];
    let trust = error(&folder.run(&verify).ends(64).err);
    assert!(trust["message"].as_str().unwrap().contains("none.txt"), "{trust}");
    folder.run(&["keygen", "--out", "k", "--json"]).ends(0);
    let there = error(&folder.run(&["keygen", "--out", "k", "--json"]).ends(1).err);
    assert_eq!(there["code"], "invalid");
}

#[test]
fn with_json_a_result_is_one_object() {
    let folder = Folder::with_manifest();
    let sign = ["manifest", "sign", "agent.yaml", "--key", "k", "--key", "k2", "--json"];
    let signed: Value = serde_json::from_str(&folder.run(&sign).ends(0).out).unwrap();
    assert_eq!(signed["wrote"], "agent.yaml.sig.json");
    assert_eq!(signed["signers"].as_array().unwrap().len(), 2);
    folder.run(&["policy", "init", "policy"]).ends(0);
    let sign = ["policy", "sign", "policy", "--key", "k", "--json"];
    let signed: Value = serde_json::from_str(&folder.run(&sign).ends(0).out).unwrap();
    assert_eq!(
        (&signed["name"], &signed["wrote"]),
        (&"policy".into(), &"policy/bundle.sig.json".into())
    );
    let key = ["ledger", "payload", "keygen", "--out", "payload.key", "--json"];
    let key: Value = serde_json::from_str(&folder.run(&key).ends(0).out).unwrap();
    assert_eq!(key["key"], "payload.key");
}

#[test]
fn long_work_shows_a_bar_on_a_terminal_alone() {
    let folder = Folder::new();
    folder.run(&["policy", "init", "policy"]).ends(0);
    let exe = program::gate();
    let on_terminal = |args: &[&str]| {
        let spawn = "import os, pty, sys\n\
            sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", spawn, exe]).args(args).current_dir(folder.path("."));
        let done = command.stdin(std::process::Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let mutate = ["policy", "mutate", "policy"];
    let shown = on_terminal(&mutate);
    assert!(shown.contains("mutating inputs: [--------------------]   0% 0 of "), "{shown}");
    let json = [&mutate[..], &["--json"]].concat();
    assert!(!on_terminal(&json).contains("mutating"), "{}", on_terminal(&json));
    // A slow machine may print a line that says how far it is, but no bar that is drawn again.
    assert!(!folder.run(&mutate).err.contains('\r'), "{}", folder.run(&mutate).err);
}
