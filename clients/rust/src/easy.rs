//! EASY backfilling: whoever does not delay the first in line may start.

use std::rc::Rc;

use crate::queue::Job;
use crate::releases::planned_length;
use crate::{Dispatcher, Result, View};

/// Starts jobs in the order of their submission; behind the first that does not fit, the head,
/// others start that do not delay it.
///
/// The head's shadow time is when enough is free if all running jobs take as long as estimated; all
/// releases of one instant count together. A later job may start if it fits now and is over by
/// then, at that very instant is in time, or if the head could start then beside it. As long as all
/// jobs ask for the same chunk that is a matter of counting; else the machine as it will be then is
/// searched for the head's place.
///
/// Source: Lifka, The ANL/IBM SP scheduling system, JSSPP 1995.
#[derive(Debug, Clone, Copy, Default)]
pub struct Easy;

impl Dispatcher for Easy {
    fn decide(&mut self, view: &mut View) -> Result<()> {
        while let Some(head) = view.queue.head() {
            if !view.start(&head)? {
                return if view.counts_slots() {
                    count_slots(view, &head)
                } else {
                    search_nodes(view, &head)
                };
            }
        }
        Ok(())
    }
}

/// Backfills where a job fits if as many slots are free as it asks for chunks.
fn count_slots(view: &mut View, head: &Job) -> Result<()> {
    let mut free = view.cluster.available(&head.shape);
    let mut came = free;
    let shadow_us = view.releases.until(view.now_us, |ending| {
        came += ending.iter().map(|running| running.job.chunks).sum::<u64>();
        came >= head.chunks
    });
    // What the head leaves over at its time; nothing if that never comes.
    let mut extra = came.saturating_sub(head.chunks);
    let mut starts = Vec::new();
    for job in view.queue.iter().skip(1) {
        if free == 0 {
            break;
        }
        let late = planned_length(job) > shadow_us - view.now_us;
        if job.chunks > free || late && job.chunks > extra {
            continue;
        }
        free -= job.chunks;
        if late {
            extra -= job.chunks;
        }
        starts.push(Rc::clone(job));
    }
    starts.iter().try_for_each(|job| view.start(job).map(|_| ()))
}

/// Backfills where counting does not tell what fits: every place is looked at.
pub(crate) fn search_nodes(view: &mut View, head: &Job) -> Result<()> {
    let mut then = view.cluster.clone();
    let shadow_us = view.releases.until(view.now_us, |ending| {
        ending.iter().for_each(|running| then.release(&running.job.shape, &running.spans));
        then.fits(&head.shape, head.chunks)
    });
    for job in view.queue.jobs().iter().skip(1) {
        let Some(spans) = view.cluster.first_fit(&job.shape, job.chunks) else { continue };
        if view.now_us + planned_length(job) > shadow_us {
            then.take(&job.shape, &spans);
            if !then.fits(&head.shape, head.chunks) {
                then.release(&job.shape, &spans);
                continue;
            }
        }
        view.start_on(job, &spans)?;
    }
    Ok(())
}
