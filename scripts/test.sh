#!/usr/bin/env bash
# Everything that must hold: format, lints, docs, and all tests with the real tools on the other end.
#
#   scripts/test.sh             all of it; installs what is missing when it runs as root on Debian
#   scripts/test.sh NAME …      only the tests whose names contain NAME (the arguments of `cargo test`)
#
# It ends with status 0 only if everything passed. What could not run is printed as "skipped: why";
# with CI=true a skip is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

# program:package
needed=(
  curl:curl httperf:httperf siege:siege wrk:wrk haproxy:haproxy nginx:nginx-light
  chromium:chromium chromedriver:chromium-driver ip:iproute2 openssl:openssl
  iperf:iperf iperf3:iperf3 ping:iputils-ping nft:nftables sysctl:procps
)
export PATH="$PATH:/usr/sbin:/sbin"
missing=()
for pair in "${needed[@]}"; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
if ((${#missing[@]})); then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    step "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # A package that starts a service on installation must not do so here.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
      printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
      trap 'rm -f "$policy"' EXIT
    fi
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    printf 'skipped: the tests that need %s (install them, or run this as root on Debian)\n' "${missing[*]}"
  fi
fi

# Many connections at once are opened by the tests.
ulimit -n "$(ulimit -Hn)" 2>/dev/null || true

if (($#)); then
  exec cargo test --locked -- "$@"
fi

step "format"
cargo fmt --check
step "lints"
cargo clippy --locked --all-targets -- -D warnings
step "docs"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items
step "tests"
log=$(mktemp)
status=0
cargo test --locked --no-fail-fast 2>&1 | tee "$log" || status=$?
step "skipped"
if grep -h '^skipped: ' "$log" | sort | uniq -c; then
  if [ "${CI:-}" = true ]; then
    echo "In CI nothing may be skipped."
    status=1
  fi
else
  echo "nothing"
fi
rm -f "$log"
exit "$status"
