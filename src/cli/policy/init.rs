//! `wicketgate policy init`: a bundle to start from, with tests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::archive::write_all;
use super::{meta, schema};
use crate::cli::{Exit, say};
use crate::domain::canonical;

/// `policy init`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory to write; it must be empty or not exist
    dir: PathBuf,
    /// The bundle's name
    #[arg(long, default_value = "policy")]
    name: String,
}

/// What is written as it is.
const FILES: [(&str, &str); 6] = [
    ("agent/main.rego", include_str!("../../../policies/init/agent/main.rego")),
    ("agent/main_test.rego", include_str!("../../../policies/init/agent/main_test.rego")),
    ("org/guard.rego", include_str!("../../../policies/init/org/guard.rego")),
    ("org/guard_test.rego", include_str!("../../../policies/init/org/guard_test.rego")),
    ("data/tools.json", include_str!("../../../policies/init/tools.json")),
    ("tests/decisions.yaml", include_str!("../../../policies/init/tests/decisions.yaml")),
];

/// Writes it.
pub fn run(args: &Args) -> Exit {
    let meta = meta(&args.name, "1.0.0");
    let mut files: BTreeMap<String, Vec<u8>> =
        FILES.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    files.insert("bundle.json".to_owned(), canonical::bytes(&meta));
    files.insert(
        "tests/schema/input.json".to_owned(),
        format!("{}\n", schema::pretty()).into_bytes(),
    );
    if let Err(failure) = write_all(&args.dir, &files) {
        return failure.print();
    }
    let dir = args.dir.display();
    files.keys().for_each(|name| say(format!("wrote {dir}/{name}")));
    say(format!("next: wicketgate policy test {dir} --coverage"));
    Exit::Ok
}
