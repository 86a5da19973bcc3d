/* SPDX-License-Identifier: MIT */
/*
 * Clocks. None of these parks; any thread may call them, also from a signal handler.
 */
#ifndef SENNIT_CLOCK_H
#define SENNIT_CLOCK_H

#include <sennit/base.h>

SN_BEGIN

/* Monotonic time in nanoseconds (CLOCK_MONOTONIC): what deadlines are points on. */
SN_API int64_t sn_now(void);

/* Nanoseconds since 1970 (CLOCK_REALTIME). */
SN_API int64_t sn_walltime(void);

/* Seconds since 1970; may lag sn_walltime()'s second by up to one kernel tick (10 ms). */
SN_API int64_t sn_time(void);

SN_END

#endif
