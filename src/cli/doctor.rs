//! `linelens doctor`.

use super::arguments::{Doctor, DoctorFormat, Global};
use super::output::{Failure, Output};
use super::set_up;
use crate::doctor::{self, Report};
use serde_json::{Value, json};

pub(super) fn run(global: &Global, command: &Doctor, output: &mut Output) -> Result<u8, Failure> {
    let config = set_up::config(global, None, output)?;
    let report = doctor::examine(&config.machine(), &[]);
    match command.format {
        DoctorFormat::Text => output.line(report.to_text().trim_end())?,
        DoctorFormat::Json => output.json(&to_json(&report))?,
    }
    Ok(u8::from(!report.healthy()))
}

fn to_json(report: &Report) -> Value {
    let library = match &report.library {
        Ok((path, version, how)) => json!({"path": path, "version": version, "found": how}),
        Err(error) => json!({"error": error}),
    };
    let model = match &report.model {
        Ok((how, info)) => json!({
            "found": how, "name": info.name, "directory": info.directory, "sha256": &*info.sha256,
            "maxTokens": info.max_tokens, "threshold": info.threshold, "layers": info.layers,
            "noAttention": info.no_attention, "executionProvider": info.execution_provider,
            "providerNote": info.provider_note, "tokenizer": info.tokenizer, "tokenizerNote": info.tokenizer_note, "threads": info.threads,
        }),
        Err(error) => json!({"error": error}),
    };
    let providers: Vec<Value> = report
        .providers
        .iter()
        .map(|p| json!({"name": p.name, "works": p.works, "reason": p.reason, "advice": p.advice}))
        .collect();
    let methods = report.methods.as_ref().map(|methods| {
        let works: Vec<String> = methods.available.iter().map(ToString::to_string).collect();
        let fails: Vec<Value> = methods
            .unavailable
            .iter()
            .map(|(method, reason)| json!({"method": method.to_string(), "reason": reason}))
            .collect();
        json!({"available": works, "unavailable": fails})
    });
    json!({
        "methods": methods, "version": report.version, "library": library, "executionProviders": providers, "model": model,
        "advice": report.advice, "healthy": report.healthy(),
    })
}
