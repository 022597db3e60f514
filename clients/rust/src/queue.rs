//! Jobs as a dispatcher knows them, and those that wait.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::cluster::Shape;
use crate::messages::Span;

/// A job: everything but how long it will run.
#[derive(Debug)]
pub struct Job {
    /// What it is called on the wire: its place in reading order.
    pub number: u64,
    pub name: String,
    /// When it was submitted, microseconds since time 0.
    pub submit_us: u64,
    /// The limit it asks for, microseconds; `None` is without limit.
    pub walltime_us: Option<u64>,
    pub chunks: u64,
    pub shape: Rc<Shape>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub queue: Option<String>,
    pub partition: Option<String>,
    /// Further columns of the workload.
    pub attributes: Option<Map<String, Value>>,
}

/// A job on its nodes.
#[derive(Debug)]
pub struct RunningJob {
    pub job: Rc<Job>,
    /// When it started, microseconds since time 0.
    pub start_us: u64,
    pub spans: Vec<Span>,
}

impl RunningJob {
    /// When its walltime is over; it may end sooner, and later where jobs may overrun.
    pub fn expected_end_us(&self) -> Option<u64> {
        self.job.walltime_us.map(|walltime| self.start_us + walltime)
    }
}

/// The pending jobs that are not held, by submission, then number.
#[derive(Debug, Default)]
pub struct Queue(BTreeMap<(u64, u64), Rc<Job>>);

impl Queue {
    /// The job that waits longest.
    pub fn head(&self) -> Option<Rc<Job>> {
        self.0.values().next().cloned()
    }

    /// The jobs in order.
    pub fn iter(&self) -> impl Iterator<Item = &Rc<Job>> {
        self.0.values()
    }

    /// The jobs in order, for going through them while they are started.
    pub fn jobs(&self) -> Vec<Rc<Job>> {
        self.0.values().cloned().collect()
    }

    /// How many jobs wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn holds(&self, job: &Rc<Job>) -> bool {
        self.0.get(&(job.submit_us, job.number)).is_some_and(|held| Rc::ptr_eq(held, job))
    }

    pub(crate) fn add(&mut self, job: Rc<Job>) {
        self.0.insert((job.submit_us, job.number), job);
    }

    pub(crate) fn remove(&mut self, job: &Job) {
        self.0.remove(&(job.submit_us, job.number));
    }
}
