/* SPDX-License-Identifier: MIT */
/*
 * A program that is linked with the clocks' shared library: sn_time() goes straight to the vDSO's
 * function where there is one and long has 64 bits. With -DLOADS the program is not linked with the
 * library, but loads and unloads the one that its argument names, often enough to notice memory
 * that is not freed.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sennit/clock.h>
#include <sennit/vdso.h>

static int failed;

#define CHECK(condition)                                          \
	do {                                                      \
		if (!(condition)) {                               \
			printf("%d: %s\n", __LINE__, #condition); \
			failed = 1;                               \
		}                                                 \
	} while (0)

#ifndef LOADS
static void test(const char *unused)
{
	int64_t (*called)(void) = sn_time;
	struct sn_timespec before;
	int64_t now, also;

	(void)unused;
	/* The script runs this again if the wall clock is set during the check. */
	CHECK(sn_clock_gettime(CLOCK_REALTIME_COARSE, &before) == 0);
	now = sn_time();
	also = called();
	CHECK(before.tv_sec <= now && now <= also && also <= sn_time_exact());
#	if defined(__x86_64__) && defined(__LP64__)
	struct sn_vdso vdso;

	CHECK(sn_vdso_self(&vdso) == 0);
	CHECK((void *)sn_private_seconds == sn_vdso_find(&vdso, "LINUX_2.6", "__vdso_time"));
#	endif
}
#else
static long pages(void)
{
	long result = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%ld", &result) == 1);
	if (file)
		fclose(file);
	return result;
}

static void test(const char *path)
{
	enum { CYCLES = 200 };
	long before = 0, after;

	for (int i = 0; i < CYCLES + 10; i++) {
		void *library = dlopen(path, RTLD_NOW);
		__typeof__(sn_ticks_now) *ticks_now;
		__typeof__(sn_getrandom) *random;
		char bytes[16];

		if (!library) {
			printf("%s\n", dlerror());
			failed = 1;
			return;
		}
		ticks_now = (__typeof__(ticks_now))dlsym(library, "sn_ticks_now");
		random = (__typeof__(random))dlsym(library, "sn_getrandom");
		CHECK(ticks_now && ticks_now() > 0);
		CHECK(random && random(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
		CHECK(dlclose(library) == 0);
		if (i == 10)
			before = pages();
	}
	after = pages();
	CHECK(!dlopen(path, RTLD_NOW | RTLD_NOLOAD));
	printf("%ld pages before, %ld after\n", before, after);
	/* One page in two cycles would be a leak. libc may allocate a few for itself. */
	CHECK(after - before < CYCLES / 2);
}
#endif

int main(int argc, char **argv)
{
	test(argc > 1 ? argv[1] : NULL);
	return failed;
}
