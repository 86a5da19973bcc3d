/* SPDX-License-Identifier: MIT */
#include "stream/layer.h"

#include <errno.h>
#include <string.h>

#include <sennit/clock.h>
#include <sennit/layer.h>

#include "io/buffer.h"
#include "io/sys.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "stream/stream.h"

/* ---- attempts ---- */

ssize_t sn_layer_attempt_read(struct sn_fd *d, void *buf, size_t size)
{
	ssize_t n;

	sn_runtime_leave();
	n = sn_layer_of(d)->read(sn_layer_state(d), buf, size);
	sn_runtime_enter();
	return n;
}

ssize_t sn_layer_attempt_write(struct sn_fd *d, const void *buf, size_t size)
{
	ssize_t n;

	sn_runtime_leave();
	n = sn_layer_of(d)->write(sn_layer_state(d), buf, size);
	sn_runtime_enter();
	return n;
}

ssize_t sn_layer_settle_some(struct sn_fd *d)
{
	size_t n;

	if (sn_conn_kind(d) != SN_KIND_LAYERED)
		return 0;
	sn_runtime_leave();
	n = sn_layer_of(d)->settle(sn_layer_state(d));
	sn_runtime_enter();
	return (ssize_t)n;
}

bool sn_layer_quiet(struct sn_fd *d)
{
	bool ready;

	if (!sn_layer_of(d)->quiet)
		return true;
	sn_runtime_leave();
	ready = sn_layer_of(d)->quiet(sn_layer_state(d)) != 0;
	sn_runtime_enter();
	return ready;
}

/* Reads into a further piece only if the one before was filled: what comes next may not have
 * arrived. */
ssize_t sn_layer_attempt_readv(struct sn_fd *d, const struct iovec *iov, int n)
{
	ssize_t total = 0;

	for (int i = 0; i < n; i++) {
		ssize_t got;

		if (iov[i].iov_len == 0)
			continue;
		got = sn_layer_attempt_read(d, iov[i].iov_base, iov[i].iov_len);
		/* The next read finds the error or the end again. */
		if (got <= 0)
			return total ? total : got;
		total += got;
		if ((size_t)got < iov[i].iov_len)
			break;
	}
	return total;
}

/* Copies the pieces into one buffer, as far as they fit. The same pieces always give the same
 * bytes, which a layer relies on when it is called again after -EAGAIN. */
static size_t gather(char *buf, const struct iovec *iov, int n)
{
	size_t size = 0;

	for (int i = 0; i < n && size < SN_BUFFER_SIZE; i++) {
		const size_t room = SN_BUFFER_SIZE - size;
		const size_t part = iov[i].iov_len < room ? iov[i].iov_len : room;

		if (part)
			memcpy(buf + size, iov[i].iov_base, part);
		size += part;
	}
	return size;
}

/* Gathers the pieces first, because a layer would make a record of each small piece. */
ssize_t sn_layer_attempt_writev(struct sn_fd *d, const struct iovec *iov, int n)
{
	char *buf;
	ssize_t put;

	while (n > 1 && iov->iov_len == 0) {
		iov++;
		n--;
	}
	if (n == 1 || iov->iov_len >= SN_BUFFER_SIZE)
		return sn_layer_attempt_write(d, iov->iov_base, iov->iov_len);
	buf = sn_buffer_borrow();
	if (!buf)
		return -ENOMEM;
	put = sn_layer_attempt_write(d, buf, gather(buf, iov, n));
	sn_buffer_return(buf);
	return put;
}

/* ---- the end ---- */

static int shutdown_attempt(struct sn_fd *d, enum sn_stream_half half)
{
	int err;

	sn_runtime_leave();
	err = sn_layer_of(d)->shutdown(sn_layer_state(d), half);
	sn_runtime_enter();
	return err;
}

/* The peer is notified first by the layer, then by the socket. */
static int shut_write(struct sn_fd *d)
{
	int err = sn_conn_attempt_begin(d, SN_SIDE_WRITE);

	if (err < 0)
		return err;
	do {
		err = shutdown_attempt(d, SN_SHUT_WRITE);
	} while (err == -EAGAIN && (err = sn_conn_attempt_wait(d, SN_SIDE_WRITE)) == 0);
	if (err == 0)
		err = sn_sys_shutdown(d->fd, SHUT_WR);
	sn_fd_end(d, SN_SIDE_WRITE);
	return err;
}

