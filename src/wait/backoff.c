/* SPDX-License-Identifier: MIT */
#include "wait/backoff.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <sennit/clock.h>

#include "arch/arch.h"

/* A pause is 5 to 50 ns, so 32 of them keep a single wait below the resolution that the budgets
 * need. */
#define MOST_RELAXES 32

/* The affinity mask of a large machine does not fit cpu_set_t's 1,024 bits: grow until it does. */
static int count_cpus(void)
{
	for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
		size_t size = CPU_ALLOC_SIZE(cpus);
		cpu_set_t *set = CPU_ALLOC(cpus);
		int n = 0;

		if (!set)
			return 1;
		if (sched_getaffinity(0, size, set) == 0)
			n = CPU_COUNT_S(size, set);
		else if (errno != EINVAL)
			n = 1;
		CPU_FREE(set);
		if (n > 0)
			return n;
	}
	return 1;
}

int sn_usable_cpus(void)
{
	/* Relaxed: every thread that counts gets the same number, and it guards no other data. */
	static _Atomic int known;
	int n = atomic_load_explicit(&known, memory_order_relaxed);

	if (n == 0) {
		int saved = errno;

		n = count_cpus();
		errno = saved;
		atomic_store_explicit(&known, n, memory_order_relaxed);
	}
	return n;
}

bool sn_backoff_pause(struct sn_backoff *backoff)
{
	int64_t now = sn_now(), waited;

	if (backoff->began == 0) {
		backoff->began = now;
		backoff->relaxes = 1;
		if (sn_usable_cpus() == 1)
			backoff->spin_ns = 0;
	}
	waited = now - backoff->began;
	if (waited < backoff->spin_ns) {
		for (uint32_t i = 0; i < backoff->relaxes; i++)
			sn_cpu_relax();
		if (backoff->relaxes < MOST_RELAXES)
			backoff->relaxes *= 2;
		return true;
	}
	if (waited < backoff->spin_ns + backoff->yield_ns) {
		sched_yield(); /* never fails on Linux */
		return true;
	}
	return false;
}
