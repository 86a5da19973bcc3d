/* SPDX-License-Identifier: MIT */
/*
 * Profiles: which tasks there are, where they spend CPU time, and where they wait.
 *
 * Each call writes a profile in the format of pprof, uncompressed, which `go tool pprof` and other
 * viewers read. A sample is a stack, with the names of its functions; the addresses and the
 * mappings are there too, so that pprof can find lines and inlined functions in the program's file
 * (-symbolize=force). Samples have these labels (pprof -tags, -tagfocus, -tagshow):
 *
 *   task        the task's name, if it has one
 *   spawned_at  where it was spawned, as function+0x12; none: the first task
 *   state       what the task does (profiles of tasks)
 *   waits_for   what it waits for, such as "a mutex" or "a channel"; "a processor": it could run
 *   object      a number: the address of what it waits in, if that is known. For a mutex or another
 *               lock, it lies within the object
 *   and those that the program has set by sn_label()
 *
 * docs/profiling.md shows how to use them, what they cost and how exact they are.
 *
 * Environment, read by each sn_run():
 *   SENNIT_PROFILE  a kind and a file, as in cpu:/tmp/cpu-%p.pb or waits:/tmp/waits-%p.pb: all of
 *                   the run is profiled, and the profile written when the first task has returned,
 *                   with a line on stderr. %p stands for the process's id. The file is replaced
 *                   when the profile is complete. Ignored in setuid and setgid programs
 *
 * Threads outside the runtime: all calls, except sn_label(). Signal handlers: none.
 */
#ifndef SENNIT_PROFILE_H
#define SENNIT_PROFILE_H

#include <sennit/base.h>

SN_BEGIN

/*
 * Writes a profile of the existing tasks, by their stacks. The values of a sample are the number of
 * tasks, and the bytes of their stacks: in use, with memory, and reserved. Nothing is stopped: as
 * in sn_dump(), each task is kept from running for the microseconds that its backtrace takes. A
 * task whose thread does not answer within a tenth of a second has no stack.
 *
 * Any thread; does not park, but takes some 10 us a task, and blocks in write(). Returns 0; -EBUSY
 * when another such profile is being made; -ENOMEM; -ESRCH when no runtime runs; -EDEADLK in a
 * scan's callback; or the error of write(). After an error the descriptor may have a part of it.
 */
SN_API int sn_profile_tasks(int fd);

/*
 * Writes a profile of where the runtime's threads spend CPU time during the next duration_ns
 * nanoseconds. The values of a sample are how often a thread was found there, and the nanoseconds
 * that stand for that. hz is how often in each second of CPU time a thread is interrupted, from 1
 * to 1000; 0 means 100.
 *
 * Each of the runtime's threads has a timer on its CPU clock, which interrupts it by SIGPROF; so a
 * thread that sleeps is not disturbed. Afterwards SIGPROF stays caught, and does nothing, unless
 * the program had ignored it. Time that a task spends in foreign code, or in the kernel, counts as
 * the task's. Samples without a task (no label spawned_at, and not the name main) are the
 * scheduler's own. Threads that the program has started itself are not sampled, nor is anything
 * where sn_run()'s caller has blocked SIGPROF. The handler has SA_RESTART; as after any handler,
 * some system calls of foreign code (poll(), nanosleep()) return EINTR all the same. On ARM,
 * compile C with -funwind-tables, or the stack ends at the first function without them.
 *
 * Any thread; in a task it parks as sn_sleep() does, and afterwards blocks in write(). Returns 0;
 * -EBUSY when another such profile is being made, or when the program catches SIGPROF itself;
 * -EINVAL for a negative duration or an invalid hz; -ENOMEM; -EAGAIN when the system gives no timer
 * (RLIMIT_SIGPENDING); -ENOTSUP where it has no such timers; -ESRCH when no runtime runs; -EDEADLK
 * in a scan's callback; the reason when the calling task's scope is cancelled, and then nothing is
 * written; or the error of write().
 */
SN_API int sn_profile_cpu(int fd, int64_t duration_ns, int hz);

/*
 * Writes a profile of where tasks wait during the next duration_ns nanoseconds: contention, and all
 * other time off the CPU. The values of a sample are the number of waits, and the sum of their
 * nanoseconds. The stack is the waiter's. The part of a wait that lies within the time of the
 * profile counts, even if the wait began before that or ends after it. Between its wake-up and its
 * turn a task waits for a processor. That wait is a sample of its own (waits_for), and so is the
 * wait of a yielding or new task. Blocking calls of foreign code are not waits of this kind, but
 * the wait for a processor after them is.
 *
 * Waits of at least period_ns are all counted. A shorter one of d ns is counted in one of
 * period_ns/d cases, with its values multiplied by that number, so that sums stay right on average.
 * 0 means 10 us. With 1 every wait is counted, which costs some microseconds each.
 *
 * Any thread; in a task it parks as sn_sleep() does, and afterwards blocks in write(). Returns 0;
 * -EBUSY when another such profile is being made; -EINVAL for a negative duration or period;
 * -ENODATA when nothing is recorded (SENNIT_RECORD=0, trace.h); -ENOMEM; -ESRCH when no runtime
 * runs; -EDEADLK in a scan's callback; the reason when the calling task's scope is cancelled, and
 * then nothing is written; or the error of write().
 */
SN_API int sn_profile_waits(int fd, int64_t duration_ns, int64_t period_ns);

/* The most labels that a task has, and the longest key and value, without the terminating zero. */
#define SN_LABELS_MAX 16
#define SN_LABEL_KEY_MAX 63
#define SN_LABEL_VALUE_MAX 255

/*
 * Gives the calling task a label, which profiles and dumps (sn_dump() in debug.h) then show. It
 * replaces a label with the same key. Tasks that it starts from then on inherit its labels, as they
 * do values of local.h. Both strings are copied; a longer value is cut. value NULL: the label is
 * removed.
 *
 * Does not park. Costs an allocation, and one more for each task started by one with labels; tasks
 * without labels cost nothing. Returns 0; -EINVAL for a key that is NULL, empty or too long;
 * -ENOSPC for more than SN_LABELS_MAX labels; -ENOMEM; -ENOTSUP outside a task.
 */
SN_API int sn_label(const char *key, const char *value);

SN_END

#endif
