/* SPDX-License-Identifier: MIT */
/*
 * Who owns a lookup. Tasks that have joined a lookup are its users. The last user that leaves frees
 * it, unless a helper is working on it; then that helper frees it at the end, if it has no users at
 * that time. A lookup that loses its last user while it is queued is taken out of the queue. A
 * helper touches what is on a task's stack only under the lock and while it is in the lookup's
 * list, or after claiming the waiter: a waiter stays until its claimer has woken it.
 *
 * The end of a run abandons tasks where they are, and with them their waiters. It waits for threads
 * that are between sn_foreign_enter() and sn_foreign_leave(), and lets none in after that.
 * Therefore a helper reads a waiter only between these two calls, and only if the run is still the
 * one that the tasks belong to.
 *
 * An abandoned task never leaves its lookup. When the end of the run no longer admits helpers, some
 * tasks have not been abandoned yet and may still use their lookups, because their threads are
 * stopped later. Therefore, until another run has begun, no helper frees a lookup with users, and
 * none serves the queue. Once another run has begun, no task holds a lookup of a previous run. The
 * first helper then frees those that are left, except the lookups that are under way, which their
 * helpers free.
 *
 * No thread watches the queue. Each lookup in it has a time at which it is due: when the lookups
 * before it must have begun, if SN_LOOKUP_THREADS of them begin in each SN_LOOKUP_SLOW_NS. A task
 * that waits for the lookup wakes at that time, and if the lookup is still queued, the task starts
 * a helper, which takes the head of the queue. That may be another lookup that was due at about the
 * same time, and for which no further helper is needed then. Therefore the lookup becomes due again
 * after SN_LOOKUP_SLOW_NS. In the ordinary case a helper takes a lookup long before it is due, and
 * no task wakes except for the answer.
 *
 * models/lookup.pml checks who frees a lookup, and that no task waits for a helper that does not
 * exist. While there is a helper, deadlock detection reports nothing, because it finds a thread
 * that it does not know.
 */
#include "names/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/blocking.h>
#include <sennit/clock.h>

#include "sched/birth.h"
#include "sched/foreign.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sched/thread_list.h"
#include "task/cancel.h"
#include "task/waiter.h"
#include "wait/lock.h"

/* Chains of lookups with the same hash. Unless many different names are looked up at the same time,
 * each chain has one lookup or none. */
#define CHAINS 64

/* The error of a lookup for which there is no helper, and no thread could be started. */
#define NO_HELPER 1

enum state { QUEUED, UNDER_WAY, DONE, STATES };

/* A wait for a lookup, on the stack of the task. Under the lock. */
struct wait {
	struct sn_waiter waiter;
	struct wait *prev, *next;
	bool listed;
};

/* A lookup. All fields are under the lock, except where it says otherwise. */
struct lookup {
	struct lookup *chain;       /* the next in its hash chain, until DONE; or in unused */
	struct lookup *prev, *next; /* in the list of its state */
	enum state state;
	uint32_t users; /* tasks that have joined and not left */
	int64_t begun;  /* when it was taken from the queue */
	int64_t due;    /* when a waiting task starts one more helper; 0: never, since all that may
		      * exist do */
	struct wait *waits;
	/* Until the state is DONE, written by the helper without the lock, or by start_here() if
	 * there is no helper. Constant after that. */
	int error;
	void *answer;
	size_t size;
	/* Constant. */
	uint32_t run;
	uint32_t hash;
	struct sn_question question; /* its key is the copy that follows */
	char key[];
};

struct list {
	struct lookup *first, *last;
	int count;
};

static struct sn_lock lock =
	SN_LOCK_INIT(SN_RANK_LOOKUPS); /* guards what follows, and the structures above */
static struct lookup *chains[CHAINS];
static struct list lists[STATES]; /* each in the order in which its lookups were put there */
static struct lookup *unused;     /* to be freed when the lock is released */
static int helpers;               /* helpers that run, or are being started */
static int to_start;              /* how many of these another thread is to start
				   * (start_helper()) */

void sn_lookups_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase != SN_FORK_CHILD)
		return;
	/* The helpers and the tasks that asked do not exist in the child. The lookups are lost. */
	memset(chains, 0, sizeof chains);
	memset(lists, 0, sizeof lists);
	helpers = to_start = 0;
}

/* Has a lookup freed that is in no list and in no hash chain. Under the lock. */
static void discard(struct lookup *lookup)
{
	lookup->chain = unused;
	unused = lookup;
}

