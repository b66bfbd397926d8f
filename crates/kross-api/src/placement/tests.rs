//! Tests of every spelling on every level, and of every diagnostic with its path.

use std::time::Duration;

use kross_diagnostics::Diagnostics;
use serde_json::{Value as Json, json};

use super::*;
use crate::{ResourceGraphDefinitionSpec, Scope};

fn lower(mut spec: Json) -> (Placement, Diagnostics) {
    spec["schema"] = json!({"kind": "App", "apiVersion": "v1"});
    let spec: ResourceGraphDefinitionSpec = serde_json::from_value(spec).unwrap();
    let mut diagnostics = Diagnostics::new();
    let placement = lower_placement(&spec, PlacementOptions::default(), &mut diagnostics);
    (placement, diagnostics)
}

fn good(level: Json) -> ClusterReference {
    let (placement, diagnostics) = lower(level);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    placement.definition.unwrap()
}

/// Resolves with literals only, for an instance in `shop`.
fn address(reference: &ClusterReference) -> (String, String) {
    let value = |template: &Template| {
        template.literal().map(str::to_owned).ok_or_else(|| template.as_str().to_owned())
    };
    let resolved = reference.resolve(Some("shop"), value).unwrap();
    let key = match &resolved.credentials {
        ResolvedCredentials::Secret(secret) => format!("{secret}:{}", secret.key),
        other => other.to_string(),
    };
    (resolved.display, key)
}

#[test]
fn every_spelling_is_lowered_to_a_cluster_reference() {
    let secret = |name: &str| json!({"name": name, "namespace": "platform"});
    let table = [
        (json!({"cluster": {"name": "eu"}}), Spelling::Short, "shop/eu", "shop/eu:kubeconfig", false),
        (
            json!({"cluster": {"name": "eu", "namespace": ""}}),
            Spelling::Short,
            "shop/eu",
            "shop/eu:kubeconfig",
            false,
        ),
        (
            json!({"cluster": {"name": "eu", "namespace": "infra", "key": "value"}}),
            Spelling::Short,
            "infra/eu",
            "infra/eu:value",
            true,
        ),
        (
            json!({"cluster": {"name": "Europe", "kubeconfigSecret": secret("eu")}}),
            Spelling::Long,
            "Europe (platform/eu)",
            "platform/eu:kubeconfig",
            true,
        ),
        (
            json!({"cluster": {"name": "Europe", "kubeconfigSecretRef": "platform/eu"}}),
            Spelling::LongByString,
            "Europe (platform/eu)",
            "platform/eu:kubeconfig",
            true,
        ),
        (
            json!({"cluster": {"name": "Europe", "kubeconfigSecretRef": "eu"}}),
            Spelling::LongByString,
            "Europe (shop/eu)",
            "shop/eu:kubeconfig",
            false,
        ),
        (
            json!({"target": {"cluster": {"kubeconfigSecretName": "eu"}}}),
            Spelling::Target,
            "kro-system/eu",
            "kro-system/eu:kubeconfig",
            true,
        ),
        (
            json!({"target": {"cluster": {"kubeconfigSecretName": "eu", "kubeconfigSecretNamespace": "infra"}}}),
            Spelling::Target,
            "infra/eu",
            "infra/eu:kubeconfig",
            true,
        ),
        (
            json!({"target": {"kubernetesTarget": {"name": "edge"}}}),
            Spelling::Published,
            "edge",
            "edge",
            false,
        ),
    ];
    for (written, spelling, display, key, is_static) in table {
        let reference = good(written.clone());
        assert_eq!(reference.spelling, spelling, "{written}");
        assert_eq!(address(&reference), (display.to_owned(), key.to_owned()), "{written}");
        assert_eq!(reference.is_static(Scope::Namespaced), is_static, "{written}");
    }
}

