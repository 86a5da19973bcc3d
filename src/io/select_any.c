/* SPDX-License-Identifier: MIT */
/*
 * Select over cases of every kind. It is here, and not with the select over channels
 * (sync/select.c), because it needs descriptors, which are above channels. run/run.c registers it
 * with sn_select().
 *
 * The select first looks at all cases, and attempts one of those that look ready, chosen at random.
 * If none is ready, it waits once, with one waiter for all cases (task/waiter.h). The waiter is in
 * the queues of the channels, in the join words of the tasks, and in the watches of the descriptors
 * and scopes; its deadline is the earliest of the times. Exactly one party ends the waiter:
 *
 *   - What a case waits for. If that case needs something done (an element is moved, a task's
 *     result is handed over), this party does it for the waiting task. No other party does
 *     anything, because all of them need the waiter's claim first.
 *   - The deadline, or a cancellation. No case was done.
 *   - The select itself, when a case becomes ready while the select begins to wait for it. It can
 *     then attempt cases alone, because it has the claim.
 *
 * The channels come first, all of them in one step, as sync/select.c argues. At that time no other
 * party knows the waiter, so none can end it, and the select can serve a waiter that it finds in a
 * channel by one claim, that of the other waiter. The other waits may begin after the waiter was
 * ended; the select then ends them again.
 *
 * The event of a descriptor, or a time, only ends the wait, so there may be several of them beside
 * a case that was done. The case that was done is the result then. No event is lost by that,
 * because readiness is a level, except that the announcement of a close (sn_fd_closing()) is not
 * repeated. After a time has come the select looks at all cases again, as at the beginning.
 *
 * Rejected: a task for each case that is not of a channel, which reports to a channel. It needs
 * memory and two switches for each case, and the result of a join that the select no longer waits
 * for would have to be given back.
 */
#include "io/select_any.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include <sennit/clock.h>

#include "io/sys.h"
#include "io/watch.h"
#include "sched/netpoll.h"
#include "sched/ready.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sync/scope.h"
#include "sync/select.h"
#include "task/cancel.h"
#include "task/join.h"
#include "task/waiter.h"

/* Up to this many cases need no memory beyond the stack. */
#define FEW 8

/* What a case that is not of a channel needs while the select waits. */
struct place {
	union {
		struct sn_watch_wait poll;
		struct sn_join_wait join;
		struct sn_scope_watch scope;
	};
	bool begun;
};

struct select {
	struct sn_case *cases;
	size_t n;
	int64_t deadline;
	struct pollfd *fds; /* of the cases that have a descriptor, in their order */
	size_t fd_count;
	struct place *places;
	struct sn_select_place *chans;
};

/* Not an error: none of the cases was done, and the select has to look at all of them again. */
#define AGAIN (-EAGAIN)

/* ---- the cases, one at a time ---- */

static bool looks_ready(struct sn_thread *self, const struct select *s, size_t i, int64_t now)
{
	struct sn_case *one = &s->cases[i];

	switch (one->op) {
	case SN_CASE_TIME:
		return one->time != SN_NO_DEADLINE && one->time <= now;
	case SN_CASE_JOIN:
		return one->task && sn_join_looks_over(one->task);
	case SN_CASE_POLL:
		return one->poll.fd >= 0 && one->result != 0; /* poll_now() has written it */
	case SN_CASE_SCOPE:
		return one->scope && sn_scope_over(self, one->scope, &one->result);
	default:
		return one->chan && !sn_chan_hopeless(sn_chan_at(one->chan), one->op);
	}
}

/* Attempts a case that looks ready. Returns false if it is no longer ready. */
static bool attempt(struct sn_thread *self, const struct select *s, size_t i)
{
	struct sn_case *one = &s->cases[i];

	switch (one->op) {
	case SN_CASE_TIME:
		one->result = 0;
		return true;
	case SN_CASE_JOIN:
		one->result = sn_join_now(self, one->task, one->elem);
		return one->result != -EAGAIN;
	case SN_CASE_POLL:
	case SN_CASE_SCOPE:
		return true; /* result was written by the look */
	default:
		return sn_select_attempt(self, one);
	}
}

/*
 * Begins to wait for a case that is not of a channel. Returns 0 if the wait has begun (or the case
 * can never be ready), 1 if the case may be ready by now, or an error. From then on another party
 * may end the waiter. Tasks that become runnable are added to *ready.
 */
static int begin(struct sn_thread *self, const struct select *s, size_t i, struct sn_waiter *waiter,
		 struct sn_queue *ready)
{
	struct sn_case *one = &s->cases[i];
	struct place *place = &s->places[i];
	int err = 0;

