/* SPDX-License-Identifier: MIT */
/*
 * What is counted in a run, and by no processor. observe/stats.c shows it to the program.
 *
 * Who may write what: each, anyone, atomically; sn_counters_clear(), before the first thread of a
 * run starts. polls also says, to the monitor and to the search for deadlocks, that the poller was
 * served.
 */
#ifndef SENNIT_BASE_COUNTERS_H
#define SENNIT_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "arch/compiler.h"

extern struct sn_counters {
	_Alignas(SN_CACHE_LINE) _Atomic uint64_t revocations; /* no neighbour is written with it */
	_Atomic uint64_t polls;
	_Atomic uint64_t accept_pauses;
	_Atomic uint64_t foreign_spawned; /* by threads without a processor */
	_Atomic uint32_t thread_limit_hits;
} sn_counters sn_hidden;

void sn_counters_clear(void);

#endif
