/* SPDX-License-Identifier: MIT */
/*
 * The CPU quota of the process's control groups.
 *
 * /proc/self/cgroup names the group, as a path in its hierarchy, and /proc/self/mountinfo says
 * where a part of the hierarchy is mounted and from which group on. In a container the mount often
 * begins at the container's own group, or the path is one of the host's, of which the mount shows
 * nothing. So the path is followed from where the mount begins, the limits above it count as well,
 * up to the mount point's, and what is not there is skipped.
 *
 * Both versions: cpu.max, and cpu.cfs_quota_us with cpu.cfs_period_us. The tightest limit counts.
 */
#ifndef SENNIT_BASE_QUOTA_H
#define SENNIT_BASE_QUOTA_H

/* Where hierarchies with CPU quotas are mounted. */
struct sn_quota_mount;

/* Reads a file such as /proc/self/mountinfo. NULL: none are mounted. Freed by
 * sn_quota_mounts_free(). */
struct sn_quota_mount *sn_quota_mounts_read(const char *mountinfo);
void sn_quota_mounts_free(struct sn_quota_mount *mounts);

/* The quota by a file such as /proc/self/cgroup, in whole CPUs, rounded up. 0: none. */
long sn_quota_read(const struct sn_quota_mount *mounts, const char *cgroup);

#endif
