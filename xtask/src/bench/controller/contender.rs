//! The controllers that are compared, and their flags.

use std::fmt;

use anyhow::Context;
use clap::ValueEnum;
use kross_local::{ControlPlane, Kro, Program};

use super::Programs;

/// A controller with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Contender {
    /// kross with its defaults
    Kross,
    /// The kross binary of `--baseline`, with its defaults
    #[value(skip)]
    Baseline,
    /// kro with its defaults
    Kro,
    /// kro with 32 workers and raised rate limits
    KroTuned,
}

impl Contender {
    pub(super) const ALL: [Self; 4] = [Self::Kross, Self::Baseline, Self::Kro, Self::KroTuned];

    pub(super) fn is_kro(self) -> bool {
        matches!(self, Self::Kro | Self::KroTuned)
    }

    /// A name without spaces.
    pub(super) fn slug(self) -> &'static str {
        match self {
            Self::Kross => "kross",
            Self::Baseline => "baseline",
            Self::Kro => "kro",
            Self::KroTuned => "kro-tuned",
        }
    }

    /// Starts the controller on a control plane that has the CRDs.
    pub(super) fn start(self, programs: &Programs, plane: &ControlPlane) -> anyhow::Result<Program> {
        let kubeconfig = plane.admin_path();
        let tuned: &[&str] = if self == Self::KroTuned { &Kro::TUNED } else { &[] };
        if self.is_kro() {
            let kro = programs.kro.as_ref().context("kro was not built")?;
            return Ok(kro.start(&kubeconfig, tuned)?);
        }
        let mut arguments: Vec<String> = ["controller", "--kubeconfig"].map(str::to_owned).into();
        arguments.push(kubeconfig.display().to_string());
        for page in ["metrics", "health-probe", "admin"] {
            arguments.push(format!("--{page}-bind-address=0"));
        }
        let binary = match self {
            Self::Baseline => programs.baseline.as_ref().context("there is no baseline")?,
            _ => &programs.kross,
        };
        Ok(Program::start("kross", binary, &arguments)?)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Kross => "kross",
            Self::Baseline => "baseline",
            Self::Kro => "kro",
            Self::KroTuned => "kro tuned",
        })
    }
}
