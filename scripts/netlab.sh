#!/usr/bin/env bash
# Six "VMs" on one machine, for measuring networks: a namespace each, with a Tidemark node in it, an internal network of
# MTU 8896 and an external one of MTU 1460, and egress caps by vCPU; and a dashboard on this machine that knows them all.
# Needs root.
#
#   scripts/netlab.sh up       start it (on Debian, what is missing is installed)
#   scripts/netlab.sh status   one line; exit 0 only if every node and the dashboard answer
#   scripts/netlab.sh down     end what `up` started, and nothing else
#
# Settings by environment: TIDEMARK_BIN the program (else it is built), LAB_STATE the folder of pids and logs,
# NETLAB_DASHBOARD (127.0.0.1:8080), NETLAB_NAME the beginning of the namespaces' names (tm, at most 4 letters),
# NETLAB_INTERNAL (10.240.0) and NETLAB_EXTERNAL (172.31.240) the networks' first three numbers, NETLAB_VCPU_MBIT the
# egress cap for each vCPU (2000, the external cap is half of one vCPU's), NETLAB_DELAY_MS a delay on the external
# network (none; refused where the kernel has no netem).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
state=${LAB_STATE:-${XDG_RUNTIME_DIR:-/tmp}/tidemark-netlab-$(id -u)}
dashboard=${NETLAB_DASHBOARD:-127.0.0.1:8080}
name=${NETLAB_NAME:-tm}
internal=${NETLAB_INTERNAL:-10.240.0}
external=${NETLAB_EXTERNAL:-172.31.240}
vcpu=${NETLAB_VCPU_MBIT:-2000}
delay=${NETLAB_DELAY_MS:-}
# name:vCPUs:number in both networks:zone
machines=(instance-1:1:11:a instance-2:1:12:a instance-3:4:13:a instance-4:4:14:b instance-5:4:15:b instance-6:1:16:b)
lab=netlab
. "$root/scripts/processes.sh"

space() { echo "$name-$1"; }

status() {
  local up=0 machine number page="no dashboard"
  for machine in "${machines[@]}"; do
    IFS=: read -r _ _ number _ <<<"$machine"
    if answers "$internal.$number:8080" /healthz; then up=$((up + 1)); fi
  done
  if answers "$dashboard" /healthz; then page="dashboard http://$dashboard/"; fi
  echo "netlab: $up of 6 nodes on $internal.11-16 and $external.11-16 (dashboards http://$internal.11:8080/ and on, token in $state/token), $page"
  [ "$up" = 6 ] && [ "$page" != "no dashboard" ]
}

# Only what `up` noted down as made by itself.
down() {
  local made
  made=$(tac "$state/made" 2>/dev/null) || made=
  end_all
  local kind thing
  while read -r kind thing; do
    case $kind in
      space) ip netns del "$thing" 2>/dev/null || true ;;
      link) ip link del "$thing" 2>/dev/null || true ;;
    esac
  done <<<"$made"
}

made() { echo "$1 $2" >>"$state/made"; }

new_space() {
  ip netns add "$1" || fail "the namespace $1 is there already: set NETLAB_NAME to another name"
  made space "$1"
  ip -n "$1" link set lo up
}

# The switch of both networks is a namespace too: no firewall of this machine stands between the nodes.
switch() {
  local space=$1 mtu
  new_space "$space"
  for mtu in internal:8896 external:1460; do
    ip -n "$space" link add "${mtu%:*}" type bridge
    ip -n "$space" link set "${mtu%:*}" mtu "${mtu#*:}" up
  done
  # This machine's own place in the internal network, for the browser.
  ip link add "${name}host" mtu 8896 type veth peer name host mtu 8896 netns "$space" ||
    fail "${name}host is there already: set NETLAB_NAME to another name"
  made link "${name}host"
  ip -n "$space" link set host master internal up
  ip link set "${name}host" up
  ip addr add "$internal.1/24" dev "${name}host"
}

