use super::super::manifest::Manifest;
use super::super::schema;
use super::super::templates::InstructionTemplate;
use super::super::tests::TEXT;
use super::*;
use std::sync::Arc;

fn hash(text: &str) -> String {
    Digest::of(&[text.as_bytes()]).hex()
}

/// A manifest with these instructions, and these templates loaded.
fn manifest(entries: &[String], templates: &[&str]) -> Manifest {
    let (before, rest) = TEXT.split_once("  instructions:\n").unwrap();
    let (_, after) = rest.split_once("  policy:").unwrap();
    let list = entries.iter().map(|entry| format!("    - {{{entry}}}\n")).collect::<String>();
    let list = if list.is_empty() { " []\n".to_owned() } else { format!("\n{list}") };
    let text = format!("{before}  instructions:{list}  policy:{after}");
    let mut manifest = schema::read(text.as_bytes(), "agent.yaml").unwrap();
    for text in templates {
        let template = InstructionTemplate::parse(text.as_bytes()).unwrap();
        manifest.templates.insert(Digest::of(&[text.as_bytes()]), Arc::new(template));
    }
    manifest
}

fn entry(scope: &str, text: &str, more: &str) -> String {
    format!("scope: \"{scope}\", sha256: \"{}\"{more}", hash(text))
}

/// `!` begins a block in the middle.
fn checked(manifest: &Manifest, texts: &[&str]) -> Result<MatchedInstructions, String> {
    let blocks: Vec<_> = texts
        .iter()
        .map(|text| match text.strip_prefix('!') {
            Some(text) => InstructionBlock { place: Place::Mid, text },
            None => InstructionBlock { place: Place::Leading, text },
        })
        .collect();
    check(manifest, &blocks).map_err(|mismatch| mismatch.to_string())
}

fn shown(found: &MatchedInstructions) -> String {
    let one = |is: &MatchedInstruction| {
        format!("{}:{}:{}", is.name.as_deref().unwrap_or("-"), is.scope, is.place)
    };
    let all = found.instructions.iter().map(one).collect::<Vec<_>>().join(" ");
    format!("{all} {}", found.loose_bytes)
}

#[test]
fn without_listed_instructions_nothing_is_demanded_and_all_is_loose() {
    let manifest = manifest(&[], &[]);
    assert_eq!(checked(&manifest, &[]).unwrap(), MatchedInstructions::default());
    assert_eq!(checked(&manifest, &["abc", "!de"]).unwrap().loose_bytes, 5);
}

#[test]
fn whole_covers_all_leading_blocks_joined_by_one_line_feed() {
    let manifest = manifest(&[entry("whole", "a\nb", ", name: prompt")], &[]);
    for texts in [&["a", "b"][..], &["a\nb"]] {
        assert_eq!(shown(&checked(&manifest, texts).unwrap()), "prompt:whole:leading 0");
    }
    for texts in [&["a"][..], &["b", "a"], &["a", "b", "c"], &["ab"], &["a", "", "b"], &[]] {
        assert!(checked(&manifest, texts).is_err(), "{texts:?}");
    }
    assert!(checked(&manifest, &["a", "b", "!c"]).is_err());
    assert!(checked(&manifest, &["!a", "!b"]).is_err());
}

#[test]
fn each_block_has_the_entry_that_covers_it() {
    let entries = [
        entry("whole", "a\nb", ", name: all"),
        entry("block", "x", ", name: x, place: any"),
        entry("block", "y", ", name: y"),
    ];
    let manifest = manifest(&entries, &[]);
    let names = |texts: &[&str]| {
        let found = checked(&manifest, texts).unwrap();
        let names = found.blocks.into_iter().map(|one| (one.name.unwrap(), one.place.as_str()));
        names.collect::<Vec<_>>()
    };
    let of = |name: &str, place: &'static str| (name.to_owned(), place);
    let all = of("all", "leading");
    assert_eq!(names(&["a", "b", "!x"]), [all.clone(), all, of("x", "mid")]);
    assert_eq!(names(&["y", "x", "y"]), ["y", "x", "y"].map(|name| of(name, "leading")));
}

#[test]
fn a_prefix_leaves_what_follows_loose() {
    let manifest = manifest(&[entry("prefix:3", "a\nb", "")], &[]);
    assert_eq!(shown(&checked(&manifest, &["a", "bcd"]).unwrap()), "-:prefix:3:leading 2");
    assert_eq!(checked(&manifest, &["a\nb"]).unwrap().loose_bytes, 0);
    assert!(checked(&manifest, &["a\n"]).is_err());
    assert!(checked(&manifest, &["xa\nb"]).is_err());
}

