/* SPDX-License-Identifier: MIT */
/*
 * Who owns a lookup. The task that asks allocates it and frees it, as long as it stays. If it
 * leaves while a helper works on the lookup, it hands it over: it sets waiter to NULL under the
 * lock. The helper checks that under the lock when it is done, and frees the lookup. A lookup that
 * is still in the queue is taken out and freed by the task that leaves. So the helper reads only
 * the lookup, which is on the heap, and the waiter only under the lock or after claiming it: a
 * waiter stays until its claimer has woken it.
 *
 * The end of a run abandons tasks where they are, and with them their waiters. It waits for threads
 * that are between sn_foreign_enter() and sn_foreign_leave(), and lets none in after that. So a
 * helper reads a waiter only in between, and only if the run is still the one that the task belongs
 * to. Otherwise the waiter no longer exists.
 *
 * While there is a helper, deadlock detection finds a thread that it does not know, and reports
 * nothing.
 */
#include "net/resolver.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include <sennit/blocking.h>

#include "net/address.h"
#include "sched/cancel.h"
#include "sched/foreign.h"
#include "sched/fork.h"
#include "sched/runtime.h"
#include "sched/schedule.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sched/waiter.h"
#include "wait/lock.h"

/* Name service modules are foreign code; glibc's own take a few dozen KiB. */
#define HELPER_STACK_SIZE ((size_t)256 << 10)

/* There is no helper, and no thread could be started for one. */
#define NO_HELPER 1

enum state {
	QUEUED,
	UNDER_WAY,
	DONE,
};

struct lookup {
	struct lookup *next;
	enum state state;         /* under the lock */
	struct sn_waiter *waiter; /* under the lock; NULL: the task has left */
	uint32_t run;
	/* The helper's; the task's once the state is DONE. */
	int error;
	struct addrinfo *list;
	/* Constant. */
	struct sn_host_port parts;
	struct addrinfo hints;
};

static struct sn_lock lock; /* guards what follows, and what is marked above */
static struct lookup *first, *last;
static int helpers; /* that live, or are being started */

void sn_resolver_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase != SN_FORK_CHILD)
		return;
	/* Neither the helpers nor the tasks that asked exist here. Their memory is not worth
	 * finding. */
	first = last = NULL;
	helpers = 0;
}

static void discard(struct lookup *lookup)
{
	if (lookup->list)
		freeaddrinfo(lookup->list);
	free(lookup);
}

/* ---- the queue; under the lock ---- */

static void put(struct lookup *lookup)
{
	lookup->next = NULL;
	if (last)
		last->next = lookup;
	else
		first = lookup;
	last = lookup;
}

static void take_out(struct lookup *lookup)
{
	struct lookup *before = NULL;

	for (struct lookup *at = first; at != lookup; at = at->next)
		before = at;
	if (before)
		before->next = lookup->next;
	else
		first = lookup->next;
	if (last == lookup)
		last = before;
}

/* ---- helpers ---- */

/* The next one of the present run, NULL: none. No task waits for those of former runs. */
static struct lookup *next_lookup(void)
{
	const uint32_t run = atomic_load(&sn_runtime.run);
	struct lookup *lookup;

	while ((lookup = first) != NULL) {
		take_out(lookup);
		if (lookup->run == run)
			return lookup;
		free(lookup);
	}
	return NULL;
}

static void finish(struct lookup *lookup)
{
	const bool entered = sn_foreign_enter() == 0;
	struct sn_waiter *waiter = NULL;

	sn_lock(&lock);
	if (!lookup->waiter || !entered || lookup->run != atomic_load(&sn_runtime.run)) {
		discard(lookup);
	} else {
		lookup->state = DONE;
		/* If not, its deadline has just passed: the task checks the state of the lookup. */
		if (sn_waiter_claim(lookup->waiter))
			waiter = lookup->waiter;
	}
	sn_unlock(&lock);
	if (waiter)
		sn_waiter_wake(NULL, waiter, 0, SN_READY_LAST);
	if (entered)
		sn_foreign_leave();
}

static void *helper_main(void *arg)
{
	struct lookup *lookup;

	(void)arg;
	for (;;) {
		sn_lock(&lock);
		lookup = next_lookup();
		if (!lookup)
			break;
		lookup->state = UNDER_WAY;
		sn_unlock(&lock);
		lookup->error = sn_address_look_up(&lookup->list, &lookup->parts, &lookup->hints);
		finish(lookup);
	}
	/* With the lock: a task that queues a lookup after this finds one helper less. */
	helpers--;
	sn_unlock(&lock);
	return NULL;
}

