/* SPDX-License-Identifier: MIT */
/*
 * Relaying: two copies in opposite directions that end together.
 *
 * Contract. sn_relay() returns when both directions are done, however they end; from then on
 * nothing uses the streams. The first event decides how the relay ends. A compare-and-swap of `end`
 * records it, and the task that wins cancels both streams, which wakes the other direction wherever
 * it waits.
 *
 * One task. As long as messages are small and infrequent, the calling task alone moves the bytes in
 * both directions, and waits for both connections with one wait (sn_fd_wait_either()): a request
 * and its answer resume one task on one stack, and a connection that is short, or idle, takes one
 * task. As soon as a direction needs more, the two *part*: a second task takes over the other
 * direction from where it is, and they stay apart until the end. That happens when a flow is large
 * enough for splicing or has more after two pieces, coalesces, has a rate limit, or would wait for
 * room. It is decided between two passes of a copy, whose state is its job. Of 4,000 idle
 * connections each takes 5.8 KB of sennit-relay's anonymous memory and 0.4 KB of page tables; with
 * two tasks 10.2 and 0.8.
 *
 * Claims. That task waits within two operations that read (io/fd.h), and keeps them when it wakes,
 * so a message costs one claim instead of four. The first wait makes them, not the start, because a
 * claim ends the silence of a connection (sn_fd_is_silent()). What would have refused a new
 * operation is looked for before each attempt (sn_fd_check()). A wait looks at both descriptors,
 * and when it really parks, at the scope. A close does not wait for the claims any longer than
 * before, because sn_relay() uses both streams from its beginning to its end. Rejected: to keep the
 * sides that are written to as well. The program may write to them, and no task waits with them.
 *
 * The end of a stream is passed on only when it is a real one. A reset appears as an error once,
 * and as an end of stream after that. Therefore the direction that reads the end of a stream checks
 * whether the other one, which writes to the same connection, got a reset (reset_origin.h). A
 * direction that is done keeps watching the connection that it read from, so that a reset after the
 * half-close is noticed too. The direction that ends last checks both connections once more, in one
 * system call, and then releases the watcher (`over`). If the caller has said that it closes both
 * streams right after the relay (tuning->closing), that close also passes the last end on:
 * everything from that connection was read, so the close sends a FIN like any other, after all that
 * was written. That saves a system call, and the watched connection does not change while it is
 * watched, for which the poller would wake the watcher.
 *
 * Time: idle_timeout.h. A task that finds the limit expired judges for both directions, because it
 * cannot rely on the other task to wake first: it polls both connections, in one system call, for
 * something that can be passed on.
 *
 * Who may write what. The caller's task and its second one share struct relay, which lives on the
 * caller's stack: the caller always waits for the second task to end. end and ended_first are
 * written once. The direction that ended first writes half_closed, and the other one writes over.
 * The task that wrote end writes error and failed_side, which the caller reads when both directions
 * are done. alone, second and the fields of the other direction belong to the caller until the two
 * part.
 */
#include <errno.h>
#include <poll.h>

#include <sennit/relay.h>
#include <sennit/scope.h>
#include <sennit/unstable.h>

#include "arch/sized.h"
#include "copy/copy.h"
#include "copy/copy_late.h"
#include "copy/idle_timeout.h"
#include "io/fd.h"
#include "io/sys.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "task/cancel.h"

/* Each begins a line of the cache with what a small message needs, as copy_job.h says. */
struct relay {
	_Alignas(64) struct sn_fd *fds[2]; /* direction d reads from fds[d], writes to fds[1 - d] */
	struct sn_reset_origin origins[2]; /* of fds[0], fds[1] */
	/* How often a direction has moved bytes; written by its task. Relaxed: the other task only
	 * uses the count to decide how long to wait (coalesce.h). */
	_Atomic uint32_t moves[2];
	_Atomic int end;         /* enum sn_relay_end; FINISHED until something happens */
	_Atomic int ended_first; /* the direction that ended first; -1: neither yet */
	_Atomic bool half_closed;
	_Atomic bool over; /* both streams have ended, and neither connection was reset */
	bool alone;        /* there is no second task, and may never be one */
	struct sn_idle_timeout idle;
	struct direction *directions;
	void (*progress)(void *arg, enum sn_relay_direction direction, size_t bytes);
	void *progress_arg;
	const struct sn_relay_options *options;
	const struct sn_relay_tuning *tuning;
	struct sn_relay_result *result;
	int error, failed_side; /* 0 or 1, an index of fds; -1: neither */
	sn_task *second;        /* NULL: there was none, or it could not be started */
};