# cable SPACE INTERFACE BRIDGE NUMBER MTU NETWORK MBIT [DELAY]: one machine's place in one network.
cable() {
  local space=$1 interface=$2 bridge=$3 number=$4 mtu=$5 network=$6 mbit=$7 late=${8:-}
  ip -n "$(space net)" link add "$bridge$number" mtu "$mtu" type veth peer name "$interface" netns "$space"
  ip -n "$(space net)" link set "$bridge$number" master "$bridge" up
  ip -n "$space" link set "$interface" mtu "$mtu" up
  ip -n "$space" addr add "$network.$number/24" dev "$interface"
  # Four milliseconds' worth at least, else a burst of large packets does not fit.
  local burst=$((mbit * 500 > 262144 ? mbit * 500 : 262144))
  tc -n "$space" qdisc add dev "$interface" root handle 1: tbf rate "${mbit}mbit" burst "$burst" latency 20ms
  if [ -n "$late" ]; then
    tc -n "$space" qdisc add dev "$interface" parent 1:1 handle 2: netem delay "${late}ms" limit 10000 ||
      fail "this kernel has no netem: leave NETLAB_DELAY_MS out"
  fi
}

# introduce DASHBOARD NAME: registers there every machine but the one of this name.
introduce() {
  local at=$1 but=$2 machine host cpus number zone
  for machine in "${machines[@]}"; do
    IFS=: read -r host cpus number zone <<<"$machine"
    [ "$host" != "$but" ] || continue
    curl -sf -o /dev/null -H "Authorization: Bearer $(cat "$state/token")" -H 'Content-Type: application/json' \
      "http://$at/api/peers" --data-binary @- <<JSON || fail "the dashboard $at did not take $host as a peer"
{"name": "$host", "internal_address": "$internal.$number", "external_address": "$external.$number",
 "ports": {"throughput": 5001, "workload": 8000, "dashboard": 8080}, "zone": "zone-$zone", "machine_type": "$cpus-vcpu",
 "vcpus": $cpus, "internal_cap_bits_per_second": $((cpus * vcpu * 1000000)),
 "external_cap_bits_per_second": $((vcpu * 500000))}
JSON
  done
}

up() {
  [ "$(id -u)" = 0 ] || fail "namespaces and egress caps need root: run it with sudo"
  [[ $name =~ ^[a-z0-9]{1,4}$ ]] || fail "NETLAB_NAME is to be 1 to 4 small letters or digits, since interfaces are named by it"
  install_missing ip:iproute2 curl:curl
  new_state
  trap 'echo "netlab: not everything came up; the rest is ended" >&2; down' EXIT
  local program
  find_program
  if (exec 3<>"/dev/tcp/${dashboard%:*}/${dashboard##*:}") 2>/dev/null; then
    fail "$dashboard is taken: set NETLAB_DASHBOARD to another address"
  fi
  (umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$state/token")

  switch "$(space net)"
  local machine host cpus number zone space mbit
  for machine in "${machines[@]}"; do
    IFS=: read -r host cpus number zone <<<"$machine"
    space=$(space "$host")
    mbit=$((cpus * vcpu))
    new_space "$space"
    cable "$space" ens4 internal "$number" 8896 "$internal" "$mbit"
    cable "$space" ens5 external "$number" 1460 "$external" $((vcpu / 2)) "$delay"
    mkdir -m 700 "$state/data-$host"
    start "$host" ip netns exec "$space" "$program" serve --data "$state/data-$host" --name "$host" --zone "zone-$zone" \
      --machine-type "$cpus-vcpu" --vcpus "$cpus" --egress-cap "${mbit}M" --token-file "$state/token" \
      --dashboard "$internal.$number:8080" --workload "$internal.$number:8000" \
      --receiver 0.0.0.0:5001 --receiver3 0.0.0.0:5201 \
      --accept-from "$internal.0/24" --accept-from "$external.0/24" --allow "$internal.0/24" --allow "$external.0/24"
  done
  mkdir -m 700 "$state/data-dashboard"
  start dashboard "$program" serve --dashboard "$dashboard" --workload off --receiver off --receiver3 off \
    --data "$state/data-dashboard" --name netlab
  until_status

  # The dashboard knows all of them, and each of them the others.
  introduce "$dashboard" ""
  for machine in "${machines[@]}"; do
    IFS=: read -r host _ number _ <<<"$machine"
    introduce "$internal.$number:8080" "$host"
  done
  trap - EXIT
  status
}

case "${1-}" in
  up | down | status) "$1" ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
