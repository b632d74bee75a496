//! Compiles the protocol without protoc, and keeps the descriptors for reflection and tests. Runs for `src/faces`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

/// From the folder of the crate that this is built for.
const PROTO: &str = "../../proto";
const PROTOS: [&str; 3] =
    ["wicketgate/v1/gate.proto", "wicketgate/v1/approvals.proto", "wicketgate/v1/live.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile(PROTOS, [PROTO])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    fs::write(out.join("wicketgate.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().build_transport(true).compile_fds(descriptors)?;
    Ok(())
}