/* In a child of fork() the layer's locks may be held by tasks that do not exist there. */
static bool is_inherited(struct sn_fd *d)
{
	return atomic_load(&d->control) & SN_FD_INHERITED;
}

int sn_layer_shutdown(struct sn_fd *d, enum sn_stream_half half)
{
	if (half == SN_SHUT_WRITE)
		return shut_write(d);
	if (half != SN_SHUT_READ)
		return -EINVAL;
	shutdown_attempt(d, half);
	return sn_sys_shutdown(d->fd, SHUT_RD);
}

void sn_layer_closed(struct sn_fd *d, bool orderly)
{
	const struct sn_layer *layer = sn_layer_of(d);
	struct sn_thread *self = sn_thread_self();
	const bool inside =
		self && self->task && __atomic_load_n(&self->lease.inside, __ATOMIC_RELAXED);

	if (sn_likely(!layer))
		return;
	d->layered[0] = NULL;
	if (inside)
		sn_runtime_leave();
	layer->close(sn_layer_state(d), orderly);
	if (inside)
		sn_runtime_enter();
}

/* Unlike sn_layer_closed(), does not notify the peer. Keeps the state of a layer that is in use,
 * because a thread may still be in the layer's code. */
void sn_layer_abandoned(struct sn_fd *d, bool used)
{
	const struct sn_layer *layer = sn_layer_of(d);

	d->layered[0] = NULL;
	if (layer && !used)
		layer->close(sn_layer_state(d), 0);
}

/* ---- the public calls ---- */

/* Begins operations on both sides, so that no other task uses the stream. */
static int begin_both(struct sn_fd **d, const void *handle)
{
	int err = sn_conn_begin(d, handle, SN_SIDE_READ);

	if (err < 0)
		return err;
	err = sn_conn_attempt_begin(*d, SN_SIDE_WRITE);
	if (err < 0)
		sn_fd_end(*d, SN_SIDE_READ);
	return err;
}

static void end_both(struct sn_fd *d)
{
	sn_fd_end(d, SN_SIDE_WRITE);
	sn_fd_end(d, SN_SIDE_READ);
}

static int push(struct sn_fd *d, const struct sn_layer *layer, void *state)
{
	if (sn_conn_kind(d) == SN_KIND_LAYERED)
		return -EEXIST;
	if (sn_conn_kind(d) != SN_KIND_SOCKET || !d->registered)
		return -ENOTSOCK;
	if (sn_conn_marks(d)->acks != SN_ACKS_AS_USUAL)
		sn_conn_send_ack(d);
	d->layered[0] = (void *)(uintptr_t)layer;
	d->layered[1] = state;
	/* With a layer, a read that gets less than it asked for does not mean that the socket is
	 * empty. */
	sn_conn_marks(d)->tcp = false;
	/* A task that writes arms no bytes (sn_fd_rearm()), but the layer may wait for them. */
	if (sn_unlikely(sn_fd_is_disarmed(d)))
		sn_fd_rearm(d);
	/* Relaxed: an edge whose thread does not see this makes only its own side ready, and such
	 * an edge is older than the first attempt of the layer. */
	atomic_store_explicit(&d->crossed, true, memory_order_relaxed);
	sn_conn_marks(d)->kind = SN_KIND_LAYERED;
	return 0;
}

int sn_layer_push(sn_stream *stream, const struct sn_layer *layer, void *state)
{
	struct sn_fd *d;
	int err;

	if (!layer || !state)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = begin_both(&d, stream);
	if (err == 0) {
		err = push(d, layer, state);
		end_both(d);
	}
	sn_runtime_leave();
	return err;
}

int sn_layer_use(sn_stream *stream, const struct sn_layer *layer, void **state)
{
	struct sn_fd *d;
	int err = sn_fd_use_handle(&d, stream);

	if (err < 0)
		return err;
	if (is_inherited(d))
		err = -EBADF;
	else if (sn_conn_kind(d) != SN_KIND_LAYERED || sn_layer_of(d) != layer)
		err = -EPROTOTYPE;
	if (err < 0) {
		sn_fd_unuse(d);
		return err;
	}
	*state = sn_layer_state(d);
	return 0;
}

void sn_layer_unuse(sn_stream *stream)
{
	sn_fd_unuse(sn_handle_object(stream));
}

/* A close gives the layer up to LINGER_NS. The layer may be waiting for an acknowledgement, which
 * makes no edge, so it is also asked again after pauses that double from SHORTEST_NS. */
