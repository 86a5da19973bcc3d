/* SPDX-License-Identifier: MIT */
#include "thread_block.h"

#include <errno.h>

#include <sennit/sennit.h>

#include "sched/task.h"
#include "sched/thread.h"

/* The compiler assumes that errno's address is constant in a thread, but not through a volatile
 * pointer. */
static int *(*volatile errno_of_thread)(void) = __errno_location;

int thread_block_follows(int rounds, int *moves)
{
	int wrong = 0;

	for (int i = 0; i < rounds; i++) {
		struct sn_thread *before = sn_thread_self();

		wrong += sn_task_handle(before->task) != sn_self();
		if (i % 4 == 0)
			sn_sleep(100000);
		else
			sn_yield();
		wrong += sn_task_handle(sn_thread_self()->task) != sn_self();
		wrong += sn_thread_self()->errno_location != errno_of_thread();
		*moves += sn_thread_self() != before;
	}
	return wrong;
}
