/* SPDX-License-Identifier: MIT */
/*
 * A million sleeping tasks, each with a guarded stack of its own:
 *
 *	example-million [tasks, default 1000000] [seconds that each sleeps, default 2]
 *
 * Prints what a task costs in memory while all of them sleep, and ends when all have woken.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/sennit.h>

static long tasks = 1000000;
static double seconds = 2;
static int64_t wake_at;
static _Atomic long asleep, woken;

static int sleeper(void *arg)
{
	(void)arg;
	asleep++;
	sn_sleep_until(wake_at);
	woken++;
	return 0;
}

/* A value in KiB from /proc/self/status, as bytes. */
static double status_bytes(const char *key)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	double kib = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof line, file))
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtod(line + strlen(key), NULL);
	fclose(file);
	return kib * 1024;
}

static long mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	long lines = 0;
	int c;

	if (!file)
		return 0;
	while ((c = getc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

static int run(void *arg)
{
	double resident = status_bytes("VmRSS:"), tables = status_bytes("VmPTE:");
	int64_t began = sn_now();

	(void)arg;
	/* All tasks must sleep before the first one wakes, so this allows 20 us for each spawn,
	 * which takes 1 to 15 us. */
	wake_at = began + (int64_t)((seconds + (double)tasks / 50000) * 1e9);
	for (long i = 0; i < tasks; i++) {
		int err = sn_go(sleeper, NULL);

		if (err < 0) {
			fprintf(stderr, "task %ld: %s\n", i, strerror(-err));
			return 1;
		}
	}
	while (asleep < tasks && sn_now() < wake_at)
		sn_sleep(1000000);
	printf("%ld tasks asleep after %.2f s\n", asleep, (double)(sn_now() - began) / 1e9);
	printf("resident: %.0f bytes per task, page tables: %.0f bytes per task\n",
	       (status_bytes("VmRSS:") - resident) / (double)tasks,
	       (status_bytes("VmPTE:") - tables) / (double)tasks);
	printf("mappings: %ld\n", mappings());
	fflush(stdout);
	while (woken < tasks)
		sn_sleep(10000000);
	printf("%ld tasks woken after %.2f s\n", woken, (double)(sn_now() - began) / 1e9);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		tasks = strtol(argv[1], NULL, 10);
	if (argc > 2)
		seconds = strtod(argv[2], NULL);
	if (argc > 3 || tasks < 1 || seconds < 0) {
		fprintf(stderr, "usage: %s [tasks] [seconds]\n", argv[0]);
		return 2;
	}
	return sn_run(run, NULL);
}
