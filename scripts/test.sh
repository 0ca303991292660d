#!/usr/bin/env bash
# Everything that has to hold before a change lands. `make test` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=target

step() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@"
    printf -- '-- %s: %s s\n' "$name" $((SECONDS - start))
}

shell_syntax() {
    local script
    for script in .ci/run scripts/*.sh models/train/*.sh; do
        bash -n "$script"
        test -x "$script" || { echo "$script is not executable" >&2; return 1; }
    done
}

# The comparison with PyTorch itself needs gigabytes of Python packages and an hour; see benches/pytorch/README.md.
benchmark_scripts() {
    local script
    for script in compare model torch_side; do
        PYTHONDONTWRITEBYTECODE=1 python3 "benches/pytorch/$script.py" --help >/dev/null
    done
    PYTHONDONTWRITEBYTECODE=1 python3 benches/pytorch/compare.py --check
}

# The output is kept, so that the closing line can sum it up.
log=target/test-output.txt
cargo_test() {
    mkdir -p target
    cargo test --locked --no-fail-fast 2>&1 | tee "$log"
}

deny() {
    scripts/install-cargo-deny.sh
    .tools/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources
}

sum_up() {
    awk '/^test result: .* 0 filtered out/ { passed += $4; failed += $6; ignored += $8 }
         END { printf "\n%d passed, %d failed, %d skipped\n", passed, failed, ignored; exit !passed }' "$log"
}

step "shell scripts" shell_syntax
step "benchmark scripts" benchmark_scripts
step "cargo fmt" cargo fmt --check
step "cargo clippy" cargo clippy --all-targets --locked -- -D warnings
step "without AttnLRP" cargo check --locked --no-default-features
step "cargo test" cargo_test
step "cargo deny" deny
step "Neovim" scripts/test-nvim.sh
step "VS Code" scripts/test-vscode.sh
step "eglot" scripts/test-eglot.sh
step "Helix" scripts/test-helix.sh
step "Spark" scripts/test-spark.sh
step "export" scripts/test-export.sh
step "installing" scripts/test-install.sh
sum_up
