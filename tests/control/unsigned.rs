//! A row in a table is nobody's word: what takes back a stop is signed by an operator, and is on the gate's own
//! chain before it is obeyed.

use serde_json::Value;
use wicketgate::approval::order::OrderStatement;
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::approval::{SignedApproval, Statement as _};
use wicketgate::clock::SystemEntropy;
use wicketgate::control::answer;
use wicketgate::control::{Action, Order, Row, Target};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::time::Timestamp;

use crate::agent::Agent;
use crate::control::{
    Setup, agent, done, given, on_both_stores, put, put_until, refused, signed, statement,
};

on_both_stores!(
    rows_that_no_operator_signed_take_nothing_back,
    a_signed_order_takes_back_what_its_signer_saw_and_nothing_later,
    what_was_stopped_and_taken_back_is_what_the_chain_says_whatever_becomes_of_list_and_keys,
);

/// Writes a row beside the office, as anybody can who may write the table; what the gate did about it.
async fn insert(setup: &Setup, order: Order) -> Value {
    let now = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
    let seq = setup.operator.put(now, &given(), &order).await.unwrap();
    done(&answer::wait(&*setup.operator, seq, crate::waiting::PATIENCE).await.unwrap())
}

async fn last(setup: &Setup) -> Row {
    setup.operator.last().await.unwrap().unwrap()
}

async fn asked(run: &Agent, call: &str) -> Result<(), (String, String)> {
    let answer = run.call("work.do", call, "{}").await;
    match &answer {
        Ok(_) => Ok(()),
        Err(_) => {
            let (code, detail) = refused(&answer);
            Err((code.to_owned(), detail.to_owned()))
        }
    }
}

fn stopped() -> Result<(), (String, String)> {
    Err(("policy.denied".into(), "control.suspended".into()))
}

/// Signed by this key and in this namespace, whatever they are.
fn by(secret: SecretKey, namespace: &str, statement: &OrderStatement) -> SignedApproval {
    let bytes = statement.bytes();
    let signature = sign_bytes(&Key::File(secret), namespace, &bytes).unwrap();
    SignedApproval { statement: String::from_utf8(bytes).unwrap(), signature }
}

async fn rows_that_no_operator_signed_take_nothing_back(mut setup: Setup) {
    let run = setup.sidecar.open().await;
    done(&setup.order(Action::Suspend, agent()).await);
    let row = last(&setup).await;
    let good = || statement(&agent(), None, &row);
    let unsigned = |statement: &OrderStatement| SignedApproval {
        statement: String::from_utf8(statement.bytes()).unwrap(),
        signature: String::new(),
    };
    let stranger = || SecretKey::generate(&SystemEntropy);
    let mut other_row = good();
    other_row.previous.digest = wicketgate::domain::digest::Digest::of(&[b"another list"]);
    let mut not_yet = good();
    not_yet.previous.seq = row.seq + 40;
    let later = Timestamp::from_millis(4_000_000_000_000);
    let altered = |change: fn(&mut OrderStatement)| {
        let mut other = good();
        let SignedApproval { signature, .. } = signed(&statement(&Target::All, None, &row));
        change(&mut other);
        SignedApproval { statement: String::from_utf8(other.bytes()).unwrap(), signature }
    };
    let rows = [
        (Order::Switch { action: Action::Reinstate, target: agent() }, "order.unsigned"),
        (Order::Switch { action: Action::Reinstate, target: Target::All }, "order.unsigned"),
        (Order::Loosen(unsigned(&good())), "order.unsigned"),
        (
            Order::Loosen(SignedApproval { statement: "{}".into(), signature: "-".into() }),
            "order.statement",
        ),
        (Order::Loosen(by(stranger(), "wicketgate-order", &good())), "order.signer"),
        (Order::Loosen(by(stranger(), "wicketgate-approval", &good())), "order.namespace"),
        (Order::Loosen(altered(|_| {})), "order.signature"),
        (Order::Loosen(altered(|one| one.reason = "altered".into())), "order.signature"),
        (
            Order::Loosen(signed(&OrderStatement { tenant: "other".into(), ..good() })),
            "order.tenant",
        ),
        (Order::Loosen(signed(&OrderStatement { at: later, ..good() })), "order.future"),
        (Order::Loosen(signed(&other_row)), "order.previous"),
        (Order::Loosen(signed(&not_yet)), "order.previous"),
        (
            Order::Loosen(signed(&OrderStatement { target: "gate".into(), ..good() })),
            "order.target",
        ),
    ];
    let count = rows.len();
    for (n, (order, detail)) in rows.into_iter().enumerate() {
        let told = insert(&setup, order).await;
        assert_eq!(told["detail"], detail, "{n}: {told}");
        assert_eq!(asked(&run, &format!("a{n}")).await, stopped(), "{n}");
    }
    setup.restart().await;
    assert_eq!(asked(&run, "b").await, stopped(), "a restart believes them no more");
    let metrics = setup.sidecar.metrics().await;
    assert!(metrics.contains("wicketgate_control_orders_refused_total"), "{metrics}");
    let told =
        insert(&setup, Order::Loosen(signed(&statement(&agent(), None, &last(&setup).await))))
            .await;
    assert_eq!(told["subject"], "olga", "{told}");
    asked(&run, "c").await.unwrap();
    let database = setup.close().await;
    assert_eq!(database["kinds"]["control.refused"].as_u64(), Some(count as u64), "{database}");
}

