/* SPDX-License-Identifier: MIT */
#include "base/counters.h"

struct sn_counters sn_counters;

void sn_counters_clear(void)
{
	atomic_store(&sn_counters.revocations, 0);
	atomic_store(&sn_counters.thread_limit_hits, 0);
	atomic_store(&sn_counters.polls, 0);
	atomic_store(&sn_counters.accept_pauses, 0);
	atomic_store(&sn_counters.foreign_spawned, 0);
}
