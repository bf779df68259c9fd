#!/bin/bash
# with-journald.sh DIR COMMAND…: runs COMMAND beside a private systemd-journald
# that stores in DIR. Both see a /run of their own, in a mount namespace. Needs
# root. 77: journald did not come up.
set -u
export DIR=$1
shift
exec unshare -m --propagation private bash -c '
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/log/journal || exit 77
mkdir -p /var/log/journal && mount --bind "$DIR" /var/log/journal || exit 77
printf "[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\nRateLimitBurst=0\nReadKMsg=yes\nAudit=no\nForwardToSyslog=no\nForwardToWall=no\nLineMax=1000\n" >/run/systemd/journald.conf.d/test.conf
/lib/systemd/systemd-journald 2>"$DIR/stderr" & pid=$!
for i in $(seq 200); do [ -S /run/systemd/journal/io.systemd.journal ] && break; sleep 0.05; done
[ -S /run/systemd/journal/io.systemd.journal ] || exit 77
journalctl --flush >/dev/null 2>&1
"$@"; rc=$?
journalctl --sync
journalctl -q -a -o export >"$DIR/export"
kill -TERM $pid; wait $pid; exit $rc' with-journald "$@"
