//! `deploy/release.py`: what a release is made of, that it is the same each time, and that its packages
//! install with the tools of others.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::top;
use wicketgate_support::program;

/// What the schema of CycloneDX has against a file.
const VALIDATE: &str = "import pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_5).validate_str(pathlib.Path(sys.argv[1]).read_text()))";

fn python() -> PathBuf {
    std::env::var("WICKETGATE_TEST_DEPLOY").unwrap_or_else(|_| "python3".to_owned()).into()
}

fn release(args: &[&Path]) -> Output {
    Command::new(python())
        .arg("-B")
        .arg(top("deploy/release.py"))
        .args(args)
        .env("CARGO", env!("CARGO"))
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap()
}

/// The programs of a release: small ones, as what is packed is asked here and not how it was built.
/// The first passes the question on, the second is linked to the C library.
fn programs(dir: &Path) -> PathBuf {
    let programs = dir.join("programs");
    std::fs::create_dir(&programs).unwrap();
    let gate = programs.join("wicketgate");
    std::fs::write(&gate, format!("#!/bin/sh\nexec {} \"$@\"\n", program::gate())).unwrap();
    std::fs::set_permissions(&gate, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::copy("/usr/bin/id", programs.join("wicketgate-verify")).unwrap();
    programs
}

/// The file of a release whose name ends like this.
fn file(release: &Path, end: &str) -> PathBuf {
    let all = std::fs::read_dir(release).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| path.to_str().unwrap().ends_with(end);
    let found: Vec<PathBuf> = all.filter(named).collect();
    assert_eq!(found.len(), 1, "{end}: {found:?}");
    found[0].clone()
}

fn run(program: impl AsRef<std::ffi::OsStr>, args: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    text(Command::new(program).args(args.iter().map(|arg| arg.as_ref())).output().unwrap())
}

fn text(done: Output) -> String {
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_release_is_the_same_bytes_each_time_and_its_sums_and_bill_of_materials_hold() {
    let dir = tempfile::tempdir().unwrap();
    let programs = programs(dir.path());
    let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
    let sums = text(release(&[&programs, &one]));
    assert_eq!(sums, text(release(&[&programs, &two])));
    let check = Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(&one).output();
    assert_eq!(text(check.unwrap()).matches(": OK").count(), 8);

    let names: Vec<_> = sums.lines().map(|line| line.split("  ").nth(1).unwrap()).collect();
    assert_eq!(names.len(), 8);
    let archive = file(&one, ".tar.gz");
    let listed = text(Command::new("tar").arg("-tvzf").arg(archive).output().unwrap());
    for (folder, least) in [("man/man1/wicketgate", 90), ("completions/", 6), ("docs/", 30)] {
        assert!(listed.matches(&format!("/{folder}")).count() >= least, "{folder}: {listed}");
    }
    let folders = ["/man/man1/", "/completions/", "/docs/"];
    let others = |line: &&str| !folders.iter().any(|folder| line.contains(folder));
    assert_eq!(listed.lines().filter(others).count(), 9, "{listed}");
    assert!(listed.lines().all(|line| line.contains(" 0/0 ")), "{listed}");

    let bom = file(&one, ".cdx.json");
    let valid = Command::new(std::env::var("WICKETGATE_TEST_DEPLOY").unwrap())
        .args(["-c", VALIDATE])
        .arg(&bom)
        .output();
    assert_eq!(text(valid.unwrap()), "None\n");
    let bom: Value = serde_json::from_slice(&std::fs::read(bom).unwrap()).unwrap();
    assert_eq!((&bom["bomFormat"], &bom["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let components = bom["components"].as_array().unwrap();
    let shown: BTreeSet<_> = components
        .iter()
        .map(|one| format!("{} {}", one["name"], one["version"]).replace('"', ""))
        .collect();
    // Cargo says itself what is linked.
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}"])
        .current_dir(top("."))
        .output()
        .unwrap();
    let linked = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?.trim_start_matches('v')))
    };
    let tree = text(tree);
    let linked: BTreeSet<_> =
        tree.lines().filter_map(linked).filter(|line| !line.starts_with("wicketgate ")).collect();
    assert!(linked.len() > 100, "{linked:?}");
    let missing: Vec<_> = linked.difference(&shown).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The crates of the workspace are in the source, not in a registry.
    let ours = |one: &&Value| one["name"].as_str().is_some_and(|n| n.starts_with("wicketgate-"));
    let unsummed: Vec<_> =
        components.iter().filter(|one| one["hashes"].is_null() && !ours(one)).collect();
    assert!(unsummed.is_empty(), "{unsummed:?}");
}

#[test]
fn pip_npm_and_dpkg_install_the_programs() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    text(release(&[&programs(dir.path()), &out]));
    let here = env!("CARGO_PKG_VERSION");
    let runs = |bin: &Path| {
        assert_eq!(run(bin.join("wicketgate"), &[&"version"]), format!("wicketgate {here}\n"));
        assert!(run(bin.join("wicketgate-verify"), &[]).starts_with("uid="));
    };

    let wheel = file(&out, ".whl");
    assert!(wheel.to_str().unwrap().contains("-py3-none-manylinux_2_"), "{}", wheel.display());
    let to = dir.path().join("pip");
    run(python(), &[&"-m", &"pip", &"install", &"-q", &"--no-index", &"--target", &to, &wheel]);
    runs(&to.join("bin"));

    let to = dir.path().join("npm");
    let path = std::env::var("PATH").unwrap();
    let own = format!("{path}:{}/python-1/bin", std::env::var("WICKETGATE_TEST_MCP").unwrap());
    let package = out.join(format!("wicketgate-{here}-x64.tgz"));
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
    text(npm.args([&to, &package]).env("PATH", own).env("HOME", dir.path()).output().unwrap());
    runs(&to.join("node_modules/.bin"));

    let (deb, to) = (file(&out, "_amd64.deb"), dir.path().join("deb"));
    let field = run("dpkg-deb", &[&"--field", &deb, &"Package", &"Version", &"Depends"]);
    assert!(field.contains("libc6 (>= 2.") && field.contains(here), "{field}");
    run("dpkg-deb", &[&"-x", &deb, &to]);
    runs(&to.join("usr/bin"));
    for shared in ["man/man1/wicketgate-check.1.gz", "bash-completion/completions/wicketgate"] {
        assert!(to.join("usr/share").join(shared).is_file(), "{shared}");
    }
}

