/* SPDX-License-Identifier: MIT */
/*
 * Streams: reading and writing, whatever the descriptor is.
 *
 * Every operation tries first and waits only when the kernel returns EAGAIN, except a read that
 * follows one that emptied the socket (attempt_some()). The kind of a descriptor is determined
 * once, when it is adopted; connections are stream sockets and need no check. Public functions
 * enter the runtime, call the function that does the work, and leave. That function may park, after
 * which the task may be on another thread, so public functions keep no self.
 */
#include "stream/stream.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sennit/blocking.h>
#include <sennit/clock.h>
#include <sennit/stream.h>

#include "io/sys.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "stream/layer.h"

const struct sn_fd_ops sn_conn_ops = {
	.closed = sn_layer_closed,
	.abandoned = sn_layer_abandoned,
};

/* ---- attempts ---- */

void sn_conn_blocking_enter(const struct sn_fd *d, const char *what)
{
	if (d->registered)
		return;
	sn_brief_pay(sn_thread_self());
	sn_runtime_leave();
	sn_enter_blocking_as(what);
}

void sn_conn_blocking_leave(const struct sn_fd *d)
{
	if (d->registered)
		return;
	sn_exit_blocking();
	sn_runtime_enter();
}

int sn_conn_attempt_begin_at(struct sn_fd *d, enum sn_side_index side, int64_t now)
{
	int err = sn_fd_begin(d, side);

	if (err < 0)
		return err;
	err = sn_conn_check_deadline_at(d, side, now);
	if (err < 0)
		sn_fd_end(d, side);
	return err;
}

int sn_conn_attempt_begin(struct sn_fd *d, enum sn_side_index side)
{
	return sn_conn_attempt_begin_at(d, side, 0);
}

ssize_t sn_conn_attempt_read(struct sn_fd *d, void *buf, size_t size)
{
	ssize_t n;

	if (sn_conn_kind(d) == SN_KIND_SOCKET) {
		n = sn_sys_recv(d->fd, buf, size);
		sn_conn_note_read(d, n);
		return n;
	}
	if (sn_conn_kind(d) >= SN_KIND_LAYERED)
		return sn_conn_has_messages(d) ? -EPROTOTYPE : sn_layer_attempt_read(d, buf, size);
	sn_conn_blocking_enter(d, "read");
	n = sn_sys_read(d->fd, buf, size);
	sn_conn_blocking_leave(d);
	return n;
}

ssize_t sn_conn_attempt_write(struct sn_fd *d, const void *buf, size_t size, bool more)
{
	ssize_t n;

	if (sn_conn_kind(d) == SN_KIND_SOCKET)
		return sn_sys_send(d->fd, buf, size, more);
	if (sn_conn_kind(d) >= SN_KIND_LAYERED)
		return sn_conn_has_messages(d) ? -EPROTOTYPE : sn_layer_attempt_write(d, buf, size);
	sn_conn_blocking_enter(d, "write");
	n = sn_sys_write(d->fd, buf, size);
	sn_conn_blocking_leave(d);
	return n;
}

/* TCP_QUICKACK makes the kernel send later acknowledgements immediately, too, until it finds again
 * that the program answers soon. */
void sn_conn_send_ack(struct sn_fd *d)
{
	sn_conn_marks(d)->acks = SN_ACKS_AS_USUAL;
	sn_sys_set_option(d->fd, IPPROTO_TCP, TCP_QUICKACK, 1);
}

bool sn_conn_drained(const struct sn_fd *d)
{
	return sn_conn_is_tcp(d) && !atomic_load_explicit(&d->irregular, memory_order_relaxed);
}

ssize_t sn_conn_settle(struct sn_fd *d, ssize_t n)
{
	ssize_t settled;

	if (sn_likely(n >= 0))
		return n;
	settled = sn_layer_settle_some(d);
	return settled > 0 ? settled : n;
}

/* ---- waiting ---- */

int sn_conn_attempt_wait(struct sn_fd *d, enum sn_side_index side)
{
	if (side == SN_SIDE_READ)
		sn_conn_acknowledge(d);
	return d->registered ? sn_fd_await(d, side) : -EAGAIN;
}

int sn_conn_wait(struct sn_fd *d, enum sn_side_index side)
{
	int n = sn_fd_begin(d, side);

	if (n < 0)
		return n;
	n = sn_conn_attempt_wait(d, side);
	sn_fd_end(d, side);
	return n;
}

int sn_conn_wait_until(struct sn_fd *d, enum sn_side_index side, int64_t until)
{
	int n = sn_fd_begin(d, side);

	if (n < 0)
		return n;
	if (side == SN_SIDE_READ)
		sn_conn_acknowledge(d);
	n = sn_fd_wait_until(d, side, until);
	sn_fd_end(d, side);
	return n;
}

