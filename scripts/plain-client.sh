# shellcheck shell=bash
# What the tests of editors without a plugin share; they source it from the root of the checkout.

# Where an editor cannot be had, the other checks still mean something; on CI it must be there.
skip() {
    echo "$(basename "$0") skipped: $1"
    if [ "${CI:-}" = true ]; then
        exit 1
    fi
    exit 0
}

install_editors() {
    scripts/make-debian-tools.sh .tools/debian-editors hx emacs-nox || skip "the editors could not be installed"
}

# A workspace, and the server in a PATH of its own: $scratch/workspace, $scratch/bin, $limit.
prepare() {
    local binary=${LINELENS:-}
    if [ -z "$binary" ]; then
        # `cargo build` would compile the dependencies anew, without the features that the tests add to them.
        CARGO_TARGET_DIR=target cargo test --locked --quiet --no-run --test tidy
        binary=$PWD/target/debug/linelens
    fi
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir -p "$scratch/bin" "$scratch/workspace/.git"
    cp examples/* "$scratch/workspace"
    cat > "$scratch/workspace/columns.c" <<'END'
/* 😀😀ééé */ static int one(int a) { return a; } static int two(int b) { return b + 1; }

int three(int c)
{
    /* é */ return one(c) + two(c);
}
END
    # Every function is above 0, so nothing depends on what the detector thinks of it.
    printf 'threshold = 0\n' > "$scratch/workspace/linelens.toml"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$binary" > "$scratch/bin/linelens"
    chmod +x "$scratch/bin/linelens"
    limit=()
    if command -v timeout > /dev/null; then
        limit=(timeout --kill-after=10 120)
    fi
}

# page_block LANGUAGE N: the N-th block of a language in docs/editors.md, so that what is tested is what is written.
page_block() {
    awk -v fence="\`\`\`$1" -v wanted="$2" '
        $0 == fence { number++; inside = number == wanted; next }
        $0 == "```" { inside = 0 }
        inside { print; found = 1 }
        END { exit !found }' docs/editors.md
}