/* Releases the lock, and then frees what was discarded, because free() may wait. */
static void unlock(void)
{
	struct lookup *lookup = unused;

	unused = NULL;
	sn_unlock(&lock);
	for (struct lookup *next; lookup; lookup = next) {
		next = lookup->chain;
		free(lookup->answer);
		free(lookup);
	}
}

/* ---- lists; under the lock ---- */

static void append(struct lookup *lookup)
{
	struct list *list = &lists[lookup->state];

	lookup->next = NULL;
	lookup->prev = list->last;
	*(list->last ? &list->last->next : &list->first) = lookup;
	list->last = lookup;
	list->count++;
}

static void take_out(struct lookup *lookup)
{
	struct list *list = &lists[lookup->state];

	*(lookup->prev ? &lookup->prev->next : &list->first) = lookup->next;
	*(lookup->next ? &lookup->next->prev : &list->last) = lookup->prev;
	list->count--;
}

static void move_to(struct lookup *lookup, enum state state)
{
	take_out(lookup);
	lookup->state = state;
	append(lookup);
}

/* Takes the lookup out of its hash chain, so that no task joins it from now on. */
static void unchain(struct lookup *lookup)
{
	struct lookup **at = &chains[lookup->hash % CHAINS];

	while (*at != lookup)
		at = &(*at)->chain;
	*at = lookup->chain;
}

static bool same(const struct lookup *a, const struct lookup *b)
{
	return a->hash == b->hash && a->run == b->run && a->question.answer == b->question.answer &&
	       a->question.key_size == b->question.key_size &&
	       memcmp(a->key, b->key, b->question.key_size) == 0;
}

static void list_wait(struct lookup *lookup, struct wait *wait)
{
	wait->prev = NULL;
	wait->next = lookup->waits;
	if (wait->next)
		wait->next->prev = wait;
	lookup->waits = wait;
	wait->listed = true;
}

static void unlist_wait(struct lookup *lookup, struct wait *wait)
{
	*(wait->prev ? &wait->prev->next : &lookup->waits) = wait->next;
	if (wait->next)
		wait->next->prev = wait->prev;
	wait->listed = false;
}

/* ---- the end of a lookup ---- */

/*
 * Claims the waits of a lookup that is DONE. Puts the waits that are to be woken into *woken and
 * returns the new list. If a claim fails, the wait has just ended for another reason, and its task
 * finds the state.
 */
static struct wait *end_waits(struct lookup *lookup, struct wait *woken)
{
	struct wait *wait;

	while ((wait = lookup->waits) != NULL) {
		unlist_wait(lookup, wait);
		if (!sn_waiter_claim(&wait->waiter))
			continue;
		wait->next = woken;
		woken = wait;
	}
	return woken;
}

static void wake_all(struct sn_thread *self, struct wait *woken)
{
	while (woken) {
		struct wait *next = woken->next;

		sn_waiter_wake(self, &woken->waiter, 0, SN_READY_LAST);
		woken = next;
	}
}

/* ---- helpers ---- */

/* Discards the lookups of previous runs, which come first in the list. */
static void drop_former(enum state state, uint32_t run)
{
	struct lookup *lookup;

	while ((lookup = lists[state].first) != NULL && lookup->run != run) {
		if (state == QUEUED)
			unchain(lookup);
		take_out(lookup);
		discard(lookup);
	}
}

/* Returns the head of the queue, or NULL if it is empty or no run lets helpers wake its tasks. */
static struct lookup *first_queued(void)
{
	const uint32_t run = atomic_load(&sn_runtime.run);

	if (!sn_foreign_admitted())
		return NULL;
	drop_former(QUEUED, run);
	drop_former(DONE, run);
	return lists[QUEUED].first;
}

static void finish(struct lookup *lookup)
{
	const bool entered = sn_foreign_enter() == 0;
	struct wait *woken = NULL;

	sn_lock(&lock);
	unchain(lookup);
	if (lookup->run != atomic_load(&sn_runtime.run) || lookup->users == 0) {
		take_out(lookup);
		discard(lookup);
	} else {
		move_to(lookup, DONE);
		if (entered)
			woken = end_waits(lookup, NULL);
	}
	unlock();
	wake_all(NULL, woken);
	if (entered)
		sn_foreign_leave();
}