/* Begins an operation on a program's handle. Another thread may have closed the descriptor, and the
 * block may have been reused, between the search and the begin. */
static int begin(struct sn_fd **d, const void *handle, enum sn_side_index side)
{
	int err = sn_fd_find(d, handle);

	if (err == 0)
		err = sn_fd_begin_handle(*d, handle, side);
	if (err == 0 && sn_unlikely(!sn_fd_fits(*d, handle))) {
		sn_fd_end(*d, side);
		err = -EBADF;
	}
	return err;
}

int sn_conn_begin(struct sn_fd **d, const void *handle, enum sn_side_index side)
{
	int err = begin(d, handle, side);

	if (err < 0)
		return err;
	err = sn_fd_check_deadline(*d, side);
	if (err < 0 && side == SN_SIDE_READ && (*d)->notes[SN_NOTE_OWES_LOOK])
		err = 0;
	if (err < 0)
		sn_fd_end(*d, side);
	return err;
}

/*
 * One attempt to read, which also notes whether it has emptied the socket. A TCP socket that gives
 * less than it was asked for is empty, and the next read then waits before its first attempt: a
 * server that has answered a request would usually find no next one yet.
 *
 * That cannot miss anything. What arrives after the attempt makes an edge (sn_conn_drained()), and
 * an edge that is harvested makes the side ready, which ends the wait immediately. An edge that was
 * there before the attempt is forgotten first, because the attempt reads what the edge reported, or
 * the edge has made the descriptor irregular. No other operation has read in between, and so none
 * can have taken an edge.
 *
 * The exception is a descriptor that the program has asked for (`lent`). The program may have read
 * an urgent byte, at which the attempt stops without a trace here, or may have set a low-water
 * mark. models/side.pml checks this.
 */
static ssize_t attempt_some(struct sn_fd *d, void *buf, size_t size)
{
	ssize_t n;

	if (!sn_conn_is_tcp(d) || sn_conn_kind(d) != SN_KIND_SOCKET)
		return sn_conn_attempt_read(d, buf, size);
	sn_fd_forget(d, SN_SIDE_READ);
	n = sn_conn_attempt_read(d, buf, size);
	if (n > 0 && (size_t)n < size && sn_conn_drained(d) &&
	    !atomic_load_explicit(&d->lent, memory_order_relaxed))
		d->notes[SN_NOTE_DRAINED] = 2;
	return n;
}

ssize_t sn_conn_read_some(const void *handle, void *buf, size_t size)
{
	struct sn_fd *d;
	ssize_t n = sn_conn_begin(&d, handle, SN_SIDE_READ);

	if (n < 0)
		return n;
	if (d->notes[SN_NOTE_DRAINED])
		n = sn_conn_attempt_wait(d, SN_SIDE_READ);
	if (sn_unlikely(n == -ETIMEDOUT))
		n = 0; /* the deadline has passed since the call began, which still owes one
			* attempt */
	while (n == 0 && (n = attempt_some(d, buf, size)) == -EAGAIN)
		n = sn_conn_attempt_wait(d, SN_SIDE_READ);
	sn_fd_end(d, SN_SIDE_READ);
	if (n > 0)
		sn_fair_chance(sn_thread_self());
	return n;
}

static ssize_t write_some(const void *handle, const void *buf, size_t size)
{
	struct sn_fd *d;
	ssize_t n = sn_conn_begin(&d, handle, SN_SIDE_WRITE);

	if (n < 0)
		return n;
	do {
		n = sn_conn_attempt_write(d, buf, size, false);
	} while (n == -EAGAIN && (n = sn_conn_attempt_wait(d, SN_SIDE_WRITE)) == 0);
	n = sn_conn_settle(d, n);
	sn_fd_end(d, SN_SIDE_WRITE);
	if (n > 0)
		sn_fair_chance(sn_thread_self());
	return n;
}

int sn_conn_move_nothing(const void *handle, enum sn_side_index side)
{
	struct sn_fd *d;
	int err = sn_conn_begin(&d, handle, side);

	if (err == 0)
		sn_fd_end(d, side);
	return err;
}

int sn_conn_wait_closed(const void *handle)
{
	struct sn_fd *d;
	int n = begin(&d, handle, SN_SIDE_READ), alive;

	if (n < 0)
		return n;
	/* Whatever ends the connection also makes an edge, after the change of state, so the wait
	 * cannot miss it. */
	while ((alive = sn_sys_alive(d->fd)) > 0 && n == 0)
		n = sn_fd_await(d, SN_SIDE_READ);
	sn_fd_end(d, SN_SIDE_READ);
	return alive <= 0 ? alive : n;
}

