//! Settings and the files of the workspace folders.

use super::{CONFIGURATION_TIMEOUT, Server};
use crate::config::{Source, read_settings_file};
use crate::lsp::proto::{capabilities, from_proto};
use crate::lsp::shared::Shared;
use crate::lsp::{options, reports, truth};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tower_lsp::ls_types::{ConfigurationItem, Uri};

impl Server {
    pub(super) fn settings_changed(&self) {
        self.shared.queue.wake();
    }

    pub(super) fn take_configuration(&self, settings: Value) {
        let Some(section) = from_proto::section(settings) else { return };
        let problems = self.shared.settings_mut().set_everywhere(Source::WorkspaceConfiguration, &section);
        self.shared.report(&problems);
        self.settings_changed();
    }

    /// Asks the client for the settings of every folder; the answer is taken unless a newer question was asked.
    pub(super) fn pull_configuration(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        let client = self.client.clone();
        let counter = Arc::clone(&self.configuration);
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            let roots = shared.settings().roots();
            let item = |scope_uri| ConfigurationItem { scope_uri, section: Some("linelens".to_string()) };
            let mut items = vec![item(None)];
            items.extend(roots.iter().map(|root| item(Uri::from_file_path(root))));
            let answer = tokio::time::timeout(CONFIGURATION_TIMEOUT, client.configuration(items)).await;
            let values = match answer {
                Ok(Ok(values)) => values,
                Ok(Err(error)) => return tracing::warn!("workspace/configuration: {error}"),
                Err(_) => return tracing::warn!("workspace/configuration was not answered"),
            };
            if counter.load(Ordering::SeqCst) != number {
                return;
            }
            let mut values = values.into_iter();
            let everywhere = values.next().unwrap_or_default();
            let folders: Vec<_> = roots.into_iter().zip(values).collect();
            let source = Source::WorkspaceConfiguration;
            let problems = shared.settings_mut().set_each(source, &everywhere, &folders);
            shared.report(&problems);
            // Settings say which annotation files there are.
            let read = tokio::task::spawn_blocking(move || {
                truth::refresh(&shared);
                shared.queue.wake();
            });
            let _ = read.await;
        }
    }

    pub(super) fn add_folders(&self, folders: impl IntoIterator<Item = Uri>) {
        let mut settings = self.shared.settings_mut();
        for path in folders.into_iter().filter_map(|uri| from_proto::file_path(&uri)) {
            settings.add_folder(path);
        }
    }

    pub(super) fn register(&self) {
        let registrations = capabilities::registrations(self.shared.facts());
        if registrations.is_empty() {
            return;
        }
        let client = self.client.clone();
        tokio::spawn(async move {
            if let Err(error) = client.register_capability(registrations).await {
                tracing::warn!("client/registerCapability: {error}");
            }
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ReadFiles {
    All,
    /// Those with another time stamp than last time.
    Outdated,
}

/// Reads the user's file again, outside the handlers.
pub(super) async fn read_user_file(shared: Arc<Shared>) {
    let read = tokio::task::spawn_blocking(move || {
        // Taken out first: the lock must not be held while the file is read.
        let Some(path) = shared.settings().user_file() else { return };
        let text = read_settings_file(&path);
        let problems = shared.settings_mut().set_user_file(&text);
        shared.report(&problems);
    });
    if read.await.is_err() {
        tracing::error!("reading the user configuration failed");
    }
}

/// Reads the configuration and annotation files of the workspace folders, outside the handlers.
pub(super) async fn read_workspace_files(shared: Arc<Shared>, which: ReadFiles) {
    let read = tokio::task::spawn_blocking(move || {
        // Taken out first: the lock must not be held while the files are read and taken over.
        let roots = shared.settings().roots();
        for root in roots {
            if which == ReadFiles::All || is_outdated(&shared, &root) {
                let file = options::read_file(root);
                let problems = shared.settings_mut().set_file(file);
                shared.report(&problems);
            }
        }
        truth::refresh(&shared);
        reports::take_back_stale(&shared);
        shared.queue.wake();
    });
    if read.await.is_err() {
        tracing::error!("reading the workspace configuration failed");
    }
}

fn is_outdated(shared: &Shared, root: &Path) -> bool {
    let stamp = options::read_stamp(root);
    shared.settings().is_outdated(root, stamp)
}
