//! The signed list of approvers: what it may say, and that only those who may sign it do.

use wicketgate::approval::approvers::{Approvers, PAYLOAD_TYPE, Purpose};
use wicketgate::crypto::dsse;

use crate::holds::{ALICE, BOB, MALLORY, key, line, list};

fn why(text: &str) -> String {
    Approvers::parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_list_counts_only_with_enough_signatures_over_exactly_it() {
    let (text, trusted) = (list(), [key(10).public(), key(11).public()]);
    let by = |signers: &[u8], payload: &str| {
        let keys: Vec<_> = signers.iter().map(|n| key(*n)).collect();
        dsse::sign(PAYLOAD_TYPE, payload.as_bytes(), &keys.iter().collect::<Vec<_>>())
    };
    let open = |envelope: &[u8], threshold| {
        Approvers::open(Purpose::Approval, text.as_bytes(), envelope, (&trusted, threshold))
    };
    assert_eq!(open(&by(&[10, 11], &text), 2).unwrap().signers().len(), 2);
    open(&by(&[10], &text), 2).unwrap_err();
    open(&by(&[10, 10], &text), 2).unwrap_err();
    open(&by(&[10, MALLORY], &text), 2).unwrap_err();
    let other = by(&[10, 11], &line("mallory", MALLORY, "", "approver"));
    assert!(open(&other, 2).unwrap_err().to_string().contains("another list"));
    let manifest = dsse::sign(
        "application/vnd.wicketgate.manifest.v1+yaml",
        text.as_bytes(),
        &[&key(10), &key(11)],
    );
    open(&manifest, 2).unwrap_err();
}

#[test]
fn a_line_that_could_mean_something_else_to_somebody_else_is_refused() {
    let good = line("alice", ALICE, "", "approver");
    let other = line("bob", BOB, "", "approver");
    let table = [
        (good.replace("alice ", "alice,bob "), "subject"),
        (good.replace("alice ", "* "), "subject"),
        (good.replace("alice ", "\"alice\" "), "subject"),
        (good.replace(" namespaces=\"wicketgate-approval\"", ""), "options"),
        (good.replace("wicketgate-approval", "git"), "not for `wicketgate-approval`"),
        (good.replace("namespaces", "cert-authority,namespaces"), "options"),
        (good.replace("\" ssh", "\",namespaces=\"git\" ssh"), "twice"),
        (good.replace("\" ssh", "\",verify-required=\"x\" ssh"), "not used here"),
        (good.replace("\" ssh", "\",valid-after=\"20270101\" ssh"), "no time in UTC"),
        (good.replace("\" ssh", "\",valid-after=\"20271301Z\" ssh"), "no time in UTC"),
        (
            good.replace("\" ssh", "\",valid-after=\"20270102Z\",valid-before=\"20270101Z\" ssh"),
            "not after",
        ),
        (good.replace("ssh-ed25519", "ssh-rsa"), "`ssh-rsa` are not supported"),
        (good.replace("ssh-ed25519", "ecdsa-sha2-nistp256"), "are not supported"),
        (good.replace("ssh-ed25519", "sk-ssh-ed25519@openssh.com"), "another type"),
        (good.replace(" roles=approver", ""), "roles"),
        (good.replace("roles=approver", "alice@laptop"), "roles"),
        (good.replace("roles=approver", "roles=approver,approver"), "roles"),
        (good.replace("roles=approver", "roles="), "roles"),
        (good.replace('\n', "\r\n"), "printable"),
        (good.replace("alice", "al\u{456}ce"), "printable"),
        (format!("{good}{good}"), "line 2: the key is in the list before"),
        (format!("{good}{}", other.replace("bob", "Alice")), "differ in case only"),
    ];
    for (text, expected) in table {
        let why = why(&text);
        assert!(why.contains(expected), "`{why}` of {text}");
    }
    // Of several namespaces one has to be ours, and a subject may have two keys.
    let wide = good.replace("wicketgate-approval", "git,wicketgate-approval");
    Approvers::parse(wide.as_bytes()).unwrap();
    let two = format!("{good}\n# another key\n{}", other.replace("bob", "alice"));
    assert_eq!(Approvers::parse(two.as_bytes()).unwrap().signers().len(), 2);
}

#[test]
fn a_list_says_once_and_before_its_keys_which_it_is() {
    let good = line("alice", ALICE, "", "approver");
    let edition =
        |first: &str| Approvers::parse(format!("{first}\n{good}").as_bytes()).unwrap().edition();
    assert_eq!((edition("# people").version, edition("# people").expires), (0, None));
    let said = edition("#wicketgate: version=7 expires=20270131Z");
    assert_eq!(said.version, 7);
    assert_eq!(said.expires.unwrap().to_string(), "2027-01-31T00:00:00.000Z");
    let table = [
        ("# wicketgate:", "no `version=…`"),
        ("# wicketgate: expires=20270131Z", "no `version=…`"),
        ("# wicketgate: version=", "a version is a number"),
        ("# wicketgate: version=+1", "a version is a number"),
        ("# wicketgate: version=9007199254740992", "a version is a number"),
        ("# wicketgate: version=1 version=2", "twice"),
        ("# wicketgate: version=1 expires=2027", "no time in UTC"),
        ("# wicketgate: version=1 until=20270131Z", "neither"),
        ("# wicketgate: version 1", "neither"),
        ("# wicketgate: version=1\n# wicketgate: version=1", "once"),
    ];
    for (first, wanted) in table {
        let said = why(&format!("{first}\n{good}"));
        assert!(said.contains("line") && said.contains(wanted), "{first}: {said}");
    }
    let said = why(&format!("{good}# wicketgate: version=1\n"));
    assert!(said.contains("line 2") && said.contains("before the first key"), "{said}");
}
