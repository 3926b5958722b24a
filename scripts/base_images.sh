#!/usr/bin/env bash
# Makes the images that Dockerfile and deploy/compose.yaml start from out of this machine's own Debian packages and Rust
# toolchain, for a machine that can pull none.
#
#   scripts/base_images.sh up       make those that are missing, print the name of each one made
#   scripts/base_images.sh down     remove those that `up` made, and nothing else
#
# An image of that name that is there already is left alone. Needs a Docker engine, Debian, gcc and HAProxy.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
label=org.tidemark.made-here
PATH="$PATH:/usr/sbin:/sbin"

fail() { echo "base images: $*" >&2; exit 1; }

# The image that a file starts from, by a word of its name.
named() { grep -oE "$1[a-z0-9./:_-]*:[a-z0-9._-]+" "$2" | head -n 1; }

# What these packages hold, with all that they depend on, without manuals; the merged /usr folders under their real names.
files_of() {
  apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
    --no-enhances "$@" | sed -n 's/^\([a-z0-9][^ <>]*\)$/\1/p' | sed 's/:[a-z0-9]*$//' | sort -u |
    while read -r package; do dpkg-query -L "$package" 2>/dev/null || true; done |
    sed -E 's,^/(bin|sbin|lib|lib64)(/|$),/usr/\1\2,' | grep -vE '^/usr/share/(doc|man|locale|info|lintian|bash-completion)' |
    sort -u | while read -r file; do if [ -e "$file" ] || [ -L "$file" ]; then echo "${file#/}"; fi; done
}

# import NAME FOLDER [CHANGE…]: the folder as an image of that name.
import() {
  local name=$1 folder=$2 changes=()
  shift 2
  for change in "$@" "LABEL $label=yes"; do changes+=(--change "$change"); done
  tar -C "$folder" -cf - . | docker import "${changes[@]}" - "$name" >/dev/null
  echo "$name"
}

# A folder with the files of these packages and the links of a merged /usr.
system() {
  local folder=$1 link
  shift
  mkdir -p "$folder/usr" "$folder/tmp" "$folder/etc"
  chmod 1777 "$folder/tmp"
  for link in bin sbin lib lib64; do ln -s "usr/$link" "$folder/$link"; done
  files_of "$@" | tar -C / -cf - --no-recursion -T - | tar -C "$folder" -xf -
  cp -L /etc/nsswitch.conf "$folder/etc/" 2>/dev/null || true
}

build_base() {
  local folder=$1 home toolchain
  system "$folder" dash coreutils sed grep gcc libc6-dev
  ln -sf gcc "$folder/usr/bin/cc"
  toolchain=$(rustc --print sysroot)
  mkdir -p "$folder/usr/local/bin" "$folder/usr/local/cargo"
  cp -a "$toolchain/bin/cargo" "$toolchain/bin/rustc" "$folder/usr/local/bin/"
  tar -C "$toolchain" --exclude='*/share' -cf - lib | tar -C "$folder/usr/local" -xf -
  home=${CARGO_HOME:-$HOME/.cargo}
  (cd "$root" && cargo fetch --locked --quiet)
  tar -C "$home" -cf - registry/index registry/cache | tar -C "$folder/usr/local/cargo" -xf -
}

proxy_base() {
  system "$1" dash coreutils haproxy
  mkdir -p "$1/var/lib/haproxy" "$1/run"
  printf 'root:x:0:0::/:/bin/sh\nhaproxy:x:99:99::/var/lib/haproxy:/usr/sbin/nologin\n' >"$1/etc/passwd"
  printf 'root:x:0:\nhaproxy:x:99:\n' >"$1/etc/group"
}

missing() { ! docker image inspect "$1" >/dev/null 2>&1; }

up() {
  command -v apt-cache >/dev/null || fail "this needs Debian's apt-cache; elsewhere pull the images"
  docker version >/dev/null 2>&1 || fail "no Docker engine answers"
  local build proxy
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  build=$(named 'rust' "$root/Dockerfile")
  if missing "$build"; then
    build_base "$work/build"
    import "$build" "$work/build" "ENV PATH=/usr/local/bin:/usr/bin:/bin" "ENV CARGO_HOME=/usr/local/cargo" \
      "ENV CARGO_NET_OFFLINE=true"
    rm -rf "$work/build"
  fi
  proxy=$(named 'haproxy' "$root/deploy/compose.yaml")
  if missing "$proxy"; then
    proxy_base "$work/proxy"
    import "$proxy" "$work/proxy" "USER haproxy" 'ENTRYPOINT ["/usr/sbin/haproxy"]' \
      'CMD ["-W","-db","-f","/usr/local/etc/haproxy/haproxy.cfg"]'
  fi
}

down() {
  local image
  for image in $(docker image ls --filter "label=$label" --filter dangling=false --format '{{.Repository}}:{{.Tag}}'); do
    docker image rm "$image" >/dev/null
  done
  # What a build left of its first stage carries the label on.
  docker image prune --force --filter "label=$label" >/dev/null
}

case ${1:-} in
  up) up ;;
  down) down ;;
  *) fail "say up or down" ;;
esac
