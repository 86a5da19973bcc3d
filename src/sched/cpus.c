/* SPDX-License-Identifier: MIT */
#include "sched/cpus.h"

#include <stdio.h>
#include <string.h>

#include "wait/backoff.h"

/* The quota of the process's cgroup (v2), or of the tightest one above it, in whole CPUs, rounded
 * up. 0: none. */
static long cgroup_quota(void)
{
	char line[4096], path[4200], *slash;
	FILE *file = fopen("/proc/self/cgroup", "re");
	long least = 0;

	if (!file)
		return 0;
	path[0] = 0;
	while (fgets(line, sizeof line, file))
		if (strncmp(line, "0::/", 4) == 0) {
			line[strcspn(line, "\n")] = 0;
			snprintf(path, sizeof path, "%s", line + 3);
		}
	fclose(file);
	for (; path[0]; *slash = 0) {
		char name[4300];
		long quota, period;

		snprintf(name, sizeof name, "/sys/fs/cgroup%s/cpu.max", path[1] ? path : "");
		file = fopen(name, "re");
		if (file) {
			/* "max 100000" has no number first: no limit. */
			if (fscanf(file, "%ld %ld", &quota, &period) == 2 && period > 0) {
				long cpus = (quota + period - 1) / period;

				if (cpus > 0 && (least == 0 || cpus < least))
					least = cpus;
			}
			fclose(file);
		}
		slash = strrchr(path, '/');
	}
	return least;
}

int sn_processors_allowed(void)
{
	long cpus = sn_count_cpus(), quota = cgroup_quota();

	if (quota && quota < cpus)
		cpus = quota;
	return cpus > SN_MOST_PROCESSORS ? SN_MOST_PROCESSORS : (int)cpus;
}
