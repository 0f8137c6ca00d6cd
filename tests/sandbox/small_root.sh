#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# small_root.sh DIR: makes a small system of this machine's own programs, with the libraries they need.
set -eu
root=$1
programs='bash sh env true false sleep touch ls cat mkdir rmdir stat ln wc rm mount kill id grep find
    chmod tr test readlink realpath nohup seq mkfifo setsid head tail printf echo dd od sort cp mv
    cut sed tee uniq xargs comm dirname basename date uname pwd mktemp timeout ps'
mkdir -p "$root/usr/bin" "$root/usr/lib64" "$root/etc" "$root/opt/old" "$root/root" "$root/var/log"
ln -s usr/bin "$root/bin"
for program in $programs; do
    path=$(command -v "$program" | grep '^/') || path=/usr/bin/$program
    [ -e "$path" ] || path=/bin/$program
    [ -e "$path" ] || continue
    cp -L "$path" "$root/usr/bin/$program"
    for library in $(ldd "$path" 2>/dev/null | grep -o '/[^ ]*'); do
        # At their own paths: the loader's is written in each program.
        [ -e "$root$library" ] && continue
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
done
echo 'a small system' >"$root/etc/marker"
echo 'export PATH=/nowhere' >"$root/etc/profile"
echo kept >"$root/opt/old/file"
chmod -R a+rX "$root"
