/* SPDX-License-Identifier: MIT */
/*
 * Timers on the CPU clocks of the runtime's threads, for profiles (debug/profile_cpu.c).
 *
 * Contract. While the timers are on, each thread of the runtime, including threads that start
 * later, gets a signal after each period of its own CPU time. The signal's value is the thread's
 * struct sn_thread, so the handler knows the thread even where the lease is hidden (scan_serve.h).
 * A thread that does not run gets no signal. The kernel looks at these clocks at its ticks only:
 * si_overrun says how many more periods have passed.
 *
 * A thread is in the list of all threads before it runs, and leaves the list when it ends or
 * becomes an orphan. Its timer is made when it has begun (attached), or when the timers are turned
 * on after that, and deleted when the thread leaves the list.
 *
 * Who may write what: everything here, and a thread's attached, has_timer and timer, under the
 * runtime's lock.
 *
 * Rejected:
 *   - setitimer(ITIMER_PROF), one timer for the process: the kernel sends its signal to any thread,
 *     mostly to the one that happens to run at the tick. With several threads the samples are
 *     biased, and at most one comes for each tick.
 *   - perf_event_open(), which is exact and also sees time in the kernel. Most programs may not
 *     call it (perf_event_paranoid, the filters of containers), so it could only be a second way
 *     beside this one, with other results.
 */
#ifndef SENNIT_SCHED_CPU_TIMER_H
#define SENNIT_SCHED_CPU_TIMER_H

#include <stdint.h>

#include "base/fork.h"

struct sn_thread;

/* Turns the timers on. Returns 0; -EAGAIN if the system has no more timers to give; -ENOTSUP if it
 * has no such timers at all. After an error no timer is on. */
int sn_cpu_timers_start(int signum, int64_t period_ns);

/* Turns the timers off. Returns how many threads began while they were on and got none. No signal
 * is sent after that, but one may be pending. */
unsigned sn_cpu_timers_stop(void);

/* Called when the calling thread has begun: makes its timer if the timers are on. */
void sn_cpu_timer_begin(struct sn_thread *self);

/* Called when the thread leaves the list; the lock is held. */
void sn_cpu_timer_end(struct sn_thread *thread);

/* A child of fork() inherits no timers. */
void sn_cpu_timers_fork(enum sn_fork_phase phase);

#endif
