use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = causeway::cli::Cli::parse();
    match causeway::commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Errors of a command go to the terminal, not the log: the person who typed it reads them.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
