/* SPDX-License-Identifier: MIT */
/*
 * The profile of CPU time: sn_profile_cpu().
 *
 * Each of the runtime's threads has a timer on its CPU clock (sched/cpu_timer.h argues for that
 * clock), whose signal interrupts it wherever it is: in a task's own code, in the scheduler, within
 * a switch. The handler walks the interrupted stack and adds a sample to the table. It takes no
 * lock and allocates nothing, and runs on the thread's alternate stack, because a task's may be too
 * small for it.
 *
 * Whose stack it is. The stack pointer decides, not self->task, because a switch changes the one
 * shortly before or after the other. The stack pointer may be
 *   - on the stack of the thread's task;
 *   - on that of the task that the thread is just leaving, whose block is not reused before
 *     after_switch() has forgotten it (switch.c);
 *   - on the thread's own stack, in the scheduler's loop, whose time belongs to no task;
 *   - on another stack of the program, such as that of a signal handler. Then only the place is
 *     known.
 *
 * The signal is SIGPROF, which is caught only if the program has no handler of its own. If the
 * program ignored it before, that is restored afterwards. Otherwise the handler stays, and does
 * nothing: a signal may still be on its way when its timer is deleted, in an emulator at least, and
 * the default action would end the process.
 *
 * The end. A handler counts itself before it looks for the profile. The thread that takes the
 * profile away then waits until no handler is counted. Both are sequentially consistent, so a
 * handler either finds no profile, or is waited for.
 *
 * Who may write what:
 *   made           the party that has set under_way stores a profile; the party that ends the
 *                  profile replaces it by NULL, by an exchange: the call, or the end of the run
 *                  that has abandoned the caller
 *   active, by_task, period_ns, former    the party that has set under_way
 *   handlers       handlers, by atomic additions
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sennit/clock.h>
#include <sennit/task.h>

#include "arch/compiler.h"
#include "arch/registers.h"
#include "debug/profile.h"
#include "sched/cpu_timer.h"
#include "sched/scan_serve.h"
#include "sched/task.h"
#include "sched/thread.h"

#define DEFAULT_HZ 100
#define MOST_HZ 1000

/* The period at which the end looks whether all handlers have returned, which take microseconds. */
#define LOOK_NS 100000

enum { SAMPLES, CPU };

static const struct sn_pprof_type types[] = {
	[SAMPLES] = {"samples", "count"},
	[CPU] = {"cpu", "nanoseconds"},
};

static _Atomic bool under_way;
static struct sn_profile *_Atomic made, *_Atomic active; /* active: for handlers */
static bool by_task; /* a task has begun it, not a thread of the program's own */
static _Atomic uint32_t handlers;
static int64_t period_ns;
static struct sigaction former;

/* ---- the handler ---- */

static bool is_on(const struct sn_task *task, uintptr_t sp)
{
	const struct sn_stack stack = task ? sn_task_stack(task) : (struct sn_stack){0};

	return sp >= (uintptr_t)stack.low && sp < (uintptr_t)stack.high;
}

/* Whether the stack pointer is on the stack of the scheduler's loop. */
static bool is_on_own(const struct sn_thread *thread, uintptr_t sp)
{
	return (uintptr_t)thread->stack_high - sp < SN_THREAD_STACK_SIZE;
}

static void sample(struct sn_profile *profile, struct sn_thread *thread, const ucontext_t *context,
		   int64_t periods)
{
	struct sn_task *task = __atomic_load_n(&thread->task, __ATOMIC_RELAXED);
	struct sn_task *prev = thread->prev;
	const int64_t values[SN_SAMPLE_VALUES] = {[SAMPLES] = periods, [CPU] = periods * period_ns};
	struct sn_sample_key key;
	struct sn_registers registers;
	struct sn_stack stack;
	uintptr_t sp;

	/* Clears everything except the frames, of which only those that are written are read. */
	memset(&key, 0, offsetof(struct sn_sample_key, pcs));
	sn_registers_interrupted(context, &registers);
	sp = registers.at[SN_REGISTER_SP];
	if (!is_on(task, sp) && is_on(prev, sp))
		task = prev;
	else if (is_on_own(thread, sp))
		task = NULL;
	if (task)
		sn_sample_task(&key, task);
	/* Does not walk under the thread sanitizer, which calls handlers late, when the stack has
	 * changed. */
	if (!SN_TSAN && is_on(task, sp)) {
		stack = sn_task_stack(task);
		sn_sample_walk(&key, &profile->modules, &registers, (const void *)sp, stack.high,
			       true);
	} else if (!SN_TSAN && is_on_own(thread, sp)) {
		sn_sample_walk(&key, &profile->modules, &registers, (const void *)sp,
			       thread->stack_high, true);
	} else {
		key.pcs[0] = registers.at[SN_REGISTER_PC];
		key.frames = 1;
		key.exact = true;
	}
	sn_samples_add(&profile->samples, &key, values);
}

