//! Connection Secrets: how each differs from a good one, and the reason for which it is refused.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::*;
use crate::kubeconfig::AuthMethod;

/// PEM of an authority, and of a client certificate and its key.
fn material() -> &'static [String; 3] {
    static MATERIAL: std::sync::OnceLock<[String; 3]> = std::sync::OnceLock::new();
    MATERIAL.get_or_init(|| {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let client_key = KeyPair::generate().unwrap();
        let client = CertificateParams::new(vec!["admin".to_owned()]).unwrap();
        let certificate = client.signed_by(&client_key, &issuer).unwrap().pem();
        [authority, certificate, client_key.serialize_pem()]
    })
}

fn read(fields: &[(&str, &str)]) -> Result<Accepted, Refusal> {
    let [authority, certificate, key] = material();
    let field = |name: &str| {
        let (_, value) = fields.iter().rev().find(|(key, _)| *key == name)?;
        let value = match *value {
            "CA" => authority,
            "CERT" => certificate,
            "KEY" => key,
            other => other,
        };
        Some(Zeroizing::new(value.as_bytes().to_vec()))
    };
    accept_connection(field, "shop", &KubeconfigPolicy::default())
}

/// A connection Secret with a token, and with these fields in addition or instead.
fn with(fields: &[(&'static str, &'static str)]) -> Result<Accepted, Refusal> {
    let good = [("endpoint", "https://10.0.0.1"), ("clusterCA", "CA"), ("token", "s3cret")];
    read(&good.into_iter().chain(fields.iter().copied()).collect::<Vec<_>>())
}

#[test]
fn the_endpoint_is_a_host_or_a_url_and_the_port_is_added_where_it_has_none() {
    for (endpoint, port, server) in [
        ("https://10.0.0.1", "", "https://10.0.0.1/"),
        ("https://10.0.0.1:6443", "", "https://10.0.0.1:6443/"),
        ("10.0.0.1", "6443", "https://10.0.0.1:6443/"),
        ("https://10.0.0.1:6443/", "6443", "https://10.0.0.1:6443/"),
        ("https://api.example/clusters/a", "6443", "https://api.example:6443/clusters/a"),
        ("https://[fd00::1]", "6443", "https://[fd00::1]:6443/"),
        ("api.example\n", "443\n", "https://api.example:443/"),
    ] {
        let fields = [("endpoint", endpoint), ("port", port), ("clusterCA", "CA"), ("token", "t")];
        assert_eq!(read(&fields).unwrap().server(), server);
    }
}

#[test]
fn a_password_next_to_a_certificate_or_a_token_is_ignored_with_a_warning() {
    let password = [("username", "admin"), ("password", "s3cret")];
    let accepted = with(&password).unwrap();
    assert_eq!(accepted.method(), AuthMethod::Token);
    assert_eq!(accepted.warnings(), [Warning::PasswordIgnored]);
    let certificate = [("token", ""), ("clientCert", "CERT"), ("clientKey", "KEY"), password[0], password[1]];
    let accepted = with(&certificate).unwrap();
    assert_eq!(accepted.method(), AuthMethod::ClientCertificate);
    assert_eq!(accepted.warnings(), [Warning::PasswordIgnored]);
    let accepted = with(&[("token", ""), password[0], password[1]]).unwrap();
    assert_eq!((accepted.method(), accepted.warnings()), (AuthMethod::Basic, &[Warning::Basic][..]));
}

/// Fields in addition or instead, the reason, and the field that is wrong.
type Case = (&'static [(&'static str, &'static str)], RefusalReason, &'static str);

#[test]
fn the_fields_of_a_connection_secret_pass_the_same_rules_as_a_kubeconfig() {
    let cases: &[Case] = &[
        (&[("endpoint", "")], RefusalReason::NoEndpoint, "endpoint"),
        (&[("endpoint", "http://10.0.0.1")], RefusalReason::NotHttps, "endpoint"),
        (&[("endpoint", "https://admin@10.0.0.1")], RefusalReason::UserInfo, "endpoint"),
        (&[("endpoint", "https://169.254.169.254")], RefusalReason::Denied, "endpoint"),
        (&[("endpoint", "https://10.0.0.1:6443"), ("port", "443")], RefusalReason::Server, "port"),
        (&[("port", "x")], RefusalReason::Server, "port"),
        (&[("clusterCA", "")], RefusalReason::NoAuthority, "clusterCA"),
        (&[("clusterCA", "no PEM")], RefusalReason::Authority, "clusterCA"),
        (&[("token", "")], RefusalReason::NoCredential, ""),
        (&[("token", "two\nlines")], RefusalReason::Token, "token"),
        (&[("clientCert", "CERT"), ("clientKey", "KEY")], RefusalReason::SeveralMethods, ""),
        (&[("clientCert", "CERT")], RefusalReason::Incomplete, "clientCert"),
        (&[("token", ""), ("clientKey", "KEY")], RefusalReason::Incomplete, "clientKey"),
        (&[("token", ""), ("username", "admin")], RefusalReason::Incomplete, "username"),
    ];
    for (fields, reason, path) in cases {
        let refusal = with(fields).map(|_| "accepted").unwrap_err();
        assert_eq!((refusal.reason(), refusal.path()), (*reason, *path), "{refusal}");
        let text = refusal.to_string();
        assert!(text.starts_with("the connection Secret is refused: "), "{text}");
        assert!(!text.contains("(line ") && !text.contains("-data"), "{text}");
    }
}

#[test]
fn a_kubeconfig_takes_precedence_and_is_not_replaced_by_the_fields_if_it_is_refused() {
    let refusal = with(&[("kubeconfig", "apiVersion: v2")]).map(|_| "accepted").unwrap_err();
    assert_eq!(refusal.reason(), RefusalReason::NotAConfig);
    assert!(refusal.to_string().starts_with("the kubeconfig is refused: "), "{refusal}");
}

#[test]
fn the_fingerprint_depends_on_every_field() {
    let one = with(&[]).unwrap().fingerprint();
    assert_eq!(with(&[]).unwrap().fingerprint(), one);
    assert_ne!(with(&[("token", "other")]).unwrap().fingerprint(), one);
    assert_ne!(with(&[("port", "443")]).unwrap().fingerprint(), one);
    assert!(!format!("{:?}", with(&[]).unwrap()).contains("s3cret"));
}
