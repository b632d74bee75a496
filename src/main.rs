//! The `wicketgate` program: the command line and nothing else.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// One heap for Rust and C; `.cargo/config.toml` has its settings.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    // One TLS provider for the whole process, chosen before anything could choose another. It can
    // only fail when one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    wicketgate::cli::run(std::env::args_os())
}
