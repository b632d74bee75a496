//! What both clients make of answers, denials, holds, retries, large results and a gate that is not there.

use serde_json::json;

use crate::gate::Gate;
use crate::program::{play, script};

#[test]
fn the_python_client_gives_results_and_a_class_of_error_for_each_refusal() {
    let gate = Gate::start();
    let said = play(&gate, script(&gate, "surface.py"));
    assert_eq!(said, json!({"passed": "tcp"}));
    let mut over_socket = script(&gate, "surface.py");
    over_socket.env("WICKETGATE_URL", gate.socket()).env_remove("WICKETGATE_TOKEN_FILE");
    assert_eq!(play(&gate, over_socket), json!({"passed": "unix"}));
    gate.finish();
}
