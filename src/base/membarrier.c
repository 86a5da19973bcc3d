/* SPDX-License-Identifier: MIT */
#include "base/membarrier.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/compiler.h"
#include "wait/checked.h"
#include "wait/lock.h"

/* The kernel's <linux/membarrier.h>, which may be older than the kernel. */
#define MEMBARRIER_PRIVATE_EXPEDITED (1 << 3)
#define MEMBARRIER_REGISTER_PRIVATE_EXPEDITED (1 << 4)

/* Relaxed: the threads of a run start after the choice, and other readers only show it. */
static _Atomic bool use_membarrier, chosen;

/* How the last barrier was executed, if membarrier is used. A filter of system calls belongs to
 * threads, so one thread may be refused and the next one not. Relaxed: it is only shown. */
static _Atomic enum sn_barrier_way last_way;

static bool uses(void)
{
	return atomic_load_explicit(&use_membarrier, memory_order_relaxed);
}

void sn_membarrier_init(void)
{
	const char *wish = getenv("SENNIT_MEMBARRIER");
	const bool use = !SN_TSAN && !(wish && strcmp(wish, "0") == 0) &&
			 syscall(SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

	atomic_store_explicit(&use_membarrier, use, memory_order_relaxed);
	atomic_store_explicit(&chosen, true, memory_order_relaxed);
	if (use)
		sn_lock_registered();
}

bool sn_membarrier_used(void)
{
	return uses();
}

enum sn_barrier_way sn_barrier_way(void)
{
	/* Never a second time in a run, because its threads rely on the first choice. */
	if (!atomic_load_explicit(&chosen, memory_order_relaxed))
		sn_membarrier_init();
	return uses() ? atomic_load_explicit(&last_way, memory_order_relaxed) : SN_BARRIER_FENCES;
}

/* More than the kernel's nr_cpu_ids on any machine. */
#define MOST_CPUS 8192
#define BITS_PER_WORD (8 * sizeof(unsigned long))

/*
 * A full barrier on all threads of the process without membarrier(): the caller moves itself to
 * each CPU in turn, and back. Once it runs on a CPU, the kernel has switched away from the thread
 * that ran there before. The kernel's switch between two threads is a full barrier for both;
 * membarrier() itself relies on this for threads that do not run. A thread that ran when the visits
 * began has therefore passed a barrier when they end: on its CPU when the visitor came, or when it
 * moved to a CPU that is visited later. A thread that did not run passed a barrier when the kernel
 * switched away from it, and passes another before it runs. A visit takes about 10 us for each CPU,
 * and longer while other threads keep a CPU from the caller.
 *
 * A CPU that is refused with EINVAL is offline or outside this process's cpuset. No thread of the
 * process runs there, except threads that were put into threaded cgroups with cpusets of their own.
 */
static bool visit_every_cpu(void)
{
	unsigned long former[MOST_CPUS / BITS_PER_WORD], one[MOST_CPUS / BITS_PER_WORD] = {0};
	long size = syscall(SYS_sched_getaffinity, 0, sizeof former, former);
	bool all = size > 0;

	for (size_t cpu = 0; all && cpu < (size_t)size * 8; cpu++) {
		one[cpu / BITS_PER_WORD] = 1ul << cpu % BITS_PER_WORD;
		if (syscall(SYS_sched_setaffinity, 0, size, one) < 0 && errno != EINVAL)
			all = false;
		one[cpu / BITS_PER_WORD] = 0;
	}
	if (size > 0 && syscall(SYS_sched_setaffinity, 0, size, former) < 0)
		all = false;
	return all;
}

static void note_way(enum sn_barrier_way way)
{
	if (atomic_load_explicit(&last_way, memory_order_relaxed) != way)
		atomic_store_explicit(&last_way, way, memory_order_relaxed);
}

/* The program has installed a seccomp filter that refuses membarrier(). Other threads may still be
 * allowed to call it, so the next barrier tries it again. */
static bool without_membarrier(int err)
{
	static _Atomic bool logged;
	bool done;

	sn_checked_pass(); /* up to a few ticks for each CPU: slow, but no other way is left */
	done = visit_every_cpu();
	sn_checked_pass_end();
	note_way(done ? SN_BARRIER_VISITS : SN_BARRIER_NOT_EVEN);
	if (!atomic_exchange(&logged, true))
		sn_log(done ? "membarrier() now fails (%s); visiting each CPU instead, so tasks "
			      "that block or compute are noticed later"
			    : "membarrier() now fails (%s), and so does sched_setaffinity(): "
			      "tasks that block or compute keep their processors, and none is "
			      "scanned",
		       strerror(err));
	return done;
}

bool sn_barrier_everywhere(void)
{
	int saved = errno;
	bool done = true;

	atomic_thread_fence(memory_order_seq_cst);
	if (!uses())
		; /* every thread executes fences */
	else if (syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0)
		note_way(SN_BARRIER_MEMBARRIER);
	else
		done = without_membarrier(errno); /* not for want of it: it could be registered */
	errno = saved;
	return done;
}
