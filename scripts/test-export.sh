#!/usr/bin/env bash
# models/export on tiny detectors of every kind, and linelens on what it writes. PyPI's PyTorch for Linux brings 5 GB of CUDA along,
# so Debian's is unpacked into .tools/debian-torch (1 GB) and the rest comes from PyPI (300 MB). EXPORT_PYTHON names a Python that
# has models/export/requirements.txt and optimum-onnx instead.
set -euo pipefail
cd "$(dirname "$0")/.."

# Where PyTorch cannot be had, the other checks still mean something; on CI it must be there.
skip() {
    echo "Export test skipped: $1"
    if [ "${CI:-}" = true ]; then
        exit 1
    fi
    exit 0
}

read -ra python <<< "${EXPORT_PYTHON:-}"
if [ ${#python[@]} = 0 ]; then
    tools=$PWD/.tools/debian-torch
    packages=$PWD/.tools/export-packages
    scripts/make-debian-tools.sh "$tools" python3-torch python3-pip || skip "PyTorch could not be installed for this platform"
    python=("$tools/run" python3.13)
    wanted=$(cksum < scripts/requirements-export.txt)
    if [ "$(cat "$packages/.stamp" 2> /dev/null)" != "$wanted" ]; then
        rm -rf "$packages"
        "${python[@]}" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir --no-deps --no-compile \
            --root-user-action ignore --only-binary :all: --require-hashes -r scripts/requirements-export.txt --target "$packages" \
            || skip "ONNX Runtime and transformers could not be installed for this platform"
        echo "$wanted" > "$packages/.stamp"
    fi
    export PYTHONPATH=$packages
fi

if [ -z "${LINELENS:-}" ]; then
    # `cargo build` would compile the dependencies anew, without the features that the tests add to them.
    CARGO_TARGET_DIR=target cargo test --locked --quiet --no-run --test tidy
    export LINELENS=$PWD/target/debug/linelens
fi
PYTHONDONTWRITEBYTECODE=1 "${python[@]}" models/export/test_export.py
