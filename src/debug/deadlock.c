/* SPDX-License-Identifier: MIT */
#include "debug/deadlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/debug.h>

#include "base/environment.h"
#include "debug/dump.h"
#include "debug/stall.h"
#include "observe/scan_ask.h"
#include "observe/scan_signal.h"
#include "sched/control_block.h"
#include "sched/foreign.h"
#include "sched/netpoll.h"
#include "sched/processor_list.h"
#include "sched/runtime.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread_list.h"
#include "stack/stack.h"
#include "wait/checked.h"

/* The monitor, and the thread that called sn_run(). */
#define OTHER_THREADS 2

static bool watching;
static sn_deadlock_hook *_Atomic hook;
static void *_Atomic hook_arg;

/* What the first look saw. Only the monitor uses it. */
static struct {
	bool suspected, reported;
	uint64_t switches, polls;
} seen;

int sn_deadlock_init(void)
{
	long wish = sn_environment_number("SENNIT_DEADLOCK", 0, 1, 1);

	if (wish < 0)
		return -EINVAL;
	watching = wish;
	seen.suspected = seen.reported = false;
	return 0;
}

void sn_on_deadlock(sn_deadlock_hook *fn, void *arg)
{
	atomic_store(&hook_arg, arg);
	atomic_store(&hook, fn);
}

static bool program_has_threads(void)
{
	uint32_t ours = atomic_load(&sn_threads.count) + OTHER_THREADS, n = 0;
	DIR *threads = opendir("/proc/self/task");
	struct dirent *entry;

	if (!threads)
		return true; /* unknown, so nothing is reported */
	while ((entry = readdir(threads)) != NULL)
		n += entry->d_name[0] != '.';
	closedir(threads);
	return n != ours;
}

static uint64_t bit_of(int signum)
{
	return signum > 0 ? (uint64_t)1 << (signum - 1) : 0;
}

/* The signals that the program catches, as the kernel reports them; -1 if they are unknown. */
static int64_t caught_signals(void)
{
	char text[4096], *line;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return -1;
	text[n] = 0;
	line = strstr(text, "\nSigCgt:");
	return line ? (int64_t)strtoull(line + sizeof "\nSigCgt:" - 1, NULL, 16) : -1;
}

/* Whether the program has a handler that may run at any time, and do something that wakes a
 * task. */
static bool program_has_handlers(void)
{
	/* Signals that a thread raises itself, which a sleeping thread of the runtime does not
	 * do. */
	static const int self_raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,
					  SIGTRAP, SIGSYS, SIGABRT};
	uint64_t caught = (uint64_t)caught_signals();

	for (size_t i = 0; i < sizeof self_raised / sizeof self_raised[0]; i++)
		caught &= ~bit_of(self_raised[i]);
	/* Signals that the C library uses itself, below SIGRTMIN. */
	for (int signum = 32; signum < SIGRTMIN; signum++)
		caught &= ~bit_of(signum);
	caught &= ~(bit_of(sn_scan_own_signal()) | bit_of(sn_dump_own_signal()) |
		    bit_of(sn_stall_own_signal()));
	return caught != 0;
}

static uint64_t switches(void)
{
	uint64_t n = 0;

	for (int i = 0; i < sn_runtime.capacity; i++)
		n += atomic_load(&sn_runtime.processors[i].stats.switches);
	return n;
}

static bool everything_sleeps(void)
{
	bool sleeps;

	if (sn_netpoll_used() || sn_work_exists() || sn_earliest_timer() != SN_TIMER_NEVER ||
	    sn_scan_pending() || sn_foreign_count() > 0)
		return false;
	sn_lock(&sn_runtime.lock);
	sleeps = atomic_load(&sn_runtime.idle_count) == atomic_load(&sn_runtime.nprocessors) &&
		 atomic_load(&sn_threads.count) ==
			 sn_idle.thread_count + (atomic_load(&sn_runtime.polling) != 0) &&
		 !atomic_load(&sn_runtime.stopping);
	sn_unlock(&sn_runtime.lock);
	return sleeps;
}

struct count {
	uint64_t parked, others;
};

static int count_one(struct sn_task *task, void *arg)
{
	struct count *count = arg;
	enum sn_task_status status = sn_status_get(&task->word);

	count->parked += status == SN_TASK_PARKED;
	count->others +=
		status != SN_TASK_PARKED && status != SN_TASK_FREE && status != SN_TASK_ENDED;
	return 0;
}

static bool every_task_is_parked(void)
{
	struct count count = {0, 0};

	(void)sn_block_each(count_one, &count);
	return count.parked > 0 && count.others == 0;
}

/*
 * Runs on a thread of its own, because both of its steps may take long: the hook may wait for
 * anything, the dump for the reader of stderr, for seconds. The end of the run waits for this
 * thread as for a callback (foreign.h), because tasks that the hook wakes may end the run.
 */
static void *report_main(void *run)
{
	sn_deadlock_hook *fn = atomic_load(&hook);

	if (fn) {
		fn(atomic_load(&hook_arg));
	} else {
		sn_log("deadlock: every task is asleep, and nothing is left that could wake one "
		       "(SENNIT_DEADLOCK=0 disables this report)");
		sn_dump_before_exit();
		_exit(2);
	}
	if (sn_foreign_come_back((uint32_t)(uintptr_t)run) == 0)
		sn_foreign_leave();
	return NULL;
}

/* Reports the deadlock on a thread of its own. Returns false if no thread can be started now. */
static bool report(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	uint32_t run;
	int err;

	if (sn_foreign_enter() < 0)
		return true; /* the run ends */
	run = sn_foreign_go_out();
	sn_thread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, report_main, (void *)(uintptr_t)run);
	pthread_attr_destroy(&attr);
	if (err && sn_foreign_come_back(run) == 0)
		sn_foreign_leave();
	return err == 0;
}

static bool look(void)
{
	uint64_t now_switches, now_polls;

	/* The order matters: see the header. */
	if (!watching || program_has_threads() || !everything_sleeps() || !every_task_is_parked()) {
		seen.suspected = false;
		return false;
	}
	now_switches = switches();
	now_polls = sn_processors_polls();
	if (seen.reported && seen.switches == now_switches)
		return false;
	seen.reported = false;
	if (!seen.suspected || seen.switches != now_switches) {
		seen.suspected = true;
		seen.switches = now_switches;
		seen.polls = now_polls;
		sn_netpoll_wake();
		return true;
	}
	if (now_polls < seen.polls + 2 && atomic_load(&sn_runtime.polling)) {
		sn_netpoll_wake();
		return true;
	}
	seen.suspected = false;
	seen.reported = true;
	/* Last, because it is the most expensive. A handler can only be installed later by a task,
	 * and that takes a switch. */
	if (program_has_handlers())
		return false;
	seen.reported = report();
	return !seen.reported;
}

bool sn_deadlock_look(void)
{
	bool soon;

	/* The looks read files of the kernel, which wait for no device; a report starts a
	 * thread. */
	sn_checked_pass();
	soon = look();
	sn_checked_pass_end();
	return soon;
}
