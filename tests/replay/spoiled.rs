//! A recording that was changed, cut, mixed up or made by a later version is not replayed at all.

use serde_json::{Value, json};
use wicketgate::domain::digest::Digest;

use crate::rig::{Rig, agent, rounds};

/// The lines of a recording.
type Lines = Vec<String>;

/// Makes the last line true to the others again: somebody knew how.
pub fn sealed(mut lines: Lines) -> Lines {
    lines.pop();
    let steps = lines.iter().filter(|line| line.contains("\"t\":\"step\"")).count();
    let whole: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let digest = Digest::of(&[whole.as_bytes()]).prefixed();
    lines.push(format!("{{\"sha256\":\"{digest}\",\"steps\":{steps},\"t\":\"end\"}}"));
    lines
}

/// One line, changed.
fn with(lines: &Lines, at: usize, from: &str, to: &str) -> Lines {
    let mut lines = lines.clone();
    assert!(lines[at].contains(from), "{}", lines[at]);
    lines[at] = lines[at].replacen(from, to, 1);
    lines
}

#[test]
fn a_recording_that_is_not_what_was_written_is_refused_with_the_line_and_the_reason() {
    let mut rig = Rig::new(&json!({"mode": "record"}));
    let calls = rounds(&[("look.up", json!({"name": "ada"})), ("look.up", json!({"name": "bob"}))]);
    rig.record(&agent(&calls));
    let text = std::fs::read_to_string(rig.path("run.recording")).unwrap();
    let lines: Lines = text.lines().map(str::to_owned).collect();
    let step = lines.iter().position(|line| line.contains("\"t\":\"step\"")).unwrap();
    let first: Value = serde_json::from_str(&lines[0]).unwrap();
    let manifest = first["manifest"].as_str().unwrap();
    let joined = |lines: &Lines| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let edited = with(&lines, step, "\"number\\\":1", "\"number\\\":7");
    let args = with(&lines, step, "{\"name\":\"ada\"}", "{\"name\":\"eve\"}");
    let other = "sha256:".to_owned() + &"ab".repeat(32);
    let dropped: Lines = lines
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != step)
        .map(|(_, line)| line.clone())
        .collect();
    let mut swapped = lines.clone();
    swapped.swap(step, step + 1);
    for (what, spoiled, why) in [
        ("an edited result", joined(&edited), "`result` is not what was recorded"),
        ("an edited result, sealed again", joined(&sealed(edited)), "`result` is not what"),
        ("edited arguments, sealed again", joined(&sealed(args)), "`args` is not what"),
        ("a dropped step", joined(&dropped), "step 2 is where step 1 should be"),
        ("swapped steps", joined(&sealed(swapped)), "step 2 is where step 1 should be"),
        (
            "an edited decision",
            joined(&with(&lines, step, "\"allow\"", "\"deny\"")),
            "it was changed",
        ),
        ("no last line", joined(&lines[..lines.len() - 1].to_vec()), "the last line is missing"),
        ("half a line", text[..text.len() - 9].to_owned(), "in the middle of a line"),
        ("one line more", text.clone() + "{\"t\":\"step\"}\n", "after the last line"),
        (
            "a later version",
            joined(&with(&lines, 0, "wicketgate/recording/2", "wicketgate/recording/3")),
            "this build reads `wicketgate/recording/2`",
        ),
        (
            "another manifest",
            joined(&sealed(with(&lines, 0, manifest, &other))),
            "is of another manifest",
        ),
        ("spaces", text.replacen("\"agent\":", "\"agent\": ", 1), "canonical"),
        ("nothing", String::new(), "line"),
        ("something else", "{\"t\":\"step\"}\n".to_owned(), "it is no recording"),
    ] {
        std::fs::write(rig.path("run.recording"), &spoiled).unwrap();
        let ran = rig.replay(&["--json"], &agent(&calls));
        assert_eq!(ran.code, 2, "{what}: {ran:?}");
        assert!(ran.err.contains(why), "{what}: {ran:?}");
        assert_eq!(rig.try_run(&["replay", "check", "run.recording"]).code, 2, "{what}");
    }
    // The version before had no child runs, and nothing else.
    let earlier = text.replacen("wicketgate/recording/2", "wicketgate/recording/1", 1);
    let earlier = joined(&sealed(earlier.lines().map(str::to_owned).collect()));
    for text in [text, earlier] {
        std::fs::write(rig.path("run.recording"), &text).unwrap();
        assert_eq!(rig.replay(&[], &agent(&calls)).code, 0);
    }
}

#[test]
fn a_recording_that_is_changed_while_it_is_played_answers_nothing_more_and_says_so() {
    let mut rig = Rig::new(&json!({"mode": "record"}));
    let one = |name: &str| json!([["look.up", {"name": name}]]);
    rig.record(&agent(&json!([one("ada"), one("bob")])));
    let path = rig.path("run.recording");
    let text = std::fs::read_to_string(&path).unwrap();
    let edited = text.replacen("\"number\\\":2", "\"number\\\":9", 1);
    assert_ne!(edited, text);
    for (spoiled, why) in [(edited.as_str(), "step 2 was changed"), ("", "fill whole buffer")] {
        std::fs::write(&path, &text).unwrap();
        std::fs::write(rig.path("spoiled"), spoiled).unwrap();
        let spoil = format!("cat {} > {}", rig.path("spoiled").display(), path.display());
        let ran = rig.replay(&[], &agent(&json!([one("ada"), spoil, one("bob")])));
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(format!("{}{}", ran.out, ran.err).contains(why), "{ran:?}");
        assert!(ran.out.contains("\"number\":1") && !ran.out.contains("\"number\":9"), "{ran:?}");
    }
}