async fn a_signed_order_takes_back_what_its_signer_saw_and_nothing_later(mut setup: Setup) {
    let run = setup.sidecar.open().await;
    done(&setup.order(Action::Suspend, agent()).await);
    let first = Order::Loosen(signed(&statement(&agent(), None, &last(&setup).await)));
    insert(&setup, first.clone()).await;
    asked(&run, "a").await.unwrap();
    // Signed before the second stop, put on the list after it; and once more, also over a restart.
    done(&setup.order(Action::Suspend, agent()).await);
    for n in 0..2 {
        assert_eq!(insert(&setup, first.clone()).await["detail"], "order.used");
        assert_eq!(asked(&run, &format!("b{n}")).await, stopped(), "{n}");
        setup.restart().await;
        assert_eq!(asked(&run, &format!("c{n}")).await, stopped(), "{n}");
    }
    setup.close().await;
}

async fn what_was_stopped_and_taken_back_is_what_the_chain_says_whatever_becomes_of_list_and_keys(
    mut setup: Setup,
) {
    let run = setup.sidecar.open().await;
    let soon = Timestamp::from_millis(4_000_000_000_000);
    put_until(&*setup.operator, Action::Suspend, Target::Agent("other".into()), Some(soon)).await;
    done(&setup.order(Action::Suspend, agent()).await);
    let lifted = Order::Loosen(signed(&statement(&agent(), None, &last(&setup).await)));
    insert(&setup, lifted).await;
    // From here on nobody is an operator any more.
    setup.estate.configure(|config| config["approvals"] = serde_json::json!({}));
    for n in 0..3 {
        setup.restart().await;
        asked(&run, &format!("a{n}")).await.unwrap();
    }
    let seq = put(&*setup.operator, Action::Suspend, agent()).await;
    done(&answer::wait(&*setup.operator, seq, crate::waiting::PATIENCE).await.unwrap());
    // Whoever owns the table has the stop lapse, and it stands all the same.
    setup.sidecar.kill();
    setup.lapse(seq).await;
    for n in 0..3 {
        setup.sidecar.kill();
        setup.sidecar = setup.estate.serve().await;
        assert_eq!(asked(&run, &format!("b{n}")).await, stopped(), "{n}");
    }
    let order = Order::Switch { action: Action::Kill, target: Target::Agent("nobody".into()) };
    insert(&setup, order).await;
    let late = Order::Loosen(signed(&statement(&agent(), None, &last(&setup).await)));
    assert_eq!(insert(&setup, late).await["detail"], "order.none");
    setup.close().await;
}