struct direction {
	_Alignas(64) struct sn_copy_job job;
	struct relay *relay;
	struct sn_copy_result result; /* the job's, until both directions have ended */
	enum sn_relay_direction number;
	bool passed; /* it has passed its end on, the other has not: it only watches for a reset */
	struct sn_relayed relayed; /* the job's */
};

/* ---- the end ---- */

static void end(struct relay *relay, enum sn_relay_end how, int err, int side)
{
	int finished = SN_RELAY_FINISHED;

	if (!atomic_compare_exchange_strong(&relay->end, &finished, how))
		return;
	relay->error = err;
	relay->failed_side = side;
	for (int i = 0; i < 2; i++)
		sn_fd_end_with(sn_thread_self(), relay->fds[i], SN_FD_CANCELED);
}

/* Whether something waits that can be passed on: bytes or an end to be read, where the other side
 * has room, or room for bytes that were read. */
static bool can_move(struct relay *relay)
{
	struct pollfd ends[2];
	int users = 0, found = 0;

	for (; users < 2 && sn_fd_use(relay->fds[users]) == 0; users++)
		ends[users] = (struct pollfd){.fd = relay->fds[users]->fd,
					      .events = POLLIN | POLLRDHUP | POLLOUT};
	if (users == 2)
		found = sn_sys_poll_now(ends, 2);
	while (users > 0)
		sn_fd_unuse(relay->fds[--users]);
	for (int i = 0; i < 2 && found > 0; i++) {
		const int from = ends[i].revents, to = ends[1 - i].revents;

		if (from & POLLERR)
			return true;
		if ((to & POLLOUT) && atomic_load(&relay->ended_first) != i &&
		    ((from & (POLLIN | POLLRDHUP | POLLHUP)) ||
		     atomic_load_explicit(&relay->directions[i].job.owes, memory_order_relaxed)))
			return true;
	}
	return false;
}

/* Whether a wait that returned err should be repeated: a deadline had passed, but it was moved by
 * another task, or is extended here, and is ahead again. False if it was the deadline of the task's
 * scope. */
static bool is_ahead(struct relay *relay, int err)
{
	return err == -ETIMEDOUT && sn_cancel_reason(sn_thread_self()->task) == 0 &&
	       (sn_idle_timeout_was_moved(&relay->idle) ||
		(sn_idle_timeout_is_over(&relay->idle) && can_move(relay) &&
		 sn_idle_timeout_extend(&relay->idle)));
}

static bool late(struct sn_copy_job *job)
{
	return is_ahead(sn_container_of(job, struct direction, job)->relay, -ETIMEDOUT);
}

/* How the relay ends if a connection failed with err. -ETIMEDOUT can mean the idle limit, or that
 * the kernel has given up on the peer. */
static enum sn_relay_end meaning(const struct relay *relay, int err)
{
	if (err == -ECANCELED || err == -EBADF)
		return SN_RELAY_CANCELED;
	if (err != -ETIMEDOUT || !sn_idle_timeout_is_over(&relay->idle))
		return SN_RELAY_FAILED;
	return atomic_load(&relay->half_closed) && relay->options->half_close_timeout
		       ? SN_RELAY_HALF_CLOSE
		       : SN_RELAY_IDLE;
}

/* ---- a direction ---- */

