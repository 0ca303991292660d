//! Writing a report about a document or a workspace folder.

use super::commands::serialized;
use super::{Server, guarded, request_failed};
use crate::analysis::pair::Version;
use crate::annotations::atomic::write_inside;
use crate::annotations::uri;
use crate::config::Severity;
use crate::detector::DetectorInfo;
use crate::lsp::proto::ext::{COMMAND_EXPORT_REPORT, ExportMessage, ExportParams};
use crate::lsp::proto::from_proto;
use crate::lsp::queue::{Swept, SweptFile};
use crate::lsp::shared::EngineState;
use crate::report::sarif::{Level, Log};
use crate::report::{FileReport, Reported, html};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::{MessageType, Uri};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Sarif,
    Html,
}

impl Format {
    fn parse(text: &str) -> Result<Format> {
        match text {
            "sarif" => Ok(Format::Sarif),
            "html" => Ok(Format::Html),
            other => {
                Err(from_proto::invalid_params(format!("unknown format \"{other}\": use sarif or html")))
            }
        }
    }

    fn default_file(self) -> &'static str {
        match self {
            Format::Sarif => ".linelens/report.sarif",
            Format::Html => ".linelens/report.html",
        }
    }

    /// A report must not take the place of a source file.
    fn fits(self, file: &str) -> bool {
        let extension = Path::new(file).extension().and_then(|extension| extension.to_str());
        match self {
            Format::Sarif => extension == Some("sarif"),
            Format::Html => matches!(extension, Some("html" | "htm")),
        }
    }
}

impl Server {
    pub(super) async fn export_report(&self, params: ExportParams) -> Result<Option<Value>> {
        let ExportParams { format, text_document, folder, file, work_done_token } = params;
        let (format, root, file) = guarded(COMMAND_EXPORT_REPORT, || {
            let format = Format::parse(&format)?;
            let root =
                self.root_for(text_document.as_ref().map(|document| &document.uri), folder.as_ref())?;
            let file = file.unwrap_or_else(|| format.default_file().to_string());
            if uri::from_path(&file).is_none() || !format.fits(&file) {
                return Err(from_proto::invalid_params(format!(
                    "{file:?} is no place for the report: expected a path inside the workspace folder, such as {}",
                    format.default_file()
                )));
            }
            Ok((format, root, file))
        })?;
        let EngineState::Ready(model) = self.shared.engine() else {
            return Err(self.refused("there is no model loaded, so there is nothing to report"));
        };
        let asked = self.asked(work_done_token);
        let (title, targets) = match text_document {
            Some(document) => self.file_targets(&document.uri)?,
            None => {
                let folder = Uri::from_file_path(&root);
                ("linelens: analysing the workspace folder".to_string(), self.folder_targets(folder).await?)
            }
        };
        let swept = self.sweep(title, targets, asked).await?;
        let severity = self.shared.settings().settings(Some(&root)).severity;
        let top_lines = self.shared.settings().settings(Some(&root)).top_lines;
        let write = move || {
            let text = match format {
                Format::Sarif => sarif(&swept, &root, &model.info, level(severity), top_lines),
                Format::Html => Ok(page(&swept, &root, &model.info)),
            };
            let path = write_inside(&root, &file, text.map_err(|error| error.to_string())?.as_bytes())?;
            let flagged = flagged(&swept).count();
            let ignored = flagged_and_ignored(&swept);
            let file = Uri::from_file_path(&path).ok_or("the report has no address")?;
            Ok(ExportMessage { file, flagged, ignored })
        };
        let written: std::result::Result<ExportMessage, String> =
            tokio::task::spawn_blocking(write).await.map_err(|_| Error::internal_error())?;
        match written {
            Ok(message) => {
                let path = message.file.path().as_str().to_string();
                self.show_to_plain_clients(&format!("{} flagged functions in {path}", message.flagged));
                serialized(message).map(Some)
            }
            // Nothing was lost, but what the user wants did not happen: that must be seen.
            Err(reason) => {
                self.shared.outbox.show(MessageType::ERROR, format!("linelens: {reason}"));
                Err(request_failed(&reason))
            }
        }
    }

    /// The workspace folder that the report is about, or that holds the document it is about.
    fn root_for(&self, document: Option<&Uri>, folder: Option<&Uri>) -> Result<PathBuf> {
        let settings = self.shared.settings();
        if let Some(document) = document {
            let root = from_proto::file_path(document).and_then(|path| settings.root_of(&path));
            return root.ok_or_else(|| {
                from_proto::invalid_params(
                    "the document lies in no workspace folder, where the report could be written",
                )
            });
        }
        let mut roots = settings.roots();
        if let Some(folder) = folder {
            let path = from_proto::file_path(folder);
            roots.retain(|root| Some(root) == path.as_ref());
        }
        match roots.len() {
            1 => Ok(roots.remove(0)),
            0 => Err(from_proto::invalid_params("there is no such workspace folder open")),
            _ => Err(from_proto::invalid_params("several workspace folders are open: name one as `folder`")),
        }
    }
}

fn level(severity: Severity) -> Level {
    match severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        Severity::Information | Severity::Hint => Level::Note,
    }
}

fn reported(file: &SweptFile) -> Vec<Reported<'_>> {
    let findings = file.findings.iter().zip(&file.ignored).filter(|(finding, _)| finding.flagged);
    findings.map(|(finding, ignored)| Reported { finding, ignored: ignored.as_ref() }).collect()
}

fn flagged(swept: &Swept) -> impl Iterator<Item = Reported<'_>> {
    swept.files.iter().flat_map(reported)
}

fn flagged_and_ignored(swept: &Swept) -> usize {
    flagged(swept).filter(|reported| reported.ignored.is_some()).count()
}

/// A relative URI; of what lies elsewhere, which only an open document does, the whole one.
fn relative_uri(uri: &Uri, root: &Path) -> String {
    let relative = from_proto::file_path(uri).and_then(|path| crate::annotations::uri::below(root, &path));
    relative.unwrap_or_else(|| uri.as_str().to_string())
}

fn sarif(
    swept: &Swept,
    root: &Path,
    model: &DetectorInfo,
    level: Level,
    top_lines: usize,
) -> std::io::Result<String> {
    let mut log = Log::new(Vec::new(), model, level, top_lines)?;
    for file in &swept.files {
        let uri = relative_uri(&file.snapshot.uri, root);
        let findings = reported(file);
        let version = Version { text: &file.snapshot.text, lines: &file.snapshot.lines };
        log.add(&FileReport { uri: &uri, version, findings: &findings })?;
        for (function, reason) in &file.failed {
            log.add_failure(Some(&uri), &format!("{function}: {reason}"));
        }
    }
    for reason in &swept.unreadable {
        log.add_failure(None, reason);
    }
    Ok(String::from_utf8_lossy(&log.finish()?).into_owned())
}

fn page(swept: &Swept, root: &Path, model: &DetectorInfo) -> String {
    let uris: Vec<String> = swept.files.iter().map(|file| relative_uri(&file.snapshot.uri, root)).collect();
    let findings: Vec<Vec<Reported<'_>>> = swept.files.iter().map(reported).collect();
    let files: Vec<FileReport<'_>> = swept
        .files
        .iter()
        .zip(&uris)
        .zip(&findings)
        .map(|((file, uri), findings)| {
            let version = Version { text: &file.snapshot.text, lines: &file.snapshot.lines };
            FileReport { uri, version, findings }
        })
        .collect();
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    html::page(&format!("linelens: {name}"), model, &files)
}
