//! Clients that ask for the same again and again.

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::{ALL, CHAT, Dialect};

/// The same conversation, with other ids.
fn again(dialect: &Dialect, n: usize) -> Value {
    let request = dialect.offering("do it", false, &["Read"]);
    let id = format!("call_{n}");
    dialect.followed(&request, (&id, "Read", r#"{"path": "a"}"#), "text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_for_the_same_with_other_ids_is_stopped_after_ten() {
    let gate = Gate::start().await;
    for dialect in ALL {
        for n in 0..10 {
            gate.provider.answers(Answer::json(200, &dialect.whole("hm", &[])));
            let reply = gate.asks(dialect, &again(dialect, n)).await;
            assert_eq!(reply.status, 200, "{} {n} {reply:?}", dialect.name);
        }
        let asked = gate.provider.asked().len();
        let refused = gate.asks(dialect, &again(dialect, 10)).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.body.contains("limit.repeated_calls"), "{refused:?}");
        assert!(refused.body.contains("came 10 times in a row"), "{refused:?}");
        assert_eq!(gate.provider.asked().len(), asked);
        // Something else may be asked.
        gate.provider.answers(Answer::json(200, &dialect.whole("hello", &[])));
        let reply = gate.asks(dialect, &dialect.request("something else", false)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manifest_says_how_often_a_conversation_may_come_again() {
    let gate = Gate::start_with(|_| {}, |spec| spec["limits"] = json!({"repeated_calls": 2})).await;
    let chat = CHAT;
    for n in 0..2 {
        gate.provider.answers(Answer::json(200, &chat.whole("hm", &[])));
        assert_eq!(gate.asks(chat, &again(chat, n)).await.status, 200);
    }
    let refused = gate.asks(chat, &again(chat, 2)).await;
    assert!(refused.body.contains("limit.repeated_calls"), "{refused:?}");
}
