//! Restores a control plane to an earlier state, as an administrator restores etcd from a backup.

use std::path::{Path, PathBuf};

use super::options::Files;
use super::ready::{self, Outcome, StartedProgram};
use super::{ControlPlane, StartError, log_name};
use crate::Binary;

/// The data of a control plane at one time. Its files are removed with the control plane.
#[derive(Debug)]
pub struct Snapshot {
    data: PathBuf,
}

impl ControlPlane {
    /// Copies the data of etcd, which is stopped for a moment.
    ///
    /// # Errors
    /// The data cannot be copied, or etcd or the API server is not ready again in time.
    pub async fn snapshot(&mut self) -> Result<Snapshot, StartError> {
        let (data, copy) = (self.directory.path().join(Files::ETCD_DATA), self.free_path());
        self.processes.stop(self.etcd);
        let copied = copy_directory(&data, &copy);
        self.processes.start_again(self.etcd)?;
        copied?;
        self.until_ready().await?;
        Ok(Snapshot { data: copy })
    }

    /// Replaces the data of etcd by a snapshot, and starts the API server again at the same address. Resource versions go
    /// backwards.
    ///
    /// # Errors
    /// The data cannot be copied, or a program does not start.
    pub async fn restore(&mut self, snapshot: &Snapshot) -> Result<(), StartError> {
        let data = self.directory.path().join(Files::ETCD_DATA);
        self.processes.stop(self.api_server);
        self.processes.stop(self.etcd);
        std::fs::remove_dir_all(&data).map_err(|source| StartError::Write { path: data.clone(), source })?;
        copy_directory(&snapshot.data, &data)?;
        self.processes.start_again(self.etcd)?;
        self.processes.start_again(self.api_server)?;
        self.until_ready().await
    }

    async fn until_ready(&mut self) -> Result<(), StartError> {
        let client = self.admin.client().await?;
        let log = self.directory.path().join(log_name(Binary::ApiServer));
        let (binary, member) = (Binary::ApiServer, self.api_server);
        let started = StartedProgram { name: &self.name, binary, member, log: &log };
        match started.wait_until(&mut self.processes, || ready::api_server(&client)).await {
            Outcome::Ready => Ok(()),
            Outcome::Exited(error) | Outcome::TimedOut(error) => Err(error),
        }
    }

    fn free_path(&self) -> PathBuf {
        let path = |number: u32| self.directory.path().join(format!("snapshot-{number}"));
        let mut number = 1;
        while path(number).exists() {
            number += 1;
        }
        path(number)
    }
}

fn copy_directory(from: &Path, to: &Path) -> Result<(), StartError> {
    let error = |source| StartError::Write { path: to.to_owned(), source };
    std::fs::create_dir(to).map_err(error)?;
    for entry in std::fs::read_dir(from).map_err(error)? {
        let entry = entry.map_err(error)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(error)?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target).map_err(error)?;
        }
    }
    Ok(())
}
