/* SPDX-License-Identifier: MIT */
#include "observe/scan_signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/environment.h"
#include "sched/scan_serve.h"
#include "sched/thread.h"

static int signal_number; /* 0 if none is used */
static char mark;         /* its address marks the runtime's signals */
static bool caught;
static struct sigaction former;

static bool may_be_interrupted(struct sn_thread *thread, struct sn_task *task)
{
	return !__atomic_load_n(&thread->lease.inside, __ATOMIC_RELAXED) ||
	       sn_status_get(&task->word) == SN_TASK_RETURNING;
}

static void handle_signal(int signum, siginfo_t *info, void *context)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_thread *known = self ? self : (struct sn_thread *)sn_scan_hidden;
	struct sn_task *task = self ? self->task : NULL;
	int saved = errno;

	bool ours = info->si_code == SI_QUEUE && info->si_value.sival_ptr == &mark;

	/* While the lease is hidden, self is NULL, and nothing is served: the task serves its
	 * request at its next entry into the runtime. */
	if (ours || (known && atomic_exchange(&known->reminded, 0))) {
		if (task && may_be_interrupted(self, task))
			sn_scan_serve_here(task, context, true);
	} else if (former.sa_flags & SA_SIGINFO) {
		former.sa_sigaction(signum, info, context);
	} else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
		former.sa_handler(signum);
	}
	errno = saved;
}

/* The runtime's lock is held. */
static bool catch_signal(void)
{
	struct sigaction action = {.sa_sigaction = handle_signal,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	if (caught || !signal_number)
		return caught;
	sigemptyset(&action.sa_mask);
	caught = sigaction(signal_number, &action, &former) == 0;
	if (!caught) {
		sn_log("SENNIT_SCAN_SIGNAL=%d: that signal cannot be caught", signal_number);
		signal_number = 0;
	}
	return caught;
}

/* Sends the signal with a mark, so that the handler does not take it for one of the program's. A
 * flag in the thread would be ambiguous: two signals may arrive as one or as two. */
static bool send_marked(const struct sn_thread *thread)
{
	siginfo_t info = {.si_signo = signal_number, .si_code = SI_QUEUE};

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = &mark;
	return syscall(SYS_rt_tgsigqueueinfo, getpid(), thread->tid, signal_number, &info) == 0;
}

void sn_scan_interrupt(struct sn_thread *thread, struct sn_task *task)
{
	if (!may_be_interrupted(thread, task) || !catch_signal() || send_marked(thread))
		return;
	/* Some seccomp filters allow only tgkill(), which carries no mark. */
	atomic_store(&thread->reminded, 1);
	pthread_kill(thread->pthread, signal_number);
}

int sn_scan_signal_init(void)
{
	long number = sn_environment_number("SENNIT_SCAN_SIGNAL", 0, SIGRTMAX, SIGURG);

	if (number < 0)
		return -EINVAL;
	signal_number = (int)number;
	return 0;
}

int sn_scan_own_signal(void)
{
	bool had_none = !(former.sa_flags & SA_SIGINFO) &&
			(former.sa_handler == SIG_DFL || former.sa_handler == SIG_IGN);

	return caught && had_none ? signal_number : 0;
}

void sn_scan_signal_end(void)
{
	struct sigaction current;

	/* Only if the handler is still the runtime's. */
	if (caught && sigaction(signal_number, NULL, &current) == 0 &&
	    (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == handle_signal)
		sigaction(signal_number, &former, NULL);
	caught = false;
}

void sn_scan_signal_fork(enum sn_fork_phase phase)
{
	if (phase == SN_FORK_CHILD)
		sn_scan_signal_end();
}
