//! The models of both clients are made from the documents of the gate.

use wicketgate_support::program::top;

use crate::program::{clean, python};
use crate::ran::Ran;

#[test]
fn the_models_that_are_checked_in_are_those_that_the_documents_give() {
    let mut command = clean(python());
    command.arg(top().join("clients/generate.py")).arg("--check");
    Ran::of(&mut command).ok();
}
