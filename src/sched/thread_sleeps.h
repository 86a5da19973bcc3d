/* SPDX-License-Identifier: MIT */
/*
 * Whether a thread sleeps in the kernel, for those that decide whether to take something from it:
 * the monitor a processor, and other threads the tasks that are tied to it.
 *
 * The caller keeps the thread's block alive. Both calls are hints: by the time they return, the
 * thread may have been woken.
 */
#ifndef SENNIT_SCHED_THREAD_SLEEPS_H
#define SENNIT_SCHED_THREAD_SLEEPS_H

#include <stdbool.h>
#include <stdint.h>

struct sn_thread;

/* Returns the CPU time of the thread in ns, or -1 if it is unknown. A system call of 0.3 us. If it
 * stands still between two calls, the thread sleeps, or the OS runs others. */
int64_t sn_thread_cpu_time(const struct sn_thread *thread);

/* Returns whether the kernel says that the thread sleeps, by /proc: 10 us. Without /proc, or when
 * no descriptor is left, the answer is yes, and the CPU time alone decides. */
bool sn_thread_sleeps(const struct sn_thread *thread);

#endif
