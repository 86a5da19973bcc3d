#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Preloaded hooks change nothing in programs without tasks, and make the tasks of a program that
# does not know them park.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

[ "${#launcher[@]}" = 0 ] || skip "an emulator loads libraries of its own"
library=$SENNIT_BUILD_DIR/src/hooks/libsennit-hooks.so
[ -e "$library" ] || fail "no $library"
[[ $library != *[[:space:]:]* ]] || skip "LD_PRELOAD cannot name a path with a space or a colon"
hooked=(env LD_PRELOAD="$library" SENNIT_HOOKS=1)

# A program with tasks.
export SENNIT_PROCS=2
program=$scratch/preload
variants=("")
# Where long has 32 bits, a program chooses the width of time_t.
if [ "$SENNIT_ARCH" = i386 ] || [ "$SENNIT_ARCH" = arm ]; then
	variants+=("-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64")
fi
for variant in "${variants[@]}"; do
	# shellcheck disable=SC2086 # words
	"$CC" "${cflags[@]}" $variant -D_GNU_SOURCE -I "$SENNIT_SOURCE_DIR/include" -O2 -o "$program" \
		"$SENNIT_SOURCE_DIR/tests/hooks/preload.c" \
		-L "$SENNIT_BUILD_DIR/src" -lsennit -Wl,-rpath,"$SENNIT_BUILD_DIR/src" -pthread
	without=$("$program" 100) || fail "the program without hooks"
	[ "$without" -ge 100 ] || fail "100 tasks that block have $without threads"
	with=$("${hooked[@]}" "$program") || fail "the program with hooks"
	[ "$with" -le 10 ] || fail "100 tasks that park have $with threads"
	LD_DEBUG=bindings "${hooked[@]}" "$program" >"$scratch/bindings" 2>&1 || true
	for name in recv nanosleep thrd_sleep clock_nanosleep ppoll select pselect recvmsg setsockopt; do
		grep -qE "$program .* to $library .*\`(__)?$name(64|_time64)?'" "$scratch/bindings" ||
			fail "$name is not ours: $variant"
	done
done
# Linked hooks: the program only has to be linked again.
"$CC" "${cflags[@]}" -D_GNU_SOURCE -I "$SENNIT_SOURCE_DIR/include" -O2 -o "$program-linked" \
	"$SENNIT_SOURCE_DIR/tests/hooks/preload.c" -L "$SENNIT_BUILD_DIR/src/hooks" \
	-Wl,--push-state,--no-as-needed -lsennit-hooks -Wl,--pop-state \
	-L "$SENNIT_BUILD_DIR/src" -lsennit \
	-Wl,-rpath,"$SENNIT_BUILD_DIR/src:$SENNIT_BUILD_DIR/src/hooks" -pthread
with=$(SENNIT_HOOKS=1 "$program-linked") || fail "the linked program with hooks"
[ "$with" -le 10 ] || fail "100 tasks that park have $with threads"
# The hooks do not see the tasks of a static libsennit, and do them no harm.
"$CC" "${cflags[@]}" -D_GNU_SOURCE -I "$SENNIT_SOURCE_DIR/include" -O2 -o "$program-static" \
	"$SENNIT_SOURCE_DIR/tests/hooks/preload.c" "$SENNIT_BUILD_DIR/src/libsennit.a" \
	"${libraries[@]}"
"${hooked[@]}" "$program-static" 100 >/dev/null || fail "a program with a static libsennit"

# An invalid value is reported, and leaves the hooks off.
for wish in 0 ""; do
	LD_PRELOAD=$library SENNIT_HOOKS=$wish "$program" 100 >"$scratch/threads" 2>"$scratch/said" ||
		fail "SENNIT_HOOKS=$wish"
	[ ! -s "$scratch/said" ] || fail "SENNIT_HOOKS=$wish says: $(cat "$scratch/said")"
done
LD_PRELOAD=$library SENNIT_HOOKS=yes "$program" 100 >"$scratch/threads" 2>"$scratch/said" ||
	fail "SENNIT_HOOKS=yes"
