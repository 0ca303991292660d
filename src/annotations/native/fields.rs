//! The fields of a row, each of the type that the format says, or a sentence about the one that is not. `null` is the same
//! as no field.

use crate::annotations::problem::shortened;
use serde_json::{Map, Value};

/// An object in a row, and what its fields' names begin with in messages.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    pub(super) fn new(map: &'a Map<String, Value>) -> Fields<'a> {
        Fields { map, path: String::new() }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// What has to be there.
    pub(super) fn needed<T>(&self, name: &str, value: Option<T>) -> Result<T, String> {
        value.ok_or_else(|| format!("there is no field `{}{name}`", self.path))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        text(&format!("{}{name}", self.path), value).map(Some)
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let values = self.list(name)?.iter().enumerate();
        values.map(|(number, value)| text(&format!("{}{name}[{number}]", self.path), value)).collect()
    }

    pub(super) fn truth(&self, name: &str) -> Result<Option<bool>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wrong = || wrong(&format!("{}{name}", self.path), value, "true or false");
        value.as_bool().map(Some).ok_or_else(wrong)
    }

    pub(super) fn whole(&self, name: &str) -> Result<Option<usize>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        whole(&format!("{}{name}", self.path), value).map(Some)
    }

    /// Two whole numbers.
    pub(super) fn two(&self, name: &str) -> Result<Option<[usize; 2]>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let path = format!("{}{name}", self.path);
        let Some([first, last]) = value.as_array().map(Vec::as_slice) else {
            return Err(wrong(&path, value, "a list of two whole numbers"));
        };
        Ok(Some([whole(&format!("{path}[0]"), first)?, whole(&format!("{path}[1]"), last)?]))
    }

    /// One of some names.
    pub(super) fn one_of<T: Copy>(&self, name: &str, names: &[(&str, T)]) -> Result<Option<T>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let found = value.as_str().and_then(|text| names.iter().find(|(name, _)| *name == text));
        found.map(|(_, meaning)| Some(*meaning)).ok_or_else(|| {
            let names: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
            wrong(&format!("{}{name}", self.path), value, &format!("one of {}", names.join(", ")))
        })
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        object(format!("{}{name}", self.path), value).map(Some)
    }

    pub(super) fn objects(&self, name: &str) -> Result<Vec<Fields<'a>>, String> {
        let values = self.list(name)?.iter().enumerate();
        values.map(|(number, value)| object(format!("{}{name}[{number}]", self.path), value)).collect()
    }

    fn list(&self, name: &str) -> Result<&'a [Value], String> {
        let Some(value) = self.get(name) else { return Ok(&[]) };
        let wrong = || wrong(&format!("{}{name}", self.path), value, "a list");
        value.as_array().map(Vec::as_slice).ok_or_else(wrong)
    }
}

fn object(path: String, value: &Value) -> Result<Fields<'_>, String> {
    let map = value.as_object().ok_or_else(|| wrong(&path, value, "an object"))?;
    Ok(Fields { map, path: format!("{path}.") })
}

fn text(path: &str, value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_string).ok_or_else(|| wrong(path, value, "a text in double quotes"))
}

/// As in JSON Schema, 1.0 is a whole number.
fn whole(path: &str, value: &Value) -> Result<usize, String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let of_float = || {
        let number = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..EXACT).contains(n))?;
        format!("{number:.0}").parse::<u64>().ok()
    };
    let number = value.as_u64().or_else(of_float).and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| wrong(path, value, "a whole number from 0"))
}

fn wrong(path: &str, value: &Value, expected: &str) -> String {
    format!("`{path}` is {}, expected {expected}", shown(value))
}

/// A value, not longer than a message bears.
fn shown(value: &Value) -> String {
    const MOST: usize = 40;
    match value {
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(_) => "an object".to_string(),
        other => shortened(&other.to_string(), MOST),
    }
}
