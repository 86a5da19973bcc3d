/* SPDX-License-Identifier: MIT */
/*
 * How many processors the machine and its administrator allow.
 */
#ifndef SENNIT_BASE_CPUS_H
#define SENNIT_BASE_CPUS_H

/* A run begins: notes where control groups are mounted. */
void sn_cpus_begin(void);

/* How many processors the affinity mask and the cgroup allow now: 1 to SN_MOST_PROCESSORS. */
int sn_processors_allowed(void);
#define SN_MOST_PROCESSORS 1024

#endif
