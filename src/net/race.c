/* SPDX-License-Identifier: MIT */
/*
 * One task makes all attempts, and waits for their descriptors with one sn_fd_wait_any(). For that
 * call they are like descriptors of the program (sennit/poll.h), so an attempt that fails is simply
 * closed, and only the winner is registered for edges. From the beginning the descriptors are in
 * the table of io/fd.h, which closes them if the run ends and abandons the task.
 *
 * Rejected: a task for each attempt. Each would need a stack, and the first to win would have to
 * cancel the others and wait for them.
 */
#include "net/race.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

#include <sennit/clock.h>
#include <sennit/poll.h>

#include "io/fd.h"
#include "io/sys.h"
#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/thread.h"
#include "stream/stream.h"
#include "task/cancel.h"

/* The state of one race, which belongs to its task. */
struct race {
	const sn_resolved *to;
	int64_t deadline;
	bool to_write;
	struct pollfd under_way[SN_RACE_MOST]; /* the oldest first */
	struct sn_fd *fds[SN_RACE_MOST];       /* of the same attempts */
	int count;
	struct sn_fd *winner;
	size_t begun;    /* how many addresses have had their attempt */
	size_t next[2];  /* where to look for the next address: of the first one's family, of the
			  * others */
	int turn;        /* which of the two comes next */
	int64_t next_at; /* when the next attempt begins */
	int error;       /* the most useful error so far */
};

