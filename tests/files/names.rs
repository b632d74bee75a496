//! Paths and names that nobody is given, whatever the tool, the policy or the file system.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::rig::Rig;

const OUTSIDE: &[&str] = &[
    "../outside/canary",
    "a/../../outside/canary",
    "/etc/passwd",
    "/proc/self/environ",
    "‥/outside/canary",
    "．．/outside/canary",
    "..／outside／canary",
    "..\\outside\\canary",
    "sub//../x",
    "./ok.txt",
    "ok.txt/",
    "ok.txt\u{200b}",
    "ok\u{202e}txt",
    "ok\ntxt",
    "CON",
    "nul.txt",
    "ok.txt ",
    "ok.txt.",
    "~/x",
    "ok.txt:stream",
    "e\u{301}.txt",
];

const PROTECTED: &[&str] = &[
    ".env",
    ".ENV.production",
    "sub/.env.local",
    ".git/config",
    ".git/hooks/post-checkout",
    ".Git/config",
    "GIT~1/config",
    ".ßh/authorized_keys",
    ".ssh/authorized_keys",
    ".aws/credentials",
    ".cursor/mcp.json",
    ".claude/settings.json",
    ".mcp.json",
    "CLAUDE.md",
    "sub/agents.md",
    ".bashrc",
    ".github/workflows/ci.yml",
    "server.pem",
    "tls/Site.KEY",
    "id_rsa",
    "．ｅｎｖ",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_path_leads_out_of_the_root() {
    let rig = Rig::new().await;
    rig.put("ok.txt", "fine");
    let (sidecar, agent) = rig.serve().await;
    let long = ["a/".repeat(65) + "x", "x".repeat(256), "y/".repeat(2048) + "z"];
    let paths = OUTSIDE.iter().map(|path| (*path).to_owned()).chain(long);
    for path in paths {
        for (tool, args) in [
            ("fs.read", json!({"path": path})),
            ("fs.list", json!({"path": path})),
            ("fs.write", json!({"path": path, "content": "OWNED"})),
            ("fs.deep", json!({"path": path, "content": "OWNED"})),
        ] {
            let refused = rig.call(&agent, tool, args).await.expect_err(&path);
            let detail = refused.detail.as_str();
            let own = ["file.path", "file.traversal"].contains(&detail);
            assert!(own || detail.starts_with("schema."), "{path}: {refused:?}");
        }
    }
    let nul = r#"{"path":"ok.txt\u0000.md","content":"OWNED"}"#;
    assert!(agent.call("fs.write", "nul", nul).await.is_err());
    assert_eq!(std::fs::read_dir(rig.path("")).unwrap().count(), 1, "only what was there");
    assert_eq!(rig.text("ok.txt"), "fine");
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_names_are_denied_in_every_spelling_also_before_they_exist() {
    let rig = Rig::new().await;
    std::fs::create_dir(rig.path(".git")).unwrap();
    rig.put(".git/config", "[core]");
    let (sidecar, agent) = rig.serve().await;
    for path in PROTECTED {
        for (tool, args) in [
            ("fs.read", json!({"path": path})),
            ("fs.list", json!({"path": path})),
            ("fs.write", json!({"path": path, "content": "{}"})),
            ("fs.write", json!({"path": path, "mode": "delete"})),
            ("fs.deep", json!({"path": path, "content": "{}"})),
            ("fs.heavy", json!({"path": path, "content": "{}"})),
        ] {
            let detail = rig.denied(&agent, tool, args).await;
            assert_eq!(detail, "file.protected_name", "{tool} {path}");
        }
    }
    // What a build machine runs may be read and not written.
    rig.put("Jenkinsfile", "stages: []");
    rig.call(&agent, "fs.read", json!({"path": "Jenkinsfile"})).await.unwrap();
    let write = json!({"path": "Jenkinsfile", "content": "evil"});
    assert_eq!(rig.denied(&agent, "fs.write", write).await, "file.protected_name");
    assert_eq!(rig.text("Jenkinsfile"), "stages: []");
    let names: Vec<_> = std::fs::read_dir(rig.path("")).unwrap().collect();
    assert_eq!(names.len(), 2, "nothing was made: {names:?}");
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_protects_more_names_and_excepts_exact_paths_only() {
    let rig = Rig::with(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            tool["file"]["protect"] = json!(["Payroll"]);
            tool["file"]["allow"] = json!([".env.example"]);
        }
    })
    .await;
    std::fs::create_dir(rig.path("payroll")).unwrap();
    rig.put("payroll/may.csv", "1");
    let (sidecar, agent) = rig.serve().await;
    for path in ["payroll/may.csv", "PAYROLL/may.csv", ".env", "sub/.env.example", ".ENV.example"] {
        let detail = rig.denied(&agent, "fs.write", json!({"path": path, "content": "x"})).await;
        assert_eq!(detail, "file.protected_name", "{path}");
    }
    rig.write(&agent, ".env.example", "KEY=").await;
    assert_eq!(rig.text(".env.example"), "KEY=");
    assert_eq!(rig.text("payroll/may.csv"), "1");
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gates_own_files_are_not_given_even_where_a_root_holds_them() {
    let rig = Rig::with(|config| {
        config["agents"][0]["manifest"] = "work/agent.yaml".into();
        for tool in config["tools"].as_array_mut().unwrap() {
            tool["file"]["allow"] = json!(["agent.yaml"]);
        }
    })
    .await;
    for name in ["agent.yaml", "agent.yaml.sig.json"] {
        std::fs::copy(rig.keeper.path(name), rig.path(name)).unwrap();
    }
    let before = rig.text("agent.yaml");
    let (sidecar, agent) = rig.serve().await;
    // Under another name it is the same file.
    std::fs::rename(rig.path("agent.yaml"), rig.path("renamed")).unwrap();
    for path in ["agent.yaml", "AGENT.yaml", "agent.yaml.sig.json", "renamed"] {
        for (tool, args) in [
            ("fs.read", json!({"path": path})),
            ("fs.write", json!({"path": path, "content": "spec: {}"})),
            ("fs.write", json!({"path": path, "mode": "delete"})),
        ] {
            assert_eq!(rig.denied(&agent, tool, args).await, "file.protected_name", "{path}");
        }
    }
    assert_eq!(rig.text("renamed"), before);
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_symbolic_link_is_followed_at_any_place_of_a_path() {
    let rig = Rig::new().await;
    std::fs::create_dir_all(rig.path("a/b")).unwrap();
    rig.put("a/b/file", "inside");
    symlink(rig.keeper.path("outside"), rig.path("out")).unwrap();
    symlink(rig.keeper.path("outside/canary"), rig.path("a/b/link")).unwrap();
    symlink("file", rig.path("a/b/inner")).unwrap();
    symlink("a", rig.path("alias")).unwrap();
    symlink("/proc/self/root", rig.path("magic")).unwrap();
    symlink("/nowhere", rig.path("dangling")).unwrap();
    let (sidecar, agent) = rig.serve().await;
    for path in [
        "out/canary",
        "out/new",
        "a/b/link",
        "a/b/inner",
        "alias/b/file",
        "alias/b/new",
        "magic/etc/passwd",
        "dangling",
    ] {
        for (tool, args) in [
            ("fs.read", json!({"path": path})),
            ("fs.write", json!({"path": path, "content": "OWNED"})),
            ("fs.write", json!({"path": path, "mode": "delete"})),
            ("fs.deep", json!({"path": path, "content": "OWNED"})),
        ] {
            assert_eq!(rig.denied(&agent, tool, args).await, "file.symlink", "{tool} {path}");
        }
    }
    for path in ["out", "alias", "magic"] {
        let detail = rig.denied(&agent, "fs.list", json!({"path": path})).await;
        assert_eq!(detail, "file.symlink", "{path}");
    }
    assert_eq!(rig.text("a/b/file"), "inside");
    assert!(rig.path("a/b/link").is_symlink() && rig.path("dangling").is_symlink());
    rig.end(sidecar, &agent).await;
}
