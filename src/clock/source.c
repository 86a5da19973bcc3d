/* SPDX-License-Identifier: MIT */
/*
 * How each call is served, as the other files of this layer report it. This is a file of its own,
 * so that a static program gets the counter's clock only if it calls something that needs it.
 */
#include <errno.h>

#include "clock/clock.h"

int sn_clock_source(enum sn_clock_call call)
{
	if ((unsigned int)call >= SN_CLOCK_CALLS)
		return -EINVAL;
	if (call == SN_CLOCK_CALL_TICKS || call == SN_CLOCK_CALL_TICKS_NOW)
		return sn_ticks_source();
	if (SN_WALLTIME_BY_COUNTER && call == SN_CLOCK_CALL_WALLTIME &&
	    sn_ticks_source() == SN_CLOCK_SOURCE_COUNTER)
		return SN_CLOCK_SOURCE_COUNTER;
	if (call == SN_CLOCK_CALL_GETRANDOM)
		return sn_getrandom_source();
	return sn_clock_source_of(call);
}

const char *sn_clock_source_name(int source)
{
	switch (source) {
	case SN_CLOCK_SOURCE_SYSCALL:
		return "system call";
	case SN_CLOCK_SOURCE_VDSO:
		return "vDSO";
	case SN_CLOCK_SOURCE_COUNTER:
		return "counter";
	}
	return "unknown";
}