int sn_race_begin_one(struct sn_fd **out, const struct sn_resolved_address *to, bool to_write)
{
	int fd = sn_sys_socket(to->address.ss_family), err, no_memory;

	if (fd < 0)
		return fd;
	if (to_write)
		sn_sys_set_option(fd, IPPROTO_TCP, TCP_QUICKACK, 0);
	err = sn_sys_connect(fd, (const struct sockaddr *)&to->address, to->length);
	no_memory =
		err == 0 || err == -EINPROGRESS ? sn_fd_open(out, &sn_stream_ops, fd, false) : 0;
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
static size_t next_of(const struct race *race, int class)
{
	const sn_resolved *to = race->to;
	size_t i = race->next[class];

	while (i < to->count &&
	       (to->addresses[i].address.ss_family != to->addresses[0].address.ss_family) != class)
		i++;
	return i;
}

/* The address whose turn it is, of which there must be one. It stays the same until pass_turn(). */
static const struct sn_resolved_address *next_address(struct race *race)
{
	size_t i = next_of(race, race->turn);

	if (i == race->to->count) {
		race->turn = !race->turn;
		i = next_of(race, race->turn);
	}
	race->next[race->turn] = i;
	return &race->to->addresses[i];
}

static void pass_turn(struct race *race)
{
	race->next[race->turn]++;
	race->turn = !race->turn;
	race->begun++;
}

static bool more(const struct race *race)
{
	return race->begun < race->to->count;
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

static void note(struct race *race, int err)
{
	if (usefulness(err) > usefulness(race->error))
		race->error = err;
}

static bool out_of_resources(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

/* ---- attempts ---- */

static void take_out(struct race *race, int i)
{
	race->count--;
	memmove(&race->under_way[i], &race->under_way[i + 1],
		(size_t)(race->count - i) * sizeof race->under_way[0]);
	memmove(&race->fds[i], &race->fds[i + 1], (size_t)(race->count - i) * sizeof race->fds[0]);
}

static void close_attempt(struct sn_fd *d)
{
	sn_fd_end_with(sn_thread_self(), d, SN_FD_CLOSED);
}

static void give_up(struct race *race, int i, int err)
{
	close_attempt(race->fds[i]);
	take_out(race, i);
	note(race, err);
}

/* The time until the next attempt, so that each of the addresses has its turn before the
 * deadline. */
static int64_t interval(const struct race *race, int64_t now)
{
	int64_t share;

	if (!race->deadline)
		return SN_RACE_INTERVAL_NS;
	share = (race->deadline - now) / (int64_t)(race->to->count - race->begun + 1);
	if (share > SN_RACE_INTERVAL_NS)
		return SN_RACE_INTERVAL_NS;
	return share < SN_RACE_LEAST_INTERVAL_NS ? SN_RACE_LEAST_INTERVAL_NS : share;
}

/* Begins the next attempt. Returns 0 if there is a winner, -EINPROGRESS, or an error that ends the
 * race. */
static int begin_next(struct race *race, int64_t now)
{
	struct sn_fd *d;
	int err;

	if (race->count == SN_RACE_MOST)
		give_up(race, 0, -ETIMEDOUT);
	err = sn_race_begin_one(&d, next_address(race), race->to_write);
	if (out_of_resources(err)) {
		/* The same address is tried again when another attempt has ended, or after an
		 * interval. */
		race->next_at = now + SN_RACE_INTERVAL_NS;
		return race->count > 0 ? -EINPROGRESS : err;
	}
	pass_turn(race);
	if (err == 0) {
		race->winner = d;
		return 0;
	}
	if (err != -EINPROGRESS) {
		note(race, err);
		return -EINPROGRESS;
	}
	race->under_way[race->count] = (struct pollfd){.fd = d->fd, .events = POLLOUT};
	race->fds[race->count++] = d;
	race->next_at = now + interval(race, now);
	return -EINPROGRESS;
}

/* ---- waiting ---- */

/* sn_fd_wait_any() is a public call, so this leaves the runtime around it. */
static int wait_any(struct race *race, int64_t until)
{
	int found;

	sn_brief_pay(sn_thread_self());
	sn_runtime_leave();
	found = sn_fd_wait_any(race->under_way, (size_t)race->count, until);
	sn_runtime_enter();
	return found;
}

/* Waits until an attempt has ended, or the next one has to begin. Returns as begin_next(). */
static int await(struct race *race)
{
	int64_t until = race->deadline;
	int found;

	if (more(race) && (!until || race->next_at < until))
		until = race->next_at;
	found = wait_any(race, until);
	if (found < 0)
		return found == -ETIMEDOUT ? -EINPROGRESS : found;
	for (int i = 0; i < race->count;) {
		const int events = race->under_way[i].revents;
		int result = events ? sn_sys_connect_result(race->under_way[i].fd) : -EINPROGRESS;

		/* The attempt has ended, but its error was taken from the socket elsewhere. */
		if (result == -EINPROGRESS && (events & POLLHUP))
			result = -ECONNABORTED;
		if (result == 0) {
			race->winner = race->fds[i];
			take_out(race, i);
			return 0;
		}
		if (result == -EINPROGRESS) {
			i++;
			continue;
		}
		give_up(race, i, result);
		race->next_at = 0;
	}
	return -EINPROGRESS;
}

static int step(struct race *race)
{
	const int64_t now = sn_now();
	const int reason = sn_cancel_reason(sn_thread_self()->task);

	if (reason < 0)
		return reason;
	if (race->deadline && now >= race->deadline) {
		/* An attempt may have succeeded by now. After the deadline this only looks. */
		const int err = race->count > 0 ? await(race) : -ETIMEDOUT;

		return err == -EINPROGRESS ? -ETIMEDOUT : err;
	}
	if (more(race) && (race->count == 0 || now >= race->next_at))
		return begin_next(race, now);
	return race->count > 0 ? await(race) : race->error;
}

int sn_race(struct sn_fd **out, const sn_resolved *to, int64_t deadline, bool to_write)
{
	struct race race = {.to = to, .deadline = deadline, .to_write = to_write};
	int err;

	do {
		err = step(&race);
	} while (err == -EINPROGRESS);
	for (int i = 0; i < race.count; i++)
		close_attempt(race.fds[i]);
	*out = race.winner;
	return err;
}
