/* SPDX-License-Identifier: MIT */
/*
 * The counters of a run that belong to no processor. observe/stats.c shows them to the program.
 *
 * Who may write what: any thread increments any counter, atomically. sn_counters_clear() zeroes all
 * of them before the first thread of a run starts.
 */
#ifndef SENNIT_BASE_COUNTERS_H
#define SENNIT_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "arch/compiler.h"

extern struct sn_counters {
	_Alignas(SN_CACHE_LINE) _Atomic uint64_t revocations; /* shares no line with other data */
	_Atomic uint64_t polls;                               /* by threads without a processor */
	_Atomic uint64_t accept_pauses;
	_Atomic uint64_t foreign_spawned; /* by threads without a processor */
	_Atomic uint32_t thread_limit_hits;
} sn_counters sn_hidden;

void sn_counters_clear(void);

#endif
