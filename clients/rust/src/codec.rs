//! Messages as bytes: MessagePack, or JSON text where the server writes that (R-ENC-2).
//!
//! What is read becomes a [`Value`] in which a float without a fraction is the integer that it is
//! (R-CONV-3); what the profile of the protocol forbids is refused on the way.

use std::fmt;
use std::io::Cursor;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::{Error, Result};

/// The greatest integer of the profile.
const MOST_INTEGER: u64 = (1 << 53) - 1;

/// How deep maps and arrays may lie within each other in what is read; R-LIM-8 asks for 32.
const MOST_DEPTH: usize = 64;

/// Reads a frame.
///
/// # Errors
/// [`Error::Protocol`] if it is not one map of the profile and nothing behind it.
pub fn decode(frame: &[u8]) -> Result<Value> {
    let value = if frame.first() == Some(&b'{') {
        let value = serde_json::from_slice(frame)
            .map_err(|error| Error::Protocol(format!("the frame is no JSON text: {error}")))?;
        in_profile(value)?
    } else {
        let mut reader = rmp_serde::Deserializer::new(Cursor::new(frame));
        reader.set_max_depth(MOST_DEPTH);
        let value = Profile
            .deserialize(&mut reader)
            .map_err(|error| Error::Protocol(format!("the frame is no message: {error}")))?;
        let behind = frame.len() as u64 - reader.position();
        if behind > 0 {
            return Err(Error::Protocol(format!("{behind} bytes follow the message")));
        }
        value
    };
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(Error::Protocol("the frame holds no map".into())),
    }
}

/// Fills a type from a value, and names the field that is wrong by its path.
///
/// # Errors
/// [`Error::Protocol`].
pub(crate) fn bind<T: DeserializeOwned>(value: Value, at: &str) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string().replace('[', ".").replace(']', "");
        let dot = if path == "." || path.is_empty() { "" } else { "." };
        let path = if dot.is_empty() { "" } else { &path };
        Error::Protocol(format!("{at}{dot}{path}: {}", error.inner()))
    })
}

/// Writes a message as MessagePack.
///
/// # Errors
/// [`Error::Decision`] if it holds an integer or a number beyond the profile.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>> {
    rmp_serde::to_vec_named(message)
        .map_err(|error| Error::Decision(format!("what was decided cannot be written: {error}")))
}

/// Takes an integer of the profile.
fn integer<E: serde::de::Error>(negative: bool, magnitude: u64) -> std::result::Result<Value, E> {
    match magnitude {
        0..=MOST_INTEGER if negative => Ok(Value::from(-(magnitude as i64))),
        0..=MOST_INTEGER => Ok(Value::from(magnitude)),
        _ => Err(E::custom("an integer beyond 2^53-1")),
    }
}

/// Takes a float, for the integer that it is where it is one.
fn float<E: serde::de::Error>(number: f64) -> std::result::Result<Value, E> {
    if number.fract() == 0.0 && number.abs() <= MOST_INTEGER as f64 {
        return integer(number < 0.0, number.abs() as u64);
    }
    Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
}

/// Takes what JSON text says, as far as it is of the profile.
fn in_profile(value: Value) -> Result<Value> {
    let refused = |error: serde_json::Error| Error::Protocol(error.to_string());
    Ok(match value {
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(positive), ..) => integer(false, positive).map_err(refused)?,
            (_, Some(negative), _) => integer(true, negative.unsigned_abs()).map_err(refused)?,
            (_, _, Some(number)) => float(number).map_err(refused)?,
            _ => return Err(Error::Protocol(format!("{number} is beyond all numbers"))),
        },
        Value::Array(items) => Value::Array(items.into_iter().map(in_profile).collect::<Result<_>>()?),
        Value::Object(pairs) => {
            let pairs = pairs.into_iter().map(|(key, item)| Ok((key, in_profile(item)?)));
            Value::Object(pairs.collect::<Result<_>>()?)
        }
        other => other,
    })
}

/// Reads any value of the profile; what it has no method for is refused by its name.
struct Profile;

impl<'de> DeserializeSeed<'de> for Profile {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Profile {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of the profile, neither bin nor ext")
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, is: bool) -> std::result::Result<Value, E> {
        Ok(Value::Bool(is))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> std::result::Result<Value, E> {
        integer(false, number)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> std::result::Result<Value, E> {
        integer(number < 0, number.unsigned_abs())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> std::result::Result<Value, E> {
        float(number)
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> std::result::Result<Value, A::Error> {
        // No memory is set aside for what a header announces: it may lie.
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(Profile)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> std::result::Result<Value, A::Error> {
        let mut pairs = Map::new();
        while let Some(Key(key)) = from.next_key()? {
            pairs.insert(key, from.next_value_seed(Profile)?);
        }
        Ok(Value::Object(pairs))
    }
}

/// A key of a map: text, where a `String` would take bin that happens to be UTF-8.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Key, D::Error> {
        match Profile.deserialize(from)? {
            Value::String(text) => Ok(Key(text)),
            _ => Err(D::Error::custom("a key that is no text")),
        }
    }
}
