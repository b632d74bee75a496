//! `wicketgate tools descriptors`.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;

use super::error::Error;
use crate::catalog::address::Cidr;
use crate::catalog::host::Origin;
use crate::catalog::lock::printable;
use crate::cli::{Exit, Failure, FileError, runtime, say};
use crate::domain::digest::Digest;
use crate::tool::grpc::reflect::Server;
use crate::tool::net::System;

/// Which server, and where its description goes.
#[derive(clap::Args, Debug)]
pub(super) struct DescriptorOrder {
    /// Scheme, host and port of the server; `http` is HTTP/2 without TLS.
    #[arg(long, value_name = "URL")]
    from: String,
    /// Write to this file; an existing file is replaced only with `--yes`.
    #[arg(long, alias = "write", value_name = "PATH")]
    out: PathBuf,
    /// Full name of a service; repeat it for more. If omitted, all services.
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,
    /// Address range outside the public Internet where the server may be; repeat it for more.
    #[arg(long = "private-address", value_name = "CIDR")]
    private_addresses: Vec<String>,
    /// Trust only these certificate authorities (PEM).
    #[arg(long = "ca", alias = "ca-file", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(order: &DescriptorOrder) -> Result<Exit, Failure> {
    let usage = |error: Error| Failure::usage(error);
    let (origin, path) =
        Origin::parse(&order.from).map_err(|why| usage(Error::From(why.into())))?;
    if path != "/" {
        return Err(usage(Error::Path));
    }
    let ranges = order.private_addresses.iter().map(|range| Cidr::parse(range));
    let ranges = ranges.collect::<Result<Vec<Cidr>, _>>();
    let ranges = ranges.map_err(|why| usage(Error::Range(why.into())))?;
    if order.out.exists() && !order.yes {
        return Err(usage(Error::Exists(order.out.clone())));
    }
    let ca = order.ca_file.as_ref().map(std::fs::read).transpose();
    let ca = ca.map_err(|error| usage(Error::Authorities(error.into())))?;
    let server = Server::new(origin, &ranges, ca.as_deref(), Arc::new(System));
    let server = server.map_err(|why| usage(Error::Authorities(why.into())))?;
    let described = runtime()?.block_on(server.describe(&order.services)).map_err(|why| {
        let from = order.from.clone();
        Failure::unverifiable(Error::Undescribed { from, cause: why.into() })
    })?;
    let written = std::fs::write(&order.out, &described.bytes);
    written.map_err(FileError::at(&order.out)).map_err(Failure::usage)?;
    let digest = Digest::of(&[&described.bytes]).hex();
    if order.json {
        let services = &described.services;
        say(json!({"ok": true, "services": services, "sha256": digest}).to_string());
    } else {
        described.services.iter().for_each(|name| say(printable(name)));
        say(format!("{} ({} bytes)", order.out.display(), described.bytes.len()));
        say(format!("sha256 {digest}"));
    }
    Ok(Exit::Ok)
}