static void *helper_main(void *arg)
{
	struct lookup *lookup;

	(void)arg;
	for (;;) {
		sn_lock(&lock);
		lookup = first_queued();
		if (!lookup)
			break;
		move_to(lookup, UNDER_WAY);
		lookup->begun = sn_now();
		unlock();
		lookup->error =
			lookup->question.answer(lookup->key, &lookup->answer, &lookup->size);
		finish(lookup);
	}
	/* Under the lock, so that a task that queues a lookup after this does not count this
	 * helper. */
	helpers--;
	unlock();
	return NULL;
}

/* Blocks all signals in the helper: the program's signals are for the program's threads. */
static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, former;
	pthread_t thread;
	int err;

	sigfillset(&all);
	if (SENNIT_CHECKED)
		sigdelset(&all, SIGSYS); /* wait/system_call.c */
	pthread_sigmask(SIG_SETMASK, &all, &former);
	sn_thread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The monitor, too, gets here (birth.h). This maps a stack, as every start of a thread. */
	sn_checked_pass();
	err = pthread_create(&thread, &attr, helper_main, NULL);
	sn_checked_pass_end();
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	return -err;
}

/*
 * Starts a helper that has been counted, on a thread that may start threads. If that fails and
 * there is no other helper, no thread would serve the queue. All queued lookups then end with
 * NO_HELPER, and each task looks its name up without a helper.
 */
static void start_here(struct sn_thread *self)
{
	struct lookup *lookup;
	struct wait *woken = NULL;

	if (start_thread() == 0)
		return;
	sn_lock(&lock);
	helpers--;
	while (helpers == 0 && (lookup = first_queued()) != NULL) {
		unchain(lookup);
		lookup->error = NO_HELPER;
		move_to(lookup, DONE);
		woken = end_waits(lookup, woken);
	}
	unlock();
	wake_all(self, woken);
}

static void start_those_asked(void)
{
	int count;

	sn_lock(&lock);
	count = to_start;
	to_start = 0;
	sn_unlock(&lock);
	while (count-- > 0)
		start_here(NULL);
}

/*
 * Starts a helper that has been counted. A pinned task may have changed its thread, for example to
 * another network, and a new thread would inherit that although it serves all tasks. Therefore such
 * a task lets another thread start the helper. Other tasks have undone such changes before they
 * make a call that parks.
 */
static void start_helper(struct sn_thread *self)
{
	static struct sn_birth birth = {.begin = start_those_asked};

	if (!self->altered) {
		start_here(self);
		return;
	}
	sn_lock(&lock);
	to_start++;
	sn_unlock(&lock);
	sn_birth_ask(&birth);
}

/* How many lookups have been under way for so long that they are not counted. Under the lock. */
static int slow_ones(int64_t now)
{
	int count = 0;

	for (struct lookup *at = lists[UNDER_WAY].first; at && now - at->begun >= SN_LOOKUP_SLOW_NS;
	     at = at->next)
		count++;
	return count;
}

/* Whether to start a helper for a lookup that was queued just now. If so, counts it. Under the
 * lock. */
static bool want_helper(int64_t now)
{
	if (helpers >= SN_LOOKUP_MOST_THREADS ||
	    (helpers >= SN_LOOKUP_THREADS && helpers - slow_ones(now) >= SN_LOOKUP_THREADS))
		return false;
	helpers++;
	return true;
}

/* ---- the task ---- */

static uint32_t hash_of(const struct sn_question *question)
{
	const unsigned char *bytes = question->key;
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < question->key_size; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash;
}

static struct lookup *make(const struct sn_question *question)
{
	struct lookup *lookup = calloc(1, sizeof *lookup + question->key_size);

	if (!lookup)
		return NULL;
	memcpy(lookup->key, question->key, question->key_size);
	lookup->question = *question;
	lookup->question.key = lookup->key;
	lookup->hash = hash_of(question);
	lookup->run = atomic_load(&sn_runtime.run);
	return lookup;
}

/* Queues the lookup, or joins the one that asks the same question. Returns the lookup that the task
 * uses; discards `mine` if that is another one. */
static struct lookup *join(struct sn_thread *self, struct lookup *mine)
{
	struct lookup *lookup;
	int64_t now = sn_now();
	bool start = false;

	sn_lock(&lock);
	for (lookup = chains[mine->hash % CHAINS]; lookup; lookup = lookup->chain)
		if (same(lookup, mine))
			break;
	if (!lookup) {
		lookup = mine;
		lookup->chain = chains[mine->hash % CHAINS];
		chains[mine->hash % CHAINS] = lookup;
		lookup->due = now + (int64_t)(1 + lists[QUEUED].count / SN_LOOKUP_THREADS) *
					    SN_LOOKUP_SLOW_NS;
		append(lookup);
		start = want_helper(now);
	}
	lookup->users++;
	if (lookup != mine)
		discard(mine);
	unlock();
	if (start)
		start_helper(self);
	return lookup;
}

