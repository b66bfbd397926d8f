//! The demo shows three clusters that work, and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn kross() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kross"))
}

/// The clusters' names and kubeconfigs, from the demo's data.
fn clusters(text: &str) -> Vec<(String, String)> {
    text.lines()
        .map(|line| line.split_once('\t').map(|(name, path)| (name.to_owned(), path.to_owned())).unwrap())
        .collect()
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn once_prints_three_kubeconfigs_and_cleans_up() {
    let output = kross().args(["demo", "--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let clusters = clusters(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(clusters.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["hub", "eu", "us"]);
    for (_, path) in clusters {
        assert!(!Path::new(&path).parent().unwrap().exists(), "{path} is still there");
    }
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("get namespaces"), "{notes}");
}

#[test]
fn the_clusters_work_until_an_interrupt_cleans_up() {
    let mut child = kross().arg("demo").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines: Vec<String> =
        BufReader::new(child.stdout.take().unwrap()).lines().take(3).map(Result::unwrap).collect();
    let clusters = clusters(&lines.join("\n"));
    for (name, path) in &clusters {
        let kubeconfig = std::fs::read_to_string(path).unwrap();
        assert!(kubeconfig.contains("server: https://127.0.0.1:"), "{name}: {kubeconfig}");
    }

    interrupt(&child);

    assert_eq!(child.wait().unwrap().code(), Some(0));
    for (_, path) in clusters {
        assert!(!Path::new(&path).parent().unwrap().exists(), "{path} is still there");
    }
}

#[test]
fn an_unknown_version_is_answered_with_the_known_ones() {
    let output = kross().args(["demo", "--kubernetes", "1.2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("choose one of `1.36`, `1.30`"), "{notes}");
}
