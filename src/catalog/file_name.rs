//! Names of files that hold secrets, and of files that steer tools and agents. All are folded as
//! paths are.
//!
//! Neither list contains names that begin with a dot: a tool refuses those unless its binding names
//! them. The lists contain the other names, and those that a binding can allow by exact path only.

use unicode_normalization::UnicodeNormalization as _;

/// Names that a binding can allow by exact path only: stores of secrets, and files that git, shells
/// and agents obey.
const SECRETS: &[&str] = &[
    ".git",
    ".ssh",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".bashrc",
    ".profile",
    ".mcp.json",
    ".cursor",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".vscode",
    "claude.md",
    "agents.md",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".gnupg",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".git-credentials",
    ".bash_history",
    ".bash_profile",
    ".zshrc",
    ".zsh_history",
    ".gitconfig",
    ".htpasswd",
    ".vault-token",
    ".password-store",
    ".terraform.d",
    ".boto",
    ".s3cfg",
    ".mozilla",
    ".electrum",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_ecdsa_sk",
    "id_ed25519_sk",
    "authorized_keys",
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    "htpasswd",
    "kubeconfig",
    "keyrings",
    "credentials.json",
    "credentials.db",
    "application_default_credentials.json",
    "service-account.json",
    "service_account.json",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "auth.json",
    "rclone.conf",
    "wp-config.php",
    "wallet.dat",
    "login data",
    "logins.json",
    "key3.db",
    "key4.db",
    "signons.sqlite",
    "ntuser.dat",
];
/// Prefixes of such names: environments, short names of `.git` elsewhere, left-overs of a write
/// here, clients of OAuth.
const SECRET_PREFIXES: &[&str] = &[".env", "git~", ".wicketgate", "client_secret"];
/// Names that end so: private keys and stores of them, states of infrastructure.
const SECRET_SUFFIXES: &[&str] = &[
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".p8",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".keytab",
    ".ovpn",
    ".tfstate",
    ".tfstate.backup",
    ".tfvars",
    ".gpg",
    ".age",
];
/// A directory and a name in it.
const SECRET_PAIRS: &[(&str, &str)] = &[
    (".github", "workflows"),
    (".github", "actions"),
    (".config", "gcloud"),
    (".config", "gh"),
    (".config", "git"),
    ("library", "keychains"),
    ("library", "cookies"),
    ("appdata", "roaming"),
    ("appdata", "local"),
];

/// Names that may be read and are not written: what a build machine, a package manager, a test
/// runner, an interpreter or an agent reads and obeys of its own accord.
const STEERING: &[&str] = &[
    // agents
    "agent.md",
    "claude.local.md",
    "codex.md",
    "conventions.md",
    "copilot-instructions.md",
    "crush.md",
    "gemini.md",
    "qwen.md",
    "skill.md",
    "warp.md",
    "claude_desktop_config.json",
    "mcp.json",
    "mcp_config.json",
    "opencode.json",
    // build machines and places to deploy to
    "jenkinsfile",
    "appveyor.yml",
    "azure-pipelines.yaml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "buildspec.yml",
    "cloudbuild.yaml",
    "codefresh.yml",
    "fly.toml",
    "netlify.toml",
    "procfile",
    "render.yaml",
    "vercel.json",
    // recipes
    "makefile",
    "gnumakefile",
    "bsdmakefile",
    "justfile",
    "rakefile",
    "taskfile.yaml",
    "taskfile.yml",
    "cmakelists.txt",
    "meson.build",
    "sconstruct",
    "build.rs",
    "build.zig",
    "build",
    "build.bazel",
    "module.bazel",
    "workspace",
    "workspace.bazel",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.properties",
    "gradlew",
    "mvnw",
    "pom.xml",
    "dockerfile",
    "containerfile",
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "devcontainer.json",
    "vagrantfile",
    "tiltfile",
    "flake.nix",
    "default.nix",
    "shell.nix",
    // packages and interpreters
    "package.json",
    "npm-shrinkwrap.json",
    "deno.json",
    "deno.jsonc",
    "bunfig.toml",
    "composer.json",
    "gemfile",
    "podfile",
    "brewfile",
    "mix.exs",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "conftest.py",
    "noxfile.py",
    "tox.ini",
    "pytest.ini",
    "sitecustomize.py",
    "usercustomize.py",
    "lefthook.yaml",
    "lefthook.yml",
    "gruntfile.js",
    "gulpfile.js",
    "makefile.pl",
    // desktops
    "autorun.inf",
    "desktop.ini",
];
/// Names that end so.
const STEERING_SUFFIXES: &[&str] = &[
    ".mk",
    ".pth",
    ".config.js",
    ".config.cjs",
    ".config.mjs",
    ".config.ts",
    ".config.mts",
    ".instructions.md",
    ".prompt.md",
    ".mdc",
    ".code-workspace",
    ".sublime-project",
    ".desktop",
    ".service",
    ".timer",
    ".plist",
    ".lnk",
    ".gemspec",
    ".podspec",
];

/// One form for every spelling of a name: compatible characters, case and its special cases (`ß`).
pub fn fold(name: &str) -> String {
    let upper = name.nfkc().collect::<String>().to_uppercase();
    upper.to_lowercase().nfkc().collect()
}

/// Whether a tool serves this folded name only by an exact path.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
        || SECRET_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SECRET_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Whether the file `name` in a directory `dir`, both folded, holds a secret.
#[must_use]
pub fn are_a_secret(dir: &str, name: &str) -> bool {
    SECRET_PAIRS.contains(&(dir, name))
}

/// Whether this folded name is one that tools or agents obey.
#[must_use]
pub fn steers(name: &str) -> bool {
    STEERING.contains(&name) || STEERING_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}
