//! Compares controllers on two graphs: time until many instances are ready, requests, CPU and memory, time to repair
//! drift, time to delete. Each controller has its own control plane, and they run one after the other.

use std::path::{Path, PathBuf};

use anyhow::Context;
use kross_local::{ControlPlane, Kro, Progress};

use super::instances;

mod contender;
mod load;
mod table;
mod traffic;

use contender::Contender;
use load::{Load, Measured};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of instances of each graph
    #[arg(long, default_value_t = 200)]
    instances: usize,
    /// Number of times that drift is created and repaired
    #[arg(long, default_value_t = 40)]
    repairs: usize,
    /// Controller to measure; repeatable (default: all)
    #[arg(long, value_enum)]
    only: Vec<Contender>,
    /// Another kross binary to measure beside this one, such as a release build of an older commit
    #[arg(long, value_name = "PATH")]
    baseline: Option<PathBuf>,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { instances: 200, repairs: 40, only: Vec::new(), baseline: None }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let contenders = contenders(arguments);
    let programs = Programs::build(&contenders, arguments.baseline.as_deref())?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    let mut results = Vec::new();
    for contender in contenders {
        results.push((contender, runtime.block_on(measure(contender, &programs, arguments))?));
    }
    eprint!("{}", table::render(arguments.instances, &results));
    Ok(())
}

/// The controllers to measure: those that were asked for, and the baseline if there is one.
fn contenders(arguments: &Arguments) -> Vec<Contender> {
    let Arguments { only, baseline, .. } = arguments;
    let is_measured = |one: &Contender| match one {
        Contender::Baseline => baseline.is_some(),
        other => only.is_empty() || only.contains(other),
    };
    Contender::ALL.into_iter().filter(is_measured).collect()
}

/// The programs of the controllers.
struct Programs {
    kross: PathBuf,
    baseline: Option<PathBuf>,
    kro: Option<Kro>,
}

impl Programs {
    fn build(contenders: &[Contender], baseline: Option<&Path>) -> anyhow::Result<Self> {
        // Before anything is built: a path with a typo should not cost minutes.
        let absolute = |path: &Path| {
            path.canonicalize().with_context(|| format!("cannot find the baseline `{}`", path.display()))
        };
        let baseline = baseline.map(absolute).transpose()?;
        let kross = instances::release_build()?;
        let needs_kro = contenders.iter().any(|one| one.is_kro());
        let kro = needs_kro.then(|| Kro::find_or_build(&Progress::stderr())).transpose()?;
        Ok(Self { kross, baseline, kro })
    }
}

async fn measure(
    contender: Contender,
    programs: &Programs,
    arguments: &Arguments,
) -> anyhow::Result<Vec<Measured>> {
    eprintln!("{contender}: starting a control plane");
    let plane = ControlPlane::named(&format!("bench-{}", contender.slug()))
        .progress(Progress::stderr())
        .start()
        .await?;
    let client = plane.client().await?;
    instances::install(&client).await?;
    let controller = contender.start(programs, &plane)?;
    let mut results = Vec::new();
    for load in Load::ALL {
        eprintln!("{contender}: {} instances of {}", arguments.instances, load.title());
        let run = load::Run { client: &client, controller: &controller, load };
        results.push(run.measure(arguments.instances, arguments.repairs).await?);
    }
    drop(controller);
    plane.stop().await;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_measured_beside_the_controllers_that_were_asked_for() {
        let with = |only: &[Contender], baseline: Option<&str>| {
            let baseline = baseline.map(PathBuf::from);
            contenders(&Arguments { only: only.to_vec(), baseline, ..Arguments::default() })
        };
        assert_eq!(with(&[Contender::Kross], None), [Contender::Kross]);
        assert_eq!(with(&[Contender::Kross], Some("kross")), [Contender::Kross, Contender::Baseline]);
        assert_eq!(with(&[], None).len(), 3);
        assert_eq!(with(&[], Some("kross")).len(), 4);
    }
}
