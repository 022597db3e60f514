use serde_json::{json, Value};

use super::{from_schemas, schemas_folder, unhex};
use crate::codec::bind;
use crate::messages::*;
use crate::{decode, encode};

/// All numbers as doubles, which is what JSON text says of them.
fn doubles(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(doubles).collect(),
        Value::Object(pairs) => pairs.into_iter().map(|(key, item)| (key, doubles(item))).collect(),
        other => other,
    }
}

#[test]
fn every_vector_is_read_as_its_verdict_says() {
    let vectors: Value = from_schemas("vectors/codec.json");
    let frames = vectors["frames"].as_array().expect("frames");
    assert!(frames.len() >= 40, "only {} vectors", frames.len());
    for vector in frames {
        let name = &vector["name"];
        let read = decode(&unhex(vector["hex"].as_str().expect("hex")));
        match vector["verdict"].as_str() {
            Some("valid") => {
                let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(doubles(read), doubles(vector["value"].clone()), "{name}");
            }
            Some("invalid") => assert!(read.is_err(), "{name}: taken for {read:?}"),
            Some("acceptable") => {}
            other => panic!("{name}: no verdict {other:?} is known"),
        }
    }
}

/// Reads a body as the type that it has here and writes it again.
fn again(kind: &str, body: &Value) -> Option<Value> {
    fn through<T: serde::Serialize + serde::de::DeserializeOwned>(body: &Value) -> Value {
        let read: T = bind(body.clone(), "body").expect("a body");
        decode(&encode(&read).expect("bytes")).expect("a map")
    }
    Some(match kind {
        "hello" => through::<HelloBody>(body),
        "welcome" => through::<WelcomeBody>(body),
        "state.snapshot" => through::<StateSnapshotBody>(body),
        "session.end" => through::<SessionEndBody>(body),
        "error" => through::<ErrorBody>(body),
        "progress" => through::<ProgressBody>(body),
        "progress.ack" => through::<ProgressAckBody>(body),
        "bye" => through::<ByeBody>(body),
        "ready" | "ping" | "pong" | "state.request" => through::<Empty>(body),
        _ => return None,
    })
}

fn without_nil(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_nil).collect(),
        Value::Object(pairs) => {
            let kept = pairs.into_iter().filter(|(_, item)| !item.is_null());
            kept.map(|(key, item)| if key == "attributes" { (key, item) } else { (key, without_nil(item)) })
                .collect()
        }
        other => other,
    }
}

#[test]
fn every_example_is_read_and_written_again() {
    let mut read = 0;
    for entry in std::fs::read_dir(schemas_folder().join("examples")).expect("examples") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|ending| ending != "hex") {
            continue;
        }
        let name = path.display();
        let message = decode(&unhex(&std::fs::read_to_string(&path).expect("hex"))).expect("a message");
        let kind = message["type"].as_str().expect("a type");
        let body = message["body"].clone();
        if kind == "decision.request" {
            let request: DecisionRequestBody = bind(body.clone(), "body").expect("a request");
            assert_eq!(request.events.len(), body["events"].as_array().expect("events").len(), "{name}");
            read += 1;
        } else if let Some(made) = again(kind, &body) {
            assert_eq!(made, without_nil(body), "{name}");
            read += 1;
        }
    }
    assert!(read >= 20, "only {read} examples were read");
}

#[test]
fn a_missing_or_wrong_field_is_named_by_its_path() {
    for (text, path) in [
        (r#"{"attempt":1}"#, "now_us"),
        (r#"{"now_us":true}"#, "now_us"),
        (r#"{"now_us":1.5}"#, "now_us"),
        (r#"{"now_us":-1}"#, "now_us"),
        (r#"{"now_us":9007199254740993.0e9}"#, "now_us"),
        (r#"{"now_us":0,"attempt":1,"events":[{"kind":"job.ended","at_us":0,"job":"7"}]}"#, "events.0"),
        (r#"{"now_us":0,"attempt":1,"events":[{"kind":"node.up","at_us":0}]}"#, "nodes"),
    ] {
        let error = bind::<DecisionRequestBody>(decode(text.as_bytes()).expect(text), "body").unwrap_err();
        assert!(error.to_string().contains(path), "{text}: {error}");
    }
}

#[test]
fn nil_is_taken_for_absent() {
    let read = decode(br#"{"name":"x","version":"1","language":null}"#).expect("a map");
    assert_eq!(bind::<Program>(read, "body").expect("a program").language, None);
}
