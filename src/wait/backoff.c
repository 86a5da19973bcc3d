/* SPDX-License-Identifier: MIT */
#include "wait/backoff.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "arch/arch.h"

/*
 * The first pause, and the limit up to which pauses double. They are measured by the clock, because
 * one sn_cpu_relax() takes between 1 and 50 ns, depending on the machine.
 *
 * The first pause is several times as long as the runtime's locks are held. A holder, which most
 * likely wants the lock again soon, therefore keeps it and its cache lines for some rounds instead
 * of handing them over in each. Eight tasks on one channel, on two processors, took 40 ns an item
 * with pauses that began with 26 ns, 29 with 100, 23 with 200, 20 with 400; a mutex took 7.4, 6.6,
 * 6.6 and 6.1; two tasks on one channel did not differ (bench-tasks, four runs in turns). The limit
 * is short enough that a wait ends close to its budget.
 */
#define FIRST_PAUSE_NS 200
#define LAST_PAUSE_NS 800
#define MOST_RELAXES 1000

/*
 * Reads the main thread's mask, whichever thread calls. The mask of a large machine does not fit
 * into cpu_set_t's 1,024 bits, so the set grows until it does.
 */
static int count_cpus(void)
{
	for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
		size_t size = CPU_ALLOC_SIZE(cpus);
		cpu_set_t *set = CPU_ALLOC(cpus);
		int n = 0;

		if (!set)
			return 1;
		if (sched_getaffinity(getpid(), size, set) == 0)
			n = CPU_COUNT_S(size, set);
		else if (errno != EINVAL)
			n = 1;
		CPU_FREE(set);
		if (n > 0)
			return n;
	}
	return 1;
}

/* Relaxed: a thread that reads the previous number for a while spins a little more or less. */
static _Atomic int usable_cpus;

int sn_count_cpus(void)
{
	int saved = errno, n = count_cpus();

	errno = saved;
	atomic_store_explicit(&usable_cpus, n, memory_order_relaxed);
	return n;
}

int sn_usable_cpus(void)
{
	int n = atomic_load_explicit(&usable_cpus, memory_order_relaxed);

	return n ? n : sn_count_cpus();
}

#if SENNIT_DEBUG
void sn_race_window(void)
{
	static _Atomic int wanted = -1;
	static _Atomic uint32_t seed = 1;
	int on = atomic_load_explicit(&wanted, memory_order_relaxed);
	uint32_t random;

	if (on < 0) {
		const char *text = getenv("SENNIT_RACE");

		on = text && *text == '1';
		atomic_store_explicit(&wanted, on, memory_order_relaxed);
	}
	if (!on)
		return;
	/* Races on the seed only make it more random. One call in eight pauses, for up to some 10
	 * us; one in 64 lets others run. */
	random = atomic_load_explicit(&seed, memory_order_relaxed) * 1664525 + 1013904223;
	atomic_store_explicit(&seed, random, memory_order_relaxed);
	random >>= 8;
	if ((random & 63) == 0)
		sched_yield();
	else if ((random & 7) == 0)
		for (uint32_t i = 0; i < (random >> 6 & 255); i++)
			sn_cpu_relax();
}
#endif

/* Relaxed, as usable_cpus. */
static _Atomic bool only_spin;

void sn_backoff_only_spin(bool only)
{
	atomic_store_explicit(&only_spin, only, memory_order_relaxed);
}

static sn_noinline void begin(struct sn_backoff *backoff, int64_t now)
{
	backoff->began = now;
	backoff->pause_ns = FIRST_PAUSE_NS;
	if (sn_usable_cpus() == 1)
		backoff->spin_ns = 0;
	if ((SN_BACKOFF_FOR_THREADS >> backoff->site & 1) &&
	    atomic_load_explicit(&only_spin, memory_order_relaxed))
		backoff->spin_ns = INT64_MAX;
}

/* Bounded, because sn_now() returns a constant error where a process can read no clock
 * (sennit/clock.h). */
static void pause_until(int64_t when)
{
	for (int i = 0; i < MOST_RELAXES && (i == 0 || sn_now() < when); i++)
		sn_cpu_relax();
}

bool sn_backoff_pause(struct sn_backoff *backoff)
{
	int64_t now = sn_now(), waited;

	if (backoff->began == 0)
		begin(backoff, now);
	waited = now - backoff->began;
	if (waited < backoff->spin_ns) {
		int64_t left = backoff->spin_ns - waited;

		pause_until(now + (left < backoff->pause_ns ? left : backoff->pause_ns));
		if (backoff->pause_ns < LAST_PAUSE_NS)
			backoff->pause_ns *= 2;
		return true;
	}
	if (waited < backoff->spin_ns + backoff->yield_ns) {
		sched_yield(); /* never fails on Linux */
		return true;
	}
	backoff->slept = true;
	return false;
}

int64_t sn_backoff_waited(const struct sn_backoff *backoff)
{
	return backoff->began ? sn_now() - backoff->began : 0;
}

void sn_backoff_record(const struct sn_backoff *backoff)
{
	sn_wait_record(backoff->site, sn_now() - backoff->began, backoff->slept);
}
