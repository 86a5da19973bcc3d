/* SPDX-License-Identifier: MIT */
/*
 * How many processors the machine and its administrator allow.
 *
 * Contract. The answer follows the affinity mask and the cgroup's quota as they are at the call.
 * Where control groups are mounted is read once, by sn_cpus_begin(), before any thread of the run
 * starts. Any thread may ask after that.
 */
#ifndef SENNIT_BASE_CPUS_H
#define SENNIT_BASE_CPUS_H

/* Called when a run begins: notes where control groups are mounted. */
void sn_cpus_begin(void);

/* The number of processors that the affinity mask and the cgroup allow now: 1 to
 * SN_MOST_PROCESSORS. */
int sn_processors_allowed(void);
#define SN_MOST_PROCESSORS 1024

#endif
