use std::collections::BTreeMap;
use std::rc::Rc;

use super::Chance;
use crate::cluster::{Cluster, Shape};
use crate::messages::*;
use crate::{limits, Error, View};

fn amounts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(name, amount)| ((*name).to_string(), *amount)).collect()
}

fn group(first: u64, last: u64, capacity: &[(&str, u64)]) -> NodeGroup {
    NodeGroup { name: String::new(), first, last, capacity: amounts(capacity) }
}

fn mixed() -> Rc<Platform> {
    let groups = vec![
        group(0, 39, &[("core", 4), ("memory", 16)]),
        group(40, 59, &[("core", 8), ("memory", 64), ("gpu", 2)]),
        group(60, 69, &[("core", 1)]),
    ];
    Rc::new(Platform { node_count: 70, groups })
}

fn shape(number: usize, asked: &[(&str, u64)], exclusive: bool) -> Rc<Shape> {
    let per_chunk = asked.iter().map(|(name, amount)| ((*name).to_string(), *amount)).collect();
    Rc::new(Shape { number, per_chunk, exclusive })
}

fn shapes() -> Vec<Rc<Shape>> {
    vec![
        shape(0, &[("core", 1)], false),
        shape(1, &[("core", 2), ("memory", 5)], false),
        shape(2, &[("core", 1), ("gpu", 1)], false),
        shape(3, &[("core", 3)], true),
        shape(4, &[], true),
        shape(5, &[("licence", 1)], false),
    ]
}

/// The text of the specification, node by node: `sealed` nodes are taken whole.
fn naive(cluster: &Cluster, sealed: &[bool], shape: &Shape, mut chunks: u64) -> Option<Vec<Span>> {
    let mut spans: Vec<Span> = Vec::new();
    for (node, sealed) in sealed.iter().enumerate() {
        let mut fits = chunks;
        if shape.exclusive {
            fits = if cluster.chunks_on(node) > 0 { 0 } else { fits.min(1) };
        }
        for (resource, amount) in &shape.per_chunk {
            fits = fits.min(cluster.free_of(resource, node) / amount);
        }
        if *sealed || fits == 0 {
            continue;
        }
        chunks -= fits;
        match spans.last_mut() {
            Some(last) if last.last + 1 == node && last.chunks == fits => last.last = node,
            _ => spans.push(Span { first: node, last: node, chunks: fits }),
        }
    }
    (chunks == 0).then_some(spans)
}

#[test]
fn first_fit_is_that_of_walking_the_nodes() {
    let mut chance = Chance(1);
    for _ in 0..40 {
        let (mut cluster, known) = (Cluster::new(mixed()), shapes());
        let mut sealed = [false; 70];
        let mut there: Vec<(Rc<Shape>, Vec<Span>)> = Vec::new();
        let mut seal = |shape: &Shape, spans: &[Span], is: bool| {
            let whole = spans.iter().filter(|_| shape.exclusive);
            whole.for_each(|span| sealed[span.first..=span.last].fill(is));
            sealed
        };
        let mut now = [false; 70];
        for _ in 0..200 {
            let shape = &known[chance.below(6) as usize];
            let chunks = 1 + chance.below(30);
            let found = cluster.first_fit(shape, chunks);
            assert_eq!(found, naive(&cluster, &now, shape, chunks), "{chunks} of {shape:?}");
            if let Some(spans) = found {
                cluster.take(shape, &spans);
                now = seal(shape, &spans, true);
                there.push((Rc::clone(shape), spans));
            }
            if !there.is_empty() && chance.below(2) == 0 {
                let (shape, spans) = there.swap_remove(chance.below(there.len() as u64) as usize);
                cluster.release(&shape, &spans);
                now = seal(&shape, &spans, false);
            }
        }
        there.iter().for_each(|(shape, spans)| cluster.release(shape, spans));
        assert!(cluster.totals().eq(Cluster::new(mixed()).totals()), "an empty machine is not as it was");
    }
}