/// An engine loads the image under its name, and runs a program of it as the user of the image.
fn loaded_by_buildah(dir: &Path, archive: &Path) {
    let policy = dir.join("policy.json");
    std::fs::write(&policy, r#"{"default":[{"type":"insecureAcceptAnything"}]}"#).unwrap();
    let [root, runroot] = ["root", "runroot"].map(|name| dir.join("buildah").join(name));
    let buildah = |args: &[&dyn AsRef<std::ffi::OsStr>]| {
        let own: [&dyn AsRef<std::ffi::OsStr>; 6] =
            [&"--storage-driver", &"vfs", &"--root", &root, &"--runroot", &runroot];
        run("buildah", &[&own, args].concat())
    };
    let from = format!("oci-archive:{}", archive.display());
    buildah(&[&"pull", &"-q", &"--signature-policy", &policy, &from]);
    let image = format!("localhost/wicketgate:{}", env!("CARGO_PKG_VERSION"));
    let container = buildah(&[&"from", &"--pull-never", &"--signature-policy", &policy, &image]);
    let container = container.trim();
    let started = ["run", "--isolation", "chroot", container, "--", "/wicketgate-verify", "-u"];
    let started: Vec<&dyn AsRef<std::ffi::OsStr>> =
        started.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>).collect();
    assert_eq!(buildah(&started), "65532\n");
    buildah(&[&"rm", &container]);
}

#[test]
fn an_image_and_a_chart_without_an_engine_are_read_by_buildah_skopeo_and_helm() {
    let dir = tempfile::tempdir().unwrap();
    let (out, image) = (dir.path().join("out"), dir.path().join("image"));
    text(release(&[&programs(dir.path()), &out]));
    let skopeo = |from: &Path, to: &Path| {
        let [from, to] =
            [format!("oci-archive:{}", from.display()), format!("dir:{}", to.display())];
        run("skopeo", &[&"--insecure-policy", &"copy", &"-q", &from, &to]);
    };
    skopeo(&file(&out, "-linux-amd64.oci.tar"), &image);
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(image.join("manifest.json")).unwrap()).unwrap();
    let blob =
        |of: &Value| image.join(of["digest"].as_str().unwrap().trim_start_matches("sha256:"));
    let config: Value =
        serde_json::from_slice(&std::fs::read(blob(&manifest["config"])).unwrap()).unwrap();
    assert_eq!(config["config"]["User"], "65532:65532");
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        run("tar", &[&"-xzf", &blob(layer), &"-C", &root]);
    }
    loaded_by_buildah(dir.path(), &file(&out, "-linux-amd64.oci.tar"));
    // The program starts in what the image holds, and nothing else is in there.
    let user = ["--userspec=65532:65532", "--groups=65532"];
    let ids = run("chroot", &[&user[0], &user[1], &root, &"/wicketgate-verify", &"-u"]);
    assert_eq!(ids, "65532\n");
    assert!(!root.join("bin/sh").exists());
    assert!(root.join("etc/ssl/certs/ca-certificates.crt").is_file());

    let chart = out.join(format!("wicketgate-chart-{}.tgz", env!("CARGO_PKG_VERSION")));
    let shown = run(python().with_file_name("helm"), &[&"show", &"chart", &chart]);
    assert!(shown.contains("name: wicketgate"), "{shown}");
    let copied = dir.path().join("chart");
    skopeo(&file(&out, "-chart-0.1.0.oci.tar"), &copied);
    let held = std::fs::read_dir(&copied).unwrap().map(|one| std::fs::read(one.unwrap().path()));
    let packed = std::fs::read(&chart).unwrap();
    assert!(held.into_iter().any(|bytes| bytes.unwrap() == packed), "the same chart");
}