#[test]
fn a_published_cluster_has_its_own_namespace_and_poll_interval() {
    let target = json!({"name": "edge", "namespace": "${n}", "pollConfig": {"interval": "1m"}});
    let reference = good(json!({"target": {"kubernetesTarget": target}}));
    let paths: Vec<_> = reference.templates().iter().map(|template| template.path().to_owned()).collect();
    assert_eq!(paths, ["spec.target.kubernetesTarget.name", "spec.target.kubernetesTarget.namespace"]);
    assert_eq!(reference.poll.unwrap().interval, Duration::from_secs(60));
    let value = |template: &Template| {
        Ok::<_, ()>(if template.as_str() == "${n}" {
            "infra".to_owned()
        } else {
            template.as_str().to_owned()
        })
    };
    let resolved = reference.resolve(None, value).unwrap();
    let expected = ResolvedCredentials::Target { namespace: "infra".to_owned(), name: "edge".to_owned() };
    assert_eq!((resolved.display.as_str(), resolved.credentials), ("edge", expected));
    let other = good(json!({"target": {"kubernetesTarget": {"name": "edge"}}}));
    assert!(!reference.is_same(&other) && !reference.is_static(Scope::Cluster));
}

#[test]
fn a_cluster_scoped_instance_makes_the_short_spelling_static() {
    let reference = good(json!({"cluster": {"name": "eu"}}));
    assert_eq!(reference.static_cluster(Scope::Cluster).unwrap().display, "kro-system/eu");
    assert!(!good(json!({"cluster": {"name": "${schema.spec.x}"}})).is_static(Scope::Cluster));
}

#[test]
fn expressions_are_found_with_their_paths_and_resolved() {
    let reference = good(json!({"cluster": {"name": "${a}", "kubeconfigSecretRef": "${b}"}}));
    let paths: Vec<_> = reference.templates().iter().map(|template| template.path().to_owned()).collect();
    assert_eq!(paths, ["spec.cluster.name", "spec.cluster.kubeconfigSecretRef"]);
    let with = |text: &'static str| {
        reference.resolve(Some("shop"), move |template: &Template| {
            Ok::<_, ()>(if template.as_str() == "${a}" { "Europe".to_owned() } else { text.to_owned() })
        })
    };
    assert_eq!(with("infra/eu").unwrap().display, "Europe (infra/eu)");
    assert_eq!(with("eu").unwrap().display, "Europe (shop/eu)");
    let path = "spec.cluster.kubeconfigSecretRef".to_owned();
    assert_eq!(with("a/b/c"), Err(ResolveError::Malformed { path: path.clone(), text: "a/b/c".to_owned() }));
    assert_eq!(with(""), Err(ResolveError::Empty { path }));
}

#[test]
fn a_selector_keeps_its_shape_when_it_is_resolved() {
    let selector = json!({"matchLabels": {"example.com/region": "${r}"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["${t}", "b"]}]});
    let reference = good(json!({"target": {"kubernetesTarget": {"selector": selector}}}));
    let paths: Vec<_> = reference.templates().iter().map(|template| template.path().to_owned()).collect();
    assert_eq!(
        paths,
        [
            "spec.target.kubernetesTarget.selector.matchLabels[\"example.com/region\"]",
            "spec.target.kubernetesTarget.selector.matchExpressions[0].values[0]",
            "spec.target.kubernetesTarget.selector.matchExpressions[0].values[1]",
        ]
    );
    let resolved = reference
        .resolve(Some("shop"), |template| Ok::<_, ()>(template.as_str().replace(['$', '{', '}'], "")));
    let ResolvedCredentials::TargetSelector { namespace, selector } = resolved.unwrap().credentials else {
        panic!("expected a target selector");
    };
    assert_eq!(namespace, "shop");
    assert_eq!(
        serde_json::to_value(selector).unwrap(),
        json!({"matchLabels": {"example.com/region": "r"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["t", "b"]}]})
    );
}

