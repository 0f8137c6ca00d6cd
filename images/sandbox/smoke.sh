#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run inside the image, without a network: does what it should hold work? Prints the versions.
#     docker run --rm -i --network none IMAGE sh -s AGENT_VERSION <smoke.sh
set -eu
cd /opt/snaffle
for program in bin/snaffle-guest bin/snaffle-gateway agent/opencode; do
    digest=$(sha256sum <"$program")
    [ "$(cat "by-digest/${digest%% *}")" = "$PWD/$program" ] || {
        echo "$program is not in by-digest" >&2
        exit 1
    }
    "$program" --version
done
[ "$(agent/opencode --version)" = "$1" ] || {
    echo "the agent is not $1" >&2
    exit 1
}
command -v curl || command -v wget
[ -s /etc/ssl/certs/ca-certificates.crt ]
cd /root
ls -d logs/agent logs/verifier proxy task workdir >/dev/null