	switch (one->op) {
	case SN_CASE_JOIN:
		if (one->task)
			err = sn_join_begin(&place->join, waiter, one->task) < 0;
		place->begun = one->task && err == 0;
		/* A task cannot be joined by two cases of one select: each case would keep the
		 * other from waiting, forever. */
		for (size_t k = 0; err > 0 && k < i; k++)
			if (s->cases[k].op == SN_CASE_JOIN && s->cases[k].task == one->task)
				return -EINVAL;
		return err;
	case SN_CASE_POLL:
		if (one->poll.fd < 0)
			return 0;
		sn_watch_init(&place->poll, waiter, (uint32_t)one->poll.events);
		err = sn_watch_add(&place->poll, one->poll.fd, ready);
		place->begun = err == 0;
		/* The descriptor was closed after the select looked. Its next look reports that. */
		return err == -EBADF ? 1 : err;
	case SN_CASE_SCOPE:
		if (!one->scope)
			return 0;
		place->begun = sn_scope_watch_begin(self, &place->scope, waiter, one->scope);
		return !place->begun;
	default:
		return 0;
	}
}

/* Ends such a wait. Returns true if the wait has ended the waiter, so that the case was done. For a
 * descriptor, returns true if it has an event or was closed, so that the case may be reported. */
static bool end(const struct select *s, size_t i)
{
	struct sn_case *one = &s->cases[i];
	struct place *place = &s->places[i];
	bool done = false;

	if (!place->begun)
		return false;
	switch (one->op) {
	case SN_CASE_JOIN:
		done = sn_join_end(&place->join, one->elem);
		one->result = done ? 0 : one->result;
		return done;
	case SN_CASE_POLL:
		sn_watch_remove(&place->poll);
		one->result = place->poll.got ? (int)place->poll.got : -EBADF;
		return place->poll.got || place->poll.closed;
	default:
		done = sn_scope_watch_end(sn_thread_self(), &place->scope);
		one->result = done ? place->scope.result : one->result;
		return done;
	}
}

/* ---- looking ---- */

/* Stores which events each descriptor has in the result of its case. Returns 0 or an error. */
static int poll_now(const struct select *s)
{
	int err = s->fd_count > 0 ? sn_sys_poll_now(s->fds, s->fd_count) : 0;
	const struct pollfd *fd = s->fds;

	if (err < 0)
		return err;
	for (size_t i = 0; i < s->n; i++) {
		struct sn_case *one = &s->cases[i];

		if (one->op != SN_CASE_POLL || one->poll.fd < 0)
			continue;
		one->result = fd->revents & POLLNVAL ? -EBADF : fd->revents;
		fd++;
	}
	return 0;
}

/* Attempts the cases that look ready, in random order. Returns the index of the one that was done,
 * AGAIN if there is none, or an error. */
static int look(struct sn_thread *self, const struct select *s)
{
	const int64_t now = sn_now();
	int chosen, err;

	do {
		uint32_t found = 0;

		chosen = AGAIN;
		err = poll_now(s);
		if (err < 0)
			return err;
		for (size_t i = 0; i < s->n; i++)
			/* The k-th ready case replaces the chosen one with probability 1/k, so all
			 * are equally likely. */
			if (looks_ready(self, s, i, now) &&
			    (++found == 1 || sn_select_random(self, found) == 0))
				chosen = (int)i;
	} while (chosen >= 0 && !attempt(self, s, (size_t)chosen));
	return chosen;
}

/* ---- waiting ---- */

/* The earliest of the times and the deadline. */
static int64_t wait_until(const struct select *s)
{
	int64_t until = s->deadline;

	for (size_t i = 0; i < s->n; i++) {
		const struct sn_case *one = &s->cases[i];

		if (one->op == SN_CASE_TIME && one->time != SN_NO_DEADLINE &&
		    (until == SN_NO_DEADLINE || one->time < until))
			until = one->time;
	}
	return until;
}

/* Begins to wait for all cases that are not of channels. Returns 0, or why the select should not
 * wait: AGAIN or an error. */
static int begin_others(struct sn_thread *self, const struct select *s, struct sn_waiter *waiter)
{
	struct sn_queue ready = {0};
	int err = 0;

	for (size_t i = 0; i < s->n; i++)
		s->places[i].begun = false;
	for (size_t i = 0; i < s->n && err == 0; i++)
		err = begin(self, s, i, waiter, &ready);
	sn_ready_each(self, &ready);
	return err > 0 ? AGAIN : err;
}

/* Ends all waits. Returns the index of the case that was done, else of a descriptor that has an
 * event, else -1. */
