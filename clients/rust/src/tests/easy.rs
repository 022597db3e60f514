use std::collections::BTreeMap;

use super::Chance;
use crate::easy::search_nodes;
use crate::messages::*;
use crate::{Dispatcher, Easy, KillOverdue, Periodic, Result, View};

const MINUTE: u64 = 60_000_000;

/// A job of so many chunks for so many minutes; `None` is without limit.
fn job(number: u64, chunks: u64, length: Option<u64>, resource: &str, exclusive: bool) -> JobDescription {
    let per_chunk = BTreeMap::from([(resource.to_string(), 1)]);
    JobDescription {
        job: number,
        walltime_us: length.map(|minutes| minutes * MINUTE),
        request: vec![ChunkGroup { chunks, per_chunk, exclusive }],
        ..JobDescription::default()
    }
}

fn running(job: JobDescription, since: u64, spans: &[(usize, usize, u64)]) -> RunningEntry {
    let spans = spans.iter().map(|span| Span::from(*span)).collect();
    RunningEntry { job, start_us: since * MINUTE, allocation: vec![spans] }
}

fn view_of(nodes: u64, now: u64, state: &State) -> View {
    let capacity = BTreeMap::from([("core".to_string(), 2), ("gpu".to_string(), 1)]);
    let groups = vec![NodeGroup { name: "nodes".into(), first: 0, last: nodes - 1, capacity }];
    let platform = Platform { node_count: nodes, groups };
    View::of_state(WelcomeBody { platform, ..WelcomeBody::default() }, now * MINUTE, state)
        .expect("a state")
}

/// The jobs that a rule starts, in order.
fn started(rule: &mut dyn Dispatcher, nodes: u64, now: u64, state: &State) -> Vec<u64> {
    let mut view = view_of(nodes, now, state);
    rule.decide(&mut view).expect("decisions");
    let number = |decision: &Decision| match decision {
        Decision::Start(start) => start.job,
        other => panic!("{other:?}"),
    };
    view.take_decisions().iter().map(number).collect()
}

fn state(running: Vec<RunningEntry>, pending: Vec<JobDescription>) -> State {
    State { running, pending, ..State::default() }
}

#[test]
fn easy_starts_what_does_not_delay_the_head() {
    for (name, length, now, want) in [
        ("over before the shadow time", Some(9), 0, true),
        ("over at that very instant", Some(10), 0, true),
        ("over behind it", Some(11), 0, false),
        ("without limit", None, 0, false),
        ("an overdue job ends in a second", Some(1), 11, false),
        ("an estimate of zero is a second", Some(0), 11, true),
    ] {
        // Two nodes of two cores: three cores are taken until minute 10.
        let taken = running(job(0, 3, Some(10), "core", false), 0, &[(0, 0, 2), (1, 1, 1)]);
        let pending = vec![job(1, 4, Some(5), "core", false), job(2, 1, length, "core", false)];
        let got = started(&mut Easy, 2, now, &state(vec![taken], pending));
        assert_eq!(got, if want { vec![2] } else { vec![] }, "{name}");
    }
}

#[test]
fn easy_leaves_extra_nodes_to_whoever_is_long() {
    let taken = running(job(0, 2, Some(10), "core", false), 0, &[(0, 0, 2)]);
    let long = |number| job(number, 1, Some(99), "core", false);
    let pending = vec![job(1, 3, Some(5), "core", false), long(2), long(3)];
    assert_eq!(started(&mut Easy, 2, 0, &state(vec![taken], pending)), [2]);
}

#[test]
fn easy_looks_at_the_nodes_where_jobs_differ() {
    let taken = running(job(0, 1, Some(10), "gpu", false), 0, &[(0, 0, 1)]);
    let pending = vec![
        job(1, 2, Some(5), "gpu", false),   // the head: the gpu of node 0 is taken
        job(2, 4, Some(99), "core", false), // beside it: cores are no gpus
        job(3, 1, Some(99), "gpu", false),  // would delay it
        job(4, 1, Some(10), "gpu", false),  // over in time
        job(5, 1, Some(1), "core", true),   // no node is empty
    ];
    assert_eq!(started(&mut Easy, 2, 0, &state(vec![taken], pending)), [2, 4]);
}

/// EASY that never counts.
fn searching(view: &mut View) -> Result<()> {
    while let Some(head) = view.queue.head() {
        if !view.start(&head)? {
            return search_nodes(view, &head);
        }
    }
    Ok(())
}

/// Counting slots and searching the nodes are two ways to one schedule where all jobs ask for the
/// same chunk.
#[test]
fn counting_starts_what_searching_starts() {
    let mut chance = Chance(7);
    let mut counted_any = 0;
    for _ in 0..3000 {
        let exclusive = chance.below(2) == 0;
        let per_node = if exclusive { 1 } else { 2 };
        let nodes = 1 + chance.below(8);
        let length = |chance: &mut Chance| Some(chance.below(14)).filter(|length| *length < 13);
        let (mut free, mut here) = (nodes, Vec::new());
        while free > 0 && chance.below(5) > 0 {
            let count = 1 + chance.below(free);
            free -= count;
            let wire = job(here.len() as u64, count * per_node, length(&mut chance), "core", exclusive);
            let spans = [(free as usize, (free + count - 1) as usize, per_node)];
            here.push(running(wire, chance.below(10), &spans));
        }
        let mut pending = Vec::new();
        for number in 0..1 + chance.below(12) {
            let chunks = 1 + chance.below(nodes * per_node);
            pending.push(job(100 + number, chunks, length(&mut chance), "core", exclusive));
        }
        let now = 10 + chance.below(3);
        let state = state(here, pending);
        let counted = started(&mut Easy, nodes, now, &state);
        assert_eq!(counted, started(&mut searching, nodes, now, &state), "{state:?}");
        counted_any += usize::from(!counted.is_empty());
    }
    assert!(counted_any > 500, "{counted_any} passes started anything");
}

#[test]
fn periodic_decides_at_multiples_only_and_sets_one_timer() {
    let pending = vec![job(0, 1, Some(1), "core", false), job(1, 9, Some(1), "core", false)];
    for (now, starts) in [(2, 1), (3, 0)] {
        let mut view = view_of(1, now, &state(vec![], pending.clone()));
        let mut rule = Periodic::new(Box::new(Easy), 2 * MINUTE);
        rule.decide(&mut view).expect("decisions");
        rule.decide(&mut view).expect("decisions");
        assert_eq!(view.running.len(), starts, "at minute {now}");
        assert_eq!(view.timers.values().collect::<Vec<_>>(), [&(4 * MINUTE)], "at minute {now}");
    }
}

#[test]
fn what_is_overdue_is_killed_in_the_order_of_numbers_until_it_ends() {
    let here = vec![
        running(job(9, 1, Some(1), "core", false), 0, &[(0, 0, 1)]),
        running(job(4, 1, Some(3), "core", false), 0, &[(0, 0, 1)]),
        running(job(5, 1, Some(4), "core", false), 0, &[(1, 1, 1)]),
        running(job(6, 1, None, "core", false), 0, &[(1, 1, 1)]),
    ];
    let mut view = view_of(2, 3, &state(here, vec![]));
    let mut rule = KillOverdue(Box::new(Easy));
    for _ in 0..2 {
        rule.decide(&mut view).expect("decisions");
        let number = |decision: &Decision| match decision {
            Decision::Kill(kill) => kill.job,
            other => panic!("{other:?}"),
        };
        assert_eq!(view.take_decisions().iter().map(number).collect::<Vec<_>>(), [4, 9]);
    }
}
