#!/usr/bin/env bash
# What a newcomer has: a Debian with nothing but git, make, gcc, libc6-dev, ca-certificates and Rust, and a fresh clone.
#
#   tests/fresh-debian.sh SUITE FOLDER [STEP...]
#
# as root on a Debian with debootstrap: SUITE is `bookworm` (12) or `trixie` (13), FOLDER is made, and is used again when it is
# there. Steps are `run`, `test`, `test-all`; without any, all three, in this order:
#
#   run       `make run` until Zonal says that it is ready, then stopped
#   test      `make test`
#   test-all  `make test-all`
#
# The clone is that of the commit that is checked out here. Name servers, certificates and this machine's Rust (without its
# documentation) are copied. `CI` is set, so that set-up may install packages, and a skipped stage is a failure.
# What the stages took is added to docs/results/gate-times.csv of the clone.
# Prints a row for each step: wall time, CPU time of all processes, what the disk took, and how it ended. Exits with 1 if a
# step failed.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Where the clone lies in the chroot.
readonly clone=/root/zonal
# A cold build on one slow core, thrice.
readonly run_seconds_max=3600

main() {
  if [ $# -lt 2 ] || [ "$(id -u)" != 0 ]; then
    sed -n '4,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
  fi
  local suite=$1 folder=$2
  shift 2
  [ $# -gt 0 ] || set -- run test test-all
  # In a namespace of its own, so that what is mounted goes with this process.
  if [ "${ZONAL_FRESH_INSIDE:-}" != yes ]; then
    ZONAL_FRESH_INSIDE=yes exec unshare --mount --pid --fork --kill-child "$0" "$suite" "$folder" "$@"
  fi
  mount --make-rprivate /
  mount -t proc proc /proc
  make_root "$suite" "$folder"
  local failed=0 rows=() step
  for step; do
    measured "$folder" "$step" || failed=1
  done
  printf '\n%s, commit %s\n\n' "$suite" "$(git -C "$top" rev-parse --short HEAD)"
  printf '| step | wall | CPU | disk before | disk after | end |\n| --- | --- | --- | --- | --- | --- |\n'
  printf '%s\n' "${rows[@]}"
  exit "$failed"
}

# A Debian with Rust and a clone in it.
make_root() {
  local suite=$1 folder=$2 sysroot
  if [ ! -x "$folder/usr/bin/git" ]; then
    debootstrap --variant=minbase --include=git,make,gcc,libc6-dev,ca-certificates "$suite" "$folder"
  fi
  cp /etc/resolv.conf "$folder/etc/resolv.conf"
  # An installed system has one; minbase of Debian 12 does not.
  [ -e "$folder/etc/hosts" ] || echo '127.0.0.1 localhost' >"$folder/etc/hosts"
  cp -r /usr/local/share/ca-certificates/. "$folder/usr/local/share/ca-certificates/"
  chroot "$folder" update-ca-certificates >/dev/null
  if [ ! -x "$folder/opt/rust/bin/cargo" ]; then
    sysroot=$(rustc --print sysroot)
    mkdir -p "$folder/opt/rust"
    cp -r "$sysroot/bin" "$sysroot/lib" "$folder/opt/rust/"
  fi
  [ -d "$folder$clone" ] || git clone --quiet "file://$top" "$folder$clone"
  git -C "$folder$clone" fetch --quiet "file://$top" HEAD
  # Not by force: what was kept of times in there stays.
  git -C "$folder$clone" checkout --quiet --merge --detach FETCH_HEAD
  mount --bind "$folder" "$folder"
  mount -t proc proc "$folder/proc"
  mount --rbind /sys "$folder/sys"
  mount --rbind /dev "$folder/dev"
  mount -t tmpfs tmpfs "$folder/run"
}

# Runs a step, and adds its row.
measured() {
  local folder=$1 step=$2 before after start cpu_before cpu end log=$1/root/$2.log status=0
  before=$(used "$folder") start=$SECONDS cpu_before=$(cpu_of_children)
  "step_$step" "$folder" 2>&1 | tee "$log" || status=$?
  after=$(used "$folder") cpu=$(($(cpu_of_children) - cpu_before))
  case $step in
    run) end=$(grep -x ready "$log") ;;
    *) end=$(cat "$folder/root/closing") ;;
  esac || end="it did not come to its end"
  rows+=("| \`make $step\` | $((SECONDS - start)) s | $cpu s | $before MiB | $after MiB | $end |")
  return "$status"
}

# The last line goes to a file as well: others in the output look like it.
step_test() { : >"$1/root/closing" && inside "$1" make test; }
step_test-all() { : >"$1/root/closing" && inside "$1" make test-all; }

# Until readiness is told, as a browser or a probe would see it.
step_run() {
  local pid deadline=$((SECONDS + run_seconds_max))
  if is_ready; then
    echo "something answers on 127.0.0.1:9090 already"
    return 1
  fi
  inside "$1" make run &
  pid=$!
  until pgrep -x zonal >/dev/null && is_ready; do
    kill -0 "$pid" 2>/dev/null || return 1
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 1
  done
  echo ready
  # `make` ends with what it runs.
  pkill -TERM -x zonal
  wait "$pid" || true
  # The device that it made: 8 GiB, and the user's to keep or remove.
  rm -rf "$1$clone/zonal-data"
}

is_ready() {
  local answer
  exec 3<>/dev/tcp/127.0.0.1/9090 || return 1
  printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
  read -r answer <&3
  exec 3>&-
  [[ $answer == *" 200 "* ]]
} 2>/dev/null

# A command in the clone. What this machine needs to reach package registries goes along, and nothing else.
inside() {
  local folder=$1 name words=()
  shift
  for name in http_proxy https_proxy no_proxy SSL_CERT_FILE PIP_CERT PIP_INDEX_URL GOPROXY GOSUMDB; do
    [ -z "${!name:-}" ] || words+=("$name=${!name}")
  done
  chroot "$folder" /usr/bin/env -i HOME=/root PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 TERM=dumb CI=true KEEP_TIMES=yes CI_CLOSING=/root/closing "${words[@]}" /bin/sh -c 'cd "$0" && exec "$@"' "$clone" "$@"
}

# MiB, without what is mounted in it.
used() { du --summarize --one-file-system --block-size=1M "$1" | cut -f1; }

# Seconds of all processes that this one started and that ended.
cpu_of_children() {
  local stat fields
  stat=$(<"/proc/$$/stat")
  read -ra fields <<<"${stat##*) }"
  echo $(((fields[13] + fields[14]) / 100))
}

main "$@"
