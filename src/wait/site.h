/* SPDX-License-Identifier: MIT */
/*
 * The places where threads wait (sites), and the counting of their waits.
 *
 * Contract. A wait is recorded once, when it is over, by the thread on which it ends. Each of the
 * first 256 threads counts in a block of its own, with plain loads and stores: no locked
 * instruction and no shared cache line. Further threads share one block. A reader adds up all
 * blocks (sn_wait_stats()).
 *
 * A block outlives its thread, with its counts, and the next thread that needs one continues with
 * it, so no count is lost, and there are never many more blocks than there were threads at the same
 * time. A thread that needs a block asks the kernel, by thread id, whether the owner of an existing
 * one has ended. Blocks are mapped, linked once, and never freed. Therefore nothing here takes a
 * lock or uses the heap: waits happen in handlers of fork(), and next to a heap that hangs.
 *
 * Who may write what:
 *   next    the thread that makes the block, before it links it
 *   owner   the thread that takes the block, by compare-and-swap; in a child of fork(), the thread
 *           that has the block, which has a new id there
 *   counts  the owner; in the shared block, any thread, by locked additions
 *
 * If a wait in a signal handler interrupts a recording in the same thread, one of the two may be
 * lost.
 *
 * Rejected:
 *   - The counts in thread-local storage: that takes 3 KiB in every thread of the program, which is
 *     more than a library that is loaded by dlopen() may have in the static block, and the library
 *     would have to notice the end of each thread.
 *   - A destructor for the end of a thread (pthread_key_create()): pthread_setspecific() may
 *     allocate, and destructors of others, which may wait, run after it.
 */
#ifndef SENNIT_WAIT_SITE_H
#define SENNIT_WAIT_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The table of names is in site.c. */
enum sn_wait_site {
	SN_WAIT_LOCK,       /* wait/lock.c */
	SN_WAIT_LEASE,      /* sched/lease.c */
	SN_WAIT_PROCESSOR,  /* sched/processor_list.c: for a thread that has lost its own */
	SN_WAIT_IDLE,       /* sched/find_work.c */
	SN_WAIT_GATHER,     /* sched/find_work.c: to steal more than one task */
	SN_WAIT_STEAL,      /* sched/runqueue.c */
	SN_WAIT_SCAN,       /* observe/scan_wait.c: for a running task's answer */
	SN_WAIT_SCAN_OWNER, /* observe/scan_wait.c: for another thread that owns the stack */
	SN_WAIT_MUTEX,      /* sync/mutex.c */
	SN_WAIT_ALARM,      /* sync/alarm.c */
	SN_WAIT_RESET,      /* copy/relay.c */
	SN_WAIT_END,        /* sched/foreign.c, run/run.c */
	SN_WAIT_SITES,
};

/* A wait of the calling thread is over. Any thread; async-signal-safe. Preserves errno. */
void sn_wait_record(enum sn_wait_site site, int64_t ns, bool slept);

/* Writes all of the text, or returns a negative errno. */
typedef int sn_wait_writer(int fd, const char *text, size_t size);

/* sn_wait_print() by a writer of the caller's, after whose first error nothing more is written. */
int sn_wait_print_by(sn_wait_writer *writer, int fd);

/* Called in a child of fork(), so that the calling thread, which has a new id there, keeps its
 * block. */
void sn_wait_fork_child(void);

/* How many blocks there are. For tests. */
unsigned sn_wait_blocks(void);

#endif
