//! The program: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    kross::main()
}
