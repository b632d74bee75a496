//! A statement has one form.

use wicketgate::approval::{
    ApprovalStatement, ApproverVerdict, SignedApproval, Statement as _, check,
};

use crate::holds::{ALICE, approvers, hold, now, signed, statement};

fn why(bytes: &[u8]) -> String {
    ApprovalStatement::parse(bytes).unwrap_err().to_string()
}

#[test]
fn a_statement_reads_back_as_it_was_written() {
    let mut said = statement(ApproverVerdict::Approve);
    assert_eq!(ApprovalStatement::parse(&said.bytes()).unwrap(), said);
    said.definition = None;
    said.layers.clear();
    assert_eq!(ApprovalStatement::parse(&said.bytes()).unwrap(), said);
}

#[test]
fn any_other_spelling_is_refused() {
    let text = String::from_utf8(statement(ApproverVerdict::Approve).bytes()).unwrap();
    let table = [
        (text.replace("\",\"", "\", \""), "canonical"),
        (format!("{text}\n"), "canonical"),
        (text.replace("{\"call_digest\"", "{\"a\":1,\"call_digest\""), "unknown member `a`"),
        (text.replace("\"verdict\":\"approve\"", "\"verdict\":\"allow\""), "`verdict`"),
        (
            text.replace(
                "\"verdict\":\"approve\"",
                "\"verdict\":\"approve\",\"verdict\":\"refuse\"",
            ),
            "verdict",
        ),
        (text.replace("\"nonce\":\"0", "\"nonce\":\"G"), "`nonce`"),
        (text.replace("\"nonce\":\"0123456789abcdef", "\"nonce\":\"0123456789ABCDEF"), "`nonce`"),
        (text.replace("sha256:", ""), "canonical"),
        (text.replace(".000Z", "Z"), ""),
        (text[..text.len() - 2].to_owned(), ""),
        ("[]".into(), "no object"),
        (format!("\"{}\"", "x".repeat(60_000)), "longer than"),
    ];
    for (text, expected) in table {
        let why = why(text.as_bytes());
        assert!(why.contains(expected), "`{why}` of {text}");
    }
}

#[test]
fn a_signature_over_a_pretty_printed_or_cut_statement_counts_for_nothing() {
    use wicketgate::crypto::ssh::{PLAIN, SshKey, put};
    use wicketgate::crypto::sshsig::{SshHash, SshSig, covered};
    let said = statement(ApproverVerdict::Approve);
    let text = String::from_utf8(said.bytes()).unwrap();
    for other in [text.replace(':', ": "), text[..text.len() - 30].to_owned()] {
        let key = crate::holds::key(ALICE);
        let space = wicketgate::approval::NAMESPACE;
        let mut answer = Vec::new();
        put(&mut answer, PLAIN.as_bytes());
        put(&mut answer, &key.sign(&covered(space, SshHash::Sha256, other.as_bytes())));
        let made = SshSig::answered(SshKey::Plain(key.public()), space, SshHash::Sha256, &answer);
        let made = made.unwrap();
        made.verify(space, other.as_bytes()).unwrap();
        let refused = check(&hold(), &approvers(), other.as_bytes(), &made.armored(), now());
        assert_eq!(refused.unwrap_err().code(), "approval.statement");
    }
}

#[test]
fn the_payload_of_an_entry_has_one_form_too() {
    let said = statement(ApproverVerdict::Approve);
    let statement = String::from_utf8(said.bytes()).unwrap();
    let signed = SignedApproval { statement, signature: signed(ALICE, &said) };
    assert_eq!(SignedApproval::parse(&signed.bytes()).unwrap(), signed);
    let text = String::from_utf8(signed.bytes()).unwrap();
    assert!(SignedApproval::parse(text.replacen(':', ": ", 1).as_bytes()).is_none());
    assert!(SignedApproval::parse(text.replacen('{', "{\"a\":1,", 1).as_bytes()).is_none());
}
