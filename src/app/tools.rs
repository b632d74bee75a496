//! The tools and servers the configuration describes, opened; and opened again when it changes.

use crate::config::{self, Config};
use crate::tool::mcp::Upstreams;
use crate::tool::toolbox::Toolbox;

/// Every bound tool, and the servers behind some of them.
pub(super) struct Tools {
    pub toolbox: Toolbox,
    pub upstreams: Upstreams,
}

/// Opens everything that is bound. Reaches no network and starts no server.
pub(super) fn open(config: &Config) -> Result<Tools, Vec<String>> {
    let bound = config.bindings(&config::environment)?;
    bound.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let upstreams = Upstreams::new(&bound.servers);
    let toolbox = Toolbox::build(bound.bindings, &upstreams)
        .map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(Tools { toolbox, upstreams })
}
