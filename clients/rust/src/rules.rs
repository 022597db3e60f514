//! What may be put around any rule.

use std::rc::Rc;

use crate::{Dispatcher, Result, View};

/// Lets a rule decide at multiples of an interval since time 0 only.
pub struct Periodic {
    rule: Box<dyn Dispatcher>,
    interval_us: u64,
    /// The last multiple that a timer was set for, and since which reload.
    tick: Option<(u64, u64)>,
}

impl Periodic {
    /// Puts a rhythm around a rule; the interval is in microseconds, at least one.
    pub fn new(rule: Box<dyn Dispatcher>, interval_us: u64) -> Periodic {
        Periodic { rule, interval_us: interval_us.max(1), tick: None }
    }

    fn come_back(&mut self, view: &mut View) {
        if !view.queue.is_empty() && self.tick.is_none() {
            // The next after this takes effect: before, it would be refused as past.
            let effective = view.now_us + view.welcome.policy.latency_us.unwrap_or(0);
            let tick = (effective / self.interval_us + 1) * self.interval_us;
            self.tick = Some((view.reloads, tick));
            view.call_at(tick);
        }
    }

    /// Whether this is a multiple of the interval, or one was missed: where decisions take time, a
    /// timer may fire while they do, and is told of afterwards.
    fn is_time(&mut self, view: &View) -> bool {
        let waits = self.tick.filter(|(reloads, _)| *reloads == view.reloads);
        let woken = waits.is_some_and(|(_, tick)| tick <= view.now_us);
        self.tick = waits.filter(|_| !woken);
        woken || view.now_us % self.interval_us == 0
    }
}

impl Dispatcher for Periodic {
    fn decide(&mut self, view: &mut View) -> Result<()> {
        if self.is_time(view) {
            let waiting = view.queue.len();
            self.rule.decide(view)?;
            if view.queue.len() == waiting {
                return Ok(());
            }
        }
        self.come_back(view);
        Ok(())
    }
}

/// Kills running jobs whose walltime is over, in the order of their numbers, before a rule decides.
pub struct KillOverdue(pub Box<dyn Dispatcher>);

impl Dispatcher for KillOverdue {
    fn decide(&mut self, view: &mut View) -> Result<()> {
        let mut overdue: Vec<_> = view.releases.overdue(view.now_us).cloned().collect();
        overdue.sort_by_key(|running| running.job.number);
        overdue.iter().for_each(|running| view.kill(&Rc::clone(&running.job)));
        self.0.decide(view)
    }
}
