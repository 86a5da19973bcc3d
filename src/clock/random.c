/* SPDX-License-Identifier: MIT */
/*
 * Random bytes by the vDSO (Linux 6.11), which generates them from a state in this library's
 * memory. The vDSO seeds it from the kernel and erases it as it goes.
 *
 * The vDSO asks for one state per thread, in memory mapped with its flags, so that fork() and
 * memory pressure zero it, which the vDSO notices. What matters to it is that only one caller at a
 * time uses a state; that need not always be the same thread. There is one page of states for the
 * whole process, and each state has a flag that its present user holds. The search for a free flag
 * starts at a place that depends on the caller's stack, so threads and tasks rarely meet. A signal
 * handler that interrupts the holder of a state finds the flag set and takes another state. A
 * caller that finds FEW_TRIES flags taken makes the system call instead; nothing waits.
 *
 * A flag that another thread holds at fork() stays set in the child, because nothing there clears
 * it: the child has one state less. The states themselves cannot repeat the parent's bytes. The
 * flags lie in ordinary memory, not beside the states, where fork() would wipe them. If a signal
 * handler interrupted a call and forked, it could then in the child take the state that the
 * interrupted call continues to use.
 *
 * The page is mapped before main(), because a seccomp filter may follow that does not let the
 * process map memory. Without a libc the first call maps it.
 *
 * Rejected: a state per thread in thread-local memory, as libc does. It needs a hook at thread exit
 * to reclaim the state, thread-locals in a library without libc, and care with tasks that move.
 */
#include "clock/clock.h"

#include <errno.h>
#include <linux/mman.h>

#define MOST_STATES 16
#define FEW_TRIES 3

/* The vDSO's requirements for the memory of states, in the kernel's layout. */
struct parameters {
	uint32_t size, protection, flags, reserved[13];
};

/* Written once each, by prepare(); `states` last, with release. */
static _Atomic uint32_t state_size, stride, count;
static _Atomic(char *) states; /* NULL: not mapped yet */
static _Atomic uint32_t tried; /* 1: a caller is mapping them, or has tried; no other caller tries
                                * again */

/* Each flag has a cache line of its own, because a state stays with one core as long as no other
 * takes it. */
static struct {
	_Alignas(SN_CACHE_LINE) _Atomic uint32_t taken;
} flag[MOST_STATES];

static ssize_t by_syscall(void *bytes, size_t size, uint32_t flags)
{
	return sn_clock_sys3(__NR_getrandom, (long)bytes, (long)size, (long)flags);
}

/* Maps the states. Returns NULL, and the caller makes a system call, if that fails or another
 * caller has begun it, perhaps one that this caller has interrupted. */
static char *prepare(sn_getrandom_function *function)
{
	static struct sn_page place;
	struct parameters wanted;
	char *page = sn_page(&place);
	uint32_t room;

	if (atomic_exchange_explicit(&tried, 1, memory_order_relaxed))
		return NULL;

	/* The documented way to ask: everything zero, and the size of the state all ones. */
	if (function(NULL, 0, 0, &wanted, ~(size_t)0) != 0 || !wanted.size ||
	    wanted.size > SN_PAGE_BYTES)
		return NULL;
	/* No state may cross a page. The other parts of a larger page are not used. */
	room = (wanted.size + 63) / 64 * 64;
	if (room > SN_PAGE_BYTES)
		room = SN_PAGE_BYTES;
	if (sn_sys_map(page, SN_PAGE_BYTES, (int)wanted.protection,
		       (int)wanted.flags | MAP_FIXED) != (long)page)
		return NULL;

	atomic_store_explicit(&state_size, wanted.size, memory_order_relaxed);
	atomic_store_explicit(&stride, room, memory_order_relaxed);
	atomic_store_explicit(
		&count, SN_PAGE_BYTES / room < MOST_STATES ? SN_PAGE_BYTES / room : MOST_STATES,
		memory_order_relaxed);
	atomic_store_explicit(&states, page, memory_order_release);
	return page;
}

/* The page of states, or NULL: then the caller makes the system call. */
static char *get_states(sn_getrandom_function *function)
{
	char *page = atomic_load_explicit(&states, memory_order_acquire);

	if (sn_unlikely(!page) && function && !atomic_load_explicit(&tried, memory_order_relaxed))
		page = prepare(function);
	return page;
}

#ifndef SENNIT_NO_LIBC
/* It is in this file, so that static programs that do not call sn_getrandom() do not get it. */
__attribute__((constructor(101))) static void prepare_early(void)
{
	get_states(sn_clock_getrandom_function());
}
#endif

ssize_t sn_getrandom(void *bytes, size_t size, uint32_t flags)
{
	sn_getrandom_function *function = sn_clock_getrandom_function();
	char *page = get_states(function);
	uint32_t n, at;

	if (sn_unlikely(!page))
		return by_syscall(bytes, size, flags);
	n = atomic_load_explicit(&count, memory_order_relaxed);
	/* Stacks are pages apart; the multiplier spreads their numbers over the top bits. */
	at = (uint32_t)((uintptr_t)&n >> 12) * 2654435769u >> 16;
	for (int i = 0; i < FEW_TRIES; i++) {
		uint32_t which = (at + (uint32_t)i) % n;
		ssize_t result;

		/* Acquire and release: the next user of the state sees what this one wrote. */
		if (atomic_exchange_explicit(&flag[which].taken, 1, memory_order_acquire))
			continue;
		result =
			function(bytes, size, flags,
				 page + which * atomic_load_explicit(&stride, memory_order_relaxed),
				 atomic_load_explicit(&state_size, memory_order_relaxed));
		atomic_store_explicit(&flag[which].taken, 0, memory_order_release);
		return result;
	}
	return by_syscall(bytes, size, flags);
}

int sn_getrandom_source(void)
{
	return get_states(sn_clock_getrandom_function()) ? SN_CLOCK_SOURCE_VDSO
							 : SN_CLOCK_SOURCE_SYSCALL;
}
