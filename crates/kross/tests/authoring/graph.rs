//! `kross graph`.

use super::{example, kross, write};

#[test]
fn a_definition_is_drawn_in_every_format() {
    for format in ["text", "mermaid", "dot", "svg"] {
        let (code, data, notes) = kross(&["graph", &example("three-clusters"), "-o", format], "");
        assert_eq!(code, 0, "{notes}");
        insta::assert_snapshot!(format!("three_clusters_{format}"), data);
    }
}

#[test]
fn conditions_collections_and_external_references_are_shown() {
    let (_, data, _) = kross(&["graph", &example("web-application")], "");
    assert!(
        data.contains("  ingress     Ingress networking.k8s.io/v1\n    if ${schema.spec.ingress.enabled}\n"),
        "{data}"
    );
    let (_, data, _) = kross(&["graph", &example("shared-configuration"), "-o", "mermaid"], "");
    assert!(data.contains(":::external"), "{data}");
    let (_, data, _) = kross(&["graph", &example("shared-configuration"), "-o", "dot"], "");
    assert!(data.contains("dashed"), "{data}");
}

#[test]
fn an_instance_is_drawn_in_the_clusters_that_its_values_choose() {
    let folder = tempfile::tempdir().unwrap();
    let instance = write(
        folder.path(),
        "shop.yaml",
        "apiVersion: kro.run/v1alpha1\nkind: Shop\nmetadata: {name: web, namespace: team}\nspec: {regions: [eu, us]}\n",
    );
    let (code, data, notes) = kross(&["graph", &example("three-clusters"), "--instance", &instance], "");
    assert_eq!(code, 0, "{notes}");
    insta::assert_snapshot!("three_clusters_instance", data);
    let (code, _, notes) =
        kross(&["graph", &example("three-clusters"), "--instance", &instance, "-o", "svg"], "");
    assert_eq!(code, 0, "{notes}");
}

#[test]
fn an_image_shows_one_definition() {
    let (code, _, notes) = kross(&["graph", "examples", "-o", "svg"], "");
    assert!(code == 2 && notes.contains("choose one with `--definition`"), "{notes}");
    let (code, data, notes) = kross(&["graph", "examples", "-o", "svg", "--definition", "edge-fleet"], "");
    assert!(code == 0 && data.starts_with("<svg"), "{notes}");
    let (code, _, notes) =
        kross(&["graph", "-"], "kind: ResourceGraphDefinition\napiVersion: kro.run/v1alpha1\n");
    assert!(code == 1 && notes.contains("error["), "{notes}");
}
