/* SPDX-License-Identifier: MIT */
/*
 * A program without a C library, which shows that the clocks find the vDSO by themselves. It exits
 * with 0, or with the number of the check that failed.
 */
#include <sennit/clock.h>
#include <sennit/vdso.h>

#include "arch/machine_clock.h"

static int check(void)
{
	struct sn_timespec before, after;
	struct sn_vdso vdso;
	char bytes[16] = {0};
	int64_t now;

	if (sn_vdso_self(&vdso) != 0)
		return 1;
	if (sn_clock_source(SN_CLOCK_CALL_NOW) != SN_CLOCK_SOURCE_VDSO)
		return 2;
	if (sn_clock_gettime(1, &before) || (now = sn_now()) <= 0 || sn_clock_gettime(1, &after))
		return 3;
	if (now < before.tv_sec * 1000000000 + before.tv_nsec ||
	    now > after.tv_sec * 1000000000 + after.tv_nsec)
		return 4;
	if (sn_time() < 1700000000 || sn_walltime() / 1000000000 < 1700000000)
		return 5;
	if (sn_clock_gettime(1234, &before) != -22 || sn_getcpu(0, 0) != 0)
		return 6;
	if (sn_getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return 7;
	while (sn_now() < now + 50000000)
		if (sn_ticks_now() < now - 1000000)
			return 8;
	return 0;
}

__attribute__((noreturn, used, force_align_arg_pointer)) void _start(void);

void _start(void)
{
	for (;;)
		sn_sys1(__NR_exit_group, check());
}
