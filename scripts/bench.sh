#!/usr/bin/env bash
# Measures Tidemark against the tools that it replaces, side by side in one run, and rewrites docs/benchmarks.md.
#
#   scripts/bench.sh              every row
#   scripts/bench.sh ROW …        only these (benches/side_by_side.py --list names them); prints, rewrites nothing
#
# Needs root for tcpdump, two cores, and about 70 minutes, 40 of them for the capacity searches. Installs what is missing on Debian; oha comes from its crate.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
for pair in curl:curl httperf:httperf wrk:wrk nginx:nginx-light tcpdump:tcpdump taskset:util-linux iperf:iperf iperf3:iperf3 ip:iproute2 ping:iputils-ping; do
  PATH="$PATH:/usr/sbin:/sbin" command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
if ((${#missing[@]})); then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
export PATH="$PWD/target/bench-tools/bin:$PATH:/usr/sbin:/sbin"
command -v oha >/dev/null || cargo install --quiet --locked --root target/bench-tools oha

cargo build --release --locked --quiet
ulimit -n "$(ulimit -Hn)"
exec python3 benches/side_by_side.py target/release/tidemark "$@"
