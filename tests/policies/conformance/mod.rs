//! The engine against stock OPA with strict builtin errors: nobody here wrote the other side.

mod builtins;
mod generated;
mod library;
mod negations;
mod shipped;
mod values;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policies/conformance/opa.py");

/// Asks OPA; `None`, and a word about it, where it is not installed (`tests/run` installs it).
fn opa(jobs: &[Value]) -> Option<Vec<Value>> {
    let Some(python) = std::env::var_os("WICKETGATE_TEST_EVIDENCE") else {
        eprintln!("not tested here: OPA; WICKETGATE_TEST_EVIDENCE is not set, tests/run sets it");
        return None;
    };
    let mut asked = Command::new(python)
        .arg(ORACLE)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = asked.stdin.take().unwrap();
    let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
    let telling = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let done = asked.wait_with_output().unwrap();
    telling.join().unwrap().unwrap();
    assert!(done.status.success(), "OPA could not be asked");
    let answers = String::from_utf8(done.stdout).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), jobs.len());
    Some(answers)
}

/// The same random numbers on every machine (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// The bytes the gate would give to the engine: canonical, and what strict JSON refuses not there.
fn canonical(value: &Value) -> Vec<u8> {
    use wicketgate::domain::{canonical, json};
    let read = json::Json::parse(value.to_string().as_bytes(), &json::Limits::FILE).unwrap();
    canonical::bytes(&read)
}

/// The rules (tests left out) and the data of a bundle, the composition library too.
fn parts(bundle: &wicketgate::policy::bundle::Bundle) -> (BTreeMap<String, String>, Value) {
    let (mut modules, mut data) = (BTreeMap::new(), serde_json::json!({}));
    for entry in tar::Archive::new(bundle.tar()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
        if name.ends_with(".rego") && !name.ends_with("_test.rego") {
            modules.insert(name, text);
        } else if let Some(path) = name.strip_prefix("data/").and_then(|n| n.strip_suffix(".json"))
        {
            let mut at = &mut data;
            for part in path.split('/') {
                at = &mut at[part];
            }
            *at = serde_json::from_str(&text).unwrap();
        }
    }
    (modules, data)
}
