use kross_api::{Authority, SecretAddress};

use super::*;
use crate::object::read_object;

fn secret(name: &str, label: Option<&str>, allowed: Option<&str>) -> StoredObject {
    let mut metadata = serde_json::json!({"name": name, "namespace": "clusters", "uid": "1"});
    if let Some(label) = label {
        metadata["labels"] = serde_json::json!({"kro.run/cluster-credentials": label});
    }
    if let Some(allowed) = allowed {
        metadata["annotations"] = serde_json::json!({"kro.run/allowed-namespaces": allowed});
    }
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"kubeconfig": "aGVsbG8=", "bad": "%"},
    });
    read_object(object.to_string().as_bytes()).unwrap()
}

fn address(name: &str) -> SecretAddress {
    SecretAddress { namespace: "clusters".to_owned(), name: name.to_owned(), key: "kubeconfig".to_owned() }
}

fn read(
    secret: &StoredObject,
    consumer: SecretConsumer<'_>,
    require: bool,
) -> Result<Zeroizing<Vec<u8>>, SecretRefusal> {
    let policy = SecretPolicy { require_allowed_namespaces: require };
    read_kubeconfig(secret, &address(secret.name()), consumer, &policy)
}

/// An instance in `shop` that chose the namespace of the Secret.
const CHOSEN: SecretConsumer<'_> = SecretConsumer::Instance(Some("shop"), Authority::ByOwner);

#[test]
fn reads_offered_secrets_only() {
    let shop = SecretConsumer::from(Some("shop"));
    let cases = [
        ("eu-kubeconfig", None, true),
        ("eu-kubeconfig", Some("false"), true),
        ("eu", Some("true"), true),
        ("eu", Some("false"), false),
        ("eu", Some("yes"), false),
        ("eu", None, false),
        ("kubeconfig", None, false),
        ("eu-kubeconfig-old", None, false),
    ];
    for (name, label, offered) in cases {
        assert_eq!(read(&secret(name, label, None), shop, false).is_ok(), offered, "{name} {label:?}");
    }
    assert_eq!(**read(&secret("eu-kubeconfig", None, None), shop, false).unwrap(), *b"hello");
}

#[test]
fn the_annotation_lists_the_namespaces_that_may_use_a_secret() {
    let (shop, none) = (SecretConsumer::from(Some("shop")), SecretConsumer::from(None));
    let cases = [
        (None, shop, false, true),
        (None, none, false, true),
        (None, shop, true, false),
        (None, SecretConsumer::Definition, true, false),
        (Some(""), shop, false, false),
        (Some("shop"), shop, true, true),
        (Some(" bank , shop "), shop, true, true),
        (Some("shop2,2shop,sho"), shop, false, false),
        (Some("*"), shop, true, true),
        (Some("*"), none, true, true),
        (Some("shop"), none, false, false),
        (Some("clusters"), shop, false, false),
        (Some("shop"), SecretConsumer::Definition, true, true),
        (None, CHOSEN, false, false),
        (None, CHOSEN, true, false),
        (Some("bank"), CHOSEN, false, false),
        (Some("bank, shop"), CHOSEN, true, true),
        (Some("*"), CHOSEN, false, true),
        (Some("shop"), SecretConsumer::Instance(None, Authority::ByOwner), false, false),
        (Some("*"), SecretConsumer::Instance(None, Authority::ByOwner), false, true),
    ];
    for (allowed, consumer, require, expected) in cases {
        let secret = secret("eu-kubeconfig", None, allowed);
        assert_eq!(read(&secret, consumer, require).is_ok(), expected, "{allowed:?} {consumer:?} {require}");
    }
}

#[test]
fn missing_unoffered_and_disallowed_secrets_look_the_same() {
    let shop = Some("shop");
    let missing = SecretRefusal::not_offered(&address("eu"), shop);
    let unlabelled =
        read_kubeconfig(&secret("eu", None, None), &address("eu"), shop, &SecretPolicy::default())
            .unwrap_err();
    let elsewhere = read_kubeconfig(
        &secret("eu", Some("true"), Some("bank")),
        &address("eu"),
        shop,
        &SecretPolicy::default(),
    );
    assert_eq!(missing, unlabelled);
    assert_eq!(missing, elsewhere.unwrap_err());
    // It does not reveal whether the key exists to a consumer that may not use the Secret.
    let keyed = SecretAddress { key: "other".to_owned(), ..address("eu") };
    let refusal =
        read_kubeconfig(&secret("eu", None, None), &keyed, shop, &SecretPolicy::default()).unwrap_err();
    assert_eq!(missing, refusal);
    assert_eq!(
        missing.to_string(),
        "cannot use Secret `clusters/eu`: it must exist, be named `*-kubeconfig` or have the label \
         `kro.run/cluster-credentials: \"true\"`, list `shop` in the annotation `kro.run/allowed-namespaces` if it has one, and \
         not have a type of `kubernetes.io/*`; if it is in another namespace, set the namespace in the cluster \
         reference"
    );
    assert_eq!(
        SecretRefusal::not_offered(&address("eu-kubeconfig"), shop).to_string(),
        "cannot use Secret `clusters/eu-kubeconfig`: it must exist, list `shop` in the annotation \
         `kro.run/allowed-namespaces` if it has one, and not have a type of `kubernetes.io/*`; if it is in another \
         namespace, set the namespace in the cluster reference"
    );
}

