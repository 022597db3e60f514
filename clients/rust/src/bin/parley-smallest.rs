//! A dispatcher with nothing of Parley's: first come, first served on whole nodes, in raw messages
//! over ZeroMQ and MessagePack. It asks for the state with every request and keeps nothing in mind.
//! A lesson, not a pattern: whatever goes wrong ends it.

use std::error::Error;

use serde_json::{json, Value};

/// Sends a message and returns the answer.
fn ask(socket: &zmq::Socket, session: &Value, kind: &str, body: Value) -> Result<Value, Box<dyn Error>> {
    let mut message = session.clone();
    message["v"] = json!(1);
    message["type"] = json!(kind);
    message["body"] = body;
    socket.send(rmp_serde::to_vec_named(&message)?, 0)?;
    Ok(rmp_serde::from_slice(&socket.recv_bytes(0)?)?)
}

/// An integer may come as a float without a fraction.
fn number(value: &Value) -> i64 {
    value.as_f64().unwrap_or(0.0) as i64
}

/// Starts jobs as long as there are nodes for the first in line; where is up to the server.
fn decide(state: &Value) -> Vec<Value> {
    let runs = state["nodes"].as_array().into_iter().flatten();
    let open = runs.filter(|run| number(&run[2]["core"]) > 0);
    let mut free: i64 = open.map(|run| number(&run[1]) - number(&run[0]) + 1).sum();
    let mut starts = Vec::new();
    for job in state["pending"].as_array().into_iter().flatten() {
        free -= number(&job["request"][0]["chunks"]);
        if free < 0 {
            break;
        }
        starts.push(json!({"id": starts.len(), "kind": "start", "job": job["job"]}));
    }
    starts
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = zmq::Context::new().socket(zmq::REQ)?;
    socket.connect(&std::env::var("PARLEY_ENDPOINT").map_err(|_| "PARLEY_ENDPOINT is not set")?)?;
    let hello = json!({"versions": ["1.0"], "client": {"name": "smallest", "version": "1"},
                       "capabilities": {"state": "snapshot"}});
    let mut answer = ask(&socket, &json!({}), "hello", hello)?;
    let mut session = json!({"session": answer["session"], "epoch": answer["epoch"], "re": answer["seq"]});
    if answer["type"] == "welcome" {
        answer = ask(&socket, &session, "ready", json!({}))?;
    }
    while answer["type"] == "decision.request" {
        session["re"] = answer["seq"].clone();
        let body = &answer["body"];
        let reply = json!({"decisions": decide(&body["state"]), "state_version": body["state_version"]});
        answer = ask(&socket, &session, "decision.reply", reply)?;
    }
    match answer["type"].as_str() {
        Some("session.end") => Ok(()),
        _ => Err(answer["body"]["message"].as_str().unwrap_or("no message").into()),
    }
}
