/* SPDX-License-Identifier: MIT */
/*
 * Brief tasks, which stand in for the poller.
 *
 * A thread that leaves the poller normally wakes another to take its place. For a task that only
 * moves a few KiB and waits again, that costs two thread switches and a second CPU for nothing.
 * When an event makes only a few brief tasks runnable (sn_brief_begin()), the thread therefore
 * wakes no other, but records in owes_poller that it owes a wake-up. It pays this debt when it is
 * about to run anything else or to sleep elsewhere, or when the task's call ends. If it returns to
 * the poller first, the debt is void. A task that has more to do after all polls in the poller's
 * place from time to time (sn_brief_poll()). An event thus waits for at most BRIEF_POLL_NS and one
 * piece of copying, and never for user code that has not promised to be as brief (SN_TASK_BRIEF).
 *
 * Nor does the thread wake another for the brief tasks that such a task makes runnable, as long as
 * they are few: this, too, is part of the debt. They are in its own queue, where it finds them
 * before it polls again. sn_brief_pay() looks for them, and sn_brief_poll() pays if any were left
 * waiting. Without this, in a relay whose connections each started two tasks and whose events each
 * woke one, the other thread was woken for most of them, found little and slept again. With 64
 * short connections at the same time, on two processors that were busy besides, sennit-relay
 * alternated between 80 us of CPU for a connection and 150, and between 0.2 context switches of the
 * OS and 16.
 *
 * Who may write what: owes_poller, the thread itself; task->brief, the task (task.h).
 */
#include "sched/switch.h"

#include <sennit/clock.h>

#include "sched/find_work.h"
#include "sched/netpoll.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/task.h"
#include "sched/wake.h"

/* How late an event of the network may be while a brief task stands in for the poller: about as
 * long as it takes to wake a sleeping thread on a busy machine. */
#define BRIEF_POLL_NS 50000

void sn_brief_begin(void)
{
	sn_thread_self()->task->brief++;
}

void sn_brief_end(void)
{
	struct sn_thread *self = sn_thread_self();

	if (--self->task->brief == 0)
		sn_brief_pay(self);
}

/* Polls, and pays the debt if other threads could help: called on the thread that owes. */
void sn_brief_poll(struct sn_thread *self)
{
	int64_t now = sn_now();
	bool others_wait;

	if (now - self->processor->last_poll < BRIEF_POLL_NS)
		return;
	others_wait = !sn_runqueue_empty(&self->processor->queue);
	sn_poll_network(self, self->processor, now);
	if (others_wait || atomic_load_explicit(&sn_runtime.polling, memory_order_relaxed) ||
	    sn_earliest_timer() <= now)
		sn_brief_pay(self);
}
