//! Between LSP's types and ours. LSP types stay inside `lsp`.

pub(crate) mod capabilities;
pub mod ext;
pub(crate) mod from_proto;
pub(crate) mod to_proto;
