//! What a provider remembers: a request may refer to what an answer gave to the same run.

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::RESPONSES;
use crate::wire::Reply;

async fn asked(gate: &Gate, run: &str, body: &Value) -> Reply {
    gate.ask("POST", &format!("{run}/v1/responses"), &[], &body.to_string()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_is_continued_by_the_run_that_it_was_given_to_and_by_no_other() {
    let gate = Gate::start().await;
    let responses = RESPONSES;
    let mut next = responses.request("go on", false);
    next["previous_response_id"] = json!("resp_1");

    let refused = asked(&gate, "/r/a", &next).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("model.remote_state"), "{refused:?}");
    assert!(gate.provider.asked().is_empty());

    gate.provider.answers(Answer::json(200, &responses.whole("hello", &[])));
    let first = asked(&gate, "/r/a", &responses.request("hi", false)).await;
    assert_eq!(first.json()["id"], "resp_1", "{first:?}");
    // Spelled another way: the recorded denial of the former is for the same bytes.
    next["temperature"] = json!(1);
    gate.provider.answers(Answer::json(200, &responses.whole("more", &[])));
    let second = asked(&gate, "/r/a", &next).await;
    assert_eq!(second.status, 200, "{second:?}");
    assert_eq!(gate.provider.last().json()["previous_response_id"], "resp_1");

    let other = asked(&gate, "/r/b", &next).await;
    assert_eq!(other.status, 403, "{other:?}");
    assert!(other.body.contains("model.remote_state"), "{other:?}");
    assert_eq!(gate.provider.asked().len(), 2);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_answer_gave_is_known_after_a_restart() {
    let mut gate = Gate::start().await;
    let responses = RESPONSES;
    gate.provider.answers(Answer::events(&responses.streamed("hello", &[])));
    let first = asked(&gate, "/r/a", &responses.request("hi", true)).await;
    assert_eq!(first.status, 200, "{first:?}");
    gate.killed().await;
    let mut next = responses.request("go on", false);
    next["previous_response_id"] = json!("resp_1");
    gate.provider.answers(Answer::json(200, &responses.whole("more", &[])));
    let second = asked(&gate, "/r/a", &next).await;
    assert_eq!(second.status, 200, "{second:?}");
    let other = asked(&gate, "/r/b", &next).await;
    assert_eq!(other.status, 403, "{other:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_of_a_streamed_answer_is_referred_to_and_every_request_shows_its_own_instructions()
{
    let gate = Gate::start().await;
    let responses = RESPONSES;
    gate.provider.answers(Answer::events(&responses.streamed("hello", &[])));
    let first = asked(&gate, "/r/a", &responses.request("hi", true)).await;
    assert_eq!(first.status, 200, "{first:?}");
    let referring = |id: &str| {
        let mut next = responses.request("go on", false);
        next["input"]
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"type": "item_reference", "id": id}));
        next
    };
    let refused = asked(&gate, "/r/a", &referring("msg_2")).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    gate.provider.answers(Answer::json(200, &responses.whole("more", &[])));
    let fine = asked(&gate, "/r/a", &referring("msg_1")).await;
    assert_eq!(fine.status, 200, "{fine:?}");

    let mut bare = responses.request("go on", false);
    bare["previous_response_id"] = json!("resp_1");
    bare.as_object_mut().unwrap().remove("instructions");
    let refused = asked(&gate, "/r/a", &bare).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("manifest.instructions"), "{refused:?}");
    // A conversation of the provider was given to nobody.
    let mut kept = responses.request("go on", false);
    kept["conversation"] = json!("conv_1");
    let refused = asked(&gate, "/r/a", &kept).await;
    assert!(refused.body.contains("model.remote_state"), "{refused:?}");
    assert_eq!(gate.provider.asked().len(), 2);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_call_of_a_remembered_response_has_the_reason_as_its_result() {
    let gate = Gate::start().await;
    let responses = RESPONSES;
    let body = responses.offering("go", false, &["Bash"]);
    let call = ("c1", "Bash", r#"{"command": "rm -rf /"}"#);
    gate.provider.answers(Answer::json(200, &responses.whole("look", &[call])));
    let first = asked(&gate, "/r/a", &body).await;
    assert!(first.body.contains("wicketgate_denied"), "{first:?}");
    let mut next = body.clone();
    next["previous_response_id"] = json!("resp_1");
    next["input"] =
        json!([{"type": "function_call_output", "call_id": "c1", "output": "no such tool"}]);
    gate.provider.answers(Answer::json(200, &responses.whole("I see", &[])));
    let second = asked(&gate, "/r/a", &next).await;
    assert_eq!(second.status, 200, "{second:?}");
    let sent = gate.provider.last().json();
    assert!(sent["input"][0]["output"].as_str().unwrap().contains("no removal"), "{sent}");
}
