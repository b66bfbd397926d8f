use serde_json::{Value as Json, json};

use super::*;
use crate::{PlacementOptions, ResourceGraphDefinitionSpec, lower_placement};
use kross_diagnostics::Diagnostics;

fn reference(level: &Json) -> ClusterReference {
    let mut spec = level.clone();
    spec["schema"] = json!({"kind": "App", "apiVersion": "v1"});
    let spec: ResourceGraphDefinitionSpec = serde_json::from_value(spec).unwrap();
    let mut diagnostics = Diagnostics::new();
    let placement = lower_placement(&spec, PlacementOptions::default(), &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    placement.definition.unwrap()
}

/// The authority of a reference whose every expression returns `value`.
fn authority(level: &Json, instance: Option<&str>, value: &str) -> Authority {
    let written = |template: &Template| match template.as_str().split_once("${") {
        Some((prefix, rest)) => {
            let suffix = rest.rsplit_once('}').map_or("", |(_, suffix)| suffix);
            Ok::<_, ()>(format!("{prefix}{value}{suffix}"))
        }
        None => Ok(template.as_str().to_owned()),
    };
    reference(level).resolve(instance, written).unwrap().authority
}

fn secret(text: &str) -> ResolvedCredentials {
    let (namespace, rest) = text.split_once('/').unwrap();
    let (name, key) = rest.split_once('/').unwrap_or((rest, KUBECONFIG_KEY));
    let (namespace, name, key) = (namespace.to_owned(), name.to_owned(), key.to_owned());
    ResolvedCredentials::Secret(SecretAddress { namespace, name, key })
}

fn target(namespace: &str, name: &str) -> ResolvedCredentials {
    ResolvedCredentials::Target { namespace: namespace.to_owned(), name: name.to_owned() }
}

#[test]
fn the_definition_grants_the_namespaces_that_it_writes_and_leaves_out() {
    let long = |namespace: &str| json!({"cluster": {"name": "x", "kubeconfigSecret": {"name": "${n}", "namespace": namespace}}});
    let text = |text: &str| json!({"cluster": {"name": "x", "kubeconfigSecretRef": text}});
    let short = |namespace: &str| json!({"cluster": {"name": "${n}", "namespace": namespace}});
    let system = |namespace: Option<&str>| json!({"target": {"cluster": {"kubeconfigSecretName": "${n}", "kubeconfigSecretNamespace": namespace}}});
    let published =
        |namespace: &str| json!({"target": {"kubernetesTarget": {"name": "${n}", "namespace": namespace}}});
    let (shop, none) = (Some("shop"), None);
    let (granted, by_owner) = (Authority::Granted, Authority::ByOwner);
    let table = [
        (short("clusters"), shop, "eu", granted),
        (short("clusters"), none, "eu", granted),
        (short(""), shop, "eu", granted),
        (short(""), none, "eu", granted),
        (short("${n}"), shop, "shop", granted),
        (short("${n}"), shop, "kro-system", granted),
        (short("${n}"), shop, "clusters", by_owner),
        (short("${n}"), none, "clusters", by_owner),
        (short("shop-${n}"), shop, "x", by_owner),
        (long("clusters"), shop, "eu", granted),
        (long("${n}"), shop, "clusters", by_owner),
        (text("${n}"), shop, "eu", granted),
        (text("${n}"), none, "eu", granted),
        (text("${n}"), shop, "shop/eu", granted),
        (text("${n}"), shop, "kro-system/eu", granted),
        (text("${n}"), shop, "clusters/eu", by_owner),
        (text("${n}/eu"), shop, "clusters", by_owner),
        (text("a-${n}"), shop, "b/eu", by_owner),
        (text("clusters/${n}"), shop, "eu", granted),
        (text("clusters/eu"), shop, "", granted),
        (system(None), shop, "eu", granted),
        (system(Some("clusters")), shop, "eu", granted),
        (system(Some("${n}")), shop, "clusters", by_owner),
        (system(Some("${n}")), shop, "kro-system", granted),
        (published("clusters"), none, "eu", granted),
        (published("${n}"), none, "clusters", by_owner),
        (published("${n}"), none, "kro-system", by_owner),
    ];
    for (level, instance, value, expected) in table {
        assert_eq!(authority(&level, instance, value), expected, "{level} {instance:?} {value}");
    }
}

#[test]
fn an_inventory_is_granted_what_a_reference_of_the_definition_leads_to() {
    let shop = Some("shop");
    let granted = |level: &Json, credentials: &ResolvedCredentials, instance: Option<&str>| {
        Authority::of_recorded([&reference(level)], credentials, instance) == Authority::Granted
    };
    let short = |name: &str, namespace: &str| json!({"cluster": {"name": name, "namespace": namespace}});
    let keyed = json!({"cluster": {"name": "eu", "namespace": "clusters", "key": "value"}});
    let text = |text: &str| json!({"cluster": {"name": "x", "kubeconfigSecretRef": text}});
    let system = json!({"target": {"cluster": {"kubeconfigSecretName": "${n}-kubeconfig"}}});
    let table = [
        // Its own namespace.
        (short("eu", ""), secret("shop/other"), true),
        // A namespace that the definition fixes, with a name that the reference could have.
        (short("eu", "clusters"), secret("clusters/eu"), true),
        (short("eu", "clusters"), secret("clusters/prod"), false),
        (short("eu", "clusters"), secret("clusters/eu/other"), false),
        (short("${n}-kubeconfig", "clusters"), secret("clusters/eu-kubeconfig"), true),
        (short("${n}-kubeconfig", "clusters"), secret("clusters/eu"), false),
        (short("a-${n}-b", "clusters"), secret("clusters/a-x-b"), true),
        (short("a-${n}-b", "clusters"), secret("clusters/a-b"), false),
        (keyed.clone(), secret("clusters/eu/value"), true),
        (keyed, secret("clusters/eu"), false),
        // Chosen namespaces are granted as little as they are to the reference itself.
        (short("${n}", "${m}"), secret("clusters/eu"), false),
        (short("${n}", "${m}"), secret("kro-system/eu"), true),
        (text("${n}"), secret("clusters/eu"), false),
        (text("${n}"), secret("kro-system/eu"), true),
        (text("clusters/${n}"), secret("clusters/eu"), true),
        (text("clusters/${n}"), secret("kro-system/eu"), false),
        (system.clone(), secret("kro-system/eu-kubeconfig"), true),
        (system.clone(), secret("kro-system/eu"), false),
        (system, secret("clusters/eu-kubeconfig"), false),
        (short("eu", ""), secret("kro-system/eu"), false),
        (short("eu", "clusters"), target("clusters", "eu"), false),
    ];
    for (level, credentials, expected) in table {
        assert_eq!(granted(&level, &credentials, shop), expected, "{level} {credentials:?}");
    }
    // An instance without namespace.
    let published =
        |namespace: &str| json!({"target": {"kubernetesTarget": {"name": "eu", "namespace": namespace}}});
    let selector = json!({"target": {"kubernetesTarget": {"selector": {}, "namespace": "infra"}}});
    let table = [
        (short("eu", ""), secret("kro-system/eu"), true),
        (short("eu", ""), secret("clusters/eu"), false),
        (published("infra"), target("infra", "eu"), true),
        (published("infra"), target("infra", "us"), false),
        (published("${n}"), target("infra", "eu"), false),
        (selector.clone(), target("infra", "us"), true),
        (selector, target("other", "us"), false),
    ];
    for (level, credentials, expected) in table {
        assert_eq!(granted(&level, &credentials, None), expected, "{level} {credentials:?}");
    }
    assert_eq!(Authority::of_recorded([], &secret("clusters/eu"), shop), Authority::ByOwner);
    let name = ("clusters", "eu");
    let keyed = reference(&json!({"cluster": {"name": "eu", "namespace": "clusters", "key": "value"}}));
    assert_eq!(Authority::of_recorded_secret([&keyed], name, shop), Authority::Granted);
    assert_eq!(Authority::of_recorded_secret([&keyed], ("clusters", "us"), shop), Authority::ByOwner);
}
