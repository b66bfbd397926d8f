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
    let granted = |level: &Json, credentials: &ResolvedCredentials, namespace: Option<&str>| {
        let instance = InstanceIdentity { namespace, ..InstanceIdentity::default() };
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
    let shop = InstanceIdentity { namespace: shop, ..InstanceIdentity::default() };
    assert_eq!(Authority::of_recorded([], &secret("clusters/eu"), shop), Authority::ByOwner);
    let name = ("clusters", "eu");
    let keyed = reference(&json!({"cluster": {"name": "eu", "namespace": "clusters", "key": "value"}}));
    assert_eq!(Authority::of_recorded_secret([&keyed], name, shop), Authority::Granted);
    assert_eq!(Authority::of_recorded_secret([&keyed], ("clusters", "us"), shop), Authority::ByOwner);
}

#[test]
fn an_inventory_names_what_the_reference_leads_to_for_this_instance_and_no_other() {
    let instance = InstanceIdentity { namespace: Some("shop"), name: Some("web"), uid: Some("u-1") };
    let short = |name: &str| json!({"cluster": {"name": name, "namespace": "clusters"}});
    let text = |text: &str| json!({"cluster": {"name": "x", "kubeconfigSecretRef": text}});
    let published =
        |name: &str| json!({"target": {"kubernetesTarget": {"name": name, "namespace": "infra"}}});
    let table = [
        (short("${schema.metadata.name}-kubeconfig"), "clusters/web-kubeconfig", true),
        (short("${schema.metadata.name}-kubeconfig"), "clusters/api-kubeconfig", false),
        (short("${schema.metadata.name}-kubeconfig"), "clusters/webs-kubeconfig", false),
        (short("${ schema.metadata.namespace }-${schema.metadata.name}"), "clusters/shop-web", true),
        (short("${schema.metadata.namespace}-${schema.metadata.name}"), "clusters/prod-web", false),
        (short("${schema.metadata.namespace}${schema.metadata.name}"), "clusters/shopweb", true),
        (short("c-${schema.metadata.uid}"), "clusters/c-u-1", true),
        (short("c-${schema.metadata.uid}"), "clusters/c-u-2", false),
        (
            short("${schema.metadata.name}-${schema.spec.region}-kubeconfig"),
            "clusters/web-eu-kubeconfig",
            true,
        ),
        (
            short("${schema.metadata.name}-${schema.spec.region}-kubeconfig"),
            "clusters/api-eu-kubeconfig",
            false,
        ),
        // What is written between expressions counts as well.
        (short("${n}-staging-${m}"), "clusters/a-staging-b", true),
        (short("${n}-staging-${m}"), "clusters/a-staging-staging-b", true),
        (short("${n}-staging-${m}"), "clusters/a-production-b", false),
        (short("a${n}a"), "clusters/a", false),
        (short("${{'x': '}'}[n]}-kubeconfig"), "clusters/eu-kubeconfig", true),
        (short("${'a}' + \"\\\"}\"}-kubeconfig"), "clusters/eu", false),
        (text("clusters/${schema.metadata.name}"), "clusters/web", true),
        (text("clusters/${schema.metadata.name}"), "clusters/api", false),
    ];
    for (level, credentials, expected) in table {
        let authority = Authority::of_recorded([&reference(&level)], &secret(credentials), instance);
        assert_eq!(authority == Authority::Granted, expected, "{level} {credentials}");
        let (namespace, name) = credentials.split_once('/').unwrap();
        let authority = Authority::of_recorded_secret([&reference(&level)], (namespace, name), instance);
        assert_eq!(authority == Authority::Granted, expected, "{level} {credentials}");
    }
    let cluster_scoped = InstanceIdentity { namespace: None, ..instance };
    let level = short("${schema.metadata.namespace}-kubeconfig");
    let authority =
        Authority::of_recorded([&reference(&level)], &secret("clusters/shop-kubeconfig"), cluster_scoped);
    assert_eq!(authority, Authority::ByOwner, "an instance without namespace has no value for it");
    for (name, expected) in [("web", Authority::Granted), ("api", Authority::ByOwner)] {
        let level = published("${schema.metadata.name}");
        let authority = Authority::of_recorded([&reference(&level)], &target("infra", name), cluster_scoped);
        assert_eq!(authority, expected, "{name}");
    }
}
