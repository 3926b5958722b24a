#!/usr/bin/env bash
# Sourced by the labs: processes that are started in the background, known again by pid and beginning, and ended.
# Needs `state`, the folder of pids and logs, and `lab`, the name that messages begin with.

PATH="$PATH:/usr/sbin:/sbin"

fail() { echo "$lab: $*" >&2; exit 1; }

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

# Ends what `start` started, gently first, and removes the folder.
end_all() {
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

answers() { curl -sf -m 2 -o /dev/null "http://$1$2"; }

# install_missing PROGRAM:PACKAGE…: as root on Debian, without starting a service of its own.
install_missing() {
  local missing=() pair
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  ((${#missing[@]})) || return 0
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "${missing[*]} not installed: install it, or run this as root on Debian"
  apt-get update -qq
  local policy=/usr/sbin/policy-rc.d own=
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && own=1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || true
  [ -z "$own" ] || rm -f "$policy"
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || fail "${pair##*:} could not be installed"
  done
}

# A new folder for pids and logs; refuses where the lab runs already.
new_state() {
  local file
  if [ -d "$state" ]; then
    for file in "$state"/*.pid; do
      if [ -e "$file" ] && alive "$file"; then fail "already up, or half of it: '$0 status' says, '$0 down' ends it"; fi
    done
    [ -O "$state" ] || fail "$state belongs to somebody else: set LAB_STATE to another folder"
    rm -rf "$state"
  fi
  mkdir -m 700 "$state"
}

# Puts the path of the program into `program`; builds it where TIDEMARK_BIN names none.
find_program() {
  program=${TIDEMARK_BIN:-$root/target/release/tidemark}
  if [ -z "${TIDEMARK_BIN:-}" ]; then
    (cd "$root" && cargo build --release --locked)
  fi
  [ -x "$program" ] || fail "$program is not a program: set TIDEMARK_BIN"
}

# until_status: waits until `status` succeeds; a process that ends before that is the failure.
until_status() {
  local file left=150
  until status >/dev/null; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { status >&2 || true; fail "no answer within its time; see the logs' last lines: $(tail -qn 1 "$state"/*.log | tr '\n' ' ')"; }
    for file in "$state"/*.pid; do
      alive "$file" || fail "$(basename "$file" .pid) ended: $(tail -n 1 "${file%.pid}.log")"
    done
    sleep 0.2
  done
}
