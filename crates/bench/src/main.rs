//! The program is the library: it is built beside the crate `causeway`, where a binary would wait for the end of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::main()
}
