//! lsp
use crate::config::{Config, Problem};
pub fn run(_config: Config, _problems: Vec<Problem>) -> u8 {
    todo!()
}
