//! The tools one by one: an error in one of them does not hide the state of the others.

use serde::Deserialize as _;
use serde_json::Value;

use super::{Config, own};
use crate::catalog::{self, Checked, Surroundings};

impl Config {
    /// The operator's own tools, each with its own errors, in the order of the list. A gate starts
    /// only with [`Self::bindings`], where all of them are right; this is for diagnosis.
    ///
    /// # Errors
    /// The list cannot be read at all.
    pub fn tools_each(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<Checked>, Vec<String>> {
        let list = Value::Array(self.tools.clone());
        let tools = catalog::Config::deserialize(list).map_err(|e| vec![format!("tools: {e}")])?;
        let forbidden = own::forbidden(self, &self.server_list()?);
        let own = own::of_the_gate(self);
        let surroundings =
            Surroundings { base_dir: &self.base, env, forbidden: &forbidden, own: &own };
        let shielded = |one: Checked| {
            let checked = one.checked.map(|binding| own::shield(self, vec![binding]));
            // INVARIANT: as many come back as were given.
            let checked = checked.and_then(|mut all| all.pop().ok_or_else(Vec::new));
            Checked { checked, ..one }
        };
        Ok(tools.check_each(&surroundings).into_iter().map(shielded).collect())
    }
}
