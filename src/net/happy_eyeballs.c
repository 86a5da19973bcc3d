/* SPDX-License-Identifier: MIT */
/*
 * One task makes all attempts, and waits for their descriptors with one sn_fd_wait_any(). For that
 * call they are like descriptors of the program (sennit/fd.h), so an attempt that fails is simply
 * closed, and only the winner is registered for edges. From the beginning the descriptors are in
 * the table of io/fd.h, which closes them if the run ends and abandons the task.
 *
 * Rejected: a task for each attempt. Each would need a stack, and the first to win would have to
 * cancel the others and wait for them.
 */
#include "net/happy_eyeballs.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

#include <sennit/clock.h>
#include <sennit/fd.h>

#include "io/fd.h"
#include "io/sys.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "stream/stream.h"
#include "task/cancel.h"

/* The state of the attempts, which belongs to its task. */
struct attempts {
	const sn_resolved *to;
	int64_t deadline;
	bool to_write;
	struct pollfd under_way[SN_HAPPY_EYEBALLS_MOST]; /* the oldest first */
	struct sn_fd *fds[SN_HAPPY_EYEBALLS_MOST];       /* of the same attempts */
	int count;
	struct sn_fd *winner;
	size_t begun;    /* how many addresses have had their attempt */
	size_t next[2];  /* where to look for the next address: of the first one's family, of the
			  * others */
	int turn;        /* which of the two comes next */
	int64_t next_at; /* when the next attempt begins */
	int error;       /* the most useful error so far */
};

int sn_happy_eyeballs_begin_one(struct sn_fd **out, const struct sn_resolved_address *to,
				bool to_write)
{
	int fd = sn_sys_socket(to->address.ss_family), err, no_memory;

	if (fd < 0)
		return fd;
	if (to_write)
		sn_sys_set_option(fd, IPPROTO_TCP, TCP_QUICKACK, 0);
	err = sn_sys_connect(fd, (const struct sockaddr *)&to->address, to->length);
	no_memory = err == 0 || err == -EINPROGRESS ? sn_fd_open(out, &sn_conn_ops, fd, false) : 0;
	if (no_memory < 0)
		err = no_memory;
	if (err < 0 && err != -EINPROGRESS) {
		sn_sys_close(fd);
		return err;
	}
	/* A small message must not wait until the one before it is acknowledged. */
	sn_sys_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	sn_conn_marks(*out)->tcp = true;
	return err;
}

/* ---- addresses ---- */

/* The index of the next address of a class, from its cursor on; to->count if there is none. */
static size_t next_of(const struct attempts *attempts, int class)
{
	const sn_resolved *to = attempts->to;
	size_t i = attempts->next[class];

	while (i < to->count &&
	       (to->addresses[i].address.ss_family != to->addresses[0].address.ss_family) != class)
		i++;
	return i;
}

/* The address whose turn it is, of which there must be one. It stays the same until pass_turn(). */
static const struct sn_resolved_address *next_address(struct attempts *attempts)
{
	size_t i = next_of(attempts, attempts->turn);

	if (i == attempts->to->count) {
		attempts->turn = !attempts->turn;
		i = next_of(attempts, attempts->turn);
	}
	attempts->next[attempts->turn] = i;
	return &attempts->to->addresses[i];
}

static void pass_turn(struct attempts *attempts)
{
	attempts->next[attempts->turn]++;
	attempts->turn = !attempts->turn;
	attempts->begun++;
}

static bool more(const struct attempts *attempts)
{
	return attempts->begun < attempts->to->count;
}

/* ---- errors ---- */

static int usefulness(int err)
{
	switch (err) {
	case 0:
		return 0;
	case -ENETUNREACH:
	case -EADDRNOTAVAIL:
	case -EAFNOSUPPORT:
		return 1;
	case -ECONNREFUSED:
	case -ECONNRESET:
		return 3;
	default:
		return 2;
	}
}

static void note(struct attempts *attempts, int err)
{
	if (usefulness(err) > usefulness(attempts->error))
		attempts->error = err;
}

