//! Choosing another model, and comparing with one. A model is named, never given as a path: which directories there are is
//! for the user's own configuration to say.

use super::commands::{answered, serialized};
use super::{Server, explain_error, guarded, request_failed};
use crate::lsp::proto::ext::{COMMAND_COMPARE_MODELS, CompareModelsParams, Health, StatusParams};
use crate::lsp::proto::from_proto;
use crate::lsp::queue::{Answer, Ask, ExplainFailure};
use crate::lsp::shared::{EngineState, NamedModel};
use serde_json::Value;
use std::path::PathBuf;
use tokio::sync::oneshot;
use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::MessageType;

impl Server {
    /// Loads a model by its name; where that fails, the one that was in use is loaded again.
    pub(super) async fn set_model(&self, name: String) -> Result<Option<Value>> {
        let chosen = self.named_model(&name)?;
        let before = self.shared.settings().model().map(|path| path.to_path_buf());
        if before == chosen.directory && matches!(self.shared.engine(), EngineState::Ready(_)) {
            return Ok(Some(Value::String(chosen.name)));
        }
        let status = self.load_model(chosen.directory).await?;
        if status.health == Health::Error {
            let reason = status.message.unwrap_or_default();
            self.load_model(before).await?;
            return Err(self.refused(&format!("the model \"{name}\" cannot be loaded: {reason}")));
        }
        if !self.shared.facts().relevance {
            self.shared.outbox.show(MessageType::INFO, format!("linelens: {name}"));
        }
        Ok(Some(Value::String(chosen.name)))
    }

    async fn load_model(&self, directory: Option<PathBuf>) -> Result<StatusParams> {
        self.worker.launch(&self.shared);
        self.shared.settings_mut().set_model(directory);
        let (sender, status) = oneshot::channel();
        self.shared.queue.start(Some(sender));
        status.await.map_err(|_| explain_error(ExplainFailure::Cancelled))
    }

    fn named_model(&self, name: &str) -> Result<NamedModel> {
        self.shared.model_named(name).map_err(from_proto::invalid_params)
    }

    /// The function at a position by the model in use and by another.
    pub(super) async fn compare_models(&self, params: CompareModelsParams) -> Result<Option<Value>> {
        let CompareModelsParams { text_document, position, model } = params;
        let asked = guarded(COMMAND_COMPARE_MODELS, || {
            let snapshot = self.open_document(&text_document.uri)?;
            let EngineState::Ready(loaded) = self.shared.engine() else {
                return Err(request_failed("there is no model loaded, so there is nothing to compare with"));
            };
            let other = match model {
                Some(name) => self.named_model(&name)?,
                None => self.other_model(&loaded.info.name)?,
            };
            Ok(self.start(Ask::Models(other), snapshot, position))
        });
        let (answer, _cancel_on_drop) = asked.map_err(|error| self.told(error))?;
        let answered = answered(answer).await.map_err(|error| self.told(error))?;
        let Some(Answer::Models(comparison)) = answered else { return self.no_function() };
        self.show_to_plain_clients(&comparison.content.text);
        serialized(comparison).map(Some)
    }

    /// The only other one.
    fn other_model(&self, loaded: &str) -> Result<NamedModel> {
        let mut others = self.shared.models();
        others.retain(|model| model.name != loaded);
        match others.len() {
            1 => Ok(others.remove(0)),
            0 => Err(from_proto::invalid_params(
                "there is no other model to compare with: name model directories as `models` in the user configuration, \
                 in LINELENS_MODELS or by --model",
            )),
            _ => {
                let names: Vec<&str> = others.iter().map(|model| model.name.as_str()).collect();
                Err(from_proto::invalid_params(format!(
                    "name the `model` to compare with: {}",
                    names.join(", ")
                )))
            }
        }
    }

    /// Many clients drop the error of a command, so plain ones are told beside it.
    fn told(&self, error: Error) -> Error {
        self.show_to_plain_clients(&error.message);
        error
    }
}
