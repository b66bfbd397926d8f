//! The demo runs one graph in three clusters and cleans up after itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use kross_testing::wait::WAIT_LIMIT;

fn kross() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kross"))
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn once_prints_the_tree_of_a_graph_that_is_ready_in_three_clusters() {
    let output = kross().args(["demo", "--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("starting hub, eu, us") && notes.contains("ready after"), "{notes}");
}

/// Opens the dashboard and runs the commands that the demo prints: a changed value is applied in a remote cluster, a frozen cluster is reported as not
/// connected and reconnects, `why` names it, a deletion deletes the objects in all clusters, and the instance can be created
/// again.
#[test]
fn the_dashboard_and_the_commands_of_the_demo_work() {
    let mut child = kross().arg("demo").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut trees = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let guide: Vec<String> =
        notes.by_ref().take_while(|line| !line.contains("the tree is printed again")).collect();
    let directories: Vec<String> = ["hub", "eu", "us"].map(|name| kubeconfig(&guide, name)).into();
    let kubectl =
        guide.iter().find_map(|line| line.trim().strip_prefix("alias k='")?.strip_suffix('\'')).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let answer = |command: &str| {
        let aliases =
            format!("k() {{ {kubectl} \"$@\"; }}; kross() {{ {} \"$@\"; }}", env!("CARGO_BIN_EXE_kross"));
        let command = format!("{aliases}; {command}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).env("KUBECONFIG", &directories[0]).current_dir(folder.path());
        let output = shell.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let run = |command: &str| {
        let (code, data) = answer(command);
        assert_eq!(code, 0, "{command}: {data}");
    };
    let suggested =
        |word: &str| guide.iter().find(|line| line.trim().starts_with(word)).unwrap().trim().to_owned();

    let dashboard = guide.iter().find_map(|line| line.trim().strip_prefix("http://")).unwrap();
    let (address, login) = dashboard.split_once('/').unwrap();
    let answer_of_login = get(address, &format!("/{login}"), "");
    let cookie = answer_of_login.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
    let page = get(address, "/instances", cookie);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("us-kubeconfig"), "{page}");

    run(&suggested("kross get instances"));
    run(&suggested("kross tree"));
    run(&suggested("kross get clusters"));
    run(&suggested("k patch"));
    let get = format!(
        "{} --kubeconfig {} get deployment demo -o jsonpath='{{.spec.template.spec.containers[0].env[1].value}}'",
        kubectl.split(' ').next().unwrap(),
        directories[2]
    );
    let is_applied = || Command::new("sh").args(["-c", &get]).output().unwrap().stdout == b"welcome";
    let started = Instant::now();
    while !is_applied() {
        assert!(started.elapsed() < WAIT_LIMIT, "the changed value is not applied in the remote cluster");
    }

    // The first trees may say that no cluster is connected yet.
    trees.by_ref().find(|line| line.contains("us-kubeconfig") && line.contains("1/1 ready")).unwrap();
    run(&suggested("kill -STOP"));
    trees.by_ref().find(|line| line.contains("us-kubeconfig") && line.contains("not connected")).unwrap();
    let (code, why) = answer(&suggested("kross why"));
    assert!(code == 1 && why.contains("cluster default/us-kubeconfig  not connected"), "{why}");
    let (code, affected) = answer(&suggested("kross cluster affected"));
    assert!(code == 0 && affected.contains("Shop default/demo"), "{affected}");
    let (code, checked) = answer(&suggested("kross check"));
    assert!(code == 1 && checked.contains("× all instances are ready"), "{checked}");
    run(&suggested("kill -CONT"));
    trees
        .by_ref()
        .find(|line| line.contains("us-kubeconfig") && line.contains("connected, watch, 1/1 ready"))
        .unwrap();

    let (code, explained) = answer(&suggested("kross delete"));
    assert!(code == 0 && explained.contains("4 objects would be deleted"), "{explained}");
    run(&suggested("k delete"));
    notes.by_ref().find(|line| line.contains("were deleted")).unwrap();
    run(&suggested("echo"));
    trees.by_ref().find(|line| line.contains("us-kubeconfig") && line.contains("1/1 ready")).unwrap();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for path in directories {
        assert!(!Path::new(&path).parent().unwrap().exists(), "{path} still exists");
    }
}

/// The answer to a request, with its header.
fn get(address: &str, path: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The kubeconfig of a cluster, as the demo prints it.
fn kubeconfig(guide: &[String], name: &str) -> String {
    let line = guide.iter().find(|line| line.trim().starts_with(&format!("{name} "))).unwrap();
    line.split_whitespace().last().unwrap().to_owned()
}

#[test]
fn an_unsupported_kubernetes_version_lists_the_supported_ones() {
    let output = kross().args(["demo", "--kubernetes", "1.2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("use one of `1.36`, `1.30`"), "{notes}");
}