#[test]
fn a_shape_that_is_asked_for_again_after_many_others_is_as_it_is_now() {
    let mut cluster = Cluster::new(mixed());
    for number in 0..400 {
        let asked = [("core", 1), ("memory", 1 + number % 20)];
        let shape = shape(number as usize, &asked, false);
        assert_eq!(cluster.first_fit(&shape, 3), naive(&cluster, &[false; 70], &shape, 3), "{number}");
    }
    let first = shape(0, &[("core", 1), ("memory", 1)], false);
    assert_eq!(cluster.available(&first), 40 * 4 + 20 * 8);
}

/// The digest that protocol/spec/decisions.md gives for the lines that it shows.
#[test]
fn the_digest_is_that_of_the_text() {
    let platform = Platform {
        node_count: 14,
        groups: vec![group(0, 3, &[("core", 2)]), group(4, 13, &[("core", 3), ("gpu", 1)])],
    };
    let mut view = View::new(Rc::new(WelcomeBody { platform, ..WelcomeBody::default() }), None);
    let job = |number, chunks, asked: &[(&str, u64)]| JobDescription {
        job: number,
        request: vec![ChunkGroup { chunks, per_chunk: amounts(asked), exclusive: false }],
        ..JobDescription::default()
    };
    let span = |first, last, chunks| Span { first, last, chunks };
    let state = State {
        pending: vec![job(12, 1, &[("core", 1)])],
        held: vec![12],
        running: vec![RunningEntry {
            job: job(7, 6, &[("core", 1)]),
            start_us: 3_600_000_000,
            // Spans that are not merged are merged in the digest.
            allocation: vec![vec![span(0, 1, 1), span(2, 3, 1), span(9, 9, 2)]],
        }],
        nodes: vec![
            NodeRun(4, 4, BTreeMap::new(), "down".into()),
            NodeRun(6, 7, BTreeMap::new(), "down".into()),
        ],
        timers: vec![TimerEntry { timer: 1, at_us: 9_000_000_000 }],
        exhausted: false,
    };
    view.load(&state).expect("a state");
    view.now_us = 7_200_000_000;
    // Something takes the gpus and some cores; the digest of the text does not say what.
    let used = [5, 8, 9, 10, 11, 12, 13].map(|node| span(node, node, 1));
    view.cluster.take(&shape(90, &[("gpu", 1)], false), &used);
    let free = view.cluster.totals().find(|(name, _)| *name == "core").expect("cores").1;
    view.cluster.take(&shape(91, &[("core", free - 14)], false), &[span(13, 13, 1)]);
    assert_eq!(view.digest(), "bbc14bdb3ec267337fe67ae2e84d26201923bfff679b9ecf453707eec98fe700");
}

/// A view of jobs in the queue of four nodes of one core.
fn waiting(chunks: &[u64]) -> View {
    let platform = Platform { node_count: 4, groups: vec![group(0, 3, &[("core", 1)])] };
    let mut view = View::new(Rc::new(WelcomeBody { platform, ..WelcomeBody::default() }), None);
    for (number, chunks) in chunks.iter().enumerate() {
        view.queue_up(&JobDescription {
            job: number as u64,
            request: vec![ChunkGroup {
                chunks: *chunks,
                per_chunk: amounts(&[("core", 1)]),
                exclusive: false,
            }],
            ..JobDescription::default()
        });
    }
    view
}

fn refused(id: u64, code: &str) -> Outcome {
    Outcome { id, status: "rejected".into(), code: Some(code.into()), ..Outcome::default() }
}

#[test]
fn what_is_refused_is_undone() {
    let mut view = waiting(&[1, 2, 1, 4]);
    let before = view.digest();
    let jobs = view.queue.jobs();
    assert!(view.start(&jobs[0]).expect("a start"));
    let timer = view.call_at(5);
    view.hold(&jobs[1], None).expect("a hold");
    view.reject(&jobs[2], None).expect("a rejection");
    view.release(&jobs[1]).expect("a release");
    view.cancel(timer).expect("a timer");
    assert!(view.start(&jobs[1]).expect("a start"));
    assert_ne!(view.digest(), before);
    let outcomes = (0..7).map(|id| refused(id, "decision.late")).collect();
    view.update(&DecisionRequestBody { outcomes, ..DecisionRequestBody::default() }).expect("an update");
    assert_eq!((view.digest(), view.rejected.len()), (before, 7));
    assert!(view.counts_slots() && view.queue.len() == 4);
}

