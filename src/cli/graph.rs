//! `linelens graph`: the model with a method's backward pass appended, as a file for any ONNX runtime.

use super::arguments::{Global, Graph};
use super::output::{Failure, Output};
use super::set_up;
use crate::explain::Method;
use crate::{doctor, escape};
use std::fs::OpenOptions;
use std::io::Write;

pub(super) fn run(global: &Global, command: &Graph, output: &mut Output) -> Result<u8, Failure> {
    let method: Method = command.method.parse().map_err(|error| Failure::new(format!("{error}")))?;
    let derivation = method.derivation().ok_or_else(|| {
        Failure::new(format!("{method} needs no graph of its own: use ig, attnlrp or gradient-x-input"))
    })?;
    let config = set_up::config(global, None, output)?;
    let (_, mut detector) =
        doctor::start(&config.machine(), &[]).map_err(|report| Failure::new(report.to_text()))?;
    let model = detector
        .attribution()
        .and_then(|attribution| attribution.export(derivation))
        .map_err(|error| Failure::new(format!("{method} is not available for this model: {error}")))?;
    let shown = escape::terminal(&command.out.display().to_string());
    let written = OpenOptions::new().write(true).create_new(true).open(&command.out);
    written
        .and_then(|mut file| file.write_all(&model))
        .map_err(|error| Failure::new(format!("{shown} cannot be written: {error}")))?;
    output.line(&format!("{shown}: {} bytes", model.len()))?;
    for (name, meaning) in derivation.ports() {
        output.line(&format!("  {name}: {meaning}"))?;
    }
    Ok(0)
}