#[test]
fn every_block_needs_an_entry_and_a_block_stands_where_the_entry_allows() {
    let manifest = manifest(
        &[
            entry("first_block", "first", ", name: first"),
            entry("block", "two", ", name: two, place: any"),
            entry("block", "mid", ", name: mid, place: mid"),
        ],
        &[],
    );
    let fine = [
        (&["first"][..], "first:first_block:leading 0"),
        (&["first", "two"], "first:first_block:leading two:block:leading 0"),
        (&["two", "!two", "!mid"], "two:block:leading two:block:mid mid:block:mid 0"),
        (&["two", "two"], "two:block:leading 0"),
    ];
    for (texts, expected) in fine {
        assert_eq!(shown(&checked(&manifest, texts).unwrap()), expected, "{texts:?}");
    }
    for texts in
        [&["two", "first"][..], &["mid"], &["first", "!first"], &["first", "!x"], &["!mid"]]
    {
        assert!(checked(&manifest, texts).is_err(), "{texts:?}");
    }
    let why = checked(&manifest, &["first", "other", "!x"]).unwrap_err();
    let expected = "leading instructions 2 (5 bytes) match no entry of the manifest; \
                    mid instructions 1 (1 bytes) match no entry of the manifest";
    assert_eq!(why, expected);
}

#[test]
fn a_required_entry_has_to_be_there_and_is_recorded() {
    let entries = [
        entry("whole", "a\nb", ", name: all"),
        entry("block", "b", ", name: b, required: true"),
        entry("block", "a", ", name: a"),
    ];
    let manifest = manifest(&entries, &[]);
    let found = checked(&manifest, &["a", "b"]).unwrap();
    assert_eq!(shown(&found), "all:whole:leading b:block:leading 0");
    let why = checked(&manifest, &["a"]).unwrap_err();
    assert_eq!(why, "the required instructions `b` are not there");
}

#[test]
fn a_template_counts_its_loose_bytes_and_the_tightest_reading_wins() {
    let (form, wide) = ("in {{path}} on {{date}}", "in {{line}}");
    let entries = [
        entry("template", wide, ", name: wide, place: any"),
        entry("template", form, ", name: env, place: any"),
        entry("block", "you", ", name: you"),
        entry("prefix:3", "you", ", name: start"),
    ];
    let manifest = manifest(&entries, &[form, wide]);
    let found = checked(&manifest, &["you", "!in /ab on 2026-11-27"]).unwrap();
    assert_eq!(shown(&found), "you:block:leading env:template:mid 3");
    let found = checked(&manifest, &["you", "in x"]).unwrap();
    assert_eq!(shown(&found), "you:block:leading wide:template:leading 1");
    let found = checked(&manifest, &["you", "but then"]).unwrap();
    assert_eq!(shown(&found), "start:prefix:3:leading 9");
    assert!(checked(&manifest, &["you", "!in /ab\n"]).is_err());
}

#[test]
fn the_blocks_that_match_no_entry_are_those_that_a_refusal_names() {
    let entries =
        [entry("whole", "a\nb", ""), entry("block", "c", ", place: any"), entry("block", "d", "")];
    let manifest = manifest(&entries, &[]);
    let of = |texts: &[(Place, &str)]| {
        let blocks: Vec<_> =
            texts.iter().map(|(place, text)| InstructionBlock { place: *place, text }).collect();
        unlisted(&manifest, &blocks)
    };
    let (leading, mid) = (Place::Leading, Place::Mid);
    assert_eq!(of(&[(leading, "a"), (leading, "b"), (mid, "x")]), [2]);
    assert_eq!(of(&[(leading, "c"), (leading, "a"), (mid, "d")]), [1, 2]);
    assert_eq!(of(&[(leading, "d"), (mid, "c")]), Vec::<usize>::new());
}

#[test]
fn a_template_that_was_not_loaded_matches_nothing() {
    let form = "in {{line}}";
    let bare = manifest(&[entry("template", form, "")], &[]);
    assert!(checked(&bare, &["in x"]).is_err());
    assert!(checked(&bare, &[form]).is_err());
}

#[test]
fn a_flood_of_blocks_is_one_refusal_of_a_few_lines() {
    let manifest = manifest(&[entry("whole", "a", "")], &[]);
    let why = checked(&manifest, &["x"; 40]).unwrap_err();
    assert_eq!(why.matches("; ").count(), 8, "{why}");
    assert!(why.ends_with("and 32 more differences"), "{why}");
    let why = checked(&manifest, &["x"; BLOCKS_MAX + 1]).unwrap_err();
    assert_eq!(why, "the request has 1025 blocks of instructions, at most 1024 are compared");
}
