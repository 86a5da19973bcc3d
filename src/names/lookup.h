/* SPDX-License-Identifier: MIT */
/*
 * Questions to the name service which a task can stop waiting for.
 *
 * The system's resolver cannot be interrupted, and takes as long as the name service does.
 * Therefore a helper thread calls it while the task is parked. When the task's deadline passes, or
 * its scope is cancelled, the task continues immediately and leaves the lookup to the helper.
 *
 * Merging. A task that asks a question while another one waits for the same answer joins that
 * lookup, with a deadline of its own. This is not a cache: a question that comes after the answer
 * is looked up again. A task may also join a lookup that has hung for long, or that all others have
 * left, because another lookup of the same name would hang, too, and occupy one more thread. Thus a
 * name that hangs holds one thread, however many tasks ask for it.
 *
 * Threads. SN_LOOKUP_THREADS lookups are under way at the same time, and others wait in a queue. A
 * lookup that has been under way for SN_LOOKUP_SLOW_NS is no longer counted, so names that hang do
 * not hold up others. The limit of that is SN_LOOKUP_MOST_THREADS: while as many names hang, other
 * lookups wait until one of them ends, and their callers time out. In numbers: at least
 * SN_LOOKUP_THREADS of the queued lookups begin in each SN_LOOKUP_SLOW_NS, until
 * SN_LOOKUP_MOST_THREADS are under way. For the same reason a name service that is slow for all
 * names gets more questions at the same time, in proportion to the time that it takes.
 *
 * A task starts a helper when it queues a lookup and there are too few helpers. A helper ends when
 * the queue is empty. Starting a thread takes 30 us, which is little compared with a query to a
 * name server, and no helper has to be stopped at the end of a run or at exit.
 */
#ifndef SENNIT_NAMES_LOOKUP_H
#define SENNIT_NAMES_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include "base/fork.h"

/* A working name service takes milliseconds, so these threads serve thousands of lookups a second.
 * Some name servers refuse more than 150 queries at the same time, and each lookup makes two. */
#define SN_LOOKUP_THREADS 16
#define SN_LOOKUP_MOST_THREADS 256
#define SN_LOOKUP_SLOW_NS 50000000

/*
 * What is asked: a function, and its argument, a key of key_size bytes. Two questions are the same
 * if both are equal. The function runs on a helper. It may block, and uses nothing of the runtime.
 * It returns 0 and an answer, which is one piece of memory from malloc(), or a negative errno.
 */
struct sn_question {
	int (*answer)(const void *key, void **answer, size_t *size);
	const void *key;
	size_t key_size;
};

/*
 * Asks. Returns 0 and a copy of the answer, which the caller frees by free(); the error of the
 * function; -ETIMEDOUT; -ENOMEM; or the reason for which the task's scope was cancelled. If there
 * is no helper and none can be started, the function runs in a blocking section of the caller,
 * which then ignores the deadline. Inside the runtime. May park.
 */
int sn_lookup(const struct sn_question *question, int64_t deadline, void **answer, size_t *size);

void sn_lookups_fork(enum sn_fork_phase phase);

#endif
