#!/usr/bin/env bash
# The VS Code extension: types, lints, unit tests, the .vsix, and sessions in VS Code's own server with Chromium on copies
# of examples/. The server comes from the npm package code-server and lies in .tools/code-server. CHROMIUM names a
# browser; where there is none and apt-get may install one, it does. Pictures of the sessions are kept in target/vscode.
# Names of scenarios (main, trust, large) as arguments run these alone. PICTURES=1 renews those of the README.
set -euo pipefail
cd "$(dirname "$0")/.."

vscode_version=4.100.3
vscode_sha256=a85138ac3a382a9ba1df652a751901ec598fed24f673b8a8653de7be8335bfaa

# Where an editor cannot be had, the other checks still mean something; on CI it must be there.
skip() {
    echo "VS Code test skipped: $1"
    if [ "${CI:-}" = true ]; then
        exit 1
    fi
    exit 0
}

extension=$PWD/editors/vscode
npm() {
    command npm --no-audit --no-fund --no-update-notifier --loglevel=error "$@"
}
if ! node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' 2> /dev/null || ! command -v npm > /dev/null; then
    skip "there is no Node.js 20 or newer with npm"
fi
if [ ! "$extension/node_modules/.package-lock.json" -nt "$extension/package-lock.json" ]; then
    npm ci --prefix "$extension" --ignore-scripts || skip "the extension's tools could not be installed"
    touch "$extension/node_modules/.package-lock.json"
fi
(cd "$extension" && npm run --silent check && npm test --silent)

browser() {
    local name
    for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
        if [ -n "$name" ] && command -v "$name"; then
            return
        fi
    done
    return 1
}
if ! browser > /dev/null && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "installing Chromium"
    { apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } > /dev/null 2>&1 || true
fi
CHROMIUM=$(browser) || skip "there is no Chromium (on Debian: apt-get install chromium; CHROMIUM names another)"
export CHROMIUM

vscode=$PWD/.tools/code-server
if [ "$(cat "$vscode/.stamp" 2> /dev/null)" != "$vscode_version" ]; then
    rm -rf "$vscode"
    mkdir -p "$vscode"
    npm pack --silent --pack-destination "$vscode" "code-server@$vscode_version" > /dev/null \
        || skip "VS Code's server could not be fetched"
    package=$vscode/code-server-$vscode_version.tgz
    echo "$vscode_sha256  $package" | sha256sum --check --quiet
    tar -xzf "$package" -C "$vscode" --strip-components=3 package/lib/vscode
    rm "$package"
    # Its own shrinkwrap pins most of what it needs, but is not whole, so `npm ci` refuses it.
    npm install --prefix "$vscode" --no-save --omit=dev --ignore-scripts > "$vscode/install.log" 2>&1 \
        || skip "VS Code's server could not be installed, see $vscode/install.log"
    echo "$vscode_version" > "$vscode/.stamp"
fi

# VS Code writes logs by a native module, which `--ignore-scripts` leaves unbuilt; without it every log is empty. It is built
# here against the headers that come with Node.js; where there are none, what is in the log is not tested.
node_folder=$(node -p 'require("path").dirname(require("path").dirname(process.execPath))')
if [ ! -e "$vscode/node_modules/@vscode/spdlog/build/Release/spdlog.node" ] && [ -e "$node_folder/include/node/node.h" ]; then
    echo "building the module that writes VS Code's logs"
    (cd "$vscode" && npm_config_nodedir=$node_folder npm rebuild @vscode/spdlog) > "$vscode/spdlog.log" 2>&1 \
        || echo "it could not be built, see $vscode/spdlog.log"
fi

binary=${LINELENS:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -z "$binary" ]; then
    # `cargo build` would compile the dependencies anew, without the features that the tests add to them.
    CARGO_TARGET_DIR=target cargo test --locked --quiet --no-run --test tidy
    binary=$scratch/linelens
    # With what debuggers want the package would be ten times the size.
    strip -o "$binary" target/debug/linelens 2> /dev/null || cp target/debug/linelens "$binary"
fi
(cd "$extension" && npm run --silent package -- --server "$binary" --out "$scratch/linelens.vsix") > "$scratch/package" 2>&1 \
    || { cat "$scratch/package"; exit 1; }

mkdir -p target/vscode
limit=()
if command -v timeout > /dev/null; then
    limit=(timeout --kill-after=10 900)
fi
TMPDIR=$scratch ${limit[@]+"${limit[@]}"} \
    node "$extension/test/ui/run.mjs" "$vscode" "$scratch/linelens.vsix" "$PWD/examples" "$PWD/target/vscode" "$@"
