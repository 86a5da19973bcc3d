/* SPDX-License-Identifier: MIT */
/*
 * Timers on the CPU clocks of the runtime's threads, for profiles (debug/profile_cpu.c).
 *
 * Contract. While they are on, each thread of the runtime, also one that starts meanwhile, is sent
 * a signal after each period of its own CPU time, with its struct sn_thread as the value: so the
 * handler knows the thread also where the lease is hidden (scan_serve.h). A thread that does not
 * run is not sent any. The kernel looks at these clocks at its ticks: si_overrun says how many
 * periods have passed besides.
 *
 * A thread is in the list of all threads before it runs, and after the runtime has left it behind
 * (an orphan) no longer. Its timer is made when it has begun (attached), or for all that have when
 * the timers are turned on, and deleted when it leaves the list.
 *
 * Who may write what: everything here, and a thread's attached, has_timer and timer, under the
 * runtime's lock.
 *
 * Rejected:
 *   - setitimer(ITIMER_PROF), one for the process: the kernel sends its signal to any thread,
 *     mostly to the one that happens to run at the tick; with several threads the samples are
 *     biased, and at most one comes for each tick.
 *   - perf_event_open(): exact, and it knows the kernel's part; but it is forbidden to most
 *     programs (perf_event_paranoid, the filters of containers), so it could only be a second way
 *     beside this one, with other results.
 */
#ifndef SENNIT_SCHED_CPU_TIMER_H
#define SENNIT_SCHED_CPU_TIMER_H

#include <stdint.h>

#include "base/fork.h"

struct sn_thread;

/* 0; -EAGAIN when the system gives no more of them; -ENOTSUP when it has none. After an error none
 * is on. */
int sn_cpu_timers_start(int signum, int64_t period_ns);

/* Returns how many of the threads that have begun meanwhile got none. No signal is sent after that,
 * but one may be pending. */
unsigned sn_cpu_timers_stop(void);

/* The calling thread has begun. */
void sn_cpu_timer_begin(struct sn_thread *self);

/* The thread leaves the list; the lock is held. */
void sn_cpu_timer_end(struct sn_thread *thread);

/* Timers are not inherited. */
void sn_cpu_timers_fork(enum sn_fork_phase phase);

#endif