static int end_all(const struct select *s, size_t count)
{
	int done = sn_select_leave(s->cases, s->chans, count), event = -1;
	uint32_t events = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (!end(s, i))
			continue;
		if (s->cases[i].op != SN_CASE_POLL)
			done = (int)i;
		else if (++events == 1 || sn_select_random(sn_thread_self(), events) == 0)
			event = (int)i;
	}
	return done >= 0 ? done : event;
}

/* Looks whether the descriptors still exist; the waits for closed ones have something to report
 * then (watch.h). */
static void look_for_closed(const struct select *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->cases[i].op == SN_CASE_POLL && s->places[i].begun)
			sn_watch_look(sn_thread_self(), s->cases[i].poll.fd);
}

/* Waits once, up to the next look at the descriptors. Returns the index of the case that was done,
 * AGAIN, or an error. The caller's self is stale afterwards. */
static int wait_once(struct sn_thread *self, const struct select *s, int64_t patience)
{
	const int64_t last = wait_until(s);
	const int64_t next_look = s->fd_count > 0 ? sn_now() + patience : SN_NO_DEADLINE;
	const bool looks = s->fd_count > 0 && (last == SN_NO_DEADLINE || next_look < last);
	struct sn_waiter waiter;
	int index, done, err;
	size_t count;

	sn_waiter_init(&waiter, self, looks ? next_look : last, SN_WAITER_SHARED);
	index = sn_select_enter(self, s->cases, s->n, s->chans, &waiter, &count, true);
	if (index >= 0)
		return index;
	if (s->fd_count > 0)
		sn_netpoll_wait_begins(); /* something may wake the task, so it is no deadlock */
	err = begin_others(self, s, &waiter);
	/* If the claim is gone, another party is ending the wait, and its result counts. */
	if (err == 0 || !sn_waiter_claim(&waiter)) {
		sn_task_waits(waiter.task, "one of several events", NULL);
		err = sn_waiter_park(&waiter, NULL);
	}
	/* A scope's deadline also ends the wait with -ETIMEDOUT, but then the task has a reason to
	 * stop. */
	if (looks && err == -ETIMEDOUT && sn_cancel_reason(sn_thread_self()->task) == 0)
		look_for_closed(s);
	done = end_all(s, count);
	if (s->fd_count > 0)
		sn_netpoll_wait_ends();
	if (done >= 0)
		return done;
	/* A time has come, or the deadline, or the next look. */
	return err == 0 || err == -ETIMEDOUT ? AGAIN : err;
}

static int select_cases(const struct select *s)
{
	int64_t patience = SN_WATCH_FIRST_LOOK_NS;
	bool waited = false;

	for (;;) {
		struct sn_thread *self = sn_thread_self();
		int index = sn_cancel_reason(self->task);

		if (index == 0)
			index = look(self, s);
		if (index >= 0 && !waited && s->deadline != SN_TRY)
			sn_fair_chance(self);
		if (index == AGAIN)
			index = sn_chan_may_wait(s->deadline);
		else
			return index;
		if (index < 0)
			return index;
		index = wait_once(self, s, patience);
		if (index != AGAIN)
			return index;
		if (patience < SN_WATCH_LAST_LOOK_NS)
			patience *= 2;
		waited = true;
	}
}

/* ---- memory ---- */

static bool prepare(struct select *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct sn_case *one = &s->cases[i];

		if (one->op != SN_CASE_POLL)
			continue;
		if (one->poll.events & ~SN_WATCH_EVENTS)
			return false;
		if (one->poll.fd < 0)
			continue;
		s->fds[s->fd_count++] = (struct pollfd){
			.fd = one->poll.fd,
			.events = (short)one->poll.events,
		};
	}
	return true;
}

static int select_many(struct select *s)
{
	int index = -ENOMEM;

	s->fds = calloc(s->n, sizeof *s->fds);
	s->places = calloc(s->n, sizeof *s->places);
	s->chans = calloc(s->n, sizeof *s->chans);
	if (s->fds && s->places && s->chans)
		index = prepare(s) ? select_cases(s) : -EINVAL;
	free(s->fds);
	free(s->places);
	free(s->chans);
	return index;
}

int sn_select_any(struct sn_case *cases, size_t n, int64_t deadline)
{
	struct sn_select_place chans[FEW];
	struct place places[FEW];
	struct pollfd fds[FEW];
	struct select s = {cases, n, deadline, fds, 0, places, chans};

	if (n > FEW)
		return select_many(&s);
	return prepare(&s) ? select_cases(&s) : -EINVAL;
}
