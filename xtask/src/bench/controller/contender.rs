//! Whose controller is measured, and with which flags.

use std::fmt;

use anyhow::Context;
use clap::ValueEnum;
use kross_local::{ControlPlane, Kro, Program};

use super::Programs;

/// Whose controller it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Contender {
    /// Ours, with its defaults
    Kross,
    /// kro with its defaults
    Kro,
    /// kro with 32 workers, and its limits of rate out of the way
    KroTuned,
}

impl Contender {
    pub(super) const ALL: [Self; 3] = [Self::Kross, Self::Kro, Self::KroTuned];

    pub(super) fn is_kro(self) -> bool {
        self != Self::Kross
    }

    /// Without spaces, for names.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Kross => "kross",
            Self::Kro => "kro",
            Self::KroTuned => "kro-tuned",
        }
    }

    /// Starts it on a control plane that has its CRDs.
    pub(super) fn start(self, programs: &Programs, plane: &ControlPlane) -> anyhow::Result<Program> {
        let kubeconfig = plane.admin_path();
        let tuned: &[&str] = if self == Self::KroTuned { &Kro::TUNED } else { &[] };
        if self.is_kro() {
            let kro = programs.kro.as_ref().context("there is no kro to measure")?;
            return Ok(kro.start(&kubeconfig, tuned)?);
        }
        let mut arguments: Vec<String> = ["controller", "--kubeconfig"].map(str::to_owned).into();
        arguments.push(kubeconfig.display().to_string());
        for page in ["metrics", "health-probe", "admin"] {
            arguments.push(format!("--{page}-bind-address=0"));
        }
        Ok(Program::start("kross", &programs.kross, &arguments)?)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Kross => "kross",
            Self::Kro => "kro",
            Self::KroTuned => "kro tuned",
        })
    }
}
