//! `linelens graph`: the model with a method's backward pass appended, as a file for any ONNX runtime.

use super::arguments::{Global, Graph};
use super::output::{Failure, Output};
use super::set_up;
use crate::annotations::atomic;
use crate::explain::Method;
use crate::{doctor, escape};
use std::io::Write;
use std::path::Path;

pub(super) fn run(global: &Global, command: &Graph, output: &mut Output) -> Result<u8, Failure> {
    let method: Method = command.method.parse().map_err(|error| Failure::new(format!("{error}")))?;
    let derivation = method.derivation().ok_or_else(|| {
        Failure::new(format!("{method} needs no graph of its own: use ig, attnlrp or gradient-x-input"))
    })?;
    let mut global = global.clone();
    global.model.extend(command.model_directory.clone());
    let config = set_up::config(&global, None, output)?;
    let (_, mut detector) =
        doctor::start(&config.machine(), &[]).map_err(|report| Failure::new(report.brief()))?;
    if let (Method::AttnLrp, Some(reason)) = (method, &detector.info().no_attnlrp) {
        return Err(Failure::new(format!("{method} is not available for this model: {reason}")));
    }
    if command.external {
        beside(&command.out, &detector.info().onnx)?;
    }
    let sha256 = detector.info().sha256.to_string();
    let model = detector
        .differentiable()
        .and_then(|attribution| match command.external {
            true => attribution.export_referring(derivation, &sha256),
            false => attribution.export(derivation, &sha256),
        })
        .map_err(|error| Failure::new(format!("{method} is not available for this model: {error}")))?;
    let shown = escape::terminal(&command.out.display().to_string());
    let written = atomic::create_new(&command.out);
    written
        .and_then(|mut file| file.write_all(&model))
        .map_err(|error| Failure::new(format!("{shown} cannot be written: {error}")))?;
    output.line(&format!("{shown}: {} bytes", model.len()))?;
    for (name, meaning) in derivation.ports() {
        output.line(&format!("  {name}: {meaning}"))?;
    }
    Ok(0)
}

/// References to weights do not lead out of a model's folder.
fn beside(out: &Path, model: &Path) -> Result<(), Failure> {
    let folder = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        folder.canonicalize().ok()
    };
    let model = model.canonicalize().unwrap_or_else(|_| model.to_path_buf());
    if folder(out).is_some() && folder(out) == folder(&model) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: expected a file in {}, since with --external it refers to the weights there",
        escape::terminal(&out.display().to_string()),
        escape::terminal(&model.parent().unwrap_or(&model).display().to_string())
    )))
}
