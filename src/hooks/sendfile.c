/* SPDX-License-Identifier: MIT */
/*
 * sendfile() from a file to a stream socket. No flag keeps it from waiting for room. The hook
 * therefore waits for room itself, and then asks for no more than the socket has room for by the
 * kernel's count (SO_MEMINFO), until everything is sent. If there is less room after all, because
 * another task sends too, the call blocks the thread until there is room, as it does without hooks.
 *
 * The file itself is read as without hooks: from the page cache, or from the disk, for which the
 * thread blocks. Everything else that sendfile() can do is passed through.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <sys/stat.h>

#include "hooks/call.h"

/* How much room a socket has at least when it is ready. */
#define LEAST_ROOM 4096

typedef ssize_t sendfile_fn(int to, int from, void *offset, size_t n);

/* How many bytes the socket certainly takes when it is ready for writing. */
static size_t room_of(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t size = sizeof info;
	uint32_t used, room;

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size) < 0)
		return LEAST_ROOM;
	/* TCP uses one of these counters, other sockets the other. */
	used = info[SK_MEMINFO_WMEM_QUEUED] > info[SK_MEMINFO_WMEM_ALLOC]
		       ? info[SK_MEMINFO_WMEM_QUEUED]
		       : info[SK_MEMINFO_WMEM_ALLOC];
	room = used < info[SK_MEMINFO_SNDBUF] ? info[SK_MEMINFO_SNDBUF] - used : 0;
	/* The kernel's bookkeeping for the pieces takes room, too. */
	return room / 2 > LEAST_ROOM ? room / 2 : LEAST_ROOM;
}

static bool can_wait(int to, int from)
{
	const int flags = sn_hook_flags(to);
	int type = 0;
	socklen_t size = sizeof type;
	struct stat about;

	return flags >= 0 && !(flags & O_NONBLOCK) &&
	       getsockopt(to, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
	       fstat(from, &about) == 0 && S_ISREG(about.st_mode);
}

/* Waits for room if there is none. Returns AGAIN if there is room, PASS if the wait was not
 * possible, or FAIL. */
static enum sn_hook_step await_room(struct sn_hook_call *call)
{
	struct pollfd one = {.fd = call->fd, .events = POLLOUT};

	return sn_real.poll(&one, 1, 0) != 0 ? SN_HOOK_AGAIN : sn_hook_wait(call);
}

static ssize_t send_file(int to, int from, void *offset, size_t n, sendfile_fn *real)
{
	size_t done = 0;

	if (!can_wait(to, from))
		return real(to, from, offset, n);
	n = sn_hook_at_once(n);
	while (done < n) {
		struct sn_hook_call call = {.fd = to, .events = POLLOUT, .timeout = SO_SNDTIMEO};
		const enum sn_hook_step step = await_room(&call);
		size_t piece = n - done, room;
		ssize_t more;

		if (step == SN_HOOK_FAIL ||
		    (done > 0 && step == SN_HOOK_AGAIN && (call.revents & (POLLERR | POLLHUP))))
			break;
		if (step == SN_HOOK_AGAIN && piece > (room = room_of(to)))
			piece = room;
		more = real(to, from, offset, piece);
		if (more <= 0) {
			if (more == 0)
				return (ssize_t)done; /* the file's end */
			break;
		}
		done += (size_t)more;
		if ((size_t)more < piece && step == SN_HOOK_PASS)
			break;
	}
	return done > 0 ? (ssize_t)done : -1;
}

SN_HOOK(ssize_t, sendfile, (int to, int from, void *offset, size_t n))
{
	int err;

	if (!sn_hook_caller() || !sn_hook_may_wait(n))
		return sn_real.sendfile(to, from, offset, n);
	err = sn_hook_errno();
	return sn_hook_kept(send_file(to, from, offset, n, sn_real.sendfile), err);
}

SN_HOOK(ssize_t, sendfile64, (int to, int from, void *offset, size_t n))
{
	int err;

	if (!sn_hook_caller() || !sn_hook_may_wait(n))
		return sn_real.sendfile64(to, from, offset, n);
	err = sn_hook_errno();
	return sn_hook_kept(send_file(to, from, offset, n, sn_real.sendfile64), err);
}
