/* SPDX-License-Identifier: MIT */
#include "wait/checked.h"

#if SENNIT_CHECKED

#	include <poll.h>
#	include <stdarg.h>
#	include <stdio.h>
#	include <stdlib.h>
#	include <string.h>
#	include <sys/mman.h>
#	include <ucontext.h>

#	include "arch/registers.h"
#	include "wait/lock.h"

/* fork() holds thousands of locks: those beyond this number are only counted. */
#	define MOST_NAMED 16

#	define MOST_PASSES 8

/* How many bytes of a stack a backtrace may look at. */
#	define STACK_WALKED 65536

static const struct {
	const char *name;
	int flags;
} ranks[] = {
#	define SN_LOCK_RANK(rank, text, flags) {text, flags},
	SN_LOCK_RANKS(SN_LOCK_RANK)
#	undef SN_LOCK_RANK
};

/* Only the thread itself writes it, also in its signal handlers. */
static __thread struct {
	struct sn_lock *held[MOST_NAMED]; /* in the order in which they were taken */
	int named;
	int further; /* how many locks the thread holds beyond MOST_NAMED */
	struct sn_lock *handed;
	int passes;
	int held_in[MOST_PASSES]; /* how many locks were held when each began */
	int needed;               /* how many others wait for the thread */
	const char *thread;       /* its name, if it must not wait; NULL: it may */
	bool watched, failing;
} me;

void (*sn_checked_backtrace)(const void *context, const void *stack_high);

static int rank_of(struct sn_lock *lock)
{
	return (int)sn_lock_rank(lock);
}

static bool is_bound(void)
{
	return me.named > 0 || me.further > 0 || me.needed > 0 || me.thread != NULL;
}

/* Whether the thread is in a stretch that may wait, and holds no lock that it took within it. */
static bool is_in_pass(void)
{
	return me.passes > 0 && me.named + me.further <= me.held_in[me.passes - 1];
}

bool sn_checked_may_wait(void)
{
	return !is_bound() || is_in_pass() || me.failing;
}

bool sn_checked_may_allocate(void)
{
	for (int i = 0; i < me.named; i++)
		if (!(ranks[rank_of(me.held[i])].flags & SN_LOCK_MEMORY))
			return false;
	return true;
}

/* Has the kernel dispatch system calls to the handler only while the thread must not wait, so that
 * others cost nothing more. */
static void watch_if_bound(void)
{
	const bool on = !sn_checked_may_wait();

	if (on != me.watched) {
		me.watched = on;
		sn_checked_watch(on);
	}
}

/* ---- the report ---- */

/* Returns the end of the mapped pages from the address upwards, at most STACK_WALKED further on. */
static const void *stack_above(const void *address)
{
	const uintptr_t page = 4096;
	uintptr_t at = (uintptr_t)address & -page;
	unsigned char resident;

	for (int i = 0; i < (int)(STACK_WALKED / page); i++, at += page)
		if (mincore((void *)at, page, &resident) < 0)
			break;
	return (const void *)at;
}

void sn_checked_fail(const void *context, const char *format, ...)
{
	char text[1024] = "";
	struct pollfd room = {.fd = 2, .events = POLLOUT};
	size_t used = 0;
	ucontext_t here;
	va_list args;

	me.failing = true;
	watch_if_bound();
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	used = strlen(text);
	for (int i = me.named; i-- > 0 && used < sizeof text;)
		used += (size_t)snprintf(text + used, sizeof text - used, "%s \"%s\" (%p)",
					 i == me.named - 1 ? "; held:" : ",",
					 ranks[rank_of(me.held[i])].name, (void *)me.held[i]);
	if (me.further > 0 && used < sizeof text)
		snprintf(text + used, sizeof text - used, ", and %d more", me.further);
	sn_log("%s", text);
	if (!context && sn_registers_here(&here))
		context = &here;
	if (sn_checked_backtrace && poll(&room, 1, 0) > 0)
		sn_checked_backtrace(context, stack_above(&here));
	abort();
}

/* ---- locks ---- */

void sn_checked_lock(struct sn_lock *lock)
{
	const int rank = rank_of(lock);

	if (me.failing)
		return;
	if (rank == SN_RANK_NONE)
		sn_checked_fail(NULL, "the lock %p has no line in src/wait/rank.h", (void *)lock);
	for (int i = 0; i < me.named; i++) {
		const int held = rank_of(me.held[i]);

		if (me.held[i] == lock)
			sn_checked_fail(NULL, "\"%s\" (%p) is taken twice", ranks[rank].name,
					(void *)lock);
		if (held > rank || (held == rank && !(ranks[rank].flags & SN_LOCK_ALIKE)))
			sn_checked_fail(NULL, "\"%s\" (%p) is taken while \"%s\" is held",
					ranks[rank].name, (void *)lock, ranks[held].name);
	}
}

void sn_checked_locked(struct sn_lock *lock)
{
	if (me.named < MOST_NAMED)
		me.held[me.named++] = lock;
	else
		me.further++;
	watch_if_bound();
}

void sn_checked_unlock(struct sn_lock *lock)
{
	int i = me.named;

	while (i-- > 0 && me.held[i] != lock)
		;
	if (i >= 0) {
		me.named--;
		memmove(&me.held[i], &me.held[i + 1], (size_t)(me.named - i) * sizeof me.held[0]);
	} else if (me.further > 0) {
		me.further--;
	} else if (!me.failing) {
		sn_checked_fail(NULL, "\"%s\" (%p) is released by a thread that does not hold it",
				ranks[rank_of(lock)].name, (void *)lock);
	}
	if (me.handed == lock)
		me.handed = NULL;
	watch_if_bound();
}

/* ---- waits ---- */

const char *sn_checked_who(void)
{
	return me.thread       ? me.thread
	       : me.needed > 0 ? "a thread that the end of the run waits for"
			       : "a thread";
}

void sn_checked_wait(const char *what)
{
	if (!sn_checked_may_wait())
		sn_checked_fail(NULL, "%s sleeps in %s", sn_checked_who(), what);
}

void sn_checked_line(void)
{
	if (me.named + me.further > 0 && !me.failing)
		sn_checked_fail(NULL, "%s writes a line on stderr", sn_checked_who());
}

void sn_checked_callback(const char *what)
{
	if (!sn_checked_may_wait())
		sn_checked_fail(NULL, "%s calls the program's %s", sn_checked_who(), what);
}

void sn_checked_hand_over(struct sn_lock *lock)
{
	me.handed = lock;
}

void sn_checked_leave(void)
{
	const int allowed = me.handed != NULL;

	if (me.passes > 0)
		sn_checked_fail(NULL, "a task leaves its thread in a stretch that may wait");
	if (me.named + me.further != allowed || (allowed && me.held[0] != me.handed))
		sn_checked_fail(NULL, "a task leaves its thread");
}

void sn_checked_pass(void)
{
	if (me.passes == MOST_PASSES)
		sn_checked_fail(NULL, "stretches that may wait are nested too deeply");
	me.held_in[me.passes++] = me.named + me.further;
	watch_if_bound();
}

void sn_checked_pass_end(void)
{
	me.passes--;
	watch_if_bound();
}

void sn_checked_needed(bool begins)
{
	me.needed += begins ? 1 : -1;
	watch_if_bound();
}

void sn_checked_thread(const char *name)
{
	me.thread = name;
	watch_if_bound();
}

#endif
