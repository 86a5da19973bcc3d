/* SPDX-License-Identifier: MIT */
/*
 * Select over cases of every kind. It is here, and not with the select over channels
 * (sync/select.c), because it needs descriptors, which are above channels. run/run.c makes it known
 * to sn_select().
 *
 * It looks at all cases first, and chooses one of those that look ready at random. If none does, it
 * waits, once, with one waiter for all of them (task/waiter.h): in the queues of channels, in the
 * join words of tasks, with the watches of descriptors and scopes, and with the earliest of the
 * times as its deadline. Exactly one party ends the waiter:
 *
 *   - What was waited for, which then has done the case for the waiting task, if there is anything
 * to
 *     do: an element was moved, a task's end was handed over. Nothing else did anything, because
 * all
 *     of them need the waiter's claim for that.
 *   - The deadline, or a cancellation. Nothing was done.
 *   - The select itself, when a case turns out to be ready while it begins to wait for it. It can
 *     then do that case alone, because it has the claim.
 *
 * The channels come first, all of them in one step, as sync/select.c argues. While they are entered
 * the waiter is known to nobody, and may neither be ended nor end others' waits twice. Everything
 * else may be begun when the waiter has been ended already; it is then given up again.
 *
 * A descriptor's event and a time do nothing but end the wait, so several of them may come, and
 * with them something that does a case. That counts then. An event is not lost by it, because
 * readiness is a level; that a descriptor is about to be closed is not reported twice. When a time
 * has come everything is looked at again, like at the beginning.
 *
 * Rejected: a task for each case that is not of a channel, with a channel to report to. It needs
 * memory and two switches for each case, and an end that nobody waits for any more has to be given
 * back.
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
#include "sched/schedule.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sync/scope.h"
#include "sync/select.h"
#include "task/cancel.h"
#include "task/join.h"
#include "task/waiter.h"

/* So many cases need no memory beyond the stack. */
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

/* Beside errors: none of the cases was done, and all of them are to be looked at again. */
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

/* Does a case that looks ready; false if it is not any more. */
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
 * Begins to wait for a case that is not of a channel. 0; 1 when it may be ready by now; or an
 * error. The waiter may be ended from now on. *ready gets tasks.
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
		/* Not in two cases: each would keep the other from waiting, forever. */
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
		/* It was closed since the look, so another look reports that. */
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

/* Ends such a wait. True when it has ended the waiter, and the case was done; for a descriptor,
 * when it would be right to say so. */
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

/* Which descriptors are ready goes to the results of their cases. 0 or an error. */
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

/* Does one of the cases that look ready: its index, AGAIN if none does, or an error. */
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
			/* The k-th takes the place with the probability 1/k. */
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

/* Begins to wait for what is not a channel. 0, or the reason not to wait: AGAIN or an error. */
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

/* Ends all waits: the index of the case that was done; or of a descriptor with an event, if there
 * is no other; or -1. */
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

/* Waits once: the index of the case that was done, AGAIN, or an error. The caller's self is stale
 * afterwards. */
static int wait_once(struct sn_thread *self, const struct select *s)
{
	struct sn_waiter waiter;
	int index, done, err;
	size_t count;

	sn_waiter_init(&waiter, self, wait_until(s), SN_WAITER_SHARED);
	index = sn_select_enter(self, s->cases, s->n, s->chans, &waiter, &count, true);
	if (index >= 0)
		return index;
	if (s->fd_count > 0)
		sn_netpoll_add(); /* something may wake the task, so it is no deadlock */
	err = begin_others(self, s, &waiter);
	/* If the claim is gone the wait is being ended, and that counts. */
	if (err == 0 || !sn_waiter_claim(&waiter)) {
		sn_task_waits(waiter.task, "one of several events", NULL);
		err = sn_waiter_park(&waiter, NULL);
	}
	done = end_all(s, count);
	if (s->fd_count > 0)
		sn_netpoll_remove();
	if (done >= 0)
		return done;
	/* A time has come, or the deadline. */
	return err == 0 || err == -ETIMEDOUT ? AGAIN : err;
}

static int select_cases(const struct select *s)
{
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
		index = wait_once(self, s);
		if (index != AGAIN)
			return index;
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
