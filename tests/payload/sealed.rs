//! Payloads that lie encrypted.

use std::os::unix::fs::PermissionsExt;

use crate::keeper::{IBAN, Keeper, args, holds, outcome, whole};

#[tokio::test(flavor = "multi_thread")]
async fn with_a_key_no_plain_text_reaches_the_disk_and_everything_still_works() {
    let keeper = Keeper::sqlite().await;
    keeper.encrypt("payload.key", &[]);
    let (mut sidecar, agent) = keeper.served(20).await;
    assert!(!holds(&keeper.raw(), IBAN) && !holds(&keeper.raw(), "note-0003-end"));
    assert!(keeper.listed(&[]).iter().all(|payload| payload["encrypted"] == true));
    // Recorded answers are read back through the key.
    let ran = keeper.tool.count();
    assert!(agent.call("work.do", "c3", &args(3)).await.unwrap().contains(IBAN));
    assert_eq!(keeper.tool.count(), ran);
    let conflict = agent.call("work.do", "c3", &args(4)).await.unwrap_err();
    assert_eq!(conflict.code, "call.conflict");
    agent.seal().await.unwrap();
    let bundle = keeper.export(&agent.run, "opened", &[]);
    assert!(holds(&whole(&bundle), IBAN));
    assert_eq!(outcome(&keeper.verify(&bundle), "P1").0, "VALID");
    // Without the key nothing is opened, and the bundle says why.
    let from = ["--sqlite", "state/ledger.sqlite"];
    let bundle = keeper.export_from(&from, &agent.run, "closed", &[]);
    assert!(!holds(&whole(&bundle), IBAN));
    let report = keeper.verify(&bundle);
    assert!(report["not_proven"].to_string().contains("encrypted"), "{report}");
    let text = std::fs::read_to_string(bundle.join("payloads/index.json")).unwrap();
    assert_eq!(text.matches(r#""why":"encrypted""#).count(), 60);
    keeper.erase(&["--run", &agent.run]);
    assert_eq!(keeper.listed(&[]).len(), 0);
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_encrypts_from_now_on_and_the_old_one_still_reads() {
    let keeper = Keeper::sqlite().await;
    keeper.encrypt("one.key", &[]);
    let (mut sidecar, agent) = keeper.served(1).await;
    sidecar.stop().await;
    keeper.encrypt("two.key", &["one.key"]);
    let mut sidecar = keeper.estate.serve().await;
    let agent_after = sidecar.open().await;
    agent_after.call("work.do", "c", &args(1)).await.unwrap();
    sidecar.stop().await;
    // The first run is sealed by now or was taken up again; either way its payloads open with the old.
    for (n, (run, key, opened)) in [
        (&agent.run, "one.key", true),
        (&agent.run, "two.key", false),
        (&agent_after.run, "two.key", true),
        (&agent_after.run, "one.key", false),
    ]
    .into_iter()
    .enumerate()
    {
        let from = ["--sqlite", "state/ledger.sqlite", "--encryption-key", key];
        let bundle = keeper.export_from(&from, run, &format!("b{n}"), &[]);
        assert_eq!(holds(&whole(&bundle), IBAN), opened, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_bytes_are_an_error_and_never_text() {
    let keeper = Keeper::sqlite().await;
    keeper.encrypt("payload.key", &[]);
    let (mut sidecar, agent) = keeper.served(1).await;
    keeper.sql("DROP TRIGGER payload_no_update").await;
    keeper.sql(
        "UPDATE stored_payload SET body = CAST(substr(body, 1, 40) ||
           CASE substr(body, 41, 1) WHEN x'00' THEN x'01' ELSE x'00' END || substr(body, 42) AS BLOB)",
    )
    .await;
    let refused = agent.call("work.do", "c0", &args(0)).await.unwrap_err();
    assert_eq!(refused.code, "ledger.unavailable", "{refused:?}");
    assert_eq!(keeper.tool.count(), 1);
    agent.seal().await.unwrap();
    let bundle = keeper.export(&agent.run, "shown", &[]);
    let text = std::fs::read_to_string(bundle.join("payloads/index.json")).unwrap();
    assert_eq!(text.matches(r#""why":"damaged""#).count(), 3, "{text}");
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_others_may_read_starts_nothing() {
    let keeper = Keeper::sqlite().await;
    keeper.encrypt("payload.key", &[]);
    let key = keeper.path("payload.key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    let mut sidecar = keeper.estate.start();
    sidecar.ends(78).await;
    assert!(sidecar.said().contains("mode 644"), "{}", sidecar.said());
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let (mut sidecar, agent) = keeper.served(1).await;
    agent.seal().await.unwrap();
    sidecar.stop().await;
    // Another key reads nothing, and says so.
    keeper.encrypt("other.key", &[]);
    let bundle = keeper.export(&agent.run, "shown", &[]);
    assert!(!holds(&whole(&bundle), IBAN));
}
