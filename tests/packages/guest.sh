#!/bin/sh
# What an administrator does with the packages, in a root of Debian with a running systemd. roots.py copies this script
# and the packages to /packages, with install.sh from the documentation, and starts the script as a service; it ends with `passed` in /packages/result.
set -eu
cd /packages
exec >log 2>&1
trap 'systemctl poweroff --no-block' EXIT
# Each step is told, so that the last one in the log is the one that failed.
step() { echo "== $* ($(cut -d' ' -f1 /proc/uptime))"; }

# All files of the root file system.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /packages -o -path /var/log/journal \) \
        -prune -o -print | sort
}

# A signed GET of a sample object; prints the value of X-Cache.
get() {
    # The service's user owns its key.
    eval "$(runuser -u zonal -- zonal env --config /etc/zonal/zonal.toml)"
    curl --silent --show-error --fail --max-time 20 --output /dev/null --dump-header - \
        --aws-sigv4 "aws:amz:us-east-1:s3" --header "x-amz-content-sha256: UNSIGNED-PAYLOAD" \
        --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
        "http://127.0.0.1:9000/demo/cities.csv" | tr -d '\r' | sed -n 's/^x-cache: //Ip'
}

expect() {
    if [ "$1" != "$2" ]; then
        echo "expected '$2', found '$1'"
        exit 1
    fi
}

# Waits until another process serves. Between two processes, systemd may call the service active with process 0.
await_another() {
    until systemctl is-active --quiet zonal; do sleep 0.1; done
    case "$(systemctl show zonal -P MainPID)" in
    0 | "$1") sleep 0.1 && await_another "$1" ;;
    esac
}

# Reads until the cache answers: a chunk is admitted after its second read.
hit() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        case "$(get)" in HIT* | REVALIDATED*) return ;; esac
    done
    echo "no hit"
    exit 1
}

# This script starts the service more often than systemd allows by default.
mkdir -p /etc/systemd/system/zonal.service.d
printf '[Unit]\nStartLimitIntervalSec=0\n' >/etc/systemd/system/zonal.service.d/test.conf
systemctl daemon-reload
files >before
step install
begin=$(cut -d' ' -f1 /proc/uptime)
dpkg --install ./zonal_*.deb ./zonal-lab_*.deb
expect "$(systemctl is-active zonal)" inactive
systemctl start zonal
hit
echo "$begin $(cut -d' ' -f1 /proc/uptime)" | awk '{ printf "seconds to the first hit: %.1f\n", $2 - $1; exit 10 < $2 - $1 }'

step "what the package has"
zonal-lab --version
test -s /usr/share/man/man1/zonal-serve.1.gz
# shellcheck disable=SC1091
bash -c '. /usr/share/bash-completion/completions/zonal && complete -p zonal'
expect "$(stat -c '%U:%G %a' /etc/zonal/zonal.toml /etc/zonal /var/lib/zonal | tr '\n' ' ')" \
    "root:zonal 640 root:zonal 750 zonal:zonal 700 "
runuser -u zonal -g zonal -G disk -- zonal config check --config /etc/zonal/zonal.toml
# Links of the pages lead to pages that are installed.
for page in $(find /usr/share/doc/zonal -name '*.md'); do
    for link in $(grep -o '](\.*[a-zA-Z/.-]*\.md' "$page" | cut -c3-); do
        test -e "$(dirname "$page")/$link" || { echo "$page: $link is missing"; exit 1; }
    done
done
runuser -u zonal -- zonal block config check --config /etc/zonal/block.toml
systemd-analyze verify --man=no zonal.service zonal-block.service
udevadm verify /usr/lib/udev/rules.d/60-zonal.rules 2>/dev/null || true

step "the block device"
systemctl start zonal-block
test -S /var/lib/zonal-block/block.sock
systemctl stop zonal-block
expect "$(systemctl show zonal-block -P Result)" success

step reload
pid=$(systemctl show zonal -P MainPID)
sed -i 's/^#level = .*/level = "info,zonal_host=debug"/' /etc/zonal/zonal.toml
systemctl reload zonal
journalctl --sync
journalctl -u zonal -o cat | grep -q 'reload applied'
sed -i 's/^level = /no-level = /' /etc/zonal/zonal.toml
if systemctl reload zonal; then
    echo "a reload with a mistake succeeded"
    exit 1