#[test]
fn a_signed_release_names_every_file_and_a_changed_one_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let [key, public, out] = ["key.pem", "key.pub", "out"].map(|name| dir.path().join(name));
    let other = dir.path().join("other.pem");
    for key in [&key, &other] {
        run("openssl", &[&"genpkey", &"-algorithm", &"ed25519", &"-out", key]);
    }
    run("openssl", &[&"pkey", &"-in", &key, &"-pubout", &"-out", &public]);
    text(release(&[&programs(dir.path()), &out, Path::new("--key"), &key]));
    let verified = || release(&[Path::new("--verify"), &out, &public]);
    let wrong = |done: Output| {
        assert!(!done.status.success());
        String::from_utf8(done.stderr).unwrap()
    };
    assert!(text(verified()).contains("every file is the one that was signed"));

    let deb = file(&out, ".deb");
    let (name, bytes) = (deb.file_name().unwrap().to_str().unwrap(), std::fs::read(&deb).unwrap());
    let mut changed = bytes.clone();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&deb, changed).unwrap();
    assert!(wrong(verified()).contains(&format!("{name} has other bytes")));
    std::fs::remove_file(&deb).unwrap();
    assert!(wrong(verified()).contains(&format!("{name} is missing")));
    std::fs::write(&deb, bytes).unwrap();
    std::fs::write(out.join("more.sh"), "true").unwrap();
    assert!(wrong(verified()).contains("more.sh is not named"));
    std::fs::remove_file(out.join("more.sh")).unwrap();
    text(verified());

    run("openssl", &[&"pkey", &"-in", &other, &"-pubout", &"-out", &public]);
    assert!(wrong(verified()).contains("is not signed by"));
}

/// A program in this directory, with a part that its build script writes.
fn sources(at: &Path) {
    std::fs::create_dir_all(at.join("src")).unwrap();
    let files = [
        (
            "Cargo.toml",
            "[package]\nname = \"small\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[workspace]\n",
        ),
        ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"small\"\nversion = \"1.0.0\"\n"),
        (
            "build.rs",
            "fn main() { std::fs::write(std::path::Path::new(&std::env::var(\"OUT_DIR\").unwrap()).join(\"part.rs\"), \"fn part() -> &'static str { std::panic::Location::caller().file() }\").unwrap(); }\n",
        ),
        (
            "src/main.rs",
            "include!(concat!(env!(\"OUT_DIR\"), \"/part.rs\"));\nfn main() { println!(\"{}\", part()) }\n",
        ),
    ];
    for (name, text) in files {
        std::fs::write(at.join(name), text).unwrap();
    }
}

/// Builds what stands in a directory as the programs of a release are built.
fn built(sources: &Path, out: &Path, target: &[&str]) -> Output {
    Command::new(python())
        .arg("-B")
        .arg(top("deploy/build.py"))
        .arg(out)
        .args(["--bin", "small", "--top"])
        .arg(sources)
        .args(target)
        .env("CARGO", env!("CARGO"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .unwrap()
}

#[test]
fn two_builds_of_the_same_sources_in_two_directories_are_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let digests = ["one", "another/place"].map(|name| {
        let (from, to) = (dir.path().join(name), dir.path().join(format!("built/{name}")));
        sources(&from);
        let digest = text(built(&from, &to, &[]));
        let bytes = std::fs::read(to.join("small")).unwrap();
        let here = dir.path().to_str().unwrap().as_bytes();
        assert!(!bytes.windows(here.len()).any(|part| part == here), "a path of the machine");
        // What it names of itself is a place of no machine.
        let named = run(to.join("small"), &[]);
        assert!(named.starts_with("/build/") && named.ends_with("/part.rs\n"), "{named}");
        digest
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn a_target_that_cannot_be_built_here_is_refused_with_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("sources");
    sources(&from);
    let refused =
        built(&from, &dir.path().join("out"), &["--target", "riscv64gc-unknown-linux-gnu"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("run `rustup target add riscv64gc-unknown-linux-gnu`"), "{said}");
}

#[test]
fn a_static_program_needs_no_library_of_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("sources"), dir.path().join("out"));
    sources(&from);
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let done = built(&from, &out, &["--target", &target]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if said.contains("rustup target add") || said.contains("no C compiler") {
        drop(writeln!(std::io::stderr(), "not tested here: static programs: {}", said.trim()));
        return;
    }
    text(done);
    let needs = Command::new("ldd").arg(out.join("small")).output().unwrap();
    let needs = [needs.stdout, needs.stderr].concat();
    let needs = String::from_utf8_lossy(&needs).into_owned();
    assert!(needs.contains("statically linked") || needs.contains("not a dynamic"), "{needs}");
    assert!(run(out.join("small"), &[]).starts_with("/build/"));
}
