//! When running jobs are estimated to give their nodes back.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::queue::{Job, RunningJob};

/// Microseconds of a second.
pub const SECOND_US: u64 = 1_000_000;

/// When a job without limit ends: later than any instant of a simulation, microseconds.
pub const NEVER: u64 = 1 << 61;

/// How long a job without limit lasts: beyond [`NEVER`], whenever it starts, microseconds.
pub const FOREVER: u64 = 1 << 62;

/// For how long a job is to have its nodes, microseconds: an estimate of zero counts as one second.
pub fn planned_length(job: &Job) -> u64 {
    match job.walltime_us {
        None => FOREVER,
        Some(0) => SECOND_US,
        Some(walltime) => walltime,
    }
}

/// The running jobs by the instant at which their walltime is over, then number.
#[derive(Debug, Default)]
pub struct Releases(BTreeMap<(u64, u64), Rc<RunningJob>>);

fn key(running: &RunningJob) -> (u64, u64) {
    (running.expected_end_us().unwrap_or(NEVER), running.job.number)
}

impl Releases {
    pub(crate) fn add(&mut self, running: &Rc<RunningJob>) {
        self.0.insert(key(running), Rc::clone(running));
    }

    pub(crate) fn remove(&mut self, running: &RunningJob) {
        self.0.remove(&key(running));
    }

    /// The jobs whose walltime is over at an instant, by that.
    pub fn overdue(&self, now_us: u64) -> impl Iterator<Item = &Rc<RunningJob>> {
        self.0.range(..=(now_us, u64::MAX)).map(|(_, running)| running)
    }

    /// Calls a function for each instant after now at which jobs are taken to end, with those jobs,
    /// until it returns true, and returns that instant; [`NEVER`] if there is none. Who is overdue
    /// is taken to end one second from now.
    pub fn until(&self, now_us: u64, mut enough: impl FnMut(&[&RunningJob]) -> bool) -> u64 {
        let soon = now_us + SECOND_US;
        let mut late: Vec<&RunningJob> = self.overdue(now_us).map(Rc::as_ref).collect();
        let mut rest = self.0.range((now_us + 1, 0)..).peekable();
        let mut ending = Vec::new();
        while rest.peek().is_some() || !late.is_empty() {
            let next = rest.peek().map_or(NEVER, |((end, _), _)| *end);
            let at = if late.is_empty() { next } else { next.min(soon) };
            ending.clear();
            if at == soon {
                ending.append(&mut late);
            }
            while let Some((_, running)) = rest.next_if(|((end, _), _)| *end == at) {
                ending.push(running.as_ref());
            }
            if enough(&ending) {
                return at;
            }
        }
        NEVER
    }
}
