//! linelens shows which lines of a C/C++ function drove a vulnerability detector's prediction.
//!
//! The crate is a pure core with two thin views. Data flows one way:
//!
//! ```text
//! editor position                        lsp::proto (negotiated encoding)
//!  → byte offset                         text::LineIndex
//!  → Function {name, span}               syntax::SyntaxTree::function_at
//!  → Encoding {tokens with byte spans}   tokens::Tokenizer::encode
//!  → Detection {probability, attention}  detector::Detector::detect
//!  → TokenRelevance                      explain::explain
//!  → LineScores in 0..1                  lines::aggregate
//!  → Option<Alignment>                   alignment::align (only with ground truth)
//!  → Finding (plain data)                analysis::Analyzer::analyze
//!  → diagnostics | relevance | hover | terminal | JSON | SARIF | HTML
//! ```
//!
//! The modules below stand in reading order. `tests/tidy.rs` enforces who may import whom.

pub mod text;

pub mod escape;

pub mod sources;

pub mod syntax;

pub mod tokens;

pub mod graph;

pub mod detector;

pub mod explain;

pub mod lines;

pub mod annotations;

pub mod alignment;

pub mod analysis;

pub mod shape;

pub mod report;

pub mod evaluation;

pub mod doctor;

pub mod revision;

pub mod config;

pub mod cli;

pub mod lsp;
