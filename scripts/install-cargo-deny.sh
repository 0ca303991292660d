#!/usr/bin/env bash
# Builds the pinned cargo-deny into .tools/. Optimisation is off: it runs for a second, so building it fast matters more.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
installed() {
    "$1" --version 2>/dev/null | grep -qx "cargo-deny $version"
}

mkdir -p .tools/bin
if installed .tools/bin/cargo-deny; then
    exit
fi
if installed cargo-deny; then
    ln -sf "$(command -v cargo-deny)" .tools/bin/cargo-deny
    exit
fi
CARGO_TARGET_DIR=.tools/cargo-deny-build \
    CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 \
    CARGO_PROFILE_RELEASE_DEBUG=false \
    cargo install cargo-deny --version "$version" --locked --quiet --root .tools
rm -rf .tools/cargo-deny-build
