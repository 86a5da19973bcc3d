/* SPDX-License-Identifier: MIT */
/*
 * The monitor: a thread of its own, without a processor. It revokes the leases of threads that
 * block or that hold a processor for too long. It also does chores that no other thread would do in
 * time; run/run.c registers them.
 *
 * Contract. Nothing that the monitor calls may wait, because everything else waits for its looks. A
 * chore does its work in steps of at most a millisecond.
 *
 * Who may write what: the list of chores, sn_sysmon_start(), before the monitor exists; all other
 * state in sysmon.c, the monitor. sysmon_sleep.h has the rest.
 */
#ifndef SENNIT_SCHED_SYSMON_H
#define SENNIT_SCHED_SYSMON_H

#include <stdbool.h>
#include <stdint.h>

struct sn_thread;

/*
 * What the monitor does for modules above this layer. Each function may be NULL. All are called on
 * the monitor's thread.
 */
struct sn_chore {
	/* Called after each round of looks, which began at now. If idle, no processor is in use, so
	 * nothing waits for the next round. */
	void (*step)(int64_t now, bool idle);
	/* Returns the time until which the monitor may sleep if nothing runs before; 0 if there is
	 * no such limit. */
	int64_t (*due)(int64_t now);
	/* Returns true if work is left that needs further rounds, at the longest period. */
	bool (*is_left)(void);
	/* Returns true if another thread has requested a step and relies on it, so that the monitor
	 * must not sleep deeply. The runtime's lock is held. */
	bool (*is_asked)(void);
	/* Called when everything has been idle for a while. Returns true to be called again
	 * soon. */
	bool (*when_idle)(void);
};

struct sn_sysmon_attr {
	bool follow_cpus; /* the number of processors follows that of the usable CPUs */
	const struct sn_chore *chores;
	int chore_count;
	/* stalled() is called once for each stay outside that lasts for stall_ns; never if that is
	 * 0. */
	int64_t stall_ns;
	void (*stalled)(struct sn_thread *thread, uint32_t stay, int64_t stayed);
};

/* Starts the monitor. Returns 0 or a negative errno. With SENNIT_LEASES=0 the monitor does not
 * revoke. */
int sn_sysmon_start(const struct sn_sysmon_attr *attr);

/* Waits for the monitor's end, after sn_runtime.stopping was set. */
void sn_sysmon_stop(void);

#endif
