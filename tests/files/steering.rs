//! Names that steer tools and agents are not written, stores of secrets are not read, in any spelling and by any tool.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::rig::Rig;

/// What an agent that wants more than it has would write: instructions, hooks, recipes, start-up files.
const STEERING: &[&str] = &[
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    "GEMINI.md",
    "SKILL.md",
    "CONVENTIONS.md",
    "docs/x.instructions.md",
    "docs/x.prompt.md",
    "rules/x.mdc",
    ".github/copilot-instructions.md",
    ".claude.json",
    ".claude/settings.json",
    ".claude/commands/x.md",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".cursorrules",
    ".cursor/rules/x.mdc",
    ".windsurfrules",
    ".clinerules",
    ".roomodes",
    ".aider.conf.yml",
    ".continue/config.json",
    ".junie/guidelines.md",
    ".mcp.json",
    "mcp.json",
    ".vscode/mcp.json",
    ".vscode/tasks.json",
    ".idea/runConfigurations/x.xml",
    "x.code-workspace",
    ".devcontainer/devcontainer.json",
    ".git/config",
    ".git/hooks/pre-commit",
    ".gitmodules",
    ".gitattributes",
    ".config/git/hooks/pre-commit",
    ".config/git/config",
    ".gitconfig",
    ".husky/pre-commit",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".github/workflows/ci.yml",
    ".github/actions/x/action.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    ".buildkite/pipeline.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "cloudbuild.yaml",
    "package.json",
    ".npmrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "deno.json",
    "bunfig.toml",
    "vite.config.ts",
    "jest.config.js",
    "eslint.config.mjs",
    ".eslintrc.js",
    "Makefile",
    "GNUmakefile",
    "rules.mk",
    "justfile",
    "Rakefile",
    "Taskfile.yml",
    "CMakeLists.txt",
    "build.rs",
    ".cargo/config.toml",
    "build.gradle",
    "gradlew",
    "pom.xml",
    "Dockerfile",
    "compose.yaml",
    "docker-compose.yml",
    "Vagrantfile",
    "flake.nix",
    ".envrc",
    ".tool-versions",
    ".mise.toml",
    "pyproject.toml",
    "setup.py",
    "conftest.py",
    "tox.ini",
    "sitecustomize.py",
    "x.pth",
    ".pythonrc",
    ".bashrc",
    ".profile",
    ".zshenv",
    ".config/fish/config.fish",
    ".inputrc",
    ".vimrc",
    ".config/nvim/init.lua",
    ".config/autostart/x.desktop",
    ".config/systemd/user/x.service",
    ".local/bin/ls",
    ".ssh/authorized_keys",
    ".ssh/rc",
];

/// What an agent that looks for credentials would read.
const STORES: &[&str] = &[
    ".ssh/id_rsa",
    ".ssh/id_ed25519",
    ".ssh/config",
    ".ssh/known_hosts",
    "keys/id_ecdsa",
    "id_ed25519_sk",
    ".aws/credentials",
    ".aws/config",
    ".aws/sso/cache/x.json",
    ".azure/accessTokens.json",
    ".azure/msal_token_cache.json",
    ".config/gcloud/credentials.db",
    ".config/gcloud/application_default_credentials.json",
    ".boto",
    ".s3cfg",
    ".oci/config",
    ".kube/config",
    "kubeconfig",
    ".docker/config.json",
    ".config/containers/auth.json",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh/hosts.yml",
    ".config/glab-cli/config.yml",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".composer/auth.json",
    "auth.json",
    ".nuget/NuGet.Config",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".mongorc.js",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "prod.tfvars",
    ".env",
    ".env.production",
    "sub/.envrc",
    ".gnupg/private-keys-v1.d/x.key",
    ".password-store/x.gpg",
    "x.age",
    ".local/share/keyrings/login.keyring",
    "keyrings/login.keyring",
    ".mozilla/firefox/x/logins.json",
    "x/key4.db",
    ".config/google-chrome/Default/Login Data",
    "Default/Login Data",
    "Library/Keychains/login.keychain-db",
    "Library/Cookies/Cookies.binarycookies",
    "AppData/Roaming/x",
    ".bitcoin/wallet.dat",
    "wallet.dat",
    ".electrum/wallets/x",
    ".bash_history",
    ".python_history",
    ".psql_history",
    ".htpasswd",
    "htpasswd",
    "etc/shadow",
    "etc/gshadow",
    "etc/krb5.keytab",
    "tls/site.key",
    "tls/site.pem",
    "x.p12",
    "x.pfx",
    "x.jks",
    "x.kdbx",
    "x.ovpn",
    "x.ppk",
    "AuthKey.p8",
    "service-account.json",
    "credentials.json",
    "client_secret_1.json",
    "secrets.yaml",
    "config/secrets.yml",
    "rclone.conf",
    ".config/rclone/rclone.conf",
    ".codex/auth.json",
    ".claude.json",
    ".claude/.credentials.json",
    ".gemini/oauth_creds.json",
    ".config/op/config",
    "wp-config.php",
];

