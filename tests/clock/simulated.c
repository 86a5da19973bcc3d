/* SPDX-License-Identifier: MIT */
/* See simulated.h. */
#include "simulated.h"

#include <errno.h>
#include <string.h>

#include "clock/clock.h"

struct world world;

static const double counter_ns = 8, gettime_ns = 20;

void pass(double ns)
{
	world.truth += ns;
	world.monotonic += ns * world.rate;
}

static uint64_t simulated_counter(void)
{
	pass(counter_ns);
	return (uint64_t)(world.counter_at + world.truth * world.counter);
}

static unsigned long simulated_counter_halves(unsigned long *high)
{
	uint64_t counter = simulated_counter();

	*high = (unsigned long)(counter >> 32);
	return (uint32_t)counter;
}

static int simulated_gettime(int id, struct sn_timespec *time)
{
	double now;
	int64_t ns;

	pass(world.stall + gettime_ns / 2);
	world.stall = 0;
	now = world.monotonic;
	if (id == SN_ID_MONOTONIC_COARSE || id == SN_ID_REALTIME_COARSE)
		now = (double)((int64_t)now / 4000000 * 4000000);
	if (id == SN_ID_REALTIME || id == SN_ID_REALTIME_COARSE)
		now += world.wall;
	pass(gettime_ns / 2);
	ns = (int64_t)now;
	time->tv_sec = ns / 1000000000;
	time->tv_nsec = ns % 1000000000;
	return 0;
}

static int64_t simulated_now(void)
{
	struct sn_timespec time;

	simulated_gettime(SN_ID_MONOTONIC, &time);
	return sn_to_ns(&time);
}

static int64_t simulated_walltime_by_kernel(void)
{
	struct sn_timespec time;

	simulated_gettime(SN_ID_REALTIME, &time);
	return sn_to_ns(&time);
}

/* The only file that the code reads names the clock source. */
static long simulated_sys3(long number, long a, long b, long c)
{
	static const char source[] = SN_COUNTER_CLOCKSOURCE "\n";

	(void)a;
	if (number != __NR_read || c < (long)sizeof(source) - 1)
		return 0;
	memcpy((char *)b, source, sizeof(source) - 1);
	return sizeof(source) - 1;
}

#define sn_counter simulated_counter
#define sn_counter_halves simulated_counter_halves
#define sn_counter_usable() 1
#define sn_clock_by_vdso() 1
#define sn_clock_gettime simulated_gettime
#define sn_now simulated_now
#define sn_walltime_by_kernel simulated_walltime_by_kernel
#define sn_sys1(number, a) simulated_sys3(number, a, 0, 0)
#define sn_sys3 simulated_sys3
#define sn_sys4(number, a, b, c, d) simulated_sys3(number, a, b, c)
#define sn_ticks simulated_ticks
#define sn_ticks_now simulated_ticks_now
#define sn_ticks_source simulated_ticks_source
#define sn_ticks_prepare simulated_ticks_prepare
#define sn_walltime simulated_walltime
#define sn_piece_read simulated_piece_read
#define sn_piece_publish simulated_piece_publish
#define sn_steer_begin simulated_steer_begin
#define sn_steer_first_line simulated_steer_first_line
#define sn_steer_append simulated_steer_append
#define sn_steer_resume simulated_steer_resume
#undef SN_WALLTIME_BY_COUNTER
#define SN_WALLTIME_BY_COUNTER 1
/* The simulated world does not exist yet when constructors run. */
#define SENNIT_NO_LIBC 1

uint64_t simulated_ticks(void);
void simulated_ticks_prepare(void);

#include "clock/piece.c"
#include "clock/steer.c"
#include "clock/ticks.c"

void start_world(void)
{
	world = (struct world){
		/* 2.5 GHz, or 24 MHz, because ARM's counters are far slower. */
		.counter = SN_COUNTER_SHIFT == 32 ? 2.5 : 0.024,
		.counter_at = 1e12,
		.monotonic = 5e13,
		.rate = 1,
		.wall = 1.7e18,
	};
	if (ticks)
		memset((void *)ticks, 0, sizeof(*ticks));
	ticks = NULL;
	decided = 0;
}
