//! `cargo +nightly fuzz run json_rpc`
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::json_rpc(data));
