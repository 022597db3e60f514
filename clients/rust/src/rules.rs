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
        let tick = (view.now_us / self.interval_us + 1) * self.interval_us;
        let set = self.tick.is_some_and(|(reloads, last)| reloads == view.reloads && last >= tick);
        if !view.queue.is_empty() && !set {
            self.tick = Some((view.reloads, tick));
            view.call_at(tick);
        }
    }
}

impl Dispatcher for Periodic {
    fn decide(&mut self, view: &mut View) -> Result<()> {
        if view.now_us % self.interval_us == 0 {
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