int sn_conn_watch(struct sn_fd *d, const _Atomic bool *over)
{
	int n = sn_fd_begin(d, SN_SIDE_READ), err = 0;

	if (n < 0)
		return n;
	/* An event of epoll after this check makes the side ready, so it ends the wait. An event
	 * that ended an earlier wait is not forgotten, because d->over stays set. */
	while (!atomic_load(over)) {
		if (atomic_load_explicit(&d->over, memory_order_relaxed) &&
		    (n = sn_sys_alive(d->fd)) <= 0)
			break;
		err = sn_fd_await(d, SN_SIDE_READ);
		if (err < 0)
			break;
	}
	sn_fd_end(d, SN_SIDE_READ);
	if (err == -ETIMEDOUT)
		return 1;
	return err < 0 ? err : n < 0 ? n : 0;
}

/* ---- calls that do not park, except on streams with a layer ---- */

static int shut_down(struct sn_fd *d, enum sn_stream_half half)
{
	/* In a child of fork() this would end the parent's half. Relaxed: the flag was set before
	 * sn_fd_use() returned. */
	if (atomic_load_explicit(&d->control, memory_order_relaxed) & SN_FD_INHERITED)
		return -EBADF;
	if (sn_conn_kind(d) == SN_KIND_LAYERED)
		return sn_layer_shutdown(d, half);
	if (half == SN_SHUT_READ)
		return sn_sys_shutdown(d->fd, SHUT_RD);
	return half == SN_SHUT_WRITE ? sn_sys_shutdown(d->fd, SHUT_WR) : -EINVAL;
}

int sn_conn_shutdown(struct sn_fd *d, enum sn_stream_half half)
{
	int err = sn_fd_use(d);

	if (err < 0)
		return err;
	err = shut_down(d, half);
	sn_fd_unuse(d);
	return err;
}

/* The number is closed outside the runtime: the monitor then notices a close that waits, and gives
 * the processor to other tasks. Only if an operation is the last to leave, it closes the number
 * within. */
static int end_with(const void *handle, uint32_t flags)
{
	struct sn_thread *self = sn_runtime_enter();
	struct sn_fd *d;
	int err = sn_fd_use_handle(&d, handle), fd = -1;

	if (err == 0) {
		err = sn_fd_end_with(self, d, flags);
		fd = sn_fd_unuse_leave_number(d);
	}
	if (self)
		sn_runtime_leave();
	if (fd >= 0)
		close(fd);
	return err;
}

/* Calls the hook that the descriptor's kind may have for the time before a close. Outside the
 * runtime. */
static void before_close(const void *handle)
{
	void (*closing)(struct sn_fd * d);
	struct sn_fd *d;

	/* A stale handle may lead to another descriptor's kind here, but sn_fd_use_handle() rejects
	 * it. */
	if (sn_fd_find(&d, handle) < 0 || !sn_fd_ops(d)->closing ||
	    sn_fd_use_handle(&d, handle) < 0)
		return;
	closing = sn_fd_ops(d)->closing;
	if (closing)
		closing(d);
	sn_fd_unuse(d);
}

int sn_conn_close(const void *handle, uint32_t flags)
{
	if (!handle)
		return 0;
	before_close(handle);
	return end_with(handle, SN_FD_CLOSED | flags);
}

int sn_conn_descriptor(const void *handle)
{
	struct sn_fd *d;
	int err = sn_fd_use_handle(&d, handle);

	if (err < 0)
		return err;
	err = d->fd;
	/* Relaxed: the program uses the number only after this call. */
	atomic_store_explicit(&d->lent, true, memory_order_relaxed);
	sn_fd_unuse(d);
	return err;
}

int sn_conn_set_deadline(const void *handle, enum sn_side_index side, int64_t deadline)
{
	struct sn_thread *self = sn_runtime_enter();
	struct sn_fd *d;
	int err;

	if (!self)
		return -ENOTSUP;
	err = sn_fd_use_handle(&d, handle);
	if (err == 0) {
		err = sn_fd_set_deadline(self, d, side, deadline);
		/* A deadline in the past is often set to end a wait, and its caller then waits for
		 * that task, so this must not need memory. */
		if (err == -ENOMEM && deadline <= sn_now()) {
			sn_fd_expire(self, d, side);
			err = 0;
		}
		/* After the deadline is stored: stream/layer.c. */
		if (side == SN_SIDE_WRITE && sn_unlikely(atomic_load(&d->joint)))
			sn_fd_wake(self, d, SN_SIDE_READ);
		sn_fd_unuse(d);
	}
	sn_runtime_leave();
	return err;
}

