//! Where the built programs and the files of the repository are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The top of the repository.
pub fn top() -> &'static Path {
    static TOP: LazyLock<PathBuf> = LazyLock::new(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
    });
    &TOP
}

/// The built `wicketgate`. Cargo puts the program of a test into `deps`, beside which the product's programs are.
pub fn gate() -> &'static str {
    static GATE: LazyLock<String> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        let built = test.ancestors().nth(2).unwrap().join("wicketgate");
        assert!(built.exists(), "{} is not built", built.display());
        built.into_os_string().into_string().unwrap()
    });
    &GATE
}

/// A command of it, to be run in this directory.
pub fn command(
    dir: impl AsRef<Path>,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Command {
    let mut command = Command::new(gate());
    command.args(args).current_dir(dir);
    command
}

/// The Python that `tests/run` installed packages for, or the machine's.
pub fn python() -> String {
    std::env::var("WICKETGATE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}
