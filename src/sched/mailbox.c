/* SPDX-License-Identifier: MIT */
#include "sched/mailbox.h"

#include <errno.h>

#include "sched/processor_list.h"
#include "sched/runtime.h"
#include "sched/thread.h"

int sn_await_processor(struct sn_thread *self, int64_t deadline)
{
	struct sn_processor *handed;
	int err;

	do {
		err = sn_parker_wait(&self->parker, deadline);
		handed = atomic_load_explicit(&self->handed, memory_order_acquire);
	} while (err == 0 && !handed && !atomic_load(&sn_runtime.stopping));
	if (err == 0 && handed) {
		sn_processor_assign(self, handed);
		atomic_store_explicit(&self->handed, NULL, memory_order_relaxed);
	}
	return err;
}
