#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# debian_root.sh DIR: makes Debian's smallest system with a Python, once; says why where it can't.
set -eu
root=$1
[ ! -e "$root" ] || exit 0
fail() {
    echo "$1"
    exit 1
}
[ "$(id -u)" = 0 ] || fail 'debootstrap needs root'
command -v debootstrap >/dev/null || fail 'debootstrap is not installed'
mkdir -p "${root%/*}"
exec 9>"$root.lock"
flock 9
[ ! -e "$root" ] || exit 0
rm -rf --one-file-system "$root.new"
debootstrap --variant=minbase --include=python3 bookworm "$root.new" >"$root.log" 2>&1 </dev/null ||
    fail "debootstrap can't make a system: see $root.log"
rm -rf "$root.new"/var/cache/apt/archives/*.deb "$root.new"/var/lib/apt/lists/*
mv "$root.new" "$root"
