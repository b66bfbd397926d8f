//! Turns the wire types into YAML for `kubectl apply -f -`.

use crate::output::{Outcome, Output};

pub(crate) fn run(output: &mut Output) -> anyhow::Result<Outcome> {
    output.data(kross_api::crds_yaml().trim_end())?;
    Ok(Outcome::Success)
}
