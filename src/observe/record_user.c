/* SPDX-License-Identifier: MIT */
/*
 * Records of the program's own. A task writes to the ring of its processor, as the scheduler does;
 * a thread without a processor to the last ring, under its lock.
 */
#include <errno.h>

#include <sennit/trace.h>

#include "sched/foreign.h"
#include "sched/processor.h"
#include "sched/record.h"
#include "sched/thread.h"

int sn_record(const char *name, int64_t value)
{
	const uint64_t what = sn_record_what(SN_RECORD_USER, 0, (uintptr_t)name);
	struct sn_thread *self;
	int err;

	if (!name)
		return -EINVAL;
	self = sn_runtime_enter();
	if (self) {
		if (self->processor->record)
			sn_record_soon(self->processor->record, what, (uint64_t)value);
		sn_runtime_leave();
		return 0;
	}
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	sn_record_outside(what, (uint64_t)value);
	sn_foreign_leave();
	return 0;
}
