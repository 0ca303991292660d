#!/usr/bin/env bash
# make-env.sh DIR REQUIREMENTS: a Python environment in DIR that holds exactly what REQUIREMENTS pins by hash.
# Nothing outside DIR is changed. Quick when DIR is already right.
set -euo pipefail

dir=$1
requirements=$2

suitable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if suitable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "linelens needs Python 3.11 or newer for ONNX Runtime; \"${PYTHON:-python3}\" is not." >&2
    echo "Install one, or name it: make PYTHON=/path/to/python3 …" >&2
    return 1
}

python=$(find_python)
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "Python's venv module is missing. On Debian and Ubuntu: apt-get install python3-venv" >&2
    exit 1
fi

if ! suitable "$dir/bin/python"; then
    "$python" -m venv --clear "$dir"
fi
# Only wheels: an install step must not run a build script.
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --only-binary :all: --require-hashes -r "$requirements"
touch "$dir/.stamp"