/* ---- adopting ---- */

/* A listener or an epoll descriptor can be polled, but not read. */
static bool listens(int fd)
{
	int on = 0;
	socklen_t length = sizeof on;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &length) == 0 && on;
}

/* Only the name of an epoll descriptor distinguishes it from other descriptors without a file. */
static bool is_epoll(int fd)
{
	char path[32], name[32];
	ssize_t n;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof name);
	return n == sizeof "anon_inode:[eventpoll]" - 1 &&
	       memcmp(name, "anon_inode:[eventpoll]", (size_t)n) == 0;
}

/* What the descriptor is, or a negative errno. */
static int kind_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	switch (st.st_mode & S_IFMT) {
	case S_IFSOCK:
		return sn_sys_is_stream(fd) && !listens(fd) ? SN_KIND_SOCKET : -EPROTOTYPE;
	case S_IFIFO:
		return SN_KIND_PIPE;
	case S_IFREG:
	case S_IFBLK:
		return SN_KIND_FILE;
	case S_IFDIR:
		return -EISDIR;
	default:
		return is_epoll(fd) ? -EINVAL : SN_KIND_OTHER;
	}
}

static int adopt(struct sn_fd **out, int fd)
{
	int kind = kind_of(fd), err;

	if (kind < 0)
		return kind;
	err = sn_fd_open(out, &sn_conn_ops, fd, kind != SN_KIND_FILE);
	if (err == -EPERM) /* epoll refuses what cannot be polled, such as /dev/zero */
		err = sn_fd_open(out, &sn_conn_ops, fd, false);
	if (err < 0)
		return err;
	sn_conn_marks(*out)->kind = (uint8_t)kind;
	if ((*out)->registered)
		sn_sys_set_nonblocking(fd); /* fails only for an invalid descriptor */
	return 0;
}

int sn_stream_adopt(sn_stream **stream, int fd)
{
	struct sn_fd *d;
	int err;

	if (!stream)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = adopt(&d, fd);
	if (err == 0)
		*stream = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

/* ---- the public calls ---- */

ssize_t sn_stream_read(sn_stream *stream, void *buf, size_t size)
{
	ssize_t n;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	n = size ? sn_conn_read_some(stream, buf, size)
		 : sn_conn_move_nothing(stream, SN_SIDE_READ);
	sn_runtime_leave();
	return n;
}

ssize_t sn_stream_write(sn_stream *stream, const void *buf, size_t size)
{
	ssize_t n;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	n = size ? write_some(stream, buf, size) : sn_conn_move_nothing(stream, SN_SIDE_WRITE);
	sn_runtime_leave();
	return n;
}

ssize_t sn_stream_write_all(sn_stream *stream, const void *buf, size_t size, size_t *done)
{
	size_t have = done ? *done : 0;
	ssize_t n = 0;

	if (size > SSIZE_MAX || have > size)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	if (have == size)
		n = sn_conn_move_nothing(stream, SN_SIDE_WRITE);
	while (have < size) {
		n = write_some(stream, (const char *)buf + have, size - have);
		if (n < 0)
			break;
		have += (size_t)n;
	}
	sn_runtime_leave();
	if (done)
		*done = have;
	return n < 0 ? n : (ssize_t)size;
}

int sn_stream_shutdown(sn_stream *stream, enum sn_stream_half half)
{
	struct sn_fd *d;
	int err = sn_fd_use_handle(&d, stream);
	bool layered;

	if (err < 0)
		return err;
	layered = sn_conn_kind(d) == SN_KIND_LAYERED;
	if (layered && !sn_runtime_enter()) {
		sn_fd_unuse(d);
		return -ENOTSUP;
	}
	err = shut_down(d, half);
	sn_fd_unuse(d);
	if (layered)
		sn_runtime_leave();
	return err;
}

int sn_stream_close(sn_stream *stream)
{
	sn_layer_linger(stream);
	return sn_conn_close(stream, 0);
}

int sn_stream_abort(sn_stream *stream)
{
	return sn_conn_close(stream, SN_FD_ABORT);
}

int sn_stream_cancel(sn_stream *stream)
{
	return end_with(stream, SN_FD_CANCELED);
}

int sn_stream_set_read_deadline(sn_stream *stream, int64_t deadline)
{
	return sn_conn_set_deadline(stream, SN_SIDE_READ, deadline);
}

int sn_stream_set_write_deadline(sn_stream *stream, int64_t deadline)
{
	return sn_conn_set_deadline(stream, SN_SIDE_WRITE, deadline);
}

int sn_stream_fd(sn_stream *stream)
{
	return sn_conn_descriptor(stream);
}
