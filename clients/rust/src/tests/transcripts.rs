use std::rc::Rc;

use serde_json::Value;

use super::{schemas_folder, unhex};
use crate::codec::bind;
use crate::decode;
use crate::messages::*;
use crate::View;

/// Leads a mirror through a recorded dialogue as the dispatcher led its own, and holds it against
/// every state that the server sent; returns how many.
fn replay(name: &str) -> usize {
    let text = std::fs::read_to_string(schemas_folder().join("transcripts").join(name)).expect(name);
    let mut view: Option<View> = None;
    let mut states = 0;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line");
        // The header and the footer hold no message.
        let Some(bytes) = line["bytes"].as_str() else { continue };
        let message = decode(&unhex(bytes)).expect("a message");
        let body = message["body"].clone();
        match (message["type"].as_str(), &mut view) {
            (Some("welcome"), _) => {
                view = Some(View::new(Rc::new(bind(body, "body").expect("a welcome")), None))
            }
            (Some("decision.request"), Some(view)) => {
                states += usize::from(accept(view, bind(body, "body").expect("a request")));
            }
            // The dispatcher of this one tries out what is refused.
            (Some("decision.reply"), Some(view)) => decide_as(view, &body, name != "tiny.jsonl"),
            (Some("session.end"), Some(view)) => assert!(view.queue.is_empty(), "{name}"),
            _ => {}
        }
    }
    states
}

/// Takes in a request by its events, and compares what it makes of them with its state.
fn accept(view: &mut View, mut request: DecisionRequestBody) -> bool {
    let state = request.state.clone();
    if request.now_us > 0 {
        request.state = None;
    }
    view.update(&request).expect("a request that follows");
    let Some(state) = state else { return false };
    let told = View::of_state((*view.welcome).clone(), view.now_us, &state).expect("a state");
    assert_eq!(told.digest(), view.digest(), "at {} us", view.now_us);
    for NodeRun(first, last, free, _) in &state.nodes {
        for (resource, amount) in free {
            for node in *first..=*last {
                assert_eq!(view.cluster.free_of(resource, node), *amount, "{resource} of node {node}");
            }
        }
    }
    true
}

/// Decides what a recorded reply decided.
fn decide_as(view: &mut View, body: &Value, first_fit: bool) {
    let jobs = view.queue.jobs();
    for decision in body["decisions"].as_array().expect("decisions") {
        assert_eq!(decision["kind"], "start", "no recorded dispatcher decided anything else so far");
        let job = jobs.iter().find(|job| decision["job"] == job.number).expect("a pending job");
        let placed = view.cluster.first_fit(&job.shape, job.chunks);
        if decision["allocation"].is_null() {
            assert!(view.start(job).expect("a start"));
        } else {
            let allocation: Vec<Vec<Span>> =
                bind(decision["allocation"].clone(), "allocation").expect("spans");
            assert!(!first_fit || placed.as_ref() == allocation.first(), "{placed:?}, {allocation:?}");
            view.start_on(job, &allocation[0]).expect("a start");
        }
        view.renumber_last(decision["id"].as_u64().expect("an id"));
    }
    view.take_decisions();
}

#[test]
fn the_mirror_accepts_every_state_of_the_transcripts() {
    let states: usize =
        ["plain.jsonl", "shared.jsonl", "failing.jsonl", "tiny.jsonl"].map(replay).iter().sum();
    assert!(states >= 10, "only {states} states were compared");
}
