/* SPDX-License-Identifier: MIT */
/*
 * The monitor: a thread of its own, without a processor, that revokes the leases of threads which
 * block or hog, and looks after what nobody else would.
 */
#ifndef SENNIT_SCHED_SYSMON_H
#define SENNIT_SCHED_SYSMON_H

#include <stdbool.h>

/*
 * Starts the monitor; 0 or a negative errno. follow: the number of processors follows that of the
 * usable CPUs. SENNIT_LEASES=0 keeps it from revoking.
 */
int sn_sysmon_start(bool follow);

/* Waits for its end, after stopping was set. */
void sn_sysmon_stop(void);

/* Wakes it from its deep sleep. The runtime's lock is held. */
void sn_sysmon_wake(void);

/* The same for a signal's handler, without the lock. */
void sn_sysmon_interrupt(void);

#endif
