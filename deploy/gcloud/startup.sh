#!/usr/bin/env bash
# Startup script of a Compute Engine VM: fetches one binary and runs it as a service. No package is installed.
#   gcloud compute instance-templates create … --metadata-from-file=startup-script=deploy/gcloud/startup.sh \
#     --metadata=tidemark-url=https://storage.googleapis.com/BUCKET/tidemark,tidemark-sha256=SUM,tidemark-role=workload
# tidemark-role: workload (a backend behind a load balancer) or throughput (a peer with iperf receivers).
set -euo pipefail

metadata() {
  curl -sf -H 'Metadata-Flavor: Google' "http://metadata.google.internal/computeMetadata/v1/instance/$1"
}
attribute() { metadata "attributes/$1" || true; }

url=$(attribute tidemark-url)
sum=$(attribute tidemark-sha256)
role=$(attribute tidemark-role)
allow=$(attribute tidemark-allow)
[ -n "$url" ] || { echo "the metadata value tidemark-url is missing: set it to where the binary is" >&2; exit 1; }
[ -n "$sum" ] || { echo "the metadata value tidemark-sha256 is missing: set it to the binary's SHA-256" >&2; exit 1; }

# The script runs at every boot; a binary that is already right is not fetched again.
if ! echo "$sum  /usr/local/bin/tidemark" | sha256sum --check --status 2>/dev/null; then
  fresh=$(mktemp)
  trap 'rm -f "$fresh"' EXIT
  curl -sfL --retry 5 --max-time 120 -o "$fresh" "$url"
  echo "$sum  $fresh" | sha256sum --check --status || { echo "what $url serves has another SHA-256 than tidemark-sha256 says" >&2; exit 1; }
  install -m 755 "$fresh" /usr/local/bin/tidemark
fi

zone=$(metadata zone); zone=${zone##*/}
machine=$(metadata machine-type); machine=${machine##*/}
address=$(metadata network-interfaces/0/ip)
case "$role" in
  ''|workload) listen="--workload 0.0.0.0:8000 --dashboard off --receiver off --receiver3 off" ;;
  throughput) listen="--workload off --receiver $address:5001 --receiver3 $address:5201 ${allow:+--accept-from $allow --allow $allow}" ;;
  *) echo "tidemark-role is $role: set it to workload or throughput" >&2; exit 1 ;;
esac

cat > /etc/systemd/system/tidemark.service <<UNIT
[Unit]
Description=Tidemark
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=/usr/local/bin/tidemark serve $listen --name $(hostname) --region ${zone%-*} --zone $zone --machine-type $machine
Environment=TIDEMARK_DATA=/var/lib/tidemark
DynamicUser=yes
StateDirectory=tidemark
StateDirectoryMode=0700
TimeoutStopSec=90
Restart=on-failure
LimitNOFILE=65536
NoNewPrivileges=yes
ProtectSystem=strict

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable tidemark
systemctl restart tidemark
