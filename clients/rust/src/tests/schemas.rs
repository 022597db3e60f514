use std::collections::BTreeSet;

use serde::de::{value::Error, Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::from_schemas;
use crate::messages::*;

/// Learns the names of the fields of a struct from what it asks a deserializer for.
struct Spy<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for Spy<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("only structs have fields"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.0.extend(fields);
        Err(Error::custom("its fields are all that is wanted"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields_of<'de, T: Deserialize<'de>>() -> BTreeSet<&'static str> {
    let mut fields = Vec::new();
    assert!(T::deserialize(Spy(&mut fields)).is_err());
    fields.into_iter().collect()
}

/// Pairs of what the schemas call a type and the fields that it has here.
macro_rules! definitions {
    ($($name:literal: $type:ty),* $(,)?) => { vec![$(($name, fields_of::<$type>())),*] };
}

#[test]
fn every_type_has_the_fields_of_its_schema() {
    let known = definitions! {
        "Hello": HelloBody, "Program": Program, "Capabilities": Capabilities, "Resume": Resume,
        "Welcome": WelcomeBody, "Granted": Granted, "Limits": Limits, "Policy": Policy,
        "Scenario": Scenario, "Rules": WorkloadRules, "Platform": Platform, "NodeGroup": NodeGroup,
        "DecisionRequest": DecisionRequestBody, "StateSnapshot": StateSnapshotBody, "State": State,
        "Job": JobDescription, "ChunkGroup": ChunkGroup, "RunningJob": RunningEntry,
        "Timer": TimerEntry, "Outcome": Outcome, "SessionStart": SessionStart,
        "JobSubmitted": JobSubmitted, "JobStarted": JobStarted, "JobEnded": JobEnded,
        "NodeDown": NodeDown, "NodeUp": NodeUp, "TimerFired": TimerFired,
        "WorkloadExhausted": WorkloadExhausted, "UnknownEvent": UnknownEvent,
        "DecisionReply": Reply, "Start": Start, "Reject": Reject, "Kill": Kill, "Requeue": Requeue,
        "Hold": Hold, "Release": Release, "Wake": Wake, "WakeCancel": WakeCancel,
        "Annotate": Annotate, "Submit": Submit, "NewJob": NewJob, "Stop": Stop,
        "SessionEnd": SessionEndBody, "Stats": Stats, "Error": ErrorBody, "Progress": ProgressBody,
        "ProgressAck": ProgressAckBody, "Bye": ByeBody,
    };
    let schemas: Value = from_schemas("definitions.schema.json");
    let mut seen = 0;
    for (name, schema) in schemas["$defs"].as_object().expect("definitions") {
        let Some(wanted) = schema["properties"].as_object() else { continue };
        // What is never sent has no type here.
        if wanted.is_empty() || name == "UnknownDecision" {
            continue;
        }
        let wanted: BTreeSet<&str> = wanted.keys().map(String::as_str).collect();
        let (_, fields) =
            known.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name} is new"));
        assert_eq!(*fields, wanted, "{name}");
        seen += 1;
    }
    assert_eq!(seen, known.len());
}

/// A reply is only written here; this is to learn its fields.
#[derive(serde::Deserialize)]
#[allow(dead_code)] // its fields are never read
struct Reply {
    decisions: Value,
    state_version: Value,
    compute_us: Option<Value>,
}

#[test]
fn a_reply_is_written_with_the_fields_of_its_schema() {
    let reply = DecisionReplyBody { decisions: vec![], state_version: 1, compute_us: Some(2) };
    let written = serde_json::to_value(reply).expect("a map");
    let names: BTreeSet<&str> = written.as_object().expect("a map").keys().map(String::as_str).collect();
    assert_eq!(names, fields_of::<Reply>());
}

#[test]
fn the_envelopes_have_the_fields_of_every_message() {
    let catalog: Value = from_schemas("catalog.json");
    for (kind, message) in catalog["messages"].as_object().expect("messages") {
        let schema: Value = from_schemas(&format!("{kind}.schema.json"));
        let from_client = message["direction"].as_str().expect("a direction").starts_with("client");
        let known = if from_client { fields_of::<Question<Value>>() } else { fields_of::<Answer>() };
        for name in schema["properties"].as_object().expect("properties").keys() {
            assert!(known.contains(name.as_str()), "{kind}: no field {name} is known here");
        }
    }
}

/// What an example needs is what its schema requires: without a required field it is refused, and
/// without any other it is read.
#[test]
fn a_body_is_refused_without_a_required_field_only() {
    fn hold<T: serde::de::DeserializeOwned>(schemas: &Value, name: &str, example: &str) {
        let body = from_schemas::<Value>(&format!("examples/{example}.json"))["body"].clone();
        let required: Vec<&str> = schemas["$defs"][name]["required"]
            .as_array()
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        for field in body.as_object().expect("a body").keys() {
            let mut less = body.clone();
            less.as_object_mut().expect("a body").remove(field);
            let read = serde_json::from_value::<T>(less).is_ok();
            assert_eq!(read, !required.contains(&field.as_str()), "{name} without {field}");
        }
    }
    let schemas: Value = from_schemas("definitions.schema.json");
    hold::<HelloBody>(&schemas, "Hello", "hello-resume");
    hold::<WelcomeBody>(&schemas, "Welcome", "welcome-resumed");
    hold::<DecisionRequestBody>(&schemas, "DecisionRequest", "decision.request-resumed");
    hold::<StateSnapshotBody>(&schemas, "StateSnapshot", "state.snapshot");
    hold::<SessionEndBody>(&schemas, "SessionEnd", "session.end-stopped");
    hold::<ErrorBody>(&schemas, "Error", "error-stranger");
    hold::<ProgressAckBody>(&schemas, "ProgressAck", "progress.ack");
}
