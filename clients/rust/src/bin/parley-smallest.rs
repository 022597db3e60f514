//! A dispatcher with nothing of Parley's: first come, first served on whole nodes, in raw messages
//! over ZeroMQ and MessagePack. It asks for the state with every request and keeps nothing in mind.
//! A lesson, not a pattern: whatever goes wrong ends it.

use serde_json::{json, Value};

/// Sends a message and returns the answer.
fn ask(socket: &zmq::Socket, session: &Value, kind: &str, body: Value) -> Value {
    let mut message = session.clone();
    message["v"] = json!(1);
    message["type"] = json!(kind);
    message["body"] = body;
    let frame = rmp_serde::to_vec_named(&message).expect("a message");
    socket.send(frame, 0).expect("a server");
    let answer = socket.recv_bytes(0).expect("an answer");
    rmp_serde::from_slice(&answer).expect("a message")
}

/// An integer may come as a float without a fraction.
fn number(value: &Value) -> i64 {
    value.as_f64().unwrap_or(0.0) as i64
}

/// Starts jobs as long as there are nodes for the first in line; where is up to the server.
fn decide(state: &Value) -> Vec<Value> {
    let runs = state["nodes"].as_array().expect("nodes").iter();
    let open = runs.filter(|run| number(&run[2]["core"]) > 0);
    let mut free: i64 = open.map(|run| number(&run[1]) - number(&run[0]) + 1).sum();
    let mut starts = Vec::new();
    for job in state["pending"].as_array().expect("jobs") {
        free -= number(&job["request"][0]["chunks"]);
        if free < 0 {
            break;
        }
        starts.push(json!({"id": starts.len(), "kind": "start", "job": job["job"]}));
    }
    starts
}

fn main() {
    let socket = zmq::Context::new().socket(zmq::REQ).expect("a socket");
    socket.connect(&std::env::var("PARLEY_ENDPOINT").expect("PARLEY_ENDPOINT")).expect("an endpoint");
    let hello = json!({"versions": ["1.0"], "client": {"name": "smallest", "version": "1"},
                       "capabilities": {"state": "snapshot"}});
    let mut answer = ask(&socket, &json!({}), "hello", hello);
    let mut session = json!({"session": answer["session"], "epoch": answer["epoch"], "re": answer["seq"]});
    if answer["type"] == "welcome" {
        answer = ask(&socket, &session, "ready", json!({}));
    }
    while answer["type"] == "decision.request" {
        session["re"] = answer["seq"].clone();
        let body = &answer["body"];
        let reply = json!({"decisions": decide(&body["state"]), "state_version": body["state_version"]});
        answer = ask(&socket, &session, "decision.reply", reply);
    }
    assert_eq!(answer["type"], "session.end", "{}", answer["body"]["message"]);
}
