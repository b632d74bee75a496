//! Proposals for recorded instructions.

use proptest::prelude::*;

use super::diff::common;
use super::shape::template;
use super::tokens::tokens;
use super::*;

fn leading(text: &str) -> InstructionBlock<'_> {
    InstructionBlock { place: Place::Leading, text }
}

fn mid(text: &str) -> InstructionBlock<'_> {
    InstructionBlock { place: Place::Mid, text }
}

const GUIDE: &str =
    "You are a careful assistant. Answer in one sentence, and say when you do not know.";

fn environment(path: &str, date: &str, branch: &str) -> String {
    format!(
        "Here is the environment:\nWorking directory: {path}\nPlatform: linux\nToday's date: {date}\n\
         Current branch: {branch}\nDo not touch files outside of the directory.\n"
    )
}

#[test]
fn equal_texts_become_blocks_and_similar_ones_a_template_with_holes_by_shape() {
    let bill = |hex: &str| format!("x-billing: version=2.1.330.{hex}; entry=cli; cch=00000;");
    let texts = [
        (bill("a1b"), environment("/home/alice/work", "2026-11-27", "main")),
        (bill("0ff"), environment("/srv/b/c/d", "2026-11-30", "fix/it-2")),
        (bill("123"), environment("/root", "2026-12-01", "main")),
    ];
    let requests: Vec<_> = texts
        .iter()
        .map(|(bill, environment)| vec![leading(bill), leading(GUIDE), mid(environment)])
        .collect();
    let proposed = propose(&requests);
    let forms: Vec<_> = proposed.iter().map(|one| one.template.as_deref()).collect();
    let expected = environment("{{path}}", "{{date}}", "{{word}}");
    assert_eq!(forms, [Some(bill("{{hex:3}}").as_str()), None, Some(&expected)]);
    assert_eq!(proposed[1].sha256, Digest::of(&[GUIDE.as_bytes()]));
    assert_eq!(proposed[1].scope, InstructionScope::Block);
    let places: Vec<_> = proposed.iter().map(|one| (one.place, one.required)).collect();
    let (first, last) = (InstructionPlace::Leading, InstructionPlace::Mid);
    assert_eq!(places, [(first, true), (first, true), (last, false)]);
    assert!(proposed.iter().all(|one| one.requests == 3));
    assert_eq!(proposed[0].loose_bytes, 0);
    assert_eq!(proposed[2].loose_bytes, "/home/alice/work".len() as u64 + 4);
}

#[test]
fn a_prompt_that_is_not_in_every_request_is_an_entry_and_not_required() {
    let title = "Generate a short title for the conversation, without quotes.";
    let requests = [vec![leading(title)], vec![leading(GUIDE)], vec![leading(GUIDE), mid(GUIDE)]];
    let proposed = propose(&requests);
    assert_eq!(proposed.len(), 2);
    assert!(proposed.iter().all(|one| !one.required && one.template.is_none()));
    assert_eq!((proposed[0].requests, proposed[1].requests), (1, 2));
    assert_eq!(proposed[1].place, InstructionPlace::Any);
}

#[test]
fn a_single_request_is_pinned_as_it_is() {
    let texts = environment("/a", "2026-11-27", "x");
    let proposed = propose(&[vec![leading(GUIDE), leading(&texts)]]);
    assert!(proposed.iter().all(|one| one.scope == InstructionScope::Block && one.required));
    assert_eq!(propose(&[]), []);
    assert_eq!(propose(&[vec![], vec![]]), []);
}

/// Two texts and the template of both.
const PAIRS: &[(&str, &str, &str)] = &[
    ("on Fri Nov 27 2026, go", "on Mon Nov 30 2026, go", "on {{date}}, go"),
    ("at 2026-11-27T09:16:00Z.", "at 2026-12-01T10:00:01Z.", "at {{date}}."),
    ("in `/a/b`, stay there", "in `/c`, stay there", "in `{{path}}`, stay there"),
    ("in C:\\a now go on", "in C:\\b\\c now go on", "in {{path}} now go on"),
    ("id 1f3b of the run", "id a0c4 of the run", "id {{hex:4}} of the run"),
    ("id 1234 of the run", "id 5678 of the run", "id {{word}} of the run"),
    ("added by the user now", "faced by the user now", "{{word}} by the user now"),
    ("v 1.2.3 is the newest", "v 1.12.4 is the newest", "v 1.{{word}} is the newest"),
    ("name: Jo Doe\nend of it", "name: Jürgen\nend of it", "name: {{line}}\nend of it"),
    ("a: \nend of it all", "a: x y\nend of it all", "a: {{line}}\nend of it all"),
    ("s:\nM a\nM b\nend of it", "s:\nnothing here\nend of it", "s:\n{{text:32}}\nend of it"),
    ("say {{word}} in /a now", "say {{word}} in /b now", "say {{word}} in {{path}} now"),
    ("say {{name}} in /a now", "say {{name}} in /b now", "say {{name}} in {{path}} now"),
];

