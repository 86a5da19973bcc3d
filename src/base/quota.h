/* SPDX-License-Identifier: MIT */
/*
 * The CPU quota of the process's control groups.
 *
 * /proc/self/cgroup names the group, as a path in its hierarchy, and /proc/self/mountinfo says
 * where a part of the hierarchy is mounted and from which group on. In a container the mount often
 * begins at the container's own group, or the path is one of the host's, of which the mount shows
 * nothing. This module therefore follows the path from the group at which the mount begins, counts
 * the limits of all groups from the process's own up to the mount point's, and skips groups that
 * the mount does not show.
 *
 * It reads both versions of control groups: cpu.max, and cpu.cfs_quota_us with cpu.cfs_period_us.
 * The tightest limit counts.
 */
#ifndef SENNIT_BASE_QUOTA_H
#define SENNIT_BASE_QUOTA_H

/* Where hierarchies with CPU quotas are mounted. */
struct sn_quota_mount;

/* Reads a file such as /proc/self/mountinfo. Returns a list for sn_quota_mounts_free(), or NULL if
 * no hierarchy with CPU quotas is mounted. */
struct sn_quota_mount *sn_quota_mounts_read(const char *mountinfo);
void sn_quota_mounts_free(struct sn_quota_mount *mounts);

/* Returns the quota of the groups in a file such as /proc/self/cgroup, in whole CPUs, rounded up; 0
 * if there is none. */
long sn_quota_read(const struct sn_quota_mount *mounts, const char *cgroup);

#endif