#[test]
fn a_job_that_is_gone_does_not_come_back() {
    let mut view = waiting(&[1, 1]);
    let head = view.queue.head().expect("a job");
    assert!(view.start(&head).expect("a start"));
    let outcomes = vec![refused(0, "job.not_pending")];
    view.update(&DecisionRequestBody { outcomes, ..DecisionRequestBody::default() }).expect("an update");
    assert_eq!((view.queue.len(), view.running.len()), (1, 0));
}

#[test]
fn a_start_that_takes_time_holds_nothing_meanwhile() {
    let mut view = waiting(&[1, 1]);
    let head = view.queue.head().expect("a job");
    assert!(view.start(&head).expect("a start"));
    let nodes = vec![NodeRange(0, 0)];
    let request = DecisionRequestBody {
        now_us: 9,
        outcomes: vec![Outcome { status: "applied".into(), at_us: Some(9), ..Outcome::default() }],
        events: vec![
            Event::NodeDown(NodeDown { at_us: 3, nodes: nodes.clone(), ..NodeDown::default() }),
            Event::NodeUp(NodeUp { at_us: 4, nodes, ..NodeUp::default() }),
        ],
        ..DecisionRequestBody::default()
    };
    view.update(&request).expect("an update");
    assert_eq!(view.running[&0].start_us, 9);
    assert!(view.cluster.totals().eq([("core", 3)]));
}

#[test]
fn what_cannot_be_is_told_in_one_error() {
    let group = ChunkGroup::default();
    let of = |request| JobDescription { request, ..JobDescription::default() };
    for event in [
        Event::JobEnded(JobEnded { job: 7, ..JobEnded::default() }),
        Event::JobStarted(JobStarted { job: 7, allocation: vec![vec![]], ..JobStarted::default() }),
        Event::NodeDown(NodeDown { nodes: vec![NodeRange(2, 4)], ..NodeDown::default() }),
        Event::JobSubmitted(JobSubmitted {
            job: of(vec![group.clone(), group]),
            ..JobSubmitted::default()
        }),
        Event::JobSubmitted(JobSubmitted { job: of(vec![]), ..JobSubmitted::default() }),
    ] {
        let request = DecisionRequestBody { events: vec![event.clone()], ..DecisionRequestBody::default() };
        assert!(matches!(waiting(&[1]).update(&request), Err(Error::Mirror(_))), "{event:?}");
    }
    let request = DecisionRequestBody { outcomes: vec![refused(3, "x")], ..DecisionRequestBody::default() };
    assert!(matches!(waiting(&[]).update(&request), Err(Error::Mirror(_))));
    let mut view = waiting(&[1]);
    let job = view.queue.head().expect("a job");
    assert!(view.start(&job).expect("a start"));
    let attempts = [
        view.start_on(&job, &[]),
        view.reject(&job, None),
        view.hold(&job, None),
        view.release(&job),
        view.cancel(4),
    ];
    assert!(attempts.iter().all(|attempt| matches!(attempt, Err(Error::Decision(_)))), "{attempts:?}");
}

#[test]
fn a_reply_keeps_to_the_limits() {
    let all = Limits {
        message_bytes: 4096,
        array_items: 1000,
        containers: 100,
        decisions: 1000,
        ..Limits::default()
    };
    let span = Span { first: 1 << 40, last: 1 << 41, chunks: 1 << 42 };
    let start = |id| {
        let allocation = Some(vec![vec![span]]);
        Decision::Start(Start { id, kind: "start".into(), job: 1 << 52, allocation })
    };
    let decisions: Vec<Decision> = (0..60).map(start).collect();
    for limits in [
        Limits { decisions: 7, ..all.clone() },
        Limits { array_items: 7, ..all.clone() },
        Limits { containers: 31, ..all.clone() },
        Limits { message_bytes: 2000, ..all },
    ] {
        let kept = limits::within(&decisions, &limits);
        let bytes = crate::encode(&decisions[..kept].to_vec()).expect("bytes").len() as u64;
        assert!((1..=15).contains(&kept) && bytes + 300 <= limits.message_bytes, "{kept}: {bytes}");
    }
}
