/* SPDX-License-Identifier: MIT */
#include "sched/processor.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wait/backoff.h"

long sn_environment_number(const char *name, long low, long high, long otherwise)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || value < low || value > high) {
		sn_log("%s=%s: expected a number from %ld to %ld", name, text, low, high);
		return -EINVAL;
	}
	return value;
}

static size_t unit_of(const char *suffix)
{
	static const char letters[] = "KMG";
	const char *at = *suffix ? strchr(letters, toupper((unsigned char)*suffix)) : NULL;

	if (!*suffix)
		return 1;
	return !at || suffix[1] ? 0 : (size_t)1 << (10 * (at - letters + 1));
}

int sn_environment_size(const char *name, size_t low, size_t high, size_t *size)
{
	const char *text = getenv(name);
	unsigned long long value;
	size_t unit;
	char *end;

	if (!text || !*text)
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	unit = unit_of(end);
	/* strtoull() takes a sign and spaces. */
	if (errno || !isdigit((unsigned char)*text) || !unit || value > high / unit ||
	    value * unit < low) {
		sn_log("%s=%s: expected a size from %zuK to %zuK, in bytes, or as in 256K or 1M",
		       name, text, low >> 10, high >> 10);
		return -EINVAL;
	}
	*size = (size_t)value * unit;
	return 0;
}

/* The quota of the process's cgroup (v2) or the tightest above it, in whole CPUs, rounded up; 0:
 * none. */
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
