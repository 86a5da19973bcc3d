/* SPDX-License-Identifier: MIT */
/*
 * The signal that requests a dump, and a trace if there is a file for it (trace_file.h). If a task
 * keeps its processor for too long, or waits for one (late.h), the monitor requests the trace
 * alone.
 *
 * The signal handler only records that it was called and wakes the monitor. The monitor starts a
 * thread for the dump, because the threads that run tasks may all be in foreign code, and the
 * monitor itself has to serve those.
 *
 * Who may write what:
 *   wanted   the handler and the monitor set bits; the monitor clears it when it begins to serve
 *   traced   the monitor: when it last requested the trace of a stall
 *   no_thread_logged   the monitor, and sn_dump_install()
 *   the rest sn_dump_install(), sn_dump_uninstall(), while no monitor runs
 */
#include "debug/dump.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/clock.h>
#include <sennit/debug.h>
#include <sennit/wait_stats.h>

#include "arch/compiler.h"
#include "base/environment.h"
#include "debug/trace_file.h"
#include "sched/sysmon_sleep.h"
#include "sched/thread_list.h"
#include "wait/checked.h"

#define WANTED_DUMP 1u
#define WANTED_TRACE 2u
#define WANTED_WAITS 4u /* the dump includes statistics of waits */

/* The least time between the traces of two stalls: a program that stalls all the time needs no
 * trace of each. */
#define STALLS_APART_NS (60 * INT64_C(1000000000))

static _Atomic unsigned wanted;
static _Atomic int64_t traced;
static bool no_thread_logged;   /* a line has said that no thread could be started */
static bool with_waits;         /* SENNIT_WAIT_STATS */
static int dump_signal;         /* 0 if it is not caught */
static struct sigaction former; /* the previous action of the signal */

/*
 * A shell without job control, such as one that runs a script, starts commands with `&` with SIGINT
 * and SIGQUIT ignored, so that ctrl-\ at the terminal ends only the foreground. A program that
 * dumps instead of dying needs no such protection, and could get no dump by kill(). If the program
 * itself ignores the signal, that decision counts. To distinguish the two, this is read before
 * main().
 */
static bool quit_was_ignored;

__attribute__((constructor)) static void look_at_quit(void)
{
	struct sigaction now;

	quit_was_ignored = sigaction(SIGQUIT, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
			   now.sa_handler == SIG_IGN;
}

/* Whether no other code uses the signal, by its previous action. */
static bool is_free(int signum)
{
	const char *wish = sn_environment("SENNIT_DUMP_SIGNAL");
	bool asked_for = wish && *wish;

	if (former.sa_flags & SA_SIGINFO)
		return false;
	return former.sa_handler == SIG_DFL ||
	       (former.sa_handler == SIG_IGN &&
		(asked_for || (signum == SIGQUIT && quit_was_ignored)));
}

/* The kernel sends these for an instruction, which would be executed again after the dump was
 * requested, and request the next one: SIGTRAP not on x86, but it is a debugger's everywhere. */
static bool is_of_instructions(int signum)
{
	return signum == SIGILL || signum == SIGTRAP || signum == SIGFPE || signum == SIGSEGV ||
	       signum == SIGBUS;
}

static void handle(int signum)
{
	(void)signum;
	atomic_fetch_or(&wanted, WANTED_DUMP | WANTED_TRACE);
	sn_sysmon_interrupt();
}

void sn_dump_note_stall(void)
{
	int64_t now = sn_now(), last = atomic_load(&traced);

	if (!sn_trace_file_is_set() || (last && now - last < STALLS_APART_NS))
		return;
	atomic_store(&traced, now);
	atomic_fetch_or(&wanted, WANTED_TRACE);
}

/* No thread waits for this one, so the run may end while it works, and another may begin. Therefore
 * only sn_dump() accesses the run, and it checks whether there is one. */
static void *dump_main(void *arg)
{
	unsigned what = (unsigned)(uintptr_t)arg;

	/* The trace comes first, because a dump takes time. */
	if (what & WANTED_TRACE)
		sn_trace_file_write();
	if (what & WANTED_DUMP) {
		sn_dump(STDERR_FILENO);
		if (what & WANTED_WAITS)
			sn_wait_print(STDERR_FILENO);
	}
	return NULL;
}

bool sn_dump_wanted(void)
{
	return atomic_load(&wanted) != 0;
}

void sn_dump_serve(int64_t now, bool idle)
{
	pthread_attr_t attr;
	pthread_t thread;
	unsigned what;
	int err;

	(void)now, (void)idle;
	if (sn_likely(!atomic_load_explicit(&wanted, memory_order_relaxed)) ||
	    (what = atomic_exchange(&wanted, 0)) == 0)
		return;
	/* with_waits is read here, because the thread may outlive the run. */
	if (with_waits)
		what |= WANTED_WAITS;
	sn_thread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sn_checked_pass(); /* this maps a stack, as for every thread of the runtime */
	err = pthread_create(&thread, &attr, dump_main, (void *)(uintptr_t)what);
	sn_checked_pass_end();
	pthread_attr_destroy(&attr);
	if (err == 0)
		return;
	/* Tries again in the monitor's next round. The monitor does not dump itself, because it
	 * would wait for tasks that do not answer, and for the reader of stderr. */
	if (!no_thread_logged)
		sn_log("cannot start the thread that writes a dump or a trace (%s): trying again",
		       strerror(err));
	no_thread_logged = true;
	atomic_fetch_or(&wanted, what & (WANTED_DUMP | WANTED_TRACE));
}

int sn_dump_install(bool wait_stats)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART | SA_ONSTACK};
	long signum = sn_environment_number("SENNIT_DUMP_SIGNAL", 0, SIGRTMAX, SIGQUIT);

	if (signum < 0)
		return -EINVAL;
	dump_signal = 0;
	no_thread_logged = false;
	with_waits = wait_stats;
	atomic_store(&wanted, 0);
	atomic_store(&traced, 0);
	if (is_of_instructions((int)signum)) {
		sn_log("SENNIT_DUMP_SIGNAL=%ld: that signal cannot be caught", signum);
		return -EINVAL;
	}
	if (signum == 0 || sigaction((int)signum, NULL, &former) < 0 || !is_free((int)signum))
		return 0;
	sigemptyset(&action.sa_mask);
	if (sigaction((int)signum, &action, NULL) < 0) {
		sn_log("SENNIT_DUMP_SIGNAL=%ld: that signal cannot be caught", signum);
		return -EINVAL;
	}
	dump_signal = (int)signum;
	return 0;
}

int sn_dump_own_signal(void)
{
	return dump_signal;
}

void sn_dump_signal_fork(enum sn_fork_phase phase)
{
	if (phase == SN_FORK_CHILD)
		sn_dump_uninstall();
}

void sn_dump_uninstall(void)
{
	struct sigaction current;

	if (dump_signal && sigaction(dump_signal, NULL, &current) == 0 &&
	    !(current.sa_flags & SA_SIGINFO) && current.sa_handler == handle)
		sigaction(dump_signal, &former, NULL);
	dump_signal = 0;
}
