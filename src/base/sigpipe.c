/* SPDX-License-Identifier: MIT */
#include "base/sigpipe.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static void sigpipe_only(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGPIPE);
}

enum sn_sigpipe sn_sigpipe_hold(void)
{
	sigset_t set, old;

	sigpipe_only(&set);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	if (!sigismember(&old, SIGPIPE))
		return SN_SIGPIPE_FREE;
	sigpending(&old);
	return sigismember(&old, SIGPIPE) ? SN_SIGPIPE_PENDING : SN_SIGPIPE_BLOCKED;
}

/*
 * tgkill() and its relatives send a signal to a thread (SI_TKILL), all other calls to the process.
 * The kernel lets a thread forge the sender only of signals to itself; rt_sigqueueinfo() with the
 * thread's number passes that check, and still directs the signal at the process.
 */
static void put_back(siginfo_t *info)
{
	const pid_t thread = (pid_t)syscall(SYS_gettid);

	if (info->si_code == SI_TKILL)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, SIGPIPE, info);
	else
		syscall(SYS_rt_sigqueueinfo, thread, SIGPIPE, info);
}

/*
 * The kernel returns a thread's own signals before those of the process, so this finds the one that
 * the call raised, if there is one. It does not use the C library's function, which does not
 * distinguish tgkill() from kill().
 */
static void take_sigpipe(const sigset_t *set)
{
	/* The kernel's struct timespec for this call: seconds and ns. */
	static const long now[2];
	siginfo_t info;
	long n;

	do {
		n = syscall(SYS_rt_sigtimedwait, set, &info, now, (size_t)(_NSIG / 8));
	} while (n < 0 && errno == EINTR);
	if (n == SIGPIPE && (info.si_code != SI_USER || info.si_pid != getpid()))
		put_back(&info);
}

void sn_sigpipe_release(enum sn_sigpipe former, ssize_t n, size_t size)
{
	sigset_t set;

	sigpipe_only(&set);
	if (former != SN_SIGPIPE_PENDING && (n < 0 || (size_t)n < size))
		take_sigpipe(&set);
	if (former == SN_SIGPIPE_FREE)
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