#define LINGER_NS INT64_C(1000000000)
#define SHORTEST_NS INT64_C(1000000)
#define LONGEST_NS INT64_C(50000000)

static void linger(struct sn_fd *d)
{
	const int64_t limit = sn_now() + LINGER_NS;
	int64_t pause = SHORTEST_NS;
	int err;

	for (;;) {
		const int64_t now = sn_now();

		sn_runtime_leave();
		err = sn_layer_of(d)->linger(sn_layer_state(d));
		sn_runtime_enter();
		if (err != -EAGAIN || now >= limit)
			return;
		err = sn_fd_wait_until(d, SN_SIDE_READ, now + pause < limit ? now + pause : limit);
		if (err < 0)
			return;
		if (pause < LONGEST_NS)
			pause *= 2;
	}
}

/* Like begin_both(), whatever the deadlines are. They were for the program's calls, one of which
 * may just have failed because of them, so they end here. */
static int begin_linger(struct sn_fd *d)
{
	int err = sn_fd_begin(d, SN_SIDE_READ);

	if (err < 0)
		return err;
	err = sn_fd_begin(d, SN_SIDE_WRITE);
	if (err < 0) {
		sn_fd_end(d, SN_SIDE_READ);
		return err;
	}
	sn_fd_set_deadline(sn_thread_self(), d, SN_SIDE_READ, SN_NO_DEADLINE);
	sn_fd_set_deadline(sn_thread_self(), d, SN_SIDE_WRITE, SN_NO_DEADLINE);
	return 0;
}

void sn_layer_linger(const void *handle)
{
	struct sn_fd *d;

	if (!sn_runtime_enter())
		return;
	if (sn_fd_use_handle(&d, handle) == 0) {
		if (sn_conn_kind(d) == SN_KIND_LAYERED && sn_layer_of(d)->linger &&
		    begin_linger(d) == 0) {
			linger(d);
			end_both(d);
		}
		sn_fd_unuse(d);
	}
	sn_runtime_leave();
}

/*
 * The deadline of the writing side limits the wait, too, but no task waits on that side that a new
 * deadline could wake. Whoever sets one therefore makes the reading side ready (stream.c), and the
 * wait begins again. It stores the deadline before it reads `joint`, and the operation sets `joint`
 * before it reads the deadline here, both sequentially consistent. So either the deadline is seen
 * here, or the reading side becomes ready after this, which ends also a wait that has not begun.
 * models/joint.pml checks this.
 */
static int wait_for_edge(struct sn_fd *d, int64_t deadline)
{
	const int64_t other = atomic_load(&d->sides[SN_SIDE_WRITE].deadline);

	if (other && (!deadline || other < deadline))
		deadline = other;
	if (!deadline)
		return sn_fd_await(d, SN_SIDE_READ);
	if (sn_now() >= deadline)
		return -ETIMEDOUT;
	return sn_fd_wait_until(d, SN_SIDE_READ, deadline);
}

static int run(struct sn_fd *d, sn_layer_attempt *attempt, void *arg, int64_t deadline)
{
	int n, err;

	atomic_store(&d->joint, true);
	do {
		sn_brief_pay(sn_thread_self());
		sn_runtime_leave();
		n = attempt(sn_layer_state(d), arg);
		sn_runtime_enter();
		err = n == -EAGAIN ? wait_for_edge(d, deadline) : n;
	} while (n == -EAGAIN && err >= 0);
	atomic_store(&d->joint, false);
	return err;
}

int sn_layer_run(sn_stream *stream, const struct sn_layer *layer, sn_layer_attempt *attempt,
		 void *arg, int64_t deadline)
{
	struct sn_fd *d;
	int err;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = begin_both(&d, stream);
	if (err == 0) {
		err = sn_conn_kind(d) == SN_KIND_LAYERED && sn_layer_of(d) == layer
			      ? run(d, attempt, arg, deadline)
			      : -EPROTOTYPE;
		end_both(d);
	}
	sn_runtime_leave();
	return err;
}

/* Never inlined, so that its frame is below the caller's. */
__attribute__((noinline)) size_t sn_layer_stack_left(void)
{
	struct sn_thread *self = sn_thread_self();
	char *here = __builtin_frame_address(0);

	if (!self || !self->task)
		return SIZE_MAX;
	return (size_t)(here - (char *)self->task->stack.low);
}
