/* SPDX-License-Identifier: MIT */
/*
 * Signals that the kernel sends for an instruction. They belong to the thread that has executed it,
 * and to the handler that was there before the library's.
 */
#include "process/signal_former.h"

#include <pthread.h>
#include <ucontext.h>

bool sn_signal_is_of_an_instruction(int signum, const siginfo_t *info)
{
#if !defined(__x86_64__) && !defined(__i386__)
	if (signum == SIGTRAP)
		return info->si_code == TRAP_BRKPT || info->si_code == SI_KERNEL;
#endif
	return (signum == SIGILL || signum == SIGFPE) && info->si_code > 0;
}

/* Calls the previous handler as the kernel would, with the same signals blocked: it may leave by a
 * jump that does not restore the mask. */
static void call_former(const struct sigaction *action, int signum, siginfo_t *info,
			ucontext_t *context)
{
	sigset_t mask, own;

	sigorset(&mask, &context->uc_sigmask, &action->sa_mask);
	if (!(action->sa_flags & SA_NODEFER))
		sigaddset(&mask, signum);
	pthread_sigmask(SIG_SETMASK, &mask, &own);
	if (action->sa_flags & SA_SIGINFO)
		action->sa_sigaction(signum, info, context);
	else
		action->sa_handler(signum);
	pthread_sigmask(SIG_SETMASK, &own, NULL);
}

void sn_signal_give_back(const struct sigaction *action, int signum, siginfo_t *info, void *context)
{
	/* A handler for one time would see the instruction again, and end the process then, so it
	 * is restored, too. */
	if ((!(action->sa_flags & SA_SIGINFO) &&
	     (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)) ||
	    action->sa_flags & (int)SA_RESETHAND)
		sigaction(signum, action, NULL);
	else
		call_former(action, signum, info, context);
}
