/* SPDX-License-Identifier: MIT */
/*
 * The report of which features of the kernel the library uses, and what it does instead of those
 * that are missing.
 *
 * Contract. A line shows what this process does, not what a kernel of that version should have:
 * backports, seccomp filters, emulators and the environment decide, too. Every answer therefore
 * comes from the code that uses the feature: from its choice, if it chooses once; or, if each call
 * decides for itself, from the same call with arguments that change nothing.
 *
 * docs/kernels.md has the same features in a table, with what each fallback costs and how to force
 * it; tests/style/kernels_test.py compares the two.
 *
 * Rejected: a list of fallbacks that the calls fill in when they fall back. It would still be empty
 * at the beginning of a process, which is when an administrator asks.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/utsname.h>
#include <time.h>

#include <sennit/clock.h>
#include <sennit/debug.h>

#include "base/log.h"
#include "base/membarrier.h"
#include "base/quota.h"
#include "debug/out.h"
#include "process/process_probe.h"
#include "sched/netpoll.h"
#include "stack/stack.h"
#include "stack/stack_guard.h"
#include "wait/checked.h"
#include "wait/futex.h"

#define MOST_WAYS 4

struct feature {
	const char *name;
	const char
		*since; /* the version of Linux with the first way; NULL if that does not matter */
	const char *ways[MOST_WAYS]; /* the best comes first */
	int (*way)(void);
};

static int barrier(void)
{
	return (int)sn_barrier_way();
}

static int guards(void)
{
	sn_stacks_init();
	return sn_stack_guard_kind() == SN_STACK_GUARD_MPROTECT;
}

static int guards_at_once(void)
{
	sn_stacks_init();
	return !sn_stack_guards_at_once();
}

static int poller(void)
{
	sn_netpoll_probe();
	return !sn_netpoll_is_exact();
}

static int sleeping(void)
{
	return sizeof(long) == 8 || sn_futex_is_wide() ? 0 : 1;
}

static int cpu_clocks(void)
{
	const int saved = errno;
	struct timespec ts;
	clockid_t id;
	const bool there =
		pthread_getcpuclockid(pthread_self(), &id) == 0 && clock_gettime(id, &ts) == 0;

	errno = saved;
	return !there;
}

/* Creates a timer without a signal, which is never armed. */
static int cpu_timers(void)
{
	struct sigevent none = {.sigev_notify = SIGEV_NONE};
	const int saved = errno;
	bool there = false;
	clockid_t id;
	timer_t timer;

	if (pthread_getcpuclockid(pthread_self(), &id) == 0 &&
	    timer_create(id, &none, &timer) == 0) {
		there = true;
		timer_delete(timer);
	}
	errno = saved;
	return !there;
}

static int quota(void)
{
	struct sn_quota_mount *mounts = sn_quota_mounts_read("/proc/self/mountinfo");
	const long cpus = sn_quota_read(mounts, "/proc/self/cgroup");

	sn_quota_mounts_free(mounts);
	return cpus == 0;
}

static int clocks(void)
{
	return sn_clock_source(SN_CLOCK_CALL_NOW) != SN_CLOCK_SOURCE_VDSO;
}

static int ticks(void)
{
	return SN_CLOCK_SOURCE_COUNTER - sn_clock_source(SN_CLOCK_CALL_TICKS_NOW);
}

static int random_bytes(void)
{
	return sn_clock_source(SN_CLOCK_CALL_GETRANDOM) != SN_CLOCK_SOURCE_VDSO;
}

static int child_ends(void)
{
	return !sn_process_has_pidfds();
}

static int child_status(void)
{
	return !sn_process_waits_by_pidfd();
}

static int child_signals(void)
{
	return !sn_process_signals_by_pidfd();
}

static int child_descriptors(void)
{
	return !sn_process_closes_by_range();
}

static int lines(void)
{
	return !sn_stderr_never_waits();
}

#if SENNIT_CHECKED
static int checked_calls(void)
{
	return !sn_checked_sees_calls();
}
#endif

static const struct feature features[] = {
	{"barrier on all threads",
	 "4.14",
	 {"membarrier()", "fences in each entry", "visits to every CPU", "none"},
	 barrier},
	{"guards of stacks", "6.13", {"MADV_GUARD_INSTALL", "mprotect()"}, guards},
	{"several guards at once", "6.15", {"process_madvise()", "one call each"}, guards_at_once},
	{"sleep of the poller", "5.11", {"epoll_pwait2()", "epoll_wait()"}, poller},
#if UINTPTR_MAX == 0xffffffffu
	{"sleep of a thread", "5.1", {"futex_time64()", "futex()"}, sleeping},
#else
	{"sleep of a thread", "2.6", {"futex()"}, sleeping},
#endif
	{"threads that block are noticed", "2.6", {"CPU clocks", "not at all"}, cpu_clocks},
	{"CPU profiles", "2.6", {"timers on CPU clocks", "none"}, cpu_timers},
	{"quota of CPUs", NULL, {"a control group's", "none"}, quota},
	{"clocks", "2.6", {"vDSO", "system calls"}, clocks},
	{"ticks", "4.14", {"counter", "vDSO", "system calls"}, ticks},
	{"random bytes", "6.11", {"vDSO", "getrandom()"}, random_bytes},
	{"end of a program", "5.3", {"pidfd", "asked for at intervals"}, child_ends},
	{"status of a program", "5.4", {"waitid(P_PIDFD)", "waitid(P_PID)"}, child_status},
	{"signals to a program", "5.1", {"pidfd_send_signal()", "kill()"}, child_signals},
	{"descriptors of a program", "5.11", {"close_range()", "/proc/self/fd"}, child_descriptors},
	{"lines on stderr", "6.4", {"pwritev2(RWF_NOWAIT)", "poll() and write()"}, lines},
#if SENNIT_CHECKED
	{"calls that may wait", "5.11", {"syscall user dispatch", "not seen"}, checked_calls},
#endif
};

static void print(struct sn_out *out, const struct feature *feature)
{
	const int way = feature->way();

	sn_out_text(out, feature->name);
	sn_out_text(out, ": ");
	sn_out_text(out, feature->ways[way]);
	if (way > 0 && feature->since) {
		sn_out_text(out, " instead of ");
		sn_out_text(out, feature->ways[0]);
		sn_out_text(out, " (Linux ");
		sn_out_text(out, feature->since);
		sn_out_text(out, ")");
	}
	sn_out_text(out, "\n");
}

int sn_kernel_report(int fd)
{
	struct sn_out out = {.fd = fd};
	const int saved = errno;
	struct utsname name;

	if (uname(&name) == 0) {
		sn_out_text(&out, "kernel: ");
		sn_out_text(&out, name.sysname);
		sn_out_text(&out, " ");
		sn_out_text(&out, name.release);
		sn_out_text(&out, " ");
		sn_out_text(&out, name.machine);
		sn_out_text(&out, "\n");
	}
	for (size_t i = 0; i < sizeof features / sizeof *features; i++)
		print(&out, &features[i]);
	sn_out_flush(&out);
	errno = saved;
	return out.error;
}
