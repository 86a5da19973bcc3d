/* SPDX-License-Identifier: MIT */
/*
 * The threads of a run as a whole: which live, which are to be joined, how many there may be.
 *
 * Contract. A thread is started with a processor, and ends when its loop returns. It begins with
 * the signal mask, name and timer slack of the caller of sn_run(). A thread that has ended is
 * joined, and its block freed, only by the monitor, or at the end of the run. Under the runtime's
 * lock, any thread may therefore read the blocks in the list of live threads. A thread that has
 * children lingers when it should end (linger.h), and is detached.
 *
 * Who may write what:
 *   count, all, dead, leaving, none_before   any thread, under the runtime's lock; count is also
 *                                   read without the lock
 *   most, idle_ns                   sn_threads_begin(), before the first thread of a run starts
 *   start_lock                      held while a thread is created, so that its handle is known
 *                                   before it can end
 */
#ifndef SENNIT_SCHED_THREAD_LIST_H
#define SENNIT_SCHED_THREAD_LIST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"
#include "wait/lock.h"

struct sn_processor;
struct sn_task;
struct sn_thread;

extern struct sn_threads {
	struct sn_thread *all;  /* those that live or are being started, linked by next_all */
	struct sn_thread *dead; /* those that are to be joined, linked by next_all */
	int64_t none_before;    /* if the system has refused a thread: when to try again */
	int most;               /* SENNIT_MAX_THREADS */
	int64_t idle_ns;        /* SENNIT_IDLE_MS: a thread that is idle for so long ends */
	struct sn_lock start_lock;
	_Atomic uint32_t count; /* the length of all */
	uint32_t leaving;       /* how many of these may be replaced already */
} sn_threads sn_hidden;

/* Called when a run begins: sets the two limits. */
void sn_threads_begin(int most, int64_t idle_ns);

/* Notes the attributes of the calling thread that all threads are to have, and the function that
 * each is to run: the scheduler's loop, which is passed here because this file is below it. */
void sn_threads_inherit(void (*loop)(struct sn_thread *self));

/* Whether that is the signal mask, in the kernel's form, with which threads begin. */
bool sn_threads_have_mask(uint64_t mask);

/* Starts a thread that begins with the processor, and with the task unless that is NULL. Returns 0
 * or a negative errno. */
int sn_thread_start(struct sn_processor *processor, bool spinning, struct sn_task *task);

/* Whether a thread was refused before, and would be refused again at this moment. Counts as a hit
 * of the limit. The lock is held. */
bool sn_threads_refused(void);

/* Whether a thread could be started, as far as is known without trying. The lock is held. */
bool sn_threads_may_be_started(void);

/* Called by a thread that gives up its processor and ends: another may be started in its place. */
void sn_thread_leaves(struct sn_thread *self);

/* Takes a thread out of the list of live threads. The lock is held. */
void sn_thread_unlink(struct sn_thread *thread);

/*
 * Join and free threads that have ended. On such a thread, destructors of the program's
 * thread-locals may still run. The first, for the monitor, does not wait, and leaves these threads
 * for the next time. The second, for the end of the run, waits until give_up, and detaches those
 * that are left.
 */
void sn_threads_reap(void);
void sn_threads_join(int64_t give_up);

/* Makes the attributes of a thread of the runtime: its stack has SN_THREAD_STACK_SIZE bytes, plus
 * those that the C library takes from it for thread-locals. */
void sn_thread_attr_init(pthread_attr_t *attr);

#endif
