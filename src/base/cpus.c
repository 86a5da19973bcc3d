/* SPDX-License-Identifier: MIT */
#include "base/cpus.h"

#include "base/quota.h"
#include "wait/backoff.h"

/* Read when a run begins, before the monitor exists, and constant during the run: mounts seldom
 * change, and where there are many the kernel takes a millisecond to list them. */
static struct sn_quota_mount *mounts;

void sn_cpus_begin(void)
{
	sn_quota_mounts_free(mounts);
	mounts = sn_quota_mounts_read("/proc/self/mountinfo");
}

int sn_processors_allowed(void)
{
	long cpus = sn_count_cpus(), quota = sn_quota_read(mounts, "/proc/self/cgroup");

	if (quota && quota < cpus)
		cpus = quota;
	return cpus > SN_MOST_PROCESSORS ? SN_MOST_PROCESSORS : (int)cpus;
}
