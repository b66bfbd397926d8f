//! Says so where the controller may not use what was just registered: by default, it reads the Secrets of its own namespace only.

use crate::commands::check::{Permission, account_may, deployed};
use crate::hub::Hub;
use crate::output::Output;

const READ: Permission = Permission::new("get", "", "secrets");
const RENEW: Permission = Permission::new("patch", "", "secrets");

/// Warns if a controller on the hub may not read the Secrets of a namespace, or not renew the tokens in them. What the caller may not
/// ask is not said.
pub(super) async fn warn(hub: &Hub, namespace: &str, output: &mut Output) {
    let controllers = deployed(hub).await.unwrap_or_default();
    for account in controllers.iter().filter(|it| !it.is_kro()).filter_map(|it| it.account()) {
        let problem = match may(hub, &account, namespace).await {
            [Some(false), _] => "read",
            [_, Some(false)] => "renew the tokens in",
            _ => continue,
        };
        let (from, name) = (account.namespace(), account.name());
        output.note(format_args!(
            "warning: the controller (ServiceAccount {from}/{name}) may not {problem} Secrets in namespace `{namespace}`; add the namespace to \
             `rbac.kubeconfigs.namespaces` of the chart, or run\n  kubectl create rolebinding kross:kubeconfigs --clusterrole=kross:kubeconfigs \
             --serviceaccount={from}:{name} --namespace={namespace}"
        ));
    }
}

/// Whether an account may read and patch Secrets in a namespace; none if the hub does not tell.
async fn may(hub: &Hub, account: &kross_api::ServiceAccount, namespace: &str) -> [Option<bool>; 2] {
    let mut answers = [None, None];
    for (answer, permission) in answers.iter_mut().zip([READ, RENEW]) {
        *answer = account_may(hub, account, permission, Some(namespace)).await.ok();
    }
    answers
}
