//! Output and exit codes of `kross explain`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::process::Command;

use kross_diagnostics::Code;

fn explain(codes: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kross")).arg("explain").args(codes).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn explains_a_code_in_any_spelling() {
    for spelling in ["K0201", "k0201", "error[K0201]:", "[K0201]"] {
        let (code, data, notes) = explain(&[spelling]);
        assert_eq!((code, notes.as_str()), (0, ""), "{spelling}");
        assert_eq!(data, Code::InvalidKind.explanation(), "{spelling}");
    }
}

#[test]
fn explains_several_codes() {
    let (code, data, _) = explain(&["K0201", "K0401"]);
    assert_eq!(code, 0);
    assert_eq!(
        data,
        format!("{}\n{}", Code::InvalidKind.explanation(), Code::UnterminatedExpression.explanation())
    );
}

#[test]
fn lists_all_codes() {
    let (code, data, notes) = explain(&[]);
    assert_eq!((code, notes.as_str()), (0, ""));
    assert_eq!(data.lines().count(), Code::ALL.len());
    assert!(data.contains("K0201  error    The kind is not a valid Kubernetes kind\n"), "{data}");
    assert!(data.contains("K0113  warning  The value is parsed as a boolean\n"), "{data}");
}

#[test]
fn an_unknown_code_suggests_a_similar_one() {
    let (code, data, notes) = explain(&["K0201", "K021"]);
    assert_eq!((code, data.as_str()), (2, ""));
    assert!(notes.starts_with("error: unknown code `K021`; did you mean `K0"), "{notes}");
    let (code, _, notes) = explain(&["web"]);
    assert_eq!(
        (code, notes.as_str()),
        (2, "error: unknown code `web`; run `kross explain` to list all codes\n")
    );
}
