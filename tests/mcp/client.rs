//! What clients of the face send.

use serde_json::{Value, json};

pub use wicketgate_support::wire::{Place, Reply, Wire, request};

/// One JSON-RPC request.
pub fn ask(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}
