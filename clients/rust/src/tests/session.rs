use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{json, Value};

use crate::messages::SessionEndBody;
use crate::{decode, serve, Error, Options, Result, View};

/// Closes its socket in the place of an answer.
const GONE: &str = "gone";

fn scratch(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("parley-rust-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.join(name)
}

/// A server over a real socket, which answers each message with what a script says; joined, it
/// returns what it heard.
fn stage(endpoint: &str, script: Vec<(&'static str, Value)>) -> JoinHandle<Vec<Value>> {
    let socket = zmq::Context::new().socket(zmq::ROUTER).expect("a socket");
    socket.set_linger(1000).expect("linger");
    socket.set_rcvtimeo(5000).expect("a timeout");
    socket.bind(endpoint).expect("an endpoint");
    thread::spawn(move || {
        let mut heard = Vec::new();
        for (at, (kind, body)) in script.into_iter().enumerate() {
            let Ok(frames) = socket.recv_multipart(0) else { break };
            assert!(frames.len() == 3 && frames[1].is_empty(), "{} frames", frames.len());
            heard.push(decode(&frames[2]).expect("a message"));
            if kind == GONE {
                break;
            }
            // An epoch as a float, in JSON text: both are to be borne.
            let message =
                json!({"v": 1, "type": kind, "session": "7", "epoch": 1.0, "seq": at + 1, "body": body});
            socket.send_multipart([&frames[0][..], b"", message.to_string().as_bytes()], 0).expect("sent");
        }
        thread::sleep(Duration::from_millis(50));
        heard
    })
}

fn welcome(on_disconnect: &str) -> (&'static str, Value) {
    let body = json!({
        "version": "1.0", "server": {"name": "stage", "version": "1"},
        "granted": {"state": "events", "decisions": "each", "submit": false}, "ask": "always", "wants": [],
        "token": "secret", "resumed": false, "seed": 0,
        "limits": {"message_bytes": 65536, "depth": 32, "string_bytes": 65536, "array_items": 65536,
                   "containers": 65536, "decisions": 10000, "undecodable": 3},
        "policy": {"on_reject": "report", "reasks": 0, "on_timeout": "fail", "on_disconnect": on_disconnect,
                   "reconnect_ms": 1000, "latency_model": "zero", "on_node_down": "kill"},
        "scenario": {"name": "s", "digest": "", "rules": {"request": "", "select": "", "on_overrun": "",
                     "estimate": "", "estimate_missing": ""}},
        "platform": {"node_count": 1, "groups": [{"name": "n", "first": 0, "last": 0, "capacity": {"core": 1}}]},
    });
    ("welcome", body)
}

fn state() -> Value {
    let request = json!([{"chunks": 1, "per_chunk": {"core": 1}, "exclusive": false}]);
    json!({"pending": [{"job": 4, "name": "x", "submit_us": 0, "request": request}], "held": [], "running": [],
           "nodes": [[0, 0, {"core": 1}, "up"]], "timers": [], "exhausted": true})
}

fn request(more: &str, value: Value) -> (&'static str, Value) {
    let mut body = json!({"now_us": 0, "attempt": 1, "events": [], "outcomes": [], "state_version": 3});
    body[more] = value;
    ("decision.request", body)
}

fn end(reason: &str) -> (&'static str, Value) {
    let stats = json!({"submitted": 0, "completed": 0, "failed": 0, "timed_out": 0, "killed": 0, "rejected": 0,
                       "requeues": 0});
    ("session.end", json!({"reason": reason, "now_us": 5, "outcomes": [], "stats": stats}))
}

fn endpoint() -> String {
    format!("ipc://{}", scratch("socket").display())
}

fn first_come(view: &mut View) -> Result<()> {
    view.queue.jobs().iter().try_for_each(|job| view.start(job).map(|_| ()))
}

fn serve_at(endpoint: &str) -> Result<SessionEndBody> {
    let options =
        Options { endpoint: Some(endpoint.into()), patience: Duration::from_secs(5), ..Options::default() };
    serve(&mut first_come, &options)
}

fn kinds(heard: &[Value]) -> Vec<&str> {
    heard.iter().filter_map(|message| message["type"].as_str()).collect()
}

#[test]
fn a_session_is_played_to_its_end() {
    let at = endpoint();
    let server = stage(&at, vec![welcome("fail"), request("state", state()), end("completed")]);
    assert!(serve_at(&at).expect("an end").complete());
    let heard = server.join().expect("a server");
    assert_eq!(kinds(&heard), ["hello", "ready", "decision.reply"]);
    let reply = &heard[2];
    assert_eq!((&reply["session"], &reply["epoch"], &reply["re"]), (&json!("7"), &json!(1), &json!(2)));
    assert_eq!(reply["body"]["state_version"], 3);
    assert_eq!(reply["body"]["decisions"][0]["allocation"], json!([[[0, 0, 1]]]));
}

#[test]
fn a_mirror_that_has_drifted_is_begun_anew() {
    let at = endpoint();
    let snapshot = ("state.snapshot", json!({"now_us": 0, "state_version": 3, "state": state()}));
    let server =
        stage(&at, vec![welcome("fail"), request("state_digest", json!("00")), snapshot, end("completed")]);
    serve_at(&at).expect("an end");
    let heard = server.join().expect("a server");
    assert_eq!(kinds(&heard), ["hello", "ready", "state.request", "decision.reply"]);
    assert_eq!((&heard[3]["re"], &heard[3]["body"]["decisions"][0]["job"]), (&json!(2), &json!(4)));
}

#[test]
fn an_error_is_told_and_followed_by_bye_unless_it_is_fatal() {
    for fatal in [false, true] {
        let at = endpoint();
        let error = json!({"code": "no.such", "message": "not so", "fatal": fatal, "path": "body.x", "supported": ["y"]});
        let mut script = vec![welcome("fail"), ("error", error)];
        if !fatal {
            script.push(end("bye"));
        }
        let server = stage(&at, script);
        let error = serve_at(&at).unwrap_err();
        assert_eq!(error.to_string(), "the server says no.such: not so (body.x); expected: y");
        let heard = server.join().expect("a server");
        assert_eq!(
            kinds(&heard),
            if fatal { vec!["hello", "ready"] } else { vec!["hello", "ready", "bye"] }
        );
    }
}

#[test]
fn a_lost_session_is_resumed_where_the_server_waits() {
    let (at, file) = (endpoint(), scratch("ticket"));
    let server = stage(&at, vec![welcome("wait"), request("state", state()), (GONE, json!({}))]);
    let options =
        Options { endpoint: Some(at.clone()), session_file: Some(file.clone()), ..Options::default() };
    let client = thread::spawn(move || serve(&mut first_come, &options).map(|end| end.reason));
    server.join().expect("a server");
    let kept = std::fs::read_to_string(&file).expect("a ticket");
    assert_eq!(kept, r#"{"session":"7","token":"secret"}"#);
    let server = stage(&at, vec![welcome("wait"), request("state", state()), end("completed")]);
    assert_eq!(client.join().expect("a client").expect("an end"), "completed");
    let heard = server.join().expect("a server");
    assert_eq!(heard[0]["body"]["resume"], json!({"session": "7", "token": "secret"}));
    assert!(!file.exists(), "the file of a session that is over is still there");
}

#[test]
fn a_lost_server_is_told_where_it_does_not_wait() {
    let at = endpoint();
    let server = stage(&at, vec![welcome("fail"), (GONE, json!({}))]);
    let error = serve_at(&at).unwrap_err();
    assert!(matches!(&error, Error::Lost(text) if text.ends_with("is gone")), "{error}");
    server.join().expect("a server");
    let options =
        Options { endpoint: Some(endpoint()), patience: Duration::from_millis(300), ..Options::default() };
    assert!(matches!(serve(&mut first_come, &options), Err(Error::Lost(_))));
}

#[test]
fn a_platform_that_is_none_is_refused() {
    for (pointer, value) in [
        ("/platform/node_count", 0_u64),
        ("/platform/node_count", (1_u64 << 53) - 1),
        ("/platform/groups/0/last", 1),
        ("/platform/groups/0/first", 1),
    ] {
        let at = endpoint();
        let (kind, mut body) = welcome("fail");
        body.pointer_mut(pointer).map(|place| *place = json!(value)).expect(pointer);
        let server = stage(&at, vec![(kind, body)]);
        let error = serve_at(&at).unwrap_err();
        assert!(matches!(&error, Error::Protocol(text) if text.starts_with("body.platform.")), "{error}");
        server.join().expect("a server");
    }
}

#[test]
fn whoever_waits_is_woken_by_a_wish_to_stop() {
    let at = endpoint();
    let server = stage(&at, vec![welcome("wait"), request("state", state())]);
    let options = Options { endpoint: Some(at), ..Options::default() };
    let stop = Arc::clone(&options.stop);
    let mut stopping = |_: &mut View| {
        stop.store(true, Ordering::Relaxed);
        Ok(())
    };
    assert!(matches!(serve(&mut stopping, &options), Err(Error::Interrupted)));
    server.join().expect("a server");
}

#[test]
fn what_is_asked_aside_is_answered_and_who_leaves_says_bye() {
    let at = endpoint();
    let ack = ("progress.ack", json!({"deadline_ms": 9}));
    let server =
        stage(&at, vec![welcome("fail"), request("state", state()), ("pong", json!({})), ack, end("bye")]);
    let mut leaving = |view: &mut View| {
        view.ping()?;
        assert_eq!(view.progress(Some("thinking"))?, 9);
        view.leave(Some("enough"));
        Ok(())
    };
    let options = Options { endpoint: Some(at), ..Options::default() };
    assert!(!serve(&mut leaving, &options).expect("an end").complete());
    assert_eq!(kinds(&server.join().expect("a server")), ["hello", "ready", "ping", "progress", "bye"]);
}

#[test]
fn a_dispatcher_that_cannot_go_on_says_bye() {
    let at = endpoint();
    let server = stage(&at, vec![welcome("wait"), request("state", state()), end("bye")]);
    let mut broken = |_: &mut View| Err(Error::Decision("broken".into()));
    let options = Options { endpoint: Some(at), ..Options::default() };
    assert_eq!(serve(&mut broken, &options).unwrap_err().to_string(), "broken");
    assert_eq!(kinds(&server.join().expect("a server")), ["hello", "ready", "bye"]);
}
