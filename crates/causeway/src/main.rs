use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = causeway::cli::Cli::parse();
    match causeway::commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // To the terminal, not the log: whoever typed the command reads it.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