static bool out_of_resources(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

/* ---- attempts ---- */

static void take_out(struct attempts *attempts, int i)
{
	attempts->count--;
	memmove(&attempts->under_way[i], &attempts->under_way[i + 1],
		(size_t)(attempts->count - i) * sizeof attempts->under_way[0]);
	memmove(&attempts->fds[i], &attempts->fds[i + 1],
		(size_t)(attempts->count - i) * sizeof attempts->fds[0]);
}

static void close_attempt(struct sn_fd *d)
{
	sn_fd_end_with(sn_thread_self(), d, SN_FD_CLOSED);
}

static void give_up(struct attempts *attempts, int i, int err)
{
	close_attempt(attempts->fds[i]);
	take_out(attempts, i);
	note(attempts, err);
}

/* The time until the next attempt, so that each of the addresses has its turn before the
 * deadline. */
static int64_t interval(const struct attempts *attempts, int64_t now)
{
	int64_t share;

	if (!attempts->deadline)
		return SN_HAPPY_EYEBALLS_INTERVAL_NS;
	share = (attempts->deadline - now) / (int64_t)(attempts->to->count - attempts->begun + 1);
	if (share > SN_HAPPY_EYEBALLS_INTERVAL_NS)
		return SN_HAPPY_EYEBALLS_INTERVAL_NS;
	return share < SN_HAPPY_EYEBALLS_LEAST_INTERVAL_NS ? SN_HAPPY_EYEBALLS_LEAST_INTERVAL_NS
							   : share;
}

/* Begins the next attempt. Returns 0 if there is a winner, -EINPROGRESS, or an error that ends the
 * attempts. */
static int begin_next(struct attempts *attempts, int64_t now)
{
	struct sn_fd *d;
	int err;

	if (attempts->count == SN_HAPPY_EYEBALLS_MOST)
		give_up(attempts, 0, -ETIMEDOUT);
	err = sn_happy_eyeballs_begin_one(&d, next_address(attempts), attempts->to_write);
	if (out_of_resources(err)) {
		/* The same address is tried again when another attempt has ended, or after an
		 * interval. */
		attempts->next_at = now + SN_HAPPY_EYEBALLS_INTERVAL_NS;
		return attempts->count > 0 ? -EINPROGRESS : err;
	}
	pass_turn(attempts);
	if (err == 0) {
		attempts->winner = d;
		return 0;
	}
	if (err != -EINPROGRESS) {
		note(attempts, err);
		return -EINPROGRESS;
	}
	attempts->under_way[attempts->count] = (struct pollfd){.fd = d->fd, .events = POLLOUT};
	attempts->fds[attempts->count++] = d;
	attempts->next_at = now + interval(attempts, now);
	return -EINPROGRESS;
}

/* ---- waiting ---- */

/* sn_fd_wait_any() is a public call, so this leaves the runtime around it. */
static int wait_any(struct attempts *attempts, int64_t until)
{
	int found;

	sn_brief_pay(sn_thread_self());
	sn_runtime_leave();
	found = sn_fd_wait_any(attempts->under_way, (size_t)attempts->count, until);
	sn_runtime_enter();
	return found;
}

/* Waits until an attempt has ended, or the next one has to begin. Returns as begin_next(). */
static int await(struct attempts *attempts)
{
	int64_t until = attempts->deadline;
	int found;

	if (more(attempts) && (!until || attempts->next_at < until))
		until = attempts->next_at;
	found = wait_any(attempts, until);
	if (found < 0)
		return found == -ETIMEDOUT ? -EINPROGRESS : found;
	for (int i = 0; i < attempts->count;) {
		const int events = attempts->under_way[i].revents;
		int result =
			events ? sn_sys_connect_result(attempts->under_way[i].fd) : -EINPROGRESS;

		/* The attempt has ended, but its error was taken from the socket elsewhere. */
		if (result == -EINPROGRESS && (events & POLLHUP))
			result = -ECONNABORTED;
		if (result == 0) {
			attempts->winner = attempts->fds[i];
			take_out(attempts, i);
			return 0;
		}
		if (result == -EINPROGRESS) {
			i++;
			continue;
		}
		give_up(attempts, i, result);
		attempts->next_at = 0;
	}
	return -EINPROGRESS;
}

static int step(struct attempts *attempts)
{
	const int64_t now = sn_now();
	const int reason = sn_cancel_reason(sn_thread_self()->task);

	if (reason < 0)
		return reason;
	if (attempts->deadline && now >= attempts->deadline) {
		/* An attempt may have succeeded by now. After the deadline this only looks. */
		const int err = attempts->count > 0 ? await(attempts) : -ETIMEDOUT;

		return err == -EINPROGRESS ? -ETIMEDOUT : err;
	}
	if (more(attempts) && (attempts->count == 0 || now >= attempts->next_at))
		return begin_next(attempts, now);
	return attempts->count > 0 ? await(attempts) : attempts->error;
}

int sn_happy_eyeballs(struct sn_fd **out, const sn_resolved *to, int64_t deadline, bool to_write)
{
	struct attempts attempts = {.to = to, .deadline = deadline, .to_write = to_write};
	int err;

	do {
		err = step(&attempts);
	} while (err == -EINPROGRESS);
	for (int i = 0; i < attempts.count; i++)
		close_attempt(attempts.fds[i]);
	*out = attempts.winner;
	return err;
}
