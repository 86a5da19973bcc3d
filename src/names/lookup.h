/* SPDX-License-Identifier: MIT */
/*
 * Questions to the name service that the caller can leave.
 *
 * The system's resolver cannot be interrupted, and takes as long as the name service does. So a
 * task does not call it: a helper thread does, while the task parks. When the task's deadline
 * passes, or its scope is cancelled, it continues at once and leaves the lookup to the helper.
 *
 * Merging. Tasks that ask the same question at the same time share one lookup, from the time it is
 * asked until the answer is there, each with its own deadline. This is no cache: a question that is
 * asked after the answer is looked up again. A task may join a lookup that has hung for long, or
 * that all others have left. Another one of the same name would hang, too, and occupy one more
 * thread. So a name that hangs holds one thread, however many tasks ask for it.
 *
 * Threads. SN_LOOKUP_THREADS lookups are under way at once, and others wait in a queue. A lookup
 * that has been under way for SN_LOOKUP_SLOW_NS does not count any more, so names that hang do not
 * stand in the way of others. This ends at SN_LOOKUP_MOST_THREADS: while as many names hang, other
 * lookups wait for one of them to end, and their callers for their deadlines. In numbers: of the
 * lookups in the queue, SN_LOOKUP_THREADS begin in each SN_LOOKUP_SLOW_NS at the latest, up to
 * SN_LOOKUP_MOST_THREADS. A name service that is slow for all names gets more questions at once for
 * the same reason, in proportion to the time that it takes.
 *
 * A helper is started when a lookup finds too few, and ends when the queue is empty: 30 us for a
 * thread are little compared with a query to a name server, and no helper has to be stopped at the
 * end of a run or at exit.
 */
#ifndef SENNIT_NAMES_LOOKUP_H
#define SENNIT_NAMES_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include "base/fork.h"

/* A working name service takes milliseconds, so these serve thousands of lookups a second. Some
 * name servers refuse more than 150 queries at once, and each lookup is two. */
#define SN_LOOKUP_THREADS 16
#define SN_LOOKUP_MOST_THREADS 256
#define SN_LOOKUP_SLOW_NS 50000000

/*
 * What is asked: a function, and the bytes that it gets. Two questions are the same if both are.
 * The function runs on a helper. It may block, and uses nothing of the runtime. It returns 0 and an
 * answer, which is one piece of memory from malloc(), or a negative errno.
 */
struct sn_question {
	int (*answer)(const void *key, void **answer, size_t *size);
	const void *key;
	size_t key_size;
};

/*
 * Asks. Returns 0 and an answer of the caller's own, for free(); what the function returned;
 * -ETIMEDOUT; -ENOMEM; or the reason for which the task's scope was cancelled. If no helper can be
 * started and there is none, the function runs in a blocking section of the caller, whose deadline
 * it ignores. Within the runtime. May park.
 */
int sn_lookup(const struct sn_question *question, int64_t deadline, void **answer, size_t *size);

void sn_lookups_fork(enum sn_fork_phase phase);

#endif
