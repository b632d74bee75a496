//! The OpenAPI document: served, printed, and true of every route.

use serde_json::Value;

use crate::gate::{Gate, problem};
use crate::sidecar::run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_is_served_to_anybody_and_printed_by_the_program() {
    let gate = Gate::start().await;
    let served = gate.ask("GET", "/openapi.json", &[], "").await;
    assert_eq!((served.status, served.header("content-type")), (200, Some("application/json")));
    let printed = run(&gate.estate.path("."), &["config", "openapi"]);
    assert_eq!(served.json(), serde_json::from_str::<Value>(&printed).unwrap());
    let etag = served.header("etag").unwrap();
    let again = gate.ask("GET", "/openapi.json", &[("If-None-Match", etag)], "").await;
    assert_eq!(again.status, 304);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_of_the_document_is_served_and_every_other_method_is_not() {
    let gate = Gate::start().await;
    let document = gate.ask("GET", "/openapi.json", &[], "").await.json();
    for (path, item) in document["paths"].as_object().unwrap() {
        let served = path.replace("{call_id}", "c").replace("{name}", "work.do");
        for verb in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
            let named = item.get(verb.to_lowercase());
            // Nobody asks: what is served wants to know who does, or serves everybody.
            let reply = gate.ask(verb, &served, &[], "").await;
            let status = reply.status;
            match named {
                None => assert_eq!(problem(&reply).0, 405, "{verb} {path}"),
                Some(operation) => {
                    let open = operation["x-wicketgate-access"] == "open";
                    assert_eq!(status, if open { 200 } else { 401 }, "{verb} {path}");
                    assert!(operation["responses"].get(status.to_string()).is_some());
                }
            }
        }
    }
}