static void handle(int signum, siginfo_t *info, void *context)
{
	struct sn_thread *known = sn_thread_self(), *thread = info->si_value.sival_ptr;
	const int saved = errno;
	struct sn_profile *profile;

	(void)signum;
	atomic_fetch_add(&handlers, 1);
	profile = atomic_load(&active);
	/* Ignores other signals: those of the program's timers, and those that were sent. */
	if (profile && info->si_code == SI_TIMER && thread && (!known || known == thread))
		sample(profile, thread, context, 1 + (int64_t)info->si_overrun);
	atomic_fetch_sub(&handlers, 1);
	errno = saved;
}

/* ---- the beginning and the end ---- */

static int catch_signal(void)
{
	struct sigaction action = {.sa_sigaction = handle,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	if (sigaction(SIGPROF, NULL, &former) < 0)
		return -errno;
	/* The handler is still installed from an earlier profile. */
	if ((former.sa_flags & SA_SIGINFO) && former.sa_sigaction == handle)
		former = (struct sigaction){.sa_handler = SIG_DFL};
	if ((former.sa_flags & SA_SIGINFO) ||
	    (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN))
		return -EBUSY;
	sigemptyset(&action.sa_mask);
	return sigaction(SIGPROF, &action, NULL) < 0 ? -errno : 0;
}

/* Restores the previous action if it was "ignore", unless the program has its own handler now. */
static void release_signal(void)
{
	struct sigaction current;

	if (former.sa_handler == SIG_IGN && sigaction(SIGPROF, NULL, &current) == 0 &&
	    (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == handle)
		sigaction(SIGPROF, &former, NULL);
}

static void withdraw(void)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};

	atomic_store(&active, NULL);
	while (atomic_load(&handlers) > 0)
		nanosleep(&look, NULL);
}

static int start(struct sn_profile *profile, int hz)
{
	int err = catch_signal();

	if (err < 0)
		return err;
	period_ns = 1000000000 / hz;
	atomic_store(&active, profile);
	err = sn_cpu_timers_start(SIGPROF, period_ns);
	if (err < 0) {
		release_signal();
		withdraw();
	}
	return err;
}

static int make(int hz)
{
	struct sn_profile *profile = sn_profile_begin(sizeof *profile);
	int err;

	if (!profile)
		return -ENOMEM;
	err = start(profile, hz);
	if (err < 0)
		sn_profile_end(profile, sizeof *profile);
	else
		atomic_store(&made, profile);
	return err;
}

int sn_cpu_profile_start(int hz)
{
	const bool task = sn_self() != NULL;
	struct sn_private_lease *lease;
	int err;

	if (hz < 0 || hz > MOST_HZ)
		return -EINVAL;
	if (atomic_exchange(&under_way, true))
		return -EBUSY;
	by_task = task;
	lease = sn_scan_hide();
	err = make(hz ? hz : DEFAULT_HZ);
	sn_scan_unhide(lease);
	if (err < 0)
		atomic_store(&under_way, false);
	return err;
}

static int finish(struct sn_profile *profile, int fd)
{
	struct sn_pprof_attr attr = {.types = types,
				     .count = 2,
				     .main = CPU,
				     .period_type = types[CPU],
				     .period = period_ns};
	char comment[96];
	unsigned missing;
	int err = 0;

	missing = sn_cpu_timers_stop();
	release_signal();
	withdraw();
	attr.duration_ns = sn_now() - profile->began_mono;
	snprintf(comment, sizeof comment, "%u threads are missing: they had no timer", missing);
	if (fd >= 0)
		err = sn_profile_write(profile, fd, &attr, 1, missing ? comment : NULL);
	sn_profile_end(profile, sizeof *profile);
	atomic_store(&under_way, false);
	return err;
}

int sn_cpu_profile_stop(int fd)
{
	struct sn_private_lease *lease = sn_scan_hide();
	struct sn_profile *profile = atomic_exchange(&made, NULL);
	/* In a child of fork() there is none any more. */
	int err = profile ? finish(profile, fd) : -ESRCH;

	sn_scan_unhide(lease);
	return err;
}

int sn_profile_cpu(int fd, int64_t duration_ns, int hz)
{
	int err = sn_profile_check(duration_ns), interrupted;

	if (err == 0)
		err = sn_cpu_profile_start(hz);
	if (err < 0)
		return err;
	interrupted = sn_profile_sleep(duration_ns);
	err = sn_cpu_profile_stop(interrupted < 0 ? -1 : fd);
	return interrupted < 0 ? interrupted : err;
}

void sn_cpu_profile_end(void)
{
	if (atomic_load(&made) && by_task)
		sn_cpu_profile_stop(-1);
}

void sn_cpu_profile_fork(enum sn_fork_phase phase)
{
	if (phase != SN_FORK_CHILD)
		return;
	if (atomic_load(&active))
		release_signal();
	atomic_store(&made, NULL);
	atomic_store(&active, NULL);
	atomic_store(&handlers, 0);
	atomic_store(&under_way, false);
}
