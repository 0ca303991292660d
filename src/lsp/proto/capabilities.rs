//! What the client can do, and what the server offers it.

use super::ext::{COMMANDS, ServerExtension};
use super::from_proto;
use crate::explain::{Layer, Method};
use crate::lsp::actions::KIND;
use crate::sources;
use crate::text::PositionEncoding;
use serde_json::{Value, json};
use std::path::Path;
use tower_lsp::ls_types::*;

/// What the client declared, resolved to decisions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientFacts {
    pub(crate) encoding: PositionEncoding,
    /// Diagnostics are pulled; otherwise they are pushed.
    pub(crate) pull_diagnostics: bool,
    pub(crate) related_information: bool,
    pub(crate) code_description: bool,
    pub(crate) markdown: bool,
    pub(crate) progress: bool,
    /// `workspace/configuration` can be asked for.
    pub(crate) configuration: bool,
    pub(crate) register_configuration: bool,
    pub(crate) register_watchers: bool,
    /// Watches files outside of the workspace, too.
    pub(crate) watches_elsewhere: bool,
    /// Takes code actions, not only commands.
    pub(crate) action_literals: bool,
    pub(crate) refresh_lenses: bool,
    pub(crate) refresh_hints: bool,
    /// Shows a place when it is asked to.
    pub(crate) show_document: bool,
    /// Wants `linelens/relevance` and `linelens/status`.
    pub(crate) relevance: bool,
}

impl ClientFacts {
    pub(crate) fn new(capabilities: &ClientCapabilities) -> ClientFacts {
        let workspace = capabilities.workspace.as_ref();
        let document = capabilities.text_document.as_ref();
        let pull = document.and_then(|document| document.diagnostic.as_ref());
        let push = document.and_then(|document| document.publish_diagnostics.as_ref());
        let refresh = workspace.and_then(|w| w.diagnostics.as_ref()?.refresh_support) == Some(true);
        let pull_diagnostics = pull.is_some() && refresh;
        let related = |pull: Option<bool>, push: Option<bool>| match pull_diagnostics {
            // Clients that predate 3.18 declare this for both channels under publishDiagnostics.
            true => pull.or(push) == Some(true),
            false => push == Some(true),
        };
        ClientFacts {
            encoding: encoding(capabilities),
            pull_diagnostics,
            related_information: related(
                pull.and_then(|pull| pull.related_information),
                push.and_then(|push| push.related_information),
            ),
            code_description: related(
                pull.and_then(|pull| pull.code_description_support),
                push.and_then(|push| push.code_description_support),
            ),
            markdown: document
                .and_then(|document| document.hover.as_ref()?.content_format.as_ref())
                .is_some_and(|formats| formats.first() == Some(&MarkupKind::Markdown)),
            progress: capabilities.window.as_ref().and_then(|window| window.work_done_progress) == Some(true),
            configuration: workspace.and_then(|workspace| workspace.configuration) == Some(true),
            register_configuration: workspace
                .and_then(|workspace| workspace.did_change_configuration.as_ref()?.dynamic_registration)
                == Some(true),
            register_watchers: workspace
                .and_then(|workspace| workspace.did_change_watched_files.as_ref()?.dynamic_registration)
                == Some(true),
            watches_elsewhere: workspace.and_then(|w| w.did_change_watched_files.as_ref()).is_some_and(
                |watched| {
                    watched.dynamic_registration == Some(true)
                        && watched.relative_pattern_support == Some(true)
                },
            ),
            action_literals: document
                .and_then(|document| document.code_action.as_ref()?.code_action_literal_support.as_ref())
                .is_some(),
            refresh_lenses: workspace.and_then(|w| w.code_lens.as_ref()?.refresh_support) == Some(true),
            refresh_hints: workspace.and_then(|w| w.inlay_hint.as_ref()?.refresh_support) == Some(true),
            show_document: capabilities
                .window
                .as_ref()
                .and_then(|window| window.show_document.as_ref())
                .is_some_and(|show_document| show_document.support),
            relevance: capabilities
                .experimental
                .as_ref()
                .and_then(|experimental| experimental.pointer("/linelens/relevance"))
                .and_then(Value::as_bool)
                == Some(true),
        }
    }
}

/// The first of the client's list that we know; UTF-16 where it has no list.
fn encoding(capabilities: &ClientCapabilities) -> PositionEncoding {
    capabilities
        .general
        .as_ref()
        .and_then(|general| general.position_encodings.as_ref())
        .and_then(|encodings| encodings.iter().find_map(from_proto::position_encoding))
        .unwrap_or(PositionEncoding::Utf16)
}

