#!/usr/bin/env bash
# make-debian-tools.sh DIR PACKAGE...: unpacks packages of Debian 13, with all that they need, into DIR, for tests only.
# Nothing is installed on the machine: DIR/run PROGRAM ARGUMENT... starts a program of DIR with DIR's own libraries. Apt
# checks the packages by the archive's signature. Quick when DIR already holds them. Needs apt and dpkg.
set -euo pipefail

release=trixie
archive=http://deb.debian.org/debian
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
wanted="$release $* $(cksum < "$0")"

if [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
for program in apt-get dpkg-deb; do
    command -v "$program" > /dev/null || { echo "there is no $program" >&2; exit 1; }
done
if [ ! -r "$keyring" ]; then
    echo "there is no $keyring" >&2
    exit 1
fi

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/lists/partial" "$state/archives/partial"
# Without a status file nothing counts as installed, so that everything down to the C library is fetched.
: > "$state/status"
echo "deb [signed-by=$keyring] $archive $release main" > "$state/sources.list"
cat > "$state/apt.conf" <<END
Dir::State "$state";
Dir::State::status "$state/status";
Dir::Cache "$state";
Dir::Etc::sourcelist "$state/sources.list";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Debug::NoLocking "true";
END
export APT_CONFIG=$state/apt.conf
apt-get -qq update
apt-get -qq -y --download-only install "$@" > /dev/null

find "$dir" -mindepth 1 -delete
for package in "$state"/archives/*.deb; do
    dpkg-deb --extract "$package" "$dir"
done

cat > "$dir/run" <<'END'
#!/bin/sh
# run PROGRAM ARGUMENT...: a program of this folder, with this folder's libraries and data.
dir=$(cd "$(dirname "$0")" && pwd)
program=$1
shift
libraries=
for folder in "$dir"/usr/lib/*-linux-gnu "$dir"/lib/*-linux-gnu "$dir"/usr/lib/*-linux-gnu/blas \
    "$dir"/usr/lib/*-linux-gnu/lapack "$dir"/usr/lib; do
    libraries=$libraries${libraries:+:}$folder
done
for loader in "$dir"/usr/lib64/ld-linux-*.so.* "$dir"/lib64/ld-linux-*.so.* "$dir"/usr/lib/ld-linux-*.so.* \
    "$dir"/lib/ld-linux-*.so.*; do
    if [ -e "$loader" ]; then
        break
    fi
done
case $program in
nvim) export VIMRUNTIME="$dir/usr/share/nvim/runtime" ;;
hx) export HELIX_RUNTIME="$dir/usr/lib/hx/runtime" ;;
emacs)
    program=emacs-nox
    share=$(echo "$dir"/usr/share/emacs/[0-9]*)
    EMACSLOADPATH=$(find "$share/lisp" -type d | tr "\n" ":")
    export EMACSLOADPATH EMACSDATA="$share/etc" EMACSDOC="$share/etc"
    for dump in "$dir"/usr/libexec/emacs/*/*/emacs-*.pdmp; do :; done
    set -- --dump-file="$dump" "$@"
    ;;
luacheck)
    export LUA_PATH="$dir/usr/share/lua/5.1/?.lua;$dir/usr/share/lua/5.1/?/init.lua"
    export LUA_CPATH="$(echo "$dir"/usr/lib/*-linux-gnu/lua/5.1)/?.so"
    set -- "$dir/usr/bin/luacheck" "$@"
    program=lua5.1
    ;;
esac
exec "$loader" --library-path "$libraries" "$dir/usr/bin/$program" "$@"
END
chmod +x "$dir/run"
echo "$wanted" > "$dir/.stamp"
