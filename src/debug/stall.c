/* SPDX-License-Identifier: MIT */
#include "debug/stall.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <ucontext.h>

#include "base/environment.h"
#include "base/log.h"
#include "debug/dump.h"
#include "debug/report.h"
#include "sched/task.h"
#include "sched/thread.h"

static struct sigaction former;
static int stall_signal; /* 0 if it is not caught */

/* Prints the report, on the thread that stalls. */
static void put_stall(struct sn_thread *self, int64_t stayed, const ucontext_t *context)
{
	struct sn_private_lease *lease = &self->lease;
	struct sn_registers registers;

	sn_put("sennit: stall: ");
	if (lease->inside ||
	    lease->stays != atomic_load_explicit(&self->stall_stay, memory_order_relaxed) ||
	    !self->task) {
		sn_put("code that ran for ");
		sn_put_number((uint64_t)stayed / 1000000, 10);
		sn_put(" ms without a call of sennit had ended before it could be reported\n");
		return;
	}
	sn_put_task(self->task);
	sn_put(" has kept its processor for ");
	sn_put_number((uint64_t)stayed / 1000000, 10);
	sn_put(" ms");
	if (lease->blocking) {
		sn_put(", blocking in ");
		sn_put(*lease->blocking ? lease->blocking : "a bracket");
	}
	sn_put("\n");
	sn_report_find_modules();
	sn_registers_interrupted(context, &registers);
	sn_put_backtrace(&registers, &self->task->stack);
}

static void handle_stall(int signum, siginfo_t *info, void *context)
{
	struct sn_thread *self = sn_thread_self();
	int64_t stayed = self ? atomic_exchange(&self->stall_asked, 0) : 0;
	int saved = errno;

	if (stayed) {
		/* If another report does not end in time, that one says that there was one more. */
		if (sn_report_begin(SN_STDERR_BRIEFLY)) {
			put_stall(self, stayed, context);
			sn_put_flush();
			sn_report_end(false);
		} else {
			sn_report_miss();
		}
	} else if (former.sa_flags & SA_SIGINFO)
		former.sa_sigaction(signum, info, context);
	else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN)
		former.sa_handler(signum);
	errno = saved;
}

static int catch_stalls(void)
{
	struct sigaction action = {.sa_sigaction = handle_stall,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	long signum = sn_environment_number("SENNIT_STALL_SIGNAL", 1, SIGRTMAX, SIGURG);

	if (signum < 0)
		return -EINVAL;
	sigemptyset(&action.sa_mask);
	if (sn_catch_instead((int)signum, &action, &former) < 0) {
		sn_log("SENNIT_STALL_SIGNAL=%ld: that signal cannot be caught", signum);
		return -EINVAL;
	}
	stall_signal = (int)signum;
	return 0;
}

void sn_stall_report(struct sn_thread *thread, uint32_t stay, int64_t stayed)
{
	atomic_store_explicit(&thread->stall_stay, stay, memory_order_relaxed);
	atomic_store(&thread->stall_asked, stayed);
	pthread_kill(thread->pthread, stall_signal);
	sn_dump_note_stall();
}

int sn_stall_init(int64_t *ns)
{
	long ms = sn_environment_number("SENNIT_STALL_MS", 0, 86400000, 0);

	*ns = ms * (int64_t)1000000;
	return ms < 0 ? -EINVAL : ms == 0 ? 0 : catch_stalls();
}

int sn_stall_own_signal(void)
{
	bool had_none = !(former.sa_flags & SA_SIGINFO) &&
			(former.sa_handler == SIG_DFL || former.sa_handler == SIG_IGN);

	return had_none ? stall_signal : 0;
}

/* Restores the previous action, unless the program has installed a handler of its own since. */
void sn_stall_end(void)
{
	struct sigaction current;

	if (stall_signal && sigaction(stall_signal, NULL, &current) == 0 &&
	    (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == handle_stall)
		sigaction(stall_signal, &former, NULL);
	stall_signal = 0;
}