/* Blocks all signals in the helper: the program's signals are for the program's threads. */
static int start_helper(void)
{
	pthread_attr_t attr;
	sigset_t all, former;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &former);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, HELPER_STACK_SIZE);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, helper_main, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	return -err;
}

/* ---- the task ---- */

/*
 * The last helper could not be started, so none will serve the queue. Each task that waits there
 * had counted on another task's helper, and now looks its name up without one.
 */
static void give_up_queue(struct sn_thread *self)
{
	struct lookup *lookup;
	struct sn_waiter *waiter;

	sn_lock(&lock);
	while (helpers == 0 && (lookup = next_lookup()) != NULL) {
		lookup->state = DONE;
		lookup->error = NO_HELPER;
		waiter = sn_waiter_claim(lookup->waiter) ? lookup->waiter : NULL;
		sn_unlock(&lock);
		if (waiter)
			sn_waiter_wake(self, waiter, 0, SN_READY_LAST);
		sn_lock(&lock);
	}
	sn_unlock(&lock);
}

/* False: there is no helper, so the lookup would never be served. */
static bool ask(struct sn_thread *self, struct lookup *lookup)
{
	bool more, hopeless = false;

	sn_lock(&lock);
	put(lookup);
	more = helpers < SN_RESOLVER_THREADS;
	if (more)
		helpers++;
	sn_unlock(&lock);
	if (!more || start_helper() == 0)
		return true;
	sn_lock(&lock);
	helpers--;
	if (helpers == 0 && lookup->state == QUEUED) {
		take_out(lookup);
		hopeless = true;
	}
	sn_unlock(&lock);
	give_up_queue(self);
	return !hopeless;
}

/* The wait is over, with this result: takes what was found, or leaves the lookup to the helper. */
static int collect(struct lookup *lookup, int result, struct addrinfo **list)
{
	sn_lock(&lock);
	lookup->waiter = NULL;
	if (lookup->state == UNDER_WAY) {
		sn_unlock(&lock);
		return result;
	}
	if (lookup->state == QUEUED)
		take_out(lookup);
	sn_unlock(&lock);
	if (result == 0 && (result = lookup->error) == 0) {
		*list = lookup->list;
		lookup->list = NULL;
	}
	discard(lookup);
	return result;
}

/* 0 and a list, what sn_resolve() returns, or NO_HELPER. */
static int look_up_on_helper(struct addrinfo **list, const struct sn_host_port *parts,
			     const struct addrinfo *hints, int64_t deadline)
{
	struct sn_thread *self = sn_thread_self();
	struct lookup *lookup = calloc(1, sizeof *lookup);
	struct sn_waiter waiter;

	if (!lookup)
		return -ENOMEM;
	lookup->parts = *parts;
	lookup->hints = *hints;
	lookup->run = atomic_load(&sn_runtime.run);
	/* Shared: a helper, a deadline or a scope may end it before it has parked. */
	sn_waiter_init(&waiter, self, deadline, SN_WAITER_SHARED);
	lookup->waiter = &waiter;
	if (!ask(self, lookup)) {
		free(lookup);
		return NO_HELPER;
	}
	sn_task_waits(self->task, "a name to be resolved", NULL);
	return collect(lookup, sn_waiter_park(&waiter, NULL), list);
}

/* ---- in a blocking section ---- */

struct call {
	struct addrinfo **list;
	const struct sn_host_port *parts;
	const struct addrinfo *hints;
};

static int call_resolver(void *arg)
{
	struct call *call = arg;

	return sn_address_look_up(call->list, call->parts, call->hints);
}

/* sn_blocking() is a public call, so the runtime is left around it. */
static int look_up_blocking(struct call *call)
{
	int err;

	sn_brief_pay(sn_thread_self());
	sn_runtime_leave();
	err = sn_blocking(call_resolver, call);
	sn_runtime_enter();
	return err;
}

/* ---- either ---- */

int sn_resolve(struct addrinfo **list, const char *text, bool passive, int64_t deadline)
{
	struct sn_host_port parts;
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV |
					     (passive ? AI_PASSIVE : 0)};
	struct call call = {.list = list, .parts = &parts, .hints = &hints};
	int err = NO_HELPER;

	if (sn_address_split(&parts, text) < 0 || (!passive && !parts.host[0]))
		return -EINVAL;
	if (sn_address_look_up(list, &parts, &hints) == 0)
		return 0;
	hints.ai_flags &= ~(AI_NUMERICHOST | AI_NUMERICSERV);
	if (deadline || sn_cancel_possible(sn_thread_self()->task))
		err = look_up_on_helper(list, &parts, &hints, deadline);
	return err == NO_HELPER ? look_up_blocking(&call) : err;
}