pub(crate) fn server(facts: &ClientFacts) -> ServerCapabilities {
    ServerCapabilities {
        position_encoding: Some(match facts.encoding {
            PositionEncoding::Utf8 => PositionEncodingKind::UTF8,
            PositionEncoding::Utf16 => PositionEncodingKind::UTF16,
            PositionEncoding::Utf32 => PositionEncodingKind::UTF32,
        }),
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(TextDocumentSyncSaveOptions::Supported(true)),
            ..Default::default()
        })),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
        inlay_hint_provider: Some(OneOf::Left(true)),
        // Clients that shade relevance need no highlights, which would hide those of another server.
        document_highlight_provider: (!facts.relevance).then_some(OneOf::Left(true)),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::from(KIND)]),
            ..CodeActionOptions::default()
        })),
        diagnostic_provider: facts.pull_diagnostics.then(|| {
            DiagnosticServerCapabilities::Options(DiagnosticOptions {
                identifier: Some("linelens".to_string()),
                inter_file_dependencies: false,
                workspace_diagnostics: false,
                ..Default::default()
            })
        }),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: COMMANDS.map(String::from).to_vec(),
            ..Default::default()
        }),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(OneOf::Left(true)),
            }),
            ..Default::default()
        }),
        experimental: facts.relevance.then(|| {
            json!({ "linelens": ServerExtension {
                methods: vec![
                    Method::Attention(Layer::First).to_string(),
                    Method::Attention(Layer::Last).to_string(),
                ],
                layers: 0,
                models: Vec::new(),
            }})
        }),
        ..Default::default()
    }
}

const WATCHED_FILES: &str = "workspace/didChangeWatchedFiles";
const MODEL_WATCHER: &str = "linelens:model";

/// What is registered once the client is initialized.
pub(crate) fn registrations(facts: &ClientFacts) -> Vec<Registration> {
    let registration = |method: &str, options: Value| Registration {
        id: format!("linelens:{method}"),
        method: method.to_string(),
        register_options: Some(options),
    };
    let mut registrations = Vec::new();
    if facts.register_watchers {
        registrations.push(registration(
            WATCHED_FILES,
            json!({ "watchers": [
                { "globPattern": "**/linelens.toml" },
                // Which of them are annotations is a matter of settings, which may change.
                { "globPattern": "**/*.jsonl" },
                { "globPattern": "**/*.sarif" },
                { "globPattern": sources::glob() },
            ] }),
        ));
    }
    if facts.register_configuration {
        registrations
            .push(registration("workspace/didChangeConfiguration", json!({ "section": "linelens" })));
    }
    registrations
}

/// The watcher of a model directory, which may lie anywhere.
pub(crate) fn model_watcher(directory: &Path) -> Option<Registration> {
    let base = Uri::from_file_path(directory)?;
    Some(Registration {
        id: MODEL_WATCHER.to_string(),
        method: WATCHED_FILES.to_string(),
        register_options: Some(json!({
            "watchers": [{ "globPattern": { "baseUri": base.as_str(), "pattern": "**/*" } }]
        })),
    })
}

pub(crate) fn no_model_watcher() -> Unregistration {
    Unregistration { id: MODEL_WATCHER.to_string(), method: WATCHED_FILES.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(capabilities: Value) -> ClientFacts {
        ClientFacts::new(&serde_json::from_value(capabilities).unwrap())
    }

    #[test]
    fn the_first_known_encoding_wins() {
        let encoding = |list: Value| facts(json!({"general": {"positionEncodings": list}})).encoding;
        assert_eq!(encoding(json!(["utf-7", "utf-32", "utf-8"])), PositionEncoding::Utf32);
        assert_eq!(encoding(json!(["utf-8", "utf-16"])), PositionEncoding::Utf8);
        assert_eq!(encoding(json!(["utf-7"])), PositionEncoding::Utf16);
        assert_eq!(facts(json!({})).encoding, PositionEncoding::Utf16);
    }

    #[test]
    fn diagnostics_take_exactly_one_channel() {
        for (pull, refresh) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut capabilities = json!({"textDocument": {"publishDiagnostics": {}}, "workspace": {}});
            if pull {
                capabilities["textDocument"]["diagnostic"] = json!({});
            }
            if refresh {
                capabilities["workspace"]["diagnostics"] = json!({"refreshSupport": true});
            }
            let facts = facts(capabilities);
            assert_eq!(facts.pull_diagnostics, pull && refresh);
            assert_eq!(server(&facts).diagnostic_provider.is_some(), pull && refresh);
        }
    }
}
