#!/usr/bin/env bash
# The load-balancing lab on one machine: two regions of three backends behind HAProxy, and a dashboard to measure them.
#
#   scripts/lab.sh up       start it (as root on Debian, what is missing is installed)
#   scripts/lab.sh status   one line; exit 0 only if every backend and every front answers
#   scripts/lab.sh down     end what `up` started, and nothing else
#   scripts/lab.sh kill|drain|start WHICH   one backend (r1a) or a region (region1): end it at once, by SIGTERM, start it again
#
# Settings by environment: TIDEMARK_BIN the program (else it is built), LAB_STATE the folder of pids and logs,
# LAB_PORT of the backends on 127.0.1.1-3 and 127.0.2.1-3 (8080), LAB_REGIONAL (127.0.0.1:8101), LAB_GLOBAL
# (127.0.0.1:8102) and LAB_DASHBOARD (127.0.0.1:8080); LAB_CAP requests a second that the first region takes (10), and
# LAB_OVERFLOW how the global front overflows above it: at once, or settling over 20 s.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
state=${LAB_STATE:-${XDG_RUNTIME_DIR:-/tmp}/tidemark-lab-$(id -u)}
port=${LAB_PORT:-8080}
regional=${LAB_REGIONAL:-127.0.0.1:8101}
global=${LAB_GLOBAL:-127.0.0.1:8102}
dashboard=${LAB_DASHBOARD:-127.0.0.1:8080}
backends=(r1a:1:1 r1b:1:2 r1c:1:3 r2a:2:1 r2b:2:2 r2c:2:3)
cap=${LAB_CAP:-10}
overflow=${LAB_OVERFLOW:-at-once}
lab=lab
. "$root/scripts/processes.sh"

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

down() { end_all; }

up() {
  install_missing curl:curl haproxy:haproxy
  new_state
  trap 'echo "lab: not everything came up; the rest is ended" >&2; down' EXIT
  local program
  find_program
  # HAProxy would share a port that somebody else has, and half of the requests would go astray.
  local address
  [[ "$cap" =~ ^[1-9][0-9]{0,5}$ ]] || fail "LAB_CAP is '$cap': set it to a whole number of requests a second, such as 10"
  [ "$overflow" = at-once ] || [ "$overflow" = settling ] || fail "LAB_OVERFLOW is '$overflow': set it to at-once or settling"
  [ "$regional" != "$global" ] || fail "both fronts are to listen on $global: set LAB_REGIONAL or LAB_GLOBAL"
  for address in "$regional" "$global" "$dashboard"; do
    if (exec 3<>"/dev/tcp/${address%:*}/${address##*:}") 2>/dev/null; then
      fail "$address is taken: set LAB_REGIONAL, LAB_GLOBAL or LAB_DASHBOARD to another address"
    fi
  done
  echo "$program" >"$state/program"

  local backend name region number
  for backend in "${backends[@]}"; do
    IFS=: read -r name region number <<<"$backend"
    mkdir -m 700 "$state/data-$name"
    start_backend "$name" "$region" "$number"
    # Read by the configurations of the fronts.
    export "LAB_${name^^}=127.0.$region.$number:$port"
  done
  local kind front configuration
  export LAB_CAP=$cap LAB_CAP_20S=$((20 * cap))
  for kind in regional global; do
    front=$regional configuration=$kind
    if [ "$kind" = global ]; then
      front=$global
      if [ "$overflow" = settling ]; then configuration=settling; fi
    fi
    LAB_FRONT=$front start "haproxy-$kind" haproxy -db -f "$root/deploy/haproxy/$configuration.cfg"
  done
  mkdir -m 700 "$state/data-dashboard"
  start dashboard "$program" serve --dashboard "$dashboard" --workload off --receiver off --receiver3 off \
    --data "$state/data-dashboard" --name lab

  until_status
  trap - EXIT
  register
  status
}

# start_backend NAME REGION NUMBER
start_backend() {
  start "$1" "$(cat "$state/program")" serve --dashboard off --receiver off --receiver3 off --data "$state/data-$1" \
    --workload "127.0.$2.$3:$port" --name "$1" --region "region$2" --workload-threads 1
}

# The dashboard knows the lab by its peers with this tag; one that asks for a login is told nothing.
peer() {
  curl -sf -m 5 -o /dev/null "http://$dashboard/api/peers" -H 'Content-Type: application/json' -d "$1"
}
register() {
  local backend name region number
  for backend in "${backends[@]}"; do
    IFS=: read -r name region number <<<"$backend"
    peer "{\"name\": \"$name\", \"internal_address\": \"127.0.$region.$number\", \"region\": \"region$region\", \"ports\": {\"workload\": $port}, \"tags\": [\"lab\"]}" || { echo "lab: the dashboard takes no peers; register them on its Guides page" >&2; return 0; }
  done
  peer "{\"name\": \"regional\", \"internal_address\": \"${regional%:*}\", \"ports\": {\"workload\": ${regional##*:}}, \"tags\": [\"lab\", \"front\"]}" || true
  peer "{\"name\": \"global\", \"internal_address\": \"${global%:*}\", \"ports\": {\"workload\": ${global##*:}}, \"tags\": [\"lab\", \"front\", \"cap:$cap\", \"$overflow\"]}" || true
}

# drill WORD WHICH: to the backends of this name or region.
drill() {
  local backend name region number pid found=
  for backend in "${backends[@]}"; do
    IFS=: read -r name region number <<<"$backend"
    if [ "$2" != "$name" ] && [ "$2" != "region$region" ]; then continue; fi
    [ -e "$state/$name.pid" ] || fail "the lab is not up: 'scripts/lab.sh up' starts it"
    found=yes
    if [ "$1" = start ]; then
      if alive "$state/$name.pid"; then echo "lab: $name runs already"; else start_backend "$name" "$region" "$number"; echo "lab: $name starts"; fi
    elif alive "$state/$name.pid"; then
      read -r pid _ <"$state/$name.pid"
      if [ "$1" = kill ]; then kill -KILL "$pid"; else kill -TERM "$pid"; fi
      echo "lab: $1 $name"
    else
      echo "lab: $name is down already"
    fi
  done
  [ -n "$found" ] || fail "'$2' is no backend: name one (r1a to r2c) or a region (region1, region2)"
}

case "${1-}" in
  up | down | status) "$1" ;;
  kill | drain | start) drill "$1" "${2-}" ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