#[test]
fn a_resources_own_reference_takes_precedence_and_external_references_do_not_inherit() {
    let external = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let mut remote = external.clone();
    remote["target"] = json!({"cluster": {"kubeconfigSecretName": "us"}});
    let (placement, diagnostics) = lower(json!({
        "cluster": {"name": "eu"},
        "resources": [
            {"id": "inherits", "template": {}},
            {"id": "own", "template": {}, "cluster": {"name": "us"}},
            {"id": "local", "externalRef": external},
            {"id": "remote", "externalRef": remote},
            {"id": "outer", "externalRef": external, "cluster": {"name": "asia"}},
        ],
    }));
    assert!(diagnostics.is_empty());
    let paths: Vec<_> = (0..6)
        .map(|index| match placement.place(index) {
            Place::Local => "local".to_owned(),
            Place::Inherited(reference) => format!("inherited {}", reference.path),
            Place::Own(reference) => format!("own {}", reference.path),
        })
        .collect();
    assert_eq!(
        paths,
        [
            "inherited spec.cluster",
            "own spec.resources[1].cluster",
            "local",
            "own spec.resources[3].externalRef.target.cluster",
            "own spec.resources[4].cluster",
            "inherited spec.cluster",
        ]
    );
    assert_eq!(placement.references().count(), 4);
    assert!(lower(json!({})).0.is_local());
}

#[test]
fn poll_config_is_lowered() {
    let reference =
        good(json!({"cluster": {"name": "eu", "pollConfig": {"interval": "1m30s", "jitter": "5s"}}}));
    let poll = Poll { interval: Duration::from_secs(90), jitter: Duration::from_secs(5) };
    assert_eq!(reference.poll, Some(poll));
    assert_eq!(good(json!({"cluster": {"name": "eu"}})).poll, None);
}

#[test]
fn every_error_is_reported_with_its_path() {
    let secret = json!({"name": "eu", "namespace": "platform"});
    let external = |more: Json| {
        let mut external = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        external.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        external
    };
    let (_, diagnostics) = lower(json!({
        "cluster": {"name": "eu", "namespace": "a", "key": "b", "kubeconfigSecret": secret, "kubeconfigSecretRef": "x"},
        "target": {},
        "resources": [
            {"id": "a", "cluster": {"name": "eu", "namespace": "n", "key": "k", "kubeconfigSecretRef": "x/y/z"}},
            {"id": "b", "target": {"cluster": {"kubeconfigSecretName": "Bad Name"}, "kubernetesTarget": {}}},
            {"id": "c", "cluster": {"name": "eu", "pollConfig": {"interval": "${x}", "jitter": "later"}}},
            {"id": "d", "cluster": {"name": "eu", "namespace": "no.dots", "key": "a b", "pollConfig": {"interval": "9.5s"}}},
            {"id": "e", "cluster": {"name": "eu"}, "externalRef": external(json!({"target": {"cluster": {"kubeconfigSecretName": "us"}}}))},
            {"id": "f", "externalRef": external(json!({"cluster": {"name": "eu"}, "target": {"kubernetesTarget": {"name": "x"}}}))},
        ],
    }));
    let lines: Vec<String> = diagnostics
        .iter()
        .map(|item| {
            format!(
                "{} {}\n  {}\n  {}\n",
                item.code,
                item.path.clone().unwrap(),
                item.message,
                item.help[0].text
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join(""));
}

#[test]
fn references_to_the_same_secret_are_the_same() {
    let short = |more: Json| good(json!({"cluster": more}));
    let same = [
        short(json!({"name": "eu", "namespace": "platform"})),
        short(json!({"name": "eu", "namespace": "platform", "key": "kubeconfig"})),
        short(json!({"name": "europe", "kubeconfigSecret": {"name": "eu", "namespace": "platform"}})),
        good(
            json!({"target": {"cluster": {"kubeconfigSecretName": "eu", "kubeconfigSecretNamespace": "platform"}}}),
        ),
    ];
    assert!(same.iter().all(|reference| reference.is_same(&same[0])));
    let others = [
        short(json!({"name": "eu"})),
        short(json!({"name": "us", "namespace": "platform"})),
        short(json!({"name": "eu", "namespace": "platform", "key": "other"})),
        good(json!({"target": {"cluster": {"kubeconfigSecretName": "eu"}}})),
    ];
    for (at, reference) in others.iter().enumerate() {
        assert!(!reference.is_same(&same[0]));
        assert!(others.iter().enumerate().all(|(other, them)| reference.is_same(them) == (at == other)));
    }
}
