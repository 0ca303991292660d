#!/usr/bin/env bash
# What the README says of installing, with what is built: the wheel in a fresh virtual environment, through a symbolic
# link and by pipx, and `cargo install`. maturin and pipx are installed into .tools/install-env.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export CARGO_TARGET_DIR=$root/target

# The build that is there already: what `make build` made, else the dependencies that the tests were built with.
profile=dev
if [ -x target/release/linelens ]; then
    profile=release
fi
profile=${INSTALL_PROFILE:-$profile}

tools=$root/.tools/install-env
mkdir -p .tools
if [ ! "$tools/.stamp" -nt scripts/requirements-install.txt ]; then
    scripts/make-env.sh "$tools" scripts/requirements-install.txt
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Where links lead is what linelens reports.
scratch=$(cd "$scratch" && pwd -P)

# Nothing of the user's own takes part, but the packages that pip keeps.
home=$scratch/home
mkdir "$home"
unset VIRTUAL_ENV PYTHONPATH PYTHONHOME
PIP_CACHE_DIR=$("$tools/bin/python" -m pip cache dir)
export PIP_CACHE_DIR PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_NO_COMPILE=1 PIP_QUIET=1

complain() {
    printf 'test-install: %s\n' "$@" >&2
    exit 1
}

# run PROGRAM ARGUMENTS: with an environment that tells nothing of where things are.
run() {
    env -i HOME="$home" PATH="$trap/.venv/bin:/usr/bin:/bin" VIRTUAL_ENV="$trap/.venv" "$@"
}

# works PROGRAM LIBRARY MODEL: it takes both from where they belong, and explains a function, in a folder that would
# have it load something else.
works() {
    local program=$1 library=$2 model=$3 report
    report=$(cd "$trap" && run "$program" doctor) || complain "$program doctor failed:" "$report"
    grep -q "^library .*, $library/libonnxruntime[.]" <<< "$report" \
        || complain "$program does not take the library in $library:" "$report"
    grep -qF "linelens-default, $model (" <<< "$report" \
        || complain "$program does not take the model in $model:" "$report"
    report=$(cd "$trap" && run "$program" explain "$root/examples/records.c:42" --format json 2> "$scratch/warnings") \
        || complain "$program explain failed:" "$(cat "$scratch/warnings")"
    grep -q '"name": *"linelens-default"' <<< "$report" || complain "$program explain said:" "$report"
    grep -q "linelens.toml.*library" "$scratch/warnings" \
        || complain "$program took the library of a workspace" "$(cat "$scratch/warnings")"
}

# A workspace with a virtual environment and settings of its own, neither to be believed.
trap=$scratch/workspace
capi=.venv/lib/python3.11/site-packages/onnxruntime/capi
mkdir -p "$trap/$capi" "$trap/.venv/bin" "$trap/.venv/share/linelens/models/default"
echo 'not a library' > "$trap/$capi/libonnxruntime.so.99.0.0"
printf 'library = "%s"\n' "$trap/$capi" > "$trap/linelens.toml"

PATH=$tools/bin:$PATH "$tools/bin/python" -m pip wheel . --no-deps --no-build-isolation --wheel-dir "$scratch/wheels" \
    --config-settings "build-args=--profile $profile" > "$scratch/log" 2>&1 || complain "$(cat "$scratch/log")"
wheel=$(echo "$scratch"/wheels/linelens-*.whl)
"$tools/bin/python" -m zipfile -e "$wheel" "$scratch/unpacked"
diff -r models/default "$scratch"/unpacked/linelens-*.data/data/share/linelens/models/default \
    || complain "the wheel's model is not models/default; packaging/wheel links to each of its files"
cat "$scratch"/unpacked/linelens-*.dist-info/METADATA > "$scratch/metadata"
for requirement in 'onnxruntime[^-[]*>=1\.24' 'onnxruntime-gpu\[cuda,cudnn\].*extra == .cuda.'; do
    grep -q "^Requires-Dist: $requirement" "$scratch/metadata" \
        || complain "the wheel does not require $requirement:" "$(cat "$scratch/metadata")"
done

# A fresh environment. What the wheel requires is there already, by hash, so that nothing else may be fetched.
scripts/make-env.sh "$scratch/env" scripts/requirements.txt
"$scratch/env/bin/python" -m pip install --no-index "$wheel"
library="$scratch/env/lib/python3[.0-9]*/site-packages/onnxruntime/capi"
works "$scratch/env/bin/linelens" "$library" "$scratch/env/share/linelens/models/default"
mkdir "$scratch/bin"
ln -s "$scratch/env/bin/linelens" "$scratch/bin/linelens"
works "$scratch/bin/linelens" "$library" "$scratch/env/share/linelens/models/default"

# pipx: an environment of its own, and a link to the program.
grep -E '^[a-z0-9]+==' scripts/requirements.txt | sed 's/ *\\$//' > "$scratch/constraints"
run env PIPX_HOME="$scratch/pipx" PIPX_BIN_DIR="$scratch/pipx-bin" PIP_CACHE_DIR="$PIP_CACHE_DIR" PIP_NO_COMPILE=1 \
    "$tools/bin/pipx" install --quiet --pip-args="--constraint=$scratch/constraints" "$wheel" > "$scratch/log" 2>&1 \
    || complain "pipx:" "$(cat "$scratch/log")"
works "$scratch/pipx-bin/linelens" "$scratch/pipx/venvs/linelens/lib/python3[.0-9]*/site-packages/onnxruntime/capi" \
    "$scratch/pipx/venvs/linelens/share/linelens/models/default"

# cargo install puts the program there, and only that; the README says where the rest goes.
cargo install --path . --locked --quiet --profile "$profile" --root "$scratch/cargo"
if report=$(run "$scratch/cargo/bin/linelens" doctor); then
    complain "linelens found something without a library and a model:" "$report"
fi
grep -qF "$home/.local/share/linelens/models/default" <<< "$report" || complain "the doctor names no place:" "$report"
mkdir -p "$home/.local/share/linelens/models"
cp -r models/default "$home/.local/share/linelens/models/"
# As by `python3 -m venv ~/.local/share/linelens`, with ONNX Runtime in it.
ln -s "$scratch/env/lib" "$home/.local/share/linelens/lib"
works "$scratch/cargo/bin/linelens" "$library" "$home/.local/share/linelens/models/default"
echo "installed by pip, by pipx, through a link and by cargo install ($profile)"