static void delivered(struct sn_copy_job *job, size_t n)
{
	struct direction *d = sn_container_of(job, struct direction, job);
	struct relay *relay = d->relay;
	_Atomic uint32_t *moves = &relay->moves[d->number];

	atomic_store_explicit(moves, atomic_load_explicit(moves, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	sn_idle_timeout_touch(&relay->idle, job->now);
	if (relay->progress) {
		sn_runtime_leave();
		relay->progress(relay->progress_arg, d->number, n);
		sn_runtime_enter();
	}
}

static void pausing(struct sn_copy_job *job, int64_t until)
{
	sn_idle_timeout_hold(&sn_container_of(job, struct direction, job)->relay->idle, until);
}

/* Ends the writing half of dst. A layer's end is written, so it comes after what another task is
 * writing. */
static int shut_dst(struct direction *d)
{
	int err;

	while ((err = sn_conn_shutdown(d->job.dst, SN_SHUT_WRITE)) == -EBUSY)
		if ((err = sn_copy_wait_for_writer(&d->job)) < 0)
			break;
	return err;
}

/* Shuts dst for writing. On failure *side says whose connection failed. */
static int shut(struct direction *d, int *side)
{
	struct sn_fd *dst = d->job.dst;
	int err;

	/* A layer may have to wait, until the deadline. The kernel's own ETIMEDOUT looks the same,
	 * so the deadline is checked. */
	do {
		err = shut_dst(d);
	} while (err == -ETIMEDOUT && sn_fd_check_deadline(dst, SN_SIDE_WRITE) < 0 &&
		 is_ahead(d->relay, err));
	if (err == 0)
		return 0;
	*side = 1 - (int)d->number;
	return err == -ENOTCONN ? -ECONNRESET : err; /* dst was reset */
}

/* Checks whether one of the connections was reset after its end. On failure *side says which. */
static int look_at_both(struct direction *d, int *side)
{
	struct sn_fd *dst = d->job.dst, *src = d->job.src;
	int failed = 0, err = sn_fd_use(dst);

	if (err < 0)
		return err;
	err = sn_fd_use(src);
	if (err == 0) {
		err = sn_sys_failed((const int[2]){dst->fd, src->fd}, &failed);
		sn_fd_unuse(src);
	}
	sn_fd_unuse(dst);
	*side = failed ? (int)d->number : 1 - (int)d->number;
	return err;
}

/* For the direction that ends last: passes its end on, unless the caller's close does that, checks
 * both connections, and releases the task that watches for a reset. */
static int end_both(struct direction *d, int *side)
{
	struct relay *relay = d->relay;
	int err = relay->tuning->closing ? 0 : shut(d, side);

	if (err == 0)
		err = look_at_both(d, side);
	if (err == 0) {
		atomic_store(&relay->over, true);
		if (!relay->alone)
			sn_fd_wake(sn_thread_self(), d->job.dst, SN_SIDE_READ);
	}
	return err;
}

/* Passes the end of src on to dst. On failure *side says whose connection failed. */
static int pass_end_on(struct direction *d, int *side)
{
	struct relay *relay = d->relay;
	int err, nobody = -1;

	if (sn_reset_origin_is_writer(&relay->origins[d->number]))
		return -ECONNRESET;
	/* Recorded before the end is passed on, because the other peer may answer with its own end
	 * immediately. */
	if (!atomic_compare_exchange_strong(&relay->ended_first, &nobody, (int)d->number))
		return end_both(d, side);
	err = shut(d, side);
	if (err < 0)
		return err;
	atomic_store(&relay->half_closed, true);
	sn_idle_timeout_change(&relay->idle, relay->options->half_close_timeout);
	d->passed = true;
	return 0;
}

/* Handles the result of copying; err is 0 at the end of the stream. On failure *side says whose
 * connection failed. */
static int conclude(struct direction *d, int err, int *side)
{
	*side = (int)d->number;
	if (err == 0)
		return pass_end_on(d, side);
	if (d->job.result->failed == SN_COPY_WRITE)
		*side = 1 - *side;
	return err;
}

static void fail(struct direction *d, int err, int side)
{
	if (err < 0)
		end(d->relay, meaning(d->relay, err), err, side);
}

/* For a direction whose end was passed on: waits until the other direction's end is passed on too,
 * or the connection is reset. */
static int watch(struct direction *d)
{
	int err;

	do {
		err = sn_conn_watch(d->job.src, &d->relay->over);
	} while (err > 0 && is_ahead(d->relay, -ETIMEDOUT));
	return err > 0 ? -ETIMEDOUT : err;
}

/* Runs a direction from wherever it is to its end, for a task that has nothing else to do. */
static void run_direction(struct direction *d)
{
	int side = (int)d->number, err = 0;

	if (!d->passed)
		err = conclude(d, sn_copy_run(&d->job), &side);
	if (err == 0 && d->passed)
		err = watch(d);
	fail(d, err, side);
}

static int second_task(void *arg)
{
	struct direction *d = arg;

	sn_runtime_enter();
	run_direction(d);
	sn_runtime_leave();
	return 0;
}

/* ---- one task for both ---- */

static void release_both(struct relay *relay)
{
	for (int i = 0; i < 2; i++)
		sn_copy_release_src(&relay->directions[i].job);
}

/* The calling task keeps this direction; a new task gets the other one. */
static void part(struct direction *stays)
{
	static const struct sn_task_attr attributes =
		SN_TASK_ATTR_INIT(.name = "relay", .flags = SN_TASK_BRIEF);
	struct relay *relay = stays->relay;
	struct direction *goes = &relay->directions[1 - stays->number];
	int err;

	relay->alone = false;
	sn_fd_forward(relay->fds[1], NULL);
	release_both(relay);
	sn_runtime_leave();
	err = sn_spawn(&relay->second, second_task, goes, &attributes);
	sn_runtime_enter();
	if (err < 0) {
		relay->second = NULL;
		end(relay, SN_RELAY_FAILED, err, -1);
	}
}

static void prepare(struct direction *d, struct relay *relay, enum sn_relay_direction number)
{
	*d = (struct direction){.job = {.src = relay->fds[number],
					.dst = relay->fds[1 - number],
					.left = -1,
					.result = &d->result,
					.delivered = delivered,
					.late = late,
					.relay = &d->relayed},
				.relayed = {.origin = &relay->origins[1 - number],
					    .answers = &relay->moves[1 - number],
					    .rate_limit = {.calls = relay->options->rate_limit,
							   .direction = number,
							   .pausing = pausing}},
				.relay = relay,
				.number = number};
	sn_coalesce_init(&d->relayed.coalesce, relay->tuning->coalesce);
}

/* Whether the connection whose end was passed on has been reset since. */
static int look_for_reset(struct direction *d)
{
	struct sn_fd *src = d->job.src;
	int alive, err;

	if (!atomic_load_explicit(&src->over, memory_order_relaxed))
		return 0;
	err = sn_fd_use(src);
	if (err < 0)
		return err;
	alive = sn_sys_alive(src->fd);
	sn_fd_unuse(src);
	return alive < 0 ? alive : 0;
}

/* Moves what has arrived in this direction. Returns false when the relay is done, or when the
 * directions have parted and this one is done. */
static bool serve(struct direction *d)
{
	int copied, side = (int)d->number, err;

	if (d->passed) {
		err = look_for_reset(d);
		fail(d, err, side);
		return err == 0;
	}
	copied = sn_copy_try(&d->job);
	if (copied == SN_PASS_DRAINED)
		return true;
	/* To pass the end on, a layer may have to wait for room, which must not hold up the other
	 * direction. */
	if (copied > 0 || (copied == SN_PASS_END && sn_conn_kind(d->job.dst) == SN_KIND_LAYERED)) {
		part(d);
		run_direction(d);
		return false;
	}
	err = conclude(d, copied, &side);
	/* The wait may have taken the edge of a reset for that of the end. */
	if (err == 0 && d->passed)
		err = look_for_reset(d);
	fail(d, err, side);
	return err == 0 && d->passed;
}

/* Sends the acknowledgement that is due before a wait, but not that of the end of a stream. The
 * relay's own end acknowledges it, and follows as soon as the other peer's end arrives. If that
 * takes longer, the kernel acknowledges within 40 ms. */
static void acknowledge(struct direction *d)
{
	if (!d->passed)
		sn_conn_acknowledge(d->job.src);
}

/* On failure *side says whose connection failed. */
static int wait_for_either(struct relay *relay, int *side)
{
	int err;

	for (*side = 0; *side < 2; ++*side) {
		err = sn_copy_hold_src(&relay->directions[*side].job);
		if (err < 0)
			return err;
	}
	*side = 0;
	acknowledge(&relay->directions[0]);
	acknowledge(&relay->directions[1]);
	do {
		err = sn_fd_wait_either(relay->fds[0], relay->fds[1]);
	} while (is_ahead(relay, err));
	return err;
}

static void serve_both(struct relay *relay)
{
	bool news[2];
	int err, side;

	/* A backend sends nothing before it is asked, so its first byte will be an edge. */
	for (int i = 0; i < 2; i++)
		news[i] = !(sn_conn_is_tcp(relay->fds[i]) && sn_fd_is_silent(relay->fds[i]));
	for (;;) {
		for (int i = 0; i < 2; i++)
			if (news[i] && !serve(&relay->directions[i]))
				return;
		err = wait_for_either(relay, &side);
		if (err < 0)
			return end(relay, meaning(relay, err), err, side);
		for (int i = 0; i < 2; i++)
			news[i] = sn_fd_take_edge(relay->fds[i], SN_SIDE_READ);
	}
}

/* ---- the pair ---- */

/* Both streams are cancelled by now, or at their end, so this does not take long. The wait must not
 * be ended by a cancellation of the caller's scope, because the second task uses the caller's
 * stack. */
static void wait_for_second(sn_task *task)
{
	sn_cancel_mask();
	while (sn_join(task, NULL) < 0)
		sn_yield();
	sn_cancel_unmask();
}

/* If the relay failed, marks the direction that did not fail as stopped while reading. With a task
 * of its own that direction would have noticed the cancellation in its read. */
static void conclude_alone(struct relay *relay)
{
	sn_fd_forward(relay->fds[1], NULL);
	if (atomic_load(&relay->end) == SN_RELAY_FINISHED)
		return;
	for (int i = 0; i < 2; i++) {
		struct direction *d = &relay->directions[i];

		if (!d->passed && d->job.result->failed == SN_COPY_NONE)
			d->job.result->failed = SN_COPY_READ;
	}
}

static void both_directions(struct relay *relay)
{
	struct direction directions[2];

	relay->directions = directions;
	relay->alone = true;
	prepare(&directions[0], relay, SN_RELAY_A_TO_B);
	prepare(&directions[1], relay, SN_RELAY_B_TO_A);
	sn_idle_timeout_init(&relay->idle, relay->fds);
	sn_runtime_enter();
	sn_idle_timeout_change(&relay->idle, relay->options->idle_timeout);
	sn_fd_forward(relay->fds[1], relay->fds[0]);
	sn_brief_begin();
	serve_both(relay);
	if (relay->alone)
		conclude_alone(relay);
	release_both(relay);
	sn_brief_end();
	sn_runtime_leave();
	if (relay->second)
		wait_for_second(relay->second);
	for (int i = 0; i < 2; i++)
		relay->result->directions[i] = directions[i].result;
}

static bool lost(const struct sn_relay_result *result)
{
	const struct sn_copy_result *d = result->directions;

	return d[0].bytes_read != d[0].bytes_written || d[1].bytes_read != d[1].bytes_written;
}

static int whose(const struct relay *relay)
{
	switch (relay->result->end) {
	case SN_RELAY_FINISHED:
	case SN_RELAY_HALF_CLOSE:
		return atomic_load(&relay->ended_first);
	case SN_RELAY_FAILED:
		return relay->failed_side;
	default:
		return -1;
	}
}

int sn_relay(sn_stream *a, sn_stream *b, struct sn_relay_result *result,
	     const struct sn_relay_options *options)
{
	struct sn_relay_options own;
	struct sn_relay_tuning tuning;
	struct sn_relay_result unwanted;
	sn_stream *const handles[2] = {a, b};
	struct relay relay = {.options = &own,
			      .tuning = &tuning,
			      .result = result ? result : &unwanted,
			      .failed_side = -1,
			      .ended_first = -1};
	int err = SN_SIZED_TAKE(&own, options);

	if (err == 0)
		err = SN_SIZED_TAKE(&tuning, own.tuning);
	*relay.result = (struct sn_relay_result){.end = SN_RELAY_FAILED, .side = -1};
	if (err < 0)
		return relay.result->error = err;
	if (!sn_self())
		return relay.result->error = -ENOTSUP;
	/* Another task may close a stream during this call, but its block must not be reused before
	 * the end. */
	for (int i = 0; i < 2; i++) {
		err = sn_fd_use_handle(&relay.fds[i], handles[i]);
		if (err == 0 && sn_conn_kind(relay.fds[i]) != SN_KIND_SOCKET &&
		    sn_conn_kind(relay.fds[i]) != SN_KIND_LAYERED) {
			sn_fd_unuse(relay.fds[i]);
			err = sn_conn_has_messages(relay.fds[i]) ? -EPROTOTYPE : -ENOTSOCK;
		} else if (err == -EBADF) {
			relay.result->end = SN_RELAY_CANCELED;
		}
		if (err < 0) {
			if (i == 1)
				sn_fd_unuse(relay.fds[0]);
			return relay.result->error = err;
		}
	}
	relay.progress = own.progress;
	relay.progress_arg = own.arg;
	both_directions(&relay);
	for (int i = 0; i < 2; i++)
		sn_fd_unuse(relay.fds[i]);
	relay.result->end = (enum sn_relay_end)atomic_load(&relay.end);
	relay.result->error = relay.error;
	relay.result->lost = lost(relay.result);
	relay.result->side = whose(&relay);
	return relay.error;
}
