/* SPDX-License-Identifier: MIT */
#include "stack/stack_cool.h"

#include <sennit/clock.h>

#include "stack/stack_store.h"

/* How long the monitor cools at a time; it then pauses for at least nine times as long. In a busy
 * process the monitor must look at the threads often, so the step is short. In an idle one it may
 * be longer, and returns memory with fewer wake-ups. */
#define COOL_STEP_NS 100000
#define COOL_STEP_IDLE_NS 1000000

static int64_t looked; /* when sn_stacks_cool() last looked for idle stacks */
static bool owing;     /* that look found some, and may not have cooled all of them yet */
static int64_t cooled; /* when stacks were cooled last */

void sn_stacks_cool_clear(void)
{
	looked = 0;
	owing = false;
}

int64_t sn_stacks_cool_due(int64_t now)
{
	(void)now;
	if (!sn_stack_any_warm())
		return 0;
	return owing ? looked : looked + SN_STACK_IDLE_NS;
}

bool sn_stacks_cool(int64_t now)
{
	int64_t due = sn_stacks_cool_due(now);
	struct sn_slab *slab;
	uint64_t slots = 0;

	if (due == 0 || due > now)
		return false;
	sn_lock(&sn_stack_lock);
	if (!owing) {
		looked = now;
		sn_stack_note_idle();
	}
	slab = sn_stack_take_idle(&slots);
	owing = slab != NULL;
	sn_unlock(&sn_stack_lock);
	if (!slab)
		return false;
	sn_stack_slab_cool(slab, slots);
	sn_lock(&sn_stack_lock);
	sn_stack_give_cold(slab, slots);
	sn_unlock(&sn_stack_lock);
	return true;
}

void sn_stacks_cool_step(int64_t now, bool idle)
{
	int64_t step = idle ? COOL_STEP_IDLE_NS : COOL_STEP_NS;

	if (now - cooled < 10 * step)
		return;
	while (sn_stacks_cool(now)) {
		cooled = sn_now();
		if (cooled - now >= step)
			return;
	}
}
