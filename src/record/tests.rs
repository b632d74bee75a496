//! Compares the structs with an independent JSON Schema validator: both give the same verdict on
//! samples of every kind and on every small change of them, and accepted samples are written again
//! byte for byte.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::value::RawValue;

use super::sample::{document, sample};
use super::{Body, Error, Kind};
use crate::domain::canonical;
use crate::domain::json::{Json, Limits};

/// Reads `data` of this kind, as an entry would: in canonical form, and giving the same bytes again.
fn check(kind: Kind, data: &Json) -> Result<(), Error> {
    let text = canonical::text(data);
    let body = Body::read(kind, &RawValue::from_string(text.clone()).unwrap())?;
    let written = serde_json::to_string(&body).unwrap();
    if written == text { Ok(()) } else { Err(Error::Canonical) }
}

fn oracle(kind: Kind) -> Validator {
    let document = document().to_serde();
    let schema = serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/$defs/{}", kind.as_str()),
        "$defs": document["$defs"],
    });
    jsonschema::validator_for(&schema).unwrap()
}

/// Values to substitute for any value.
fn others(value: &Json) -> Vec<Json> {
    let hex = "0123456789abcdef".repeat(4);
    let mut all = vec![
        Json::Null,
        Json::Bool(true),
        Json::Bool(false),
        Json::Float(1.0),
        Json::Float(1.5),
        Json::Float(-3.0),
        Json::from("é".repeat(4096)),
        Json::from("é".repeat(4097)),
        Json::from("x".repeat(8193)),
        Json::from(format!("sha256:sha256:{hex}")),
        Json::from(hex),
        Json::from(""),
        Json::Array(vec![]),
        Json::object([("a", Json::Int(1))]),
        Json::Object(BTreeMap::new()),
    ];
    all.extend([-1, 0, 1, 2, 9_007_199_254_740_991].map(Json::Int));
    match value {
        Json::String(text) => {
            let upper = text.to_ascii_uppercase();
            let short: String = text.chars().skip(1).collect();
            let swapped = text.replacen(|c: char| c.is_ascii_alphanumeric(), "é", 1);
            all.extend(
                [format!("{text}0"), format!("{text}\n"), format!(" {text}"), upper]
                    .map(Json::from),
            );
            all.extend(
                [short, swapped, text.replace('0', "g"), text.replace(['-', '.'], "x")]
                    .map(Json::from),
            );
        }
        Json::Array(items) => {
            let item = items.first().cloned().unwrap_or(Json::from("x"));
            for count in [1, 200, 201, 256, 257] {
                all.push(vec![item.clone(); count].into());
            }
        }
        Json::Int(number) => all.extend([Json::Int(number - 1), Json::Int(number + 1)]),
        Json::Null | Json::Bool(_) | Json::Float(_) | Json::Object(_) => {}
    }
    all
}

/// Every value that differs from this one at one place.
fn mutations(value: &Json) -> Vec<Json> {
    let mut all = others(value);
    match value {
        Json::Object(members) => {
            for (name, member) in members {
                let mut without = members.clone();
                without.remove(name);
                all.push(Json::Object(without.clone()));
                for other in [format!("{name}_"), format!("a{name}"), name.to_uppercase()] {
                    let mut renamed = without.clone();
                    renamed.insert(other, member.clone());
                    all.push(Json::Object(renamed));
                }
                for changed in mutations(member) {
                    let mut with = without.clone();
                    with.insert(name.clone(), changed);
                    all.push(Json::Object(with));
                }
            }
            for more in ["", "a", "zz", "kind", "reason"] {
                let mut with = members.clone();
                with.entry(more.to_owned()).or_insert(Json::Int(1));
                all.push(Json::Object(with));
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                for changed in mutations(item) {
                    let mut with = items.clone();
                    with[at] = changed;
                    all.push(Json::Array(with));
                }
            }
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => {}
    }
    all
}

#[test]
fn every_kind_and_every_small_change_of_it_is_judged_as_a_foreign_validator_judges_it() {
    let document = document();
    let definitions = document.get("$defs").unwrap();
    let (mut accepted, mut refused) = (0_u32, 0_u32);
    for kind in Kind::ALL {
        let theirs = oracle(*kind);
        for full in [false, true] {
            let valid = sample(definitions.get(kind.as_str()).unwrap(), definitions, full);
            assert_eq!(check(*kind, &valid), Ok(()), "{valid:?}");
            assert!(theirs.is_valid(&valid.to_serde()), "{valid:?}");
            for value in mutations(&valid) {
                let (ours, expected) = (check(*kind, &value), theirs.is_valid(&value.to_serde()));
                assert_eq!(ours.is_ok(), expected, "{}: {value:?}: {ours:?}", kind.as_str());
                *(if expected { &mut accepted } else { &mut refused }) += 1;
            }
        }
    }
    // Both verdicts must occur, or the comparison proves nothing.
    assert!(accepted > 1_000 && refused > 10_000, "{accepted} accepted, {refused} refused");
}

#[test]
fn a_departure_is_named_by_its_place() {
    let data = r#"{"calls":[{"k":"call.denied","v":1},{"k":"call.denied","v":-1}],"entries":2}"#;
    let data = Json::parse(data.as_bytes(), &Limits::FILE).unwrap();
    let why = check(Kind::RunSealed, &data).unwrap_err().to_string();
    assert!(why.starts_with("`run.sealed` at `data.calls[1].v`: "), "{why}");
}
