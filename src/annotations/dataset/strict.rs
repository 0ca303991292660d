//! JSON whose objects give each field once: of two values none is the right one.

use crate::annotations::broken;
use crate::annotations::problem::RowProblem;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::fmt;

thread_local! {
    /// The field that ended the last reading; an error of serde holds only a sentence.
    static TWICE: RefCell<Option<String>> = const { RefCell::new(None) };
}

pub(in crate::annotations) fn parse(text: &str) -> Result<Value, RowProblem> {
    TWICE.take();
    match serde_json::from_str::<Strict>(text) {
        Ok(value) => Ok(value.0),
        Err(error) => Err(match TWICE.take() {
            Some(field) => RowProblem::GivenTwice(field),
            None => RowProblem::NotJson(broken::syntax(&error)),
        }),
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(Any).map(Strict)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, Strict(value))) = map.next_entry::<String, Strict>()? {
            if fields.contains_key(&name) {
                TWICE.set(Some(name));
                return Err(A::Error::custom("a field is given twice"));
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}