[ "$(cat "$scratch/threads")" -ge 100 ] || fail "SENNIT_HOOKS=yes turns the hooks on"
[ "$(cat "$scratch/said")" = "sennit: SENNIT_HOOKS=yes: expected 0 or 1; hooks are off" ] ||
	fail "SENNIT_HOOKS=yes says: $(cat "$scratch/said")"

# Programs without tasks: the same output, with and without hooks.
[ "$SENNIT_ARCH" = "$(uname -m)" ] || exit 0 # this machine's programs are of another architecture
same() {
	local status=0 hooked_status=0

	"$@" >"$scratch/plain" 2>&1 || status=$?
	"${hooked[@]}" "$@" >"$scratch/hooked" 2>&1 || hooked_status=$?
	[ "$status" = "$hooked_status" ] || {
		cat "$scratch/hooked" >&2
		fail "$*: status $hooked_status instead of $status"
	}
	diff "$scratch/plain" "$scratch/hooked" >&2 || fail "$*: another output"
}

cat >"$scratch/all.py" <<'PYTHON'
"""Sockets, pipes, threads, children and timeouts."""
import os, select, signal, socket, subprocess, threading, time

def serve(listener):
    for _ in range(3):
        conn, _ = listener.accept()
        with conn:
            while data := conn.recv(65536):
                conn.sendall(data)

listener = socket.create_server(("127.0.0.1", 0))
thread = threading.Thread(target=serve, args=(listener,))
thread.start()
for timeout in (None, 5, 0.001):
    with socket.create_connection(listener.getsockname(), timeout) as conn:
        if timeout == 0.001:
            try:
                print(conn.recv(1))
            except TimeoutError as error:
                print(error)
            continue
        data = os.urandom(1 << 20)
        sender = threading.Thread(target=conn.sendall, args=(data,))
        sender.start()
        got = b""
        while len(got) < len(data):
            got += conn.recv(65536)
        sender.join()
        print(got == data)
thread.join()
reader, writer = os.pipe()
print(select.select([reader], [writer], [], 0.01)[1] == [writer])
poll = select.poll()
poll.register(reader, select.POLLIN)
print(poll.poll(10))
if os.fork() == 0:
    os.write(writer, b"child")
    os._exit(0)
print(os.read(reader, 100), os.wait()[1])
print(subprocess.run(["sh", "-c", "sleep 0.01; cat"], input=b"text", capture_output=True).stdout)
signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.05)
print(socket.getaddrinfo("localhost", 80, socket.AF_INET, socket.SOCK_STREAM))
PYTHON
if command -v python3 >/dev/null; then
	same python3 "$scratch/all.py"
	if command -v curl >/dev/null; then
		head -c 3000000 /dev/urandom >"$scratch/file"
		python3 -u - "$scratch" >"$scratch/port" 2>/dev/null <<-'PYTHON' &
			import functools, http.server, sys
			server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(
			    http.server.SimpleHTTPRequestHandler, directory=sys.argv[1]))
			print(server.server_port)
			server.serve_forever()
		PYTHON
		server=$!
		trap 'kill $server; rm -rf "$scratch"' EXIT
		for ((i = 0; i < 300; i++)); do
			[ ! -s "$scratch/port" ] || break
			kill -0 $server || fail "no server"
			sleep 0.1
		done
		url=http://127.0.0.1:$(cat "$scratch/port")
		same curl -sS "$url/file" "$url/none" "$url/file"
		same curl -sS --max-time 60 "http://localhost:${url##*:}/file"
		# Its message contains the time that it took in milliseconds.
		same bash -c 'curl -sS http://127.0.0.1:1/ 2>&1 | sed "s/after [0-9]* ms/after a while/";
			echo "${PIPESTATUS[0]}"'
	fi
fi
same bash -c 'seq 100000 | sort -R --random-source=<(yes) | tail -n +5000 | (sleep 0.1; wc -l); read -t 0.1 x </dev/zero; echo $?'
