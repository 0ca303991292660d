//! What handlers and worker share.

use crate::config::{Problem, Settings};
use crate::detector::{Cancellation, DetectorInfo};
use crate::explain::{Layer, Method};
use crate::lsp::documents::Documents;
use crate::lsp::model_files::ModelFiles;
use crate::lsp::options::SettingsStore;
use crate::lsp::outbox::Outbox;
use crate::lsp::progress::ProgressCentre;
use crate::lsp::proto::capabilities::ClientFacts;
use crate::lsp::proto::ext::{Health, StatusParams};
use crate::lsp::proto::from_proto;
use crate::lsp::queue::Queue;
use crate::lsp::reports::Reported;
use crate::lsp::truth::TruthStore;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tower_lsp::Client;
use tower_lsp::ls_types::{ClientCapabilities, MessageType, Uri};

#[derive(Debug)]
pub(crate) struct Shared {
    facts: OnceLock<ClientFacts>,
    pub(crate) documents: Arc<Documents>,
    settings: RwLock<SettingsStore>,
    engine: RwLock<EngineState>,
    truth: RwLock<TruthStore>,
    /// Held while annotation files are read or written.
    pub(crate) reading: Mutex<()>,
    pub(crate) queue: Queue,
    pub(crate) outbox: Outbox,
    pub(crate) progress: ProgressCentre,
    models: RwLock<Vec<NamedModel>>,
    reported: Mutex<Reported>,
    model_files: Mutex<Option<ModelFiles>>,
    /// Whether somebody looks at them.
    pub(crate) checks_model: AtomicBool,
    status: Mutex<Option<StatusParams>>,
    shown: Mutex<HashSet<String>>,
}

/// A model that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedModel {
    pub(crate) name: String,
    /// `None`: the one that the configuration names, or the built-in one.
    pub(crate) directory: Option<PathBuf>,
}

/// A loaded model, for display.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) info: DetectorInfo,
    pub(crate) methods: Vec<Method>,
}

impl Model {
    /// The name under which a method stands in the list of methods.
    pub(crate) fn canonical(&self, method: Method) -> Method {
        let layers = self.info.layers;
        match method {
            Method::Attention(Layer::Last) if layers == 1 => Method::Attention(Layer::First),
            Method::Attention(Layer::Number(1)) => Method::Attention(Layer::First),
            Method::Attention(Layer::Number(number)) if number == layers => Method::Attention(Layer::Last),
            other => other,
        }
    }

    pub(crate) fn offers(&self, method: Method) -> bool {
        self.methods.contains(&self.canonical(method))
    }