/// Spellings of one path that some file system or some program takes for it.
fn spellings(path: &str) -> Vec<String> {
    let wide = |c: char| match c {
        '!'..='.' | '0'..='~' => char::from_u32(u32::from(c) + 0xfee0).unwrap(),
        other => other,
    };
    let first = path.split('/').next().unwrap();
    let rest = &path[first.len()..];
    let mut all = vec![
        path.to_owned(),
        path.to_uppercase(),
        path.to_lowercase(),
        format!("a/b/{path}"),
        path.chars().map(|c| if c == '/' { c } else { wide(c) }).collect(),
        format!("{first}.{rest}"),
        format!("{path} "),
        format!("{path}."),
        format!("./{path}"),
        format!("a/../{path}"),
        format!("{path}::$DATA"),
        path.replacen('.', ".\u{200b}", 1),
        path.replace('/', "\\"),
        format!("alias/{path}"),
    ];
    all.extend(path.contains(".").then(|| path.replacen('.', "․", 1)));
    all.dedup();
    all
}

fn is_refused(detail: &str) -> bool {
    ["file.protected_name", "file.path", "file.traversal", "file.symlink"].contains(&detail)
}

fn all_below(rig: &Rig) -> usize {
    fn count(dir: &std::path::Path) -> usize {
        let all = std::fs::read_dir(dir).unwrap().flatten();
        all.map(|one| 1 + if one.file_type().unwrap().is_dir() { count(&one.path()) } else { 0 })
            .sum()
    }
    count(&rig.path(""))
}

/// Costs some three thousand calls.
#[tokio::test(flavor = "multi_thread")]
async fn no_name_that_steers_is_written_or_deleted_in_any_spelling() {
    assert!(STEERING.len() >= 60, "{}", STEERING.len());
    let rig = Rig::new().await;
    std::fs::create_dir_all(rig.path("a/b")).unwrap();
    symlink(".", rig.path("alias")).unwrap();
    rig.put("package.json", "{}");
    let before = all_below(&rig);
    let (sidecar, agent) = rig.serve().await;
    for path in STEERING {
        for spelled in spellings(path) {
            for (tool, args) in [
                ("fs.write", json!({"path": spelled, "content": "OWNED"})),
                ("fs.deep", json!({"path": spelled, "content": "OWNED"})),
            ] {
                let detail = rig.denied(&agent, tool, args).await;
                assert!(is_refused(&detail), "{tool} {spelled}: {detail}");
            }
        }
        let detail = rig.denied(&agent, "fs.write", json!({"path": path, "mode": "delete"})).await;
        assert!(is_refused(&detail), "delete {path}: {detail}");
    }
    assert_eq!(all_below(&rig), before);
    assert_eq!(rig.text("package.json"), "{}");
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_store_of_secrets_is_read_listed_or_written_in_any_spelling() {
    assert!(STORES.len() >= 60, "{}", STORES.len());
    let rig = Rig::new().await;
    symlink(".", rig.path("alias")).unwrap();
    for path in STORES {
        if let Some((dir, _)) = path.rsplit_once('/') {
            std::fs::create_dir_all(rig.path(dir)).unwrap();
        }
        if !rig.path(path).exists() {
            std::fs::write(rig.path(path), "hunter2").unwrap();
        }
    }
    let (sidecar, agent) = rig.serve().await;
    for path in STORES {
        for spelled in spellings(path) {
            for tool in ["fs.read", "fs.list"] {
                let detail = rig.denied(&agent, tool, json!({"path": spelled})).await;
                assert!(is_refused(&detail), "{tool} {spelled}: {detail}");
            }
        }
        let detail = rig.denied(&agent, "fs.write", json!({"path": path, "content": "x"})).await;
        assert!(is_refused(&detail), "write {path}: {detail}");
    }
    // A listing from above names them and shows nothing of them.
    let listing = rig.call(&agent, "fs.list", json!({"path": ".", "depth": 3})).await.unwrap();
    assert!(!listing.to_string().contains("credentials.toml"), "{listing}");
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_binding_names_is_given_and_nothing_beside_it() {
    let rig = Rig::with(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            tool["file"]["allow_names"] = json!([".github", "package.json"]);
        }
    })
    .await;
    std::fs::create_dir_all(rig.path(".github/workflows")).unwrap();
    let (sidecar, agent) = rig.serve().await;
    for path in [".github/labeler.yml", "package.json"] {
        rig.write(&agent, path, "{}").await;
        rig.call(&agent, "fs.read", json!({"path": path})).await.unwrap();
    }
    for path in [
        ".github/workflows/ci.yml",
        ".github/.hidden",
        ".githubx/a",
        "Makefile",
        ".gitignore",
        ".env",
    ] {
        let detail = rig.denied(&agent, "fs.write", json!({"path": path, "content": "x"})).await;
        assert_eq!(detail, "file.protected_name", "{path}");
    }
    rig.end(sidecar, &agent).await;
}