#[test]
fn the_refusal_of_a_secret_that_an_instance_chose_names_the_annotation_and_not_whether_it_exists() {
    let missing = SecretRefusal::not_offered(&address("eu-kubeconfig"), CHOSEN);
    for allowed in [None, Some(""), Some("bank")] {
        let refused = read(&secret("eu-kubeconfig", None, allowed), CHOSEN, false).unwrap_err();
        assert_eq!(missing, refused, "{allowed:?}");
    }
    assert_eq!(
        missing.to_string(),
        "cannot use Secret `clusters/eu-kubeconfig`: it must exist, list `shop` in the annotation \
         `kro.run/allowed-namespaces`, and not have a type of `kubernetes.io/*`; it needs the annotation because neither the \
         definition nor a kept revision of it sets the namespace `clusters`"
    );
}

#[test]
fn does_not_read_secrets_of_kubernetes_types() {
    let cases = [
        ("Opaque", true),
        ("cluster.x-k8s.io/secret", true),
        ("example.com/kubeconfig", true),
        ("kubernetes.io/service-account-token", false),
        ("kubernetes.io/tls", false),
        ("kubernetes.io/dockerconfigjson", false),
        ("bootstrap.kubernetes.io/token", false),
    ];
    for (kind, readable) in cases {
        let object = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind, "data": {"kubeconfig": "aGVsbG8="},
            "metadata": {"name": "eu-kubeconfig", "namespace": "clusters", "uid": "1"},
        });
        let secret = read_object(object.to_string().as_bytes()).unwrap();
        let read = read(&secret, SecretConsumer::from(Some("shop")), false);
        assert_eq!(read.is_ok(), readable, "{kind}");
        let missing = SecretRefusal::not_offered(&address("eu-kubeconfig"), Some("shop"));
        assert!(readable || read == Err(missing), "it must look like a missing one: {kind}");
    }
}

#[test]
fn the_refusal_names_a_missing_key() {
    for key in ["other", "bad"] {
        let address = SecretAddress { key: key.to_owned(), ..address("eu-kubeconfig") };
        let refusal =
            read_kubeconfig(&secret("eu-kubeconfig", None, None), &address, None, &SecretPolicy::default())
                .unwrap_err();
        assert!(matches!(&refusal, SecretRefusal::Key { key: named, .. } if named == key), "{refusal}");
    }
}

#[test]
fn refuses_invalid_names_and_keys() {
    for name in
        ["", "a/b", "..", "a..b", "../x", "UPPER", "a b", "a?b", "a%2fb", "-a", "a-", &"a".repeat(300)]
    {
        assert!(matches!(check_address(&address(name)), Err(SecretRefusal::Name { .. })), "{name}");
    }
    for key in ["", "..", "../x", "a/b", "a b"] {
        let address = SecretAddress { key: key.to_owned(), ..address("eu") };
        let refusal = check_address(&address).unwrap_err();
        assert!(matches!(&refusal, SecretRefusal::KeyName { key: named, .. } if named == key), "{refusal}");
    }
    // Direction marks and characters without width would make a message look like another one.
    let hidden = "eu\u{202e}\u{200b}\u{2066}\u{feff}\u{7}";
    for named in [address(hidden), SecretAddress { key: hidden.to_owned(), ..address("eu") }] {
        let refusal = check_address(&named).unwrap_err().to_string();
        assert!(refusal.contains("/eu`") || refusal.contains("`eu`"), "{refusal:?}");
        assert!(
            !refusal.contains(|shown: char| hidden.contains(shown) && !shown.is_ascii_lowercase()),
            "{refusal:?}"
        );
    }
    check_address(&address("eu.west-1")).unwrap();
}
