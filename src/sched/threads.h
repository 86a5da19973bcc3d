/* SPDX-License-Identifier: MIT */
/*
 * The threads of a run as a whole: which live, which are to be joined, how many there may be.
 *
 * Contract. A thread is started with a processor, and ends when its loop returns. It begins with
 * what the caller of sn_run() had: signal mask, name, timer slack. A thread that has ended is
 * joined by the monitor, or at the end of the run; so its block may be looked at by a holder of the
 * runtime's lock. One that has children lingers when it should end (linger.h), and is detached.
 *
 * Who may write what:
 *   count, all, dead, leaving, none_before   any thread, under the runtime's lock; count is also
 *                                   read without
 *   most, idle_ns                   sn_threads_begin(), before the first thread of a run starts
 *   start_lock                      held while a thread is created, so that its handle is known
 *                                   before it can end
 */
#ifndef SENNIT_SCHED_THREADS_H
#define SENNIT_SCHED_THREADS_H

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
	struct sn_thread *all;  /* that live, or are about to, by next_all */
	struct sn_thread *dead; /* that are to be joined */
	int64_t none_before;    /* the system has refused one */
	int most;               /* SENNIT_MAX_THREADS */
	int64_t idle_ns;        /* SENNIT_IDLE_MS: one that has been idle for so long ends */
	struct sn_lock start_lock;
	_Atomic uint32_t count; /* length of all */
	uint32_t leaving;       /* of these, those whose places are free already */
} sn_threads sn_hidden;

/* A run begins: there are none, there may be so many, and idle for so long. */
void sn_threads_begin(int most, int64_t idle_ns);

/* Notes what threads are to have of the calling one, and what each is to run: the scheduler's loop,
 * which stands above. */
void sn_threads_inherit(void (*loop)(struct sn_thread *self));

/* Whether that is the signal mask, in the kernel's form, that threads begin with. */
bool sn_threads_have_mask(uint64_t mask);

/* Starts a thread that begins with the processor, and with the task unless that is NULL. 0 or a
 * negative errno. */
int sn_thread_start(struct sn_processor *processor, bool spinning, struct sn_task *task);

/* Whether another thread would be refused at this moment, and was before. Counts as an attempt. The
 * lock is held. */
bool sn_threads_refused(void);

/* Whether one could be started, as far as is known without trying. The lock is held. */
bool sn_threads_may_be_started(void);

/* The calling thread gives up its processor and ends; another may be started in its place. */
void sn_thread_leaves(struct sn_thread *self);

/* Takes a thread out of the list of those that live. The lock is held. */
void sn_thread_unlink(struct sn_thread *thread);

/*
 * Joins and frees threads that have ended. The program's code may still run on such a thread: the
 * destructors of thread-locals. Reap, for the monitor: does not wait, and leaves those for the next
 * time. Join, for the end of the run: waits until give_up, and detaches those that are left.
 */
void sn_threads_reap(void);
void sn_threads_join(int64_t give_up);

/* Attributes of a thread of the runtime: its stack has room for what libraries take of it for
 * thread-locals, and SN_THREAD_STACK_SIZE beside that. */
void sn_thread_attr_init(pthread_attr_t *attr);

#endif
