/* SPDX-License-Identifier: MIT */
/*
 * The monitor: a thread of its own, without a processor. It revokes the leases of threads that
 * block or that hold a processor for too long, and does chores that no other thread would do in
 * time; the parts that need them register them.
 */
#ifndef SENNIT_SCHED_SYSMON_H
#define SENNIT_SCHED_SYSMON_H

#include <stdbool.h>
#include <stdint.h>

struct sn_thread;

/*
 * What the monitor does for parts that it does not know. Each may be NULL. All are called on the
 * monitor's thread.
 */
struct sn_chore {
	/* After each round of looks. now: when the round began. idle: no processor is in use, so
	 * nothing waits for the next round. */
	void (*step)(int64_t now, bool idle);
	/* Until when the monitor may sleep if nothing runs before; 0: forever. */
	int64_t (*due)(int64_t now);
	/* Something is left that takes further looks, at the longest period. */
	bool (*is_left)(void);
	/* Another thread has requested a step and relies on it: no deep sleep. The runtime's lock
	 * is held. */
	bool (*is_asked)(void);
	/* Everything has been idle for a while. True: ask again soon. */
	bool (*when_idle)(void);
};

struct sn_sysmon_attr {
	bool follow_cpus; /* the number of processors follows that of the usable CPUs */
	const struct sn_chore *chores;
	int chore_count;
	/* Called once for each stay outside that lasts this long. 0: never. */
	int64_t stall_ns;
	void (*stalled)(struct sn_thread *thread, uint32_t stay, int64_t stayed);
};

/* Starts the monitor; 0 or a negative errno. SENNIT_LEASES=0 keeps it from revoking. */
int sn_sysmon_start(const struct sn_sysmon_attr *attr);

/* Waits for its end, after stopping was set. */
void sn_sysmon_stop(void);

#endif
