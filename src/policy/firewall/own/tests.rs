//! What a file of rules may say, and what is wrong with one. `tests/credentials` searches with them.

use super::*;

fn file(form: RuleForm, text: &str) -> RuleFile {
    let name = match form {
        RuleForm::Shapes => "lab.yaml",
        RuleForm::Gitleaks => "ours.toml",
    };
    RuleFile { name: name.to_owned(), form, text: text.to_owned() }
}

fn wrong(form: RuleForm, text: &str) -> String {
    OwnRules::read(&[file(form, text)]).unwrap_err().to_string()
}

const SHAPE: &str = "shapes:\n  - kind: lab_key\n    prefixes: [labk_]\n    alphabet: lower\n    min: 24\n    max: 32\n";

#[test]
fn an_error_in_a_file_of_shapes_names_the_file_and_the_line() {
    OwnRules::read(&[file(RuleForm::Shapes, SHAPE)]).unwrap();
    for (from, to, line, says) in [
        ("lab_key", "Lab-Key", 2, "no name of a kind"),
        ("[labk_]", "[lk]", 3, "`lk` is none"),
        ("[labk_]", "[]", 3, "name 1 to 16"),
        ("lower", "greek", 4, "`greek` is no alphabet"),
        ("min: 24", "min: 2", 5, "at least 12"),
        ("max: 32", "max: 20", 6, "from `min`"),
        ("max: 32", "max: 32\n    distinct_min: 90", 7, "from 2"),
        ("max: 32", "max: 32\n    size: 5", 7, "size"),
        ("max: 32", "max: 32\n    left: none", 7, "none"),
    ] {
        let message = wrong(RuleForm::Shapes, &SHAPE.replace(from, to));
        assert!(message.starts_with(&format!("lab.yaml:{line}:")), "{message}");
        assert!(message.contains(says), "{message}");
    }
    let ours = wrong(RuleForm::Shapes, &SHAPE.replace("lab_key", "github"));
    assert_eq!(
        ours,
        "lab.yaml: the kind `github` is that of another rule: give this one another name"
    );
}

const RULE: &str = "title = \"ours\" # of the lab\n\n[[rules]]\nid = \"Lab-Token\"\ndescription = \"token of the lab\"\n\
    regex = '''(?i)lab[_-]?token\\s*[=:]\\s*([a-z0-9]{20,40})'''\nkeywords = [\n  \"labtoken\", # one\n  \"lab_token\",\n]\nentropy = 3.2\n\
    [[rules.allowlists]]\nregexTarget = \"match\"\nregexes = ['''never''']\nstopwords = [\"sample\"]\n";

#[test]
fn an_error_in_a_file_of_gitleaks_names_the_file_the_line_and_the_rule() {
    OwnRules::read(&[file(RuleForm::Gitleaks, RULE)]).unwrap();
    for (from, to, line, says) in [
        (
            "keywords = [\n  \"labtoken\", # one\n  \"lab_token\",\n]\n",
            "",
            3,
            "`Lab-Token` has no `keywords`",
        ),
        ("\"labtoken\"", "\"lt\"", 7, "the keyword `lt`"),
        ("\\s*[=:]", "(?=x)", 6, "the expression of `Lab-Token` is not supported"),
        ("{20,40}", "{20,4000000}", 6, "the expression of `Lab-Token` is not supported"),
        ("entropy = 3.2", "path = '''x'''", 11, "`path` of the rule `Lab-Token` is not supported"),
        ("entropy = 3.2", "secretGroup = 4", 3, "no group of its `secretGroup`"),
        ("entropy = 3.2", "entropy = \"a\"", 11, "`entropy` is no number"),
        ("stopwords", "paths", 15, "`paths` of an allowance of `lab_token` is not supported"),
        ("title = \"ours\"", "[extend]\nuseDefault = true", 1, "`extend` is not supported"),
        ("'''never'''", "'''never", 14, "a text does not end"),
        ("id = \"Lab-Token\"\n", "", 3, "no `id`"),
    ] {
        assert!(RULE.contains(from), "{from}");
        let message = wrong(RuleForm::Gitleaks, &RULE.replace(from, to));
        assert!(message.contains(says), "{message}");
        let place = message.strip_prefix("ours.toml:").unwrap();
        // A text that does not end is noticed at the end of the file.
        assert!(place.starts_with(&format!("{line}:")) || says.contains("end"), "{message}");
    }
    let twice = format!("{RULE}{}", RULE.split_once("\n\n").unwrap().1);
    assert!(
        wrong(RuleForm::Gitleaks, &twice).contains("the kind `lab_token` is that of another rule")
    );
}

#[test]
fn other_work_is_a_part_of_the_rules_and_counts_in_bytes() {
    assert_eq!([scaled(5000, MIB_MS), scaled(5000, 25), scaled(5000, 2500)], [5000, 500, 50_000]);
    let less = OwnRules::with_work(&[], 25).unwrap();
    assert_ne!(less.digest(), kinds::our_digest());
    let again = OwnRules::of_document(less.document().unwrap()).unwrap().unwrap();
    assert_eq!((again.mib_ms, again.digest()), (25, less.digest()));
    for wrong in [0, 24, 2501] {
        let error = OwnRules::with_work(&[], wrong).unwrap_err().to_string();
        assert!(error.contains("from 25 to 2500"), "{error}");
    }
}

#[test]
fn the_digest_of_all_rules_is_that_of_the_document_which_gives_the_same_rules() {
    let files = [file(RuleForm::Shapes, SHAPE), file(RuleForm::Gitleaks, RULE)];
    let rules = OwnRules::read(&files).unwrap();
    let document = rules.document().unwrap();
    assert_eq!(rules.digest(), Digest::of(&[document]));
    let again = OwnRules::of_document(document).unwrap().unwrap();
    assert_eq!(again.digest(), rules.digest());
    assert_eq!((again.shapes.len(), again.leaks.len()), (1, 1));
    let none = OwnRules::read(&[]).unwrap();
    assert_eq!((none.document(), none.digest()), (None, kinds::our_digest()));
    let other = OwnRules::read(&[file(RuleForm::Shapes, &SHAPE.replace("24", "25"))]).unwrap();
    assert_ne!(other.digest(), rules.digest());
    let of_others = String::from_utf8(document.to_vec()).unwrap().replace("sha256:", "sha256:0");
    assert!(OwnRules::of_document(of_others.as_bytes()).unwrap().is_none());
    assert!(OwnRules::of_document(b"{}").is_err());
}
