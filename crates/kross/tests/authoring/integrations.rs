//! The GitHub Action and the pre-commit hooks, with the program that was built.

use std::process::Command;

use serde_json::Value as Json;

use super::{UNFORMATTED, kross, repository, write};

fn yaml(path: &str) -> Json {
    serde_saphyr::from_str(&std::fs::read_to_string(repository().join(path)).unwrap()).unwrap()
}

#[test]
fn the_github_action_annotates_mistakes_and_unformatted_files() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kross"), bin.join("kross")).unwrap();
    write(folder.path(), "web.yaml", &UNFORMATTED.replace("schema.metadata.name", "schema.metadata.nmae"));
    let action = yaml("integrations/github-action/action.yml");
    let step = &action["runs"]["steps"][0];
    assert!(step["run"].as_str().unwrap().ends_with("/run.sh"));
    let run = |paths: &str| {
        let mut command = Command::new("bash");
        command.arg(repository().join("integrations/github-action/run.sh")).current_dir(folder.path());
        // Every input reaches the script.
        for (variable, input) in step["env"].as_object().unwrap() {
            let name = input.as_str().unwrap().trim_start_matches("${{ inputs.").trim_end_matches(" }}");
            command.env(variable, action["inputs"][name]["default"].as_str().unwrap());
        }
        command.env("KROSS_VERSION", "local").env("KROSS_PATHS", paths).env("KROSS_SARIF", "out.sarif");
        command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, data) = run("web.yaml");
    assert_eq!(code, 1, "{data}");
    assert!(data.contains("::error file=web.yaml,line=13,"), "{data}");
    assert!(data.contains("::error file=web.yaml,line=1,title=not formatted::"), "{data}");
    let sarif: Json =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("out.sarif")).unwrap()).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let lines = results.iter().map(|found| &found["locations"][0]["physicalLocation"]["region"]["startLine"]);
    assert!(lines.into_iter().any(|line| *line == 13), "{results:#?}");
    write(folder.path(), "good.yaml", super::FORMATTED);
    let (code, data) = run("good.yaml");
    assert_eq!((code, data.as_str()), (0, ""));
}

#[test]
fn the_hooks_of_pre_commit_are_commands_that_accept_changed_files() {
    let folder = tempfile::tempdir().unwrap();
    let other = write(folder.path(), "other.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    let hooks = yaml(".pre-commit-hooks.yaml");
    for hook in hooks.as_array().unwrap() {
        let mut words: Vec<&str> = hook["entry"].as_str().unwrap().split(' ').collect();
        assert_eq!(words.remove(0), "kross");
        words.push(&other);
        let (code, _, notes) = kross(&words, "");
        assert_eq!(code, 0, "{words:?}: {notes}");
    }
    assert_eq!(kross(&["validate", &other], "").0, 2);
}