    /// Why a method is not offered, for the user.
    pub(crate) fn unavailable(&self, method: Method) -> String {
        let methods: Vec<String> = self.methods.iter().map(Method::to_string).collect();
        let reason = self.info.no_attention.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("{method} does not work for this model{reason}; its methods: {}", methods.join(", "))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum EngineState {
    Loading,
    Ready(Arc<Model>),
    /// Why there is no model, for the user.
    Failed(Arc<str>),
}

impl Shared {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(client: Client, settings: SettingsStore) -> Shared {
        let documents = Arc::new(Documents::default());
        Shared {
            facts: OnceLock::new(),
            outbox: Outbox::new(client.clone(), Arc::clone(&documents)),
            documents,
            settings: RwLock::new(settings),
            engine: RwLock::new(EngineState::Loading),
            truth: RwLock::default(),
            reading: Mutex::default(),
            queue: Queue::new(),
            progress: ProgressCentre::new(client),
            models: RwLock::default(),
            reported: Mutex::default(),
            model_files: Mutex::default(),
            checks_model: AtomicBool::default(),
            status: Mutex::default(),
            shown: Mutex::default(),
        }
    }

    /// Ends a sweep, whoever asks for it.
    pub(crate) fn stopping(self: &Arc<Self>, sweep: &Cancellation) -> impl Fn() + Send + Sync + use<> {
        let (sweep, shared) = (sweep.clone(), Arc::downgrade(self));
        move || match shared.upgrade() {
            Some(shared) => shared.queue.stop_sweep(&sweep),
            None => sweep.cancel(),
        }
    }

    pub(crate) fn set_facts(&self, facts: ClientFacts) {
        self.progress.allow_create(facts.progress);
        let _ = self.facts.set(facts);
    }

    /// What the client can do; nothing special before it said so.
    pub(crate) fn facts(&self) -> &ClientFacts {
        self.facts.get_or_init(|| ClientFacts::new(&ClientCapabilities::default()))
    }

    pub(crate) fn settings(&self) -> RwLockReadGuard<'_, SettingsStore> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings_mut(&self) -> RwLockWriteGuard<'_, SettingsStore> {
        self.settings.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn truth(&self) -> RwLockReadGuard<'_, TruthStore> {
        self.truth.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn truth_mut(&self) -> RwLockWriteGuard<'_, TruthStore> {
        self.truth.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings_of(&self, uri: &Uri) -> Settings {
        self.settings().settings(from_proto::file_path(uri).as_deref())
    }

    pub(crate) fn engine(&self) -> EngineState {
        self.engine.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_engine(&self, state: EngineState) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The models that can be chosen, once one was loaded.
    pub(crate) fn models(&self) -> Vec<NamedModel> {
        self.models.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One of them by its name; the error says which names there are.
    pub(crate) fn model_named(&self, name: &str) -> Result<NamedModel, String> {
        let models = self.models();
        models.iter().find(|model| model.name == name).cloned().ok_or_else(|| {
            let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
            let known = match names.as_slice() {
                [] => "no model is loaded".to_string(),
                names => format!("there are {}", names.join(", ")),
            };
            format!(
                "there is no model \"{name}\": {known}; further ones are named by `models` in the user configuration, in \
                 LINELENS_MODELS or by --model"
            )
        })
    }

    pub(crate) fn set_models(&self, models: Vec<NamedModel>) {
        *self.models.write().unwrap_or_else(PoisonError::into_inner) = models;
    }

    /// The files of the model in use, as they were when it was loaded.
    pub(crate) fn model_files(&self) -> MutexGuard<'_, Option<ModelFiles>> {
        lock(&self.model_files)
    }

    /// The closed files of which diagnostics are shown.
    pub(crate) fn reported(&self) -> MutexGuard<'_, Reported> {
        lock(&self.reported)
    }

    /// Says what was wrong with a configuration, once.
    pub(crate) fn report(&self, problems: &[Problem]) {
        for problem in problems {
            self.show_once(MessageType::WARNING, &format!("linelens: {problem}"));
        }
    }

    /// Shows and logs a message that was not shown before.
    pub(crate) fn show_once(&self, kind: MessageType, message: &str) {
        if lock(&self.shown).insert(message.to_string()) {
            self.outbox.show(kind, message);
            self.outbox.log(kind, message);
        }
    }

    pub(crate) fn status(&self, quiescent: bool) -> StatusParams {
        let method = self.settings().settings(None).options.method;
        let status = |health, quiescent, message| StatusParams {
            health,
            quiescent,
            message,
            model: None,
            execution_provider: None,
            method: None,
            methods: None,
            layers: None,
            models: None,
        };
        match self.engine() {
            EngineState::Loading => status(Health::Ok, false, Some("the model is being loaded".to_string())),
            EngineState::Failed(reason) => status(Health::Error, true, Some(reason.to_string())),
            EngineState::Ready(model) => {
                let (health, message) = match model.offers(method) {
                    true => match &model.info.tokenizer_note {
                        Some(note) => (Health::Warning, Some(note.clone())),
                        None => (Health::Ok, model.info.provider_note.clone()),
                    },
                    false => (Health::Warning, Some(model.unavailable(method))),
                };
                StatusParams {
                    model: Some(model.info.name.clone()),
                    execution_provider: Some(model.info.execution_provider.clone()),
                    method: Some(method.to_string()),
                    methods: Some(model.methods.iter().map(Method::to_string).collect()),
                    layers: Some(model.info.layers),
                    models: Some(self.models().into_iter().map(|model| model.name).collect()),
                    ..status(health, quiescent, message)
                }
            }
        }
    }

    /// Sends the status to a client that wants it, if it changed.
    pub(crate) fn send_status(&self, quiescent: bool) {
        if !self.facts().relevance {
            return;
        }
        let status = self.status(quiescent);
        let mut last = lock(&self.status);
        if last.as_ref() != Some(&status) {
            *last = Some(status.clone());
            self.outbox.status(status);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