fi
journalctl --sync
journalctl -u zonal -o cat | grep 'unknown field `no-level`'
sed -i 's/^no-level = /level = /' /etc/zonal/zonal.toml
expect "$(systemctl show zonal -P MainPID)" "$pid"
hit

step crash
kill -KILL "$pid"
await_another "$pid"
hit

step "a wrong configuration is not tried again and again"
systemctl stop zonal
sed -i 's/^level = /no-level = /' /etc/zonal/zonal.toml
if systemctl start zonal; then
    echo "a start with a mistake succeeded"
    exit 1
fi
expect "$(systemctl show zonal -P ActiveState)" failed
expect "$(systemctl show zonal -P NRestarts)" 0
sed -i 's/^no-level = /level = /' /etc/zonal/zonal.toml
systemctl start zonal
hit

step "a later version"
for package in zonal zonal-lab; do
    dpkg-deb --raw-extract "$package"_*.deb next
    sed -i 's/^Version: .*/Version: 9.0.0-1/' next/DEBIAN/control
    dpkg-deb --build next "next-$package.deb" >/dev/null
    rm -r next
done

step "two restarts and an upgrade under load, on a socket of systemd"
systemctl stop zonal
systemctl start zonal.socket zonal
eval "$(runuser -u zonal -- zonal env --config /etc/zonal/zonal.toml)"
for client in 1 2 3; do
    while [ ! -e done ]; do
        # No retry: a refused or cut connection is a failure.
        curl --silent --fail --max-time 20 --output /dev/null --aws-sigv4 "aws:amz:us-east-1:s3" \
            --header "x-amz-content-sha256: UNSIGNED-PAYLOAD" --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
            "http://127.0.0.1:9000/demo/cities.csv" && echo read >>"reads.$client" || echo "$?" >>failures
    done &
done
await_reads() {
    rm -f reads.*
    until [ "$(cat reads.* 2>/dev/null | wc -l)" -ge 20 ]; do sleep 0.1; done
}
for _ in 1 2; do
    await_reads
    systemctl restart zonal
done
await_reads
pid=$(systemctl show zonal -P MainPID)
dpkg --install next-zonal.deb next-zonal-lab.deb
await_another "$pid"
await_reads
touch done
wait
test ! -e failures
grep -q '^level = "info,zonal_host=debug"' /etc/zonal/zonal.toml
# The cache is kept: the first read is a hit.
systemctl restart zonal
case "$(get)" in HIT* | REVALIDATED*) ;; *) echo "the cache is cold"; exit 1 ;; esac
systemctl stop zonal.socket zonal
systemctl start zonal

step remove
dpkg --remove zonal zonal-lab
expect "$(systemctl is-active zonal || true)" inactive
grep -q '^level = "info,zonal_host=debug"' /etc/zonal/zonal.toml

step purge
dpkg --purge zonal zonal-lab
rm -f next-*.deb
files >after
# The data are left, and what dpkg, systemd and curl themselves write.
grep -vxFf before after | grep -v -e '^/var/lib/zonal' -e '^/var/lib/dpkg/' -e '^/var/log/' -e '^/var/cache/' \
    -e '^/var/lib/systemd/' -e '^/etc/.*-$' >left || true
cat left
test ! -s left
getent passwd zonal >/dev/null

step "purge without data"
dpkg --install ./zonal_*.deb
rm -rf /var/lib/zonal /var/lib/zonal-block
dpkg --purge zonal
if getent passwd zonal; then
    echo "the user is left without data"
    exit 1
fi

step "the archive as a service, as docs/start/install.md says"
begin=$(cut -d' ' -f1 /proc/uptime)
sh -eux install.sh
hit
echo "$begin $(cut -d' ' -f1 /proc/uptime)" | awk '{ printf "seconds to the first hit of the archive: %.1f\n", $2 - $1; exit 10 < $2 - $1 }'
systemctl stop zonal
expect "$(systemctl show zonal -P Result)" success
echo passed >result
