//! A controller that is killed at one of its writes: before the API server receives it, or before the controller gets the answer.

use std::time::Duration;

use kross_cluster::{ClientOptions, ClusterClient, ClusterId};
use kross_controller::{Controller, Settings};
use kross_local::ControlPlane;
use kross_testing::{Action, FaultProxy, Requests, Verb, wait};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

/// A write of the controller: its verb, its resource, and how many of the same come before it.
pub type Write = (Verb, &'static str, u32);

/// When the controller is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The API server never receives the write.
    BeforeTheWrite,
    /// The API server has done the write, and the controller never gets the answer.
    BeforeTheAnswer,
}

impl Moment {
    pub const ALL: [Self; 2] = [Self::BeforeTheWrite, Self::BeforeTheAnswer];
}

/// A controller that ends between two instructions, as a process that is killed.
pub struct Killable {
    kill: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Killable {
    pub async fn start(proxy: &FaultProxy, plane: &ControlPlane) -> Self {
        let config = proxy.kubeconfig(plane.admin()).unwrap().config().await.unwrap();
        let (kill, killed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let options = ClientOptions::for_version("devel");
                let client = ClusterClient::trusted(ClusterId::local(), config, options).await.unwrap();
                let mut registry = Registry::default();
                let controller = Controller::new(client.clone(), client, Settings::default(), &mut registry);
                tokio::select! {
                    ended = controller.run(std::future::pending()) => panic!("{ended:?}"),
                    _ = killed => {}
                }
            });
            runtime.shutdown_background();
        });
        Self { kill, thread }
    }

    pub async fn kill(self) {
        let Self { kill, thread } = self;
        kill.send(()).unwrap();
        tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    }
}

/// Does something to a write that follows. Those before it pass.
pub fn on_write(proxy: &FaultProxy, (verb, resource, before): Write, action: Action) {
    proxy.clear_requests();
    let requests = Requests::any().verb(verb).resource(resource);
    if before > 0 {
        proxy.on_next(before, requests.clone(), Action::Delay(Duration::ZERO));
    }
    proxy.on_next(1, requests, action);
}

/// Withholds the answer to a write that follows, or the write itself.
pub fn stop_at(proxy: &FaultProxy, write: Write, moment: Moment) {
    let action = match moment {
        Moment::BeforeTheWrite => Action::Hang,
        Moment::BeforeTheAnswer => Action::CutAfter(0),
    };
    on_write(proxy, write, action);
}

/// Waits for the moment of a write, or until a condition holds without it. Returns whether there was such a write.
pub async fn until_stopped(
    proxy: &FaultProxy,
    (verb, resource, before): Write,
    moment: Moment,
    done: impl AsyncFn() -> bool,
) -> bool {
    let requests = Requests::any().verb(verb).resource(resource);
    let at = usize::try_from(before).unwrap();
    let is_sent = || {
        let sent = proxy.requests(&requests);
        sent.get(at).is_some_and(|sent| moment == Moment::BeforeTheWrite || sent.status().is_some())
    };
    wait::until(format!("{verb:?} {resource} number {before}, or the end"), || async {
        match (is_sent(), done().await) {
            (true, _) => Ok(true),
            (false, true) => Ok(is_sent()),
            (false, false) => Err("neither".to_owned()),
        }
    })
    .await
}
