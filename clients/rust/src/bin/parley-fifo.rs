//! Decides for a Parley server: first come, first served, on the lowest nodes that hold a job.

use std::process::ExitCode;

use parley::{program, Result, View};

fn main() -> ExitCode {
    program::run("parley-fifo", Box::new(fifo))
}

/// Starts jobs in the order of their submission, and stops at the first that does not fit: a job
/// that waits for its nodes holds up all behind it, so that nobody is overtaken.
fn fifo(view: &mut View) -> Result<()> {
    while let Some(job) = view.queue.head() {
        if !view.start(&job)? {
            break;
        }
    }
    Ok(())
}
