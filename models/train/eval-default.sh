#!/usr/bin/env bash
# eval-default.sh FOLDER...: the figures of models/default/MODEL_CARD.md, from folders of functions (models/train/README.md, "Data").
# Writes figures.md (functions and pairs) and lines/ (agreement with flaw lines; the longest part, METHODS=none skips the
# explanations) to target/eval-default. MODEL=DIR evaluates another model, SEEDS="DIR DIR" adds models of other fine-tuning seeds,
# TRAIN_PYTHON=FILE uses a Python that holds requirements.txt already, LINELENS=FILE a binary.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { echo "usage: make eval-default DATA=FOLDER (with the functions that models/train/README.md describes)" >&2; exit 2; }

model=${MODEL:-models/default}
out=${OUT:-target/eval-default}
train=models/train
mkdir -p "$out"

python=${TRAIN_PYTHON:-}
if [ -z "$python" ]; then
    python=.tools/train/bin/python
    if ! cmp -s "$train/requirements.txt" .tools/train/installed.txt; then
        "${PYTHON:-python3}" -m venv --clear .tools/train
        "$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$train/requirements.txt"
        cp "$train/requirements.txt" .tools/train/installed.txt
    fi
fi

read -r -a seeds <<<"${SEEDS:-}"
"$python" "$train/evaluate.py" --data "$@" --model "$model" ${seeds[@]+--seeds "${seeds[@]}"} --splits valid test \
    --baselines "$out/baselines.json" | tee "$out/figures.md.part"
mv "$out/figures.md.part" "$out/figures.md"

files=()
while IFS= read -r file; do
    files+=("$file")
done < <("$python" "$train/lldata.py" test "$@")
while IFS= read -r file; do
    files+=(--train "$file")
done < <("$python" "$train/lldata.py" train "$@")
"${LINELENS:-target/release/linelens}" eval "${files[@]}" --model "$model" --threads 1 --jobs 2 --out "$out/lines" --methods "${METHODS:-all}"
