//! Every type there and back, and what is refused before anything is sent.

use serde_json::{Value, json};
use wicketgate::serve::pb;

use crate::world::{Service, World};

/// Numbers as a reader of JSON compares them: `1` is `1.0`.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// Values of every type; none is its type's default.
fn everything() -> Vec<Value> {
    let leaf = || json!({"name": "n", "number": -5, "unitPrice": "1.50"});
    vec![
        json!({"aDouble": 1.1, "aFloat": 1.1, "anInt32": -2_147_483_648_i64, "anInt64": "-9223372036854775808",
            "aUint32": 4_294_967_295_u64, "aUint64": "18446744073709551615", "aSint32": 2_147_483_647,
            "aSint64": "9007199254740993", "aFixed32": 7, "aFixed64": "8", "anSfixed32": -9, "anSfixed64": "-10",
            "aBool": true, "aString": "gr\u{fc}\u{df} \u{1f600} \u{9}\n", "someBytes": "AP/+", "colour": "BLUE"}),
        json!({"aDouble": "NaN", "aFloat": "-Infinity", "aString": "x"}),
        json!({"aDouble": 12_345.678_901_234_5, "aFloat": 0.1, "anInt32": 1}),
        json!({"aDouble": "Infinity", "aFloat": "NaN"}),
        json!({"leaf": leaf(), "inner": {"inner": {"inner": {"leaf": leaf()}}}, "maybe": 0}),
        json!({"numbers": [1, 0, -3], "names": ["a", "", "b"], "leaves": [leaf(), {}, leaf()],
            "colours": ["RED", "COLOUR_UNSPECIFIED", "BLUE"]}),
        json!({"byName": {"x": leaf(), "": {}}, "byNumber": {"-7": "seven", "0": ""},
            "byTruth": {"true": 1, "false": 0}, "facts": {"a": null, "b": [1.5, "x", {"c": false}]}}),
        json!({"text": ""}),
        json!({"count": 0}),
        json!({"branch": leaf()}),
        json!({"at": "2026-11-22T19:30:00.123456789Z", "took": "-1.500s"}),
        json!({"at": "0001-01-01T00:00:00Z", "took": "315576000000s"}),
        json!({"at": "9999-12-31T23:59:59.999Z", "took": "0.000001s"}),
        json!({"structure": {"a": 1, "b": {"c": [null, true, "x"]}}, "value": [1, {"d": "e"}], "list": [null, 2.5]}),
        json!({"value": null}),
        json!({"value": "text"}),
        json!({"mask": "aString,leaf.unitPrice", "nothing": {}}),
        json!({"any": {"@type": "type.googleapis.com/shop.v1.Leaf", "name": "n", "unitPrice": "2"}}),
        json!({"any": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "3s"}}),
        json!({"any": {"@type": "type.googleapis.com/google.protobuf.Any",
            "value": {"@type": "type.googleapis.com/shop.v1.All", "numbers": [1, 2]}}}),
        json!({"wrappedString": "", "wrappedInt64": "0", "wrappedUint32": 0, "wrappedBool": false,
            "wrappedDouble": 0, "wrappedFloat": "NaN", "wrappedBytes": ""}),
        json!({}),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_comes_back_as_it_was_sent_and_the_service_saw_the_same() {
    let service = Service::start();
    let world = World::before(&service).await;
    let all = everything();
    for args in &all {
        let answer = world.call("orders.echo", args.clone()).await;
        let answer = answer.unwrap_or_else(|refused| panic!("{args}: {refused:?}"));
        assert_eq!(plain(&answer), plain(args), "what came back");
    }
    let seen = service.seen();
    assert_eq!(seen.len(), all.len());
    for (args, event) in all.iter().zip(&seen) {
        assert_eq!(plain(&event["json"]), plain(args), "what Python's protobuf read");
        assert!(event["metadata"]["x-wicketgate-call"].as_str().unwrap().len() > 3);
    }
    let any = json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"a": [1]}});
    assert_eq!(plain(&world.call("orders.open", any.clone()).await.unwrap()), plain(&any));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_message_is_refused_by_its_place_and_nothing_is_sent() {
    let service = Service::start();
    let world = World::before(&service).await;
    let any = |name: &str, more: Value| {
        let mut any = json!({"@type": format!("type.googleapis.com/{name}")});
        for (name, value) in more.as_object().unwrap() {
            any[name] = value.clone();
        }
        json!({"any": any})
    };
    for (args, detail, place) in [
        (json!({"nobody": 1}), "schema.additional_properties", "arguments"),
        // The other spellings that protobuf's mapping would take.
        (json!({"a_string": "x"}), "schema.additional_properties", "arguments"),
        (json!({"colour": 7}), "schema.enum", "/colour"),
        (json!({"anInt64": 5}), "schema.type", "/anInt64"),
        (json!({"anInt64": "007"}), "schema.pattern", "/anInt64"),
        (json!({"anInt32": "5"}), "schema.type", "/anInt32"),
        (json!({"anInt32": 1.5}), "schema.type", "/anInt32"),
        (json!({"leaf": null}), "schema.type", "/leaf"),
        (json!({"someBytes": "_-8="}), "grpc.argument", "/someBytes"),
        (json!({"someBytes": "YQ"}), "grpc.argument", "/someBytes"),
        // Values out of range.
        (json!({"colour": "GREEN"}), "schema.enum", "/colour"),
        (json!({"anInt32": 2_147_483_648_u64}), "schema.maximum", "/anInt32"),
        (json!({"aUint32": -1}), "schema.minimum", "/aUint32"),
        (json!({"anInt64": "9223372036854775808"}), "grpc.argument", "/anInt64"),
        (json!({"aUint64": "-1"}), "schema.pattern", "/aUint64"),
        (json!({"at": "yesterday"}), "schema.format", "/at"),
        (json!({"took": "1"}), "schema.pattern", "/took"),
        (json!({"took": "999999999999s"}), "grpc.argument", "/took"),
        (json!({"mask": "a_b"}), "grpc.argument", "/mask"),
        (json!({"nothing": {"x": 1}}), "schema.additional_properties", "/nothing"),
        (json!({"wrappedInt64": 1}), "schema.type", "/wrappedInt64"),
        (json!({"leaves": [{}, {"odd": 1}]}), "schema.additional_properties", "/leaves/1"),
        (json!({"byNumber": {"9223372036854775808": "x"}}), "grpc.argument", "/byNumber"),
        // At most one of several.
        (json!({"text": "a", "count": 1}), "grpc.argument", "/text"),
        // Types that nobody described, and spellings inside of those that somebody did.
        (any("shop.v1.Nobody", json!({})), "grpc.argument", "/any/@type"),
        (any("shop.v1.Leaf", json!({"unit_price": "1"})), "grpc.argument", "/any/unit_price"),
        (any("shop.v1.All", json!({"colour": 7})), "grpc.argument", "/any/colour"),
        (any("google.protobuf.Duration", json!({"value": "1s", "x": 1})), "grpc.argument", "/any"),
        (json!({"any": {"@type": "example.com/shop.v1.Leaf"}}), "schema.pattern", "/any/@type"),
        (json!({"any": {"name": "n"}}), "schema.required", "/any"),
    ] {
        let refused = world.call("orders.echo", args.clone()).await.expect_err("refused");
        assert_eq!(refused.detail, detail, "{args}: {refused:?}");
        assert!(refused.message.contains(place), "{args}: {refused:?}");
    }
    let twice = world.agent.call("orders.echo", "d1", r#"{"aBool":true,"aBool":true}"#).await;
    assert_eq!(twice.unwrap_err().detail, "json.duplicate_key");
    let keys = world.call("orders.echo", json!({"byNumber": {"01": "x"}})).await.unwrap_err();
    assert!(keys.detail.starts_with("schema."), "{keys:?}");
    assert_eq!(service.seen(), Vec::<Value>::new(), "nothing reached the service");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_are_shown_a_schema_of_closed_objects() {
    let service = Service::start();
    let world = World::before(&service).await;
    let mut request = tonic::Request::new(pb::ListToolsRequest::default());
    let token = format!("Bearer {}", world.agent.token).parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    let tools = world.agent.gate.clone().list_tools(request).await.unwrap().into_inner().tools;
    let echo = tools.iter().find(|tool| tool.name == "orders.echo").unwrap();
    let schema: Value = serde_json::from_slice(&echo.input_schema).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["inner"], json!({"$ref": "#/$defs/shop.v1.All"}));
    assert_eq!(schema["properties"]["leaves"]["items"], json!({"$ref": "#/$defs/shop.v1.Leaf"}));
    assert_eq!(
        schema["properties"]["colour"]["enum"],
        json!(["COLOUR_UNSPECIFIED", "RED", "BLUE"])
    );
    assert_eq!(schema["description"], "at most one of text, count, branch");
    let defs = schema["$defs"].as_object().unwrap();
    assert_eq!(defs.keys().collect::<Vec<_>>(), ["shop.v1.All", "shop.v1.Leaf"]);
    assert_eq!(defs["shop.v1.All"]["properties"], schema["properties"]);
    assert!(defs.values().all(|one| one["additionalProperties"] == false), "{schema}");
    world.close().await;
}
