#!/usr/bin/env bash
# The load-balancing lab on one machine: two regions of three backends behind HAProxy, and a dashboard to measure them.
#
#   scripts/lab.sh up       start it (as root on Debian, what is missing is installed)
#   scripts/lab.sh status   one line; exit 0 only if every backend and every front answers
#   scripts/lab.sh down     end what `up` started, and nothing else
#
# Settings by environment: TIDEMARK_BIN the program (else it is built), LAB_STATE the folder of pids and logs,
# LAB_PORT of the backends on 127.0.1.1-3 and 127.0.2.1-3 (8080), LAB_REGIONAL (127.0.0.1:8101), LAB_GLOBAL
# (127.0.0.1:8102) and LAB_DASHBOARD (127.0.0.1:8080).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
state=${LAB_STATE:-${XDG_RUNTIME_DIR:-/tmp}/tidemark-lab-$(id -u)}
port=${LAB_PORT:-8080}
regional=${LAB_REGIONAL:-127.0.0.1:8101}
global=${LAB_GLOBAL:-127.0.0.1:8102}
dashboard=${LAB_DASHBOARD:-127.0.0.1:8080}
backends=(r1a:1:1 r1b:1:2 r1c:1:3 r2a:2:1 r2b:2:2 r2c:2:3)
PATH="$PATH:/usr/sbin:/sbin"

fail() { echo "lab: $*" >&2; exit 1; }

# When the process began, in clock ticks since the machine did: a pid that is used again has another.
began() { sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# start NAME COMMAND…: in the background, its pid and beginning kept.
start() {
  local name=$1
  shift
  nohup "$@" >"$state/$name.log" 2>&1 </dev/null &
  echo "$! $(began $!)" >"$state/$name.pid"
}

# Whether the process of this pid file is the one that was started.
alive() {
  local pid since
  read -r pid since <"$1" || return 1
  [ -n "$since" ] && [ "$(began "$pid")" = "$since" ] && [ "$(sed 's/^.*) //' "/proc/$pid/stat" | cut -c1)" != Z ]
}

answers() { curl -sf -m 2 -o /dev/null "http://$1$2"; }

status() {
  local up=0 fronts=0 backend region number page="no dashboard"
  for backend in "${backends[@]}"; do
    IFS=: read -r _ region number <<<"$backend"
    if answers "127.0.$region.$number:$port" /health-check; then up=$((up + 1)); fi
  done
  if answers "$regional" /health-check; then fronts=$((fronts + 1)); fi
  if answers "$global" /health-check; then fronts=$((fronts + 1)); fi
  if answers "$dashboard" /healthz; then page="dashboard http://$dashboard/"; fi
  echo "lab: $up of 6 backends, $fronts of 2 fronts (regional http://$regional/, global http://$global/), $page"
  [ "$up$fronts" = 62 ] && [ "$page" != "no dashboard" ]
}

down() {
  local file pid waited
  [ -d "$state" ] || return 0
  for file in "$state"/*.pid; do
    [ -e "$file" ] || continue
    if alive "$file"; then
      read -r pid _ <"$file"
      kill -TERM "$pid" 2>/dev/null || true
    fi
  done
  for file in "$state"/*.pid; do
    [ -e "$file" ] || continue
    waited=0
    while alive "$file"; do
      read -r pid _ <"$file"
      if [ "$waited" -ge 100 ]; then kill -KILL "$pid" 2>/dev/null || true; fi
      waited=$((waited + 1))
      sleep 0.1
    done
    rm -f "$file"
  done
  rm -rf "$state"
}

install_missing() {
  local missing=() program
  for program in curl haproxy; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  ((${#missing[@]})) || return 0
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "${missing[*]} not installed: install it, or run this as root on Debian"
  apt-get update -qq
  # The package must not start a HAProxy of its own.
  local policy=/usr/sbin/policy-rc.d own=
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && own=1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || true
  [ -z "$own" ] || rm -f "$policy"
  for program in "${missing[@]}"; do
    command -v "$program" >/dev/null || fail "$program could not be installed"
  done
}

up() {
  install_missing
  if [ -d "$state" ]; then
    for file in "$state"/*.pid; do
      if [ -e "$file" ] && alive "$file"; then fail "already up, or half of it: 'scripts/lab.sh status' says, 'scripts/lab.sh down' ends it"; fi
    done
    [ -O "$state" ] || fail "$state belongs to somebody else: set LAB_STATE to another folder"
    rm -rf "$state"
  fi
  local program=${TIDEMARK_BIN:-$root/target/release/tidemark}
  if [ -z "${TIDEMARK_BIN:-}" ]; then
    (cd "$root" && cargo build --release --locked)
  fi
  [ -x "$program" ] || fail "$program is not a program: set TIDEMARK_BIN"
  # HAProxy would share a port that somebody else has, and half of the requests would go astray.
  local address
  [ "$regional" != "$global" ] || fail "both fronts are to listen on $global: set LAB_REGIONAL or LAB_GLOBAL"
  for address in "$regional" "$global" "$dashboard"; do
    if (exec 3<>"/dev/tcp/${address%:*}/${address##*:}") 2>/dev/null; then
      fail "$address is taken: set LAB_REGIONAL, LAB_GLOBAL or LAB_DASHBOARD to another address"
    fi
  done
  mkdir -m 700 "$state"
  trap 'echo "lab: not everything came up; the rest is ended" >&2; down' EXIT

  local backend name region number
  for backend in "${backends[@]}"; do
    IFS=: read -r name region number <<<"$backend"
    mkdir -m 700 "$state/data-$name"
    start "$name" "$program" serve --dashboard off --receiver off --receiver3 off --data "$state/data-$name" \
      --workload "127.0.$region.$number:$port" --name "$name" --region "region$region" --workload-threads 1
  done
  local kind front
  for kind in regional global; do
    front=$regional
    if [ "$kind" = global ]; then front=$global; fi
    sed "s/:8080$/:$port/; s/:8080 /:$port /" "$root/deploy/haproxy/$kind.cfg" >"$state/$kind.cfg"
    LAB_FRONT=$front start "haproxy-$kind" haproxy -db -f "$state/$kind.cfg"
  done
  mkdir -m 700 "$state/data-dashboard"
  start dashboard "$program" serve --dashboard "$dashboard" --workload off --receiver off --receiver3 off \
    --data "$state/data-dashboard" --name lab

  local file left=150
  until status >/dev/null; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { status >&2 || true; fail "no answer within its time; see the logs' last lines: $(tail -qn 1 "$state"/*.log | tr '\n' ' ')"; }
    for file in "$state"/*.pid; do
      alive "$file" || fail "$(basename "$file" .pid) ended: $(tail -n 1 "${file%.pid}.log")"
    done
    sleep 0.2
  done
  trap - EXIT
  status
}

case "${1-}" in
  up | down | status) "$1" ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