#[test]
fn what_differs_becomes_the_narrowest_hole_that_fits_its_shape() {
    for (one, other, expected) in PAIRS {
        for pair in [[*one, *other], [*other, *one]] {
            let found = template(&pair).unwrap();
            assert_eq!(found, *expected, "{pair:?}");
        }
    }
}

#[test]
fn texts_that_differ_too_much_stay_blocks_of_their_own() {
    let other = "Summarise what happened so far in at most five bullet points for the reader.";
    let long = format!("{GUIDE}\n{}", "x y\n".repeat(3000));
    let longer = format!("{GUIDE}\n{}", "other z\n".repeat(3000));
    let proposed =
        propose(&[vec![leading(GUIDE), leading(&long)], vec![leading(other), leading(&longer)]]);
    assert_eq!(proposed.len(), 4);
    assert!(proposed.iter().all(|one| one.template.is_none()));
}

#[test]
fn a_recorded_request_matches_what_was_proposed_for_it_and_a_changed_one_does_not() {
    let texts: Vec<_> = (10..16)
        .map(|day| environment(&format!("/home/u{day}/p"), &format!("2026-11-{day}"), "main"))
        .collect();
    let requests: Vec<_> = texts.iter().map(|text| vec![leading(text)]).collect();
    let proposed = propose(&requests).remove(0);
    let read = InstructionTemplate::parse(proposed.template.unwrap().as_bytes()).unwrap();
    assert!(texts.iter().all(|text| read.loose_bytes(text).is_some()));
    let later = environment("/somewhere/else", "2027-01-01", "main");
    assert!(read.loose_bytes(&later).is_some());
    assert!(read.loose_bytes(&later.replace("not touch", "touch")).is_none());
}

/// Bytes of the longest common sequence, by the table.
fn longest(one: &[&str], other: &[&str]) -> usize {
    let mut row = vec![0; other.len() + 1];
    for x in one {
        let mut next = vec![0; other.len() + 1];
        for (j, y) in other.iter().enumerate() {
            next[j + 1] = if x == y { row[j] + 1 } else { next[j].max(row[j + 1]) };
        }
        row = next;
    }
    row[other.len()]
}

proptest! {
    #[test]
    fn the_common_pieces_are_in_order_equal_and_as_many_as_possible(
        one in prop::collection::vec("[abc]", 0..30),
        other in prop::collection::vec("[abc]", 0..30),
    ) {
        let one: Vec<&str> = one.iter().map(String::as_str).collect();
        let other: Vec<&str> = other.iter().map(String::as_str).collect();
        let found = common(&one, &other).unwrap();
        prop_assert!(found.iter().all(|(x, y)| one[*x] == other[*y]));
        prop_assert!(found.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
        prop_assert_eq!(found.len(), longest(&one, &other));
    }

    #[test]
    fn the_pieces_of_a_text_are_the_text(text in "([a-c/ .:{}\n~]|2026-11-27|\\{\\{word\\}\\}|ü){0,30}") {
        prop_assert_eq!(tokens(&text).concat(), text);
    }

    #[test]
    fn a_template_fits_all_texts_it_was_made_of(
        texts in prop::collection::vec("(you|are|/a/b|in|2026-11-27|\\{\\{word\\}\\}|\\{| |\n|1f|é){1,20}", 1..5),
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        if let Some(found) = template(&texts) {
            let read = InstructionTemplate::parse(found.as_bytes()).unwrap();
            prop_assert!(texts.iter().all(|text| read.loose_bytes(text).is_some()));
        }
        let requests: Vec<_> = texts.iter().map(|text| vec![leading(text)]).collect();
        let proposed = propose(&requests);
        prop_assert!(!proposed.is_empty() && proposed.len() <= texts.len());
    }
}