/* Called when the lookup may be due. If it is due and still queued, all helpers are busy, so this
 * starts one more. */
static void hasten(struct sn_thread *self, struct lookup *lookup)
{
	const int64_t now = sn_now();
	bool start;

	sn_lock(&lock);
	start = lookup->state == QUEUED && lookup->due && now >= lookup->due;
	if (start && helpers < SN_LOOKUP_MOST_THREADS) {
		lookup->due = now + SN_LOOKUP_SLOW_NS;
		helpers++;
	} else if (start) {
		lookup->due = 0;
		start = false;
	}
	sn_unlock(&lock);
	if (start)
		start_helper(self);
}

/* Waits until the answer, the deadline, or the time at which the lookup is due. Returns as
 * sn_waiter_park(). */
static int wait_once(struct lookup *lookup, int64_t deadline)
{
	struct sn_thread *self = sn_thread_self();
	struct wait wait;
	int result;

	sn_lock(&lock);
	if (lookup->state == DONE) {
		sn_unlock(&lock);
		return 0;
	}
	if (lookup->state == QUEUED && lookup->due && (!deadline || lookup->due < deadline))
		deadline = lookup->due;
	/* Shared: a helper, a deadline or a scope may end the wait before it has parked. */
	sn_waiter_init(&wait.waiter, self, deadline, SN_WAITER_SHARED);
	list_wait(lookup, &wait);
	sn_unlock(&lock);
	sn_task_waits(self->task, "a name to be resolved", NULL);
	result = sn_waiter_park(&wait.waiter, NULL);
	sn_lock(&lock);
	if (wait.listed)
		unlist_wait(lookup, &wait);
	sn_unlock(&lock);
	return result;
}

static int wait_for(struct lookup *lookup, int64_t deadline)
{
	int result, reason;

	for (;;) {
		result = wait_once(lookup, deadline);
		if (result != -ETIMEDOUT || (deadline && sn_now() >= deadline))
			return result;
		/* The deadline that passed may be that of the scope, which also gives
		 * -ETIMEDOUT. */
		reason = sn_cancel_reason(sn_thread_self()->task);
		if (reason < 0)
			return reason;
		hasten(sn_thread_self(), lookup);
	}
}

/* Copies the answer for a user of the lookup. */
static int copy_answer(const struct lookup *lookup, void **answer, size_t *size)
{
	if (lookup->error)
		return lookup->error;
	*answer = malloc(lookup->size);
	if (!*answer)
		return -ENOMEM;
	memcpy(*answer, lookup->answer, lookup->size);
	*size = lookup->size;
	return 0;
}

static void leave(struct lookup *lookup)
{
	sn_lock(&lock);
	if (--lookup->users == 0 && lookup->state != UNDER_WAY) {
		if (lookup->state == QUEUED)
			unchain(lookup);
		take_out(lookup);
		discard(lookup);
	}
	unlock();
}

/* For a call of sn_blocking(), which is public, so this leaves the runtime around it. */
struct call {
	const struct sn_question *question;
	void **answer;
	size_t *size;
};

static int call_answer(void *arg)
{
	struct call *call = arg;

	return call->question->answer(call->question->key, call->answer, call->size);
}

static int look_up_blocking(const struct sn_question *question, void **answer, size_t *size)
{
	struct call call = {.question = question, .answer = answer, .size = size};
	int err;

	sn_brief_pay(sn_thread_self());
	sn_runtime_leave();
	err = sn_blocking(call_answer, &call);
	sn_runtime_enter();
	return err;
}

int sn_lookup(const struct sn_question *question, int64_t deadline, void **answer, size_t *size)
{
	struct sn_thread *self = sn_thread_self();
	int result = sn_cancel_reason(self->task);
	struct lookup *lookup;

	if (result == 0 && deadline && sn_now() >= deadline)
		result = -ETIMEDOUT;
	if (result < 0)
		return result;
	lookup = make(question);
	if (!lookup)
		return -ENOMEM;
	lookup = join(self, lookup);
	result = wait_for(lookup, deadline);
	if (result == 0)
		result = copy_answer(lookup, answer, size);
	leave(lookup);
	return result == NO_HELPER ? look_up_blocking(question, answer, size) : result;
}
