//! Decides for a Parley server: EASY backfilling on the lowest nodes that hold a job.

use std::process::ExitCode;

use parley::{program, Easy};

fn main() -> ExitCode {
    program::run("parley-easy", Box::new(Easy))
}
