/* SPDX-License-Identifier: MIT */
/*
 * Prints how each clock is read on this machine, and what a read costs.
 *
 *	example-clocks
 *
 * The calls work without the runtime, and are also in a library of their own, sennit::clock.
 */
#include <stdio.h>

#include <sennit/clock.h>
#include <sennit/vdso.h>

#define TIMES 200000

/* The average duration of a call over many calls, in nanoseconds. */
#define COST(call)                                   \
	({                                           \
		int64_t begin_ = sn_now();           \
		for (int i_ = 0; i_ < TIMES; i_++)   \
			(void)(call);                \
		(double)(sn_now() - begin_) / TIMES; \
	})

static void print(const char *name, enum sn_clock_call call, double ns)
{
	printf("%-18s %-12s %7.1f ns\n", name, sn_clock_source_name(sn_clock_source(call)), ns);
}

int main(void)
{
	struct sn_timespec ts;
	struct sn_timeval tv;
	struct sn_vdso vdso;
	unsigned int cpu;
	char bytes[16];

	if (sn_vdso_self(&vdso) == 0)
		printf("a vDSO of %zu bytes, with %s\n", vdso.size,
		       vdso.gnu_hash ? vdso.hash ? "both hash tables" : "DT_GNU_HASH" : "DT_HASH");
	else
		printf("no vDSO\n");
	print("sn_now", SN_CLOCK_CALL_NOW, COST(sn_now()));
	print("sn_walltime", SN_CLOCK_CALL_WALLTIME, COST(sn_walltime()));
	print("sn_time", SN_CLOCK_CALL_TIME, COST(sn_time()));
	print("sn_time_exact", SN_CLOCK_CALL_TIME_EXACT, COST(sn_time_exact()));
	print("sn_clock_gettime", SN_CLOCK_CALL_GETTIME, COST(sn_clock_gettime(1, &ts)));
	print("sn_clock_getres", SN_CLOCK_CALL_GETRES, COST(sn_clock_getres(1, &ts)));
	print("sn_gettimeofday", SN_CLOCK_CALL_GETTIMEOFDAY, COST(sn_gettimeofday(&tv, NULL)));
	print("sn_getcpu", SN_CLOCK_CALL_GETCPU, COST(sn_getcpu(&cpu, NULL)));
	print("sn_getrandom(16)", SN_CLOCK_CALL_GETRANDOM, COST((void)!sn_getrandom(bytes, 16, 0)));
	print("sn_ticks", SN_CLOCK_CALL_TICKS, COST(sn_ticks()));
	print("sn_ticks_now", SN_CLOCK_CALL_TICKS_NOW, COST(sn_ticks_now()));
	return 0;
}
