#!/usr/bin/env bash
# The server in Emacs with eglot, as docs/editors.md configures it, on a copy of examples/. Emacs is installed into
# .tools/debian-editors; EMACS names another one (30 or newer).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/plain-client.sh

emacs=${EMACS:-}
if [ -z "$emacs" ]; then
    install_editors
    emacs="$PWD/.tools/debian-editors/run emacs"
fi
prepare
page_block elisp 1 > "$scratch/init.el"
page_block elisp 2 >> "$scratch/init.el"
# shellcheck disable=SC2086 # $emacs is a command with arguments.
PATH=$scratch/bin:$PATH HOME=$scratch ${limit[@]+"${limit[@]}"} \
    $emacs -Q --batch -l "$scratch/init.el" -l editors/test/eglot.el "$scratch/workspace"
