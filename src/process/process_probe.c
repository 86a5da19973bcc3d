/* SPDX-License-Identifier: MIT */
#include "process/process_probe.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/process_child.h"

/* Older C libraries and their headers lack these. */
#define PIDFD 3 /* P_PIDFD */
#define RANGE_CLOEXEC 4u
#ifndef SYS_pidfd_send_signal
#	define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#	define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#	define SYS_close_range 436
#endif

/* A pidfd of this process; -1 if the kernel has none. */
static int pidfd_of_self(void)
{
	return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

bool sn_process_has_pidfds(void)
{
	const int had = atomic_load_explicit(&sn_child_had_pidfd, memory_order_relaxed);
	const int saved = errno;
	int fd;

	if (had != 0)
		return had > 0;
	fd = pidfd_of_self();
	if (fd >= 0)
		close(fd);
	errno = saved;
	return fd >= 0;
}

bool sn_process_waits_by_pidfd(void)
{
	const int saved = errno, fd = pidfd_of_self();
	siginfo_t info;
	bool knows = false;

	if (fd >= 0) {
		/* ECHILD: this process is not its own child. EINVAL: the kernel does not know
		 * P_PIDFD. */
		knows = syscall(SYS_waitid, PIDFD, fd, &info, WEXITED | WNOHANG, NULL) < 0 &&
			errno == ECHILD;
		close(fd);
	}
	errno = saved;
	return knows;
}

bool sn_process_signals_by_pidfd(void)
{
	const int saved = errno, fd = pidfd_of_self();
	bool knows = false;

	if (fd >= 0) {
		knows = syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0;
		close(fd);
	}
	errno = saved;
	return knows;
}

/* Uses the largest number, which no descriptor has, so that none is marked. */
bool sn_process_closes_by_range(void)
{
	const int saved = errno;
	const bool knows = syscall(SYS_close_range, ~0u, ~0u, RANGE_CLOEXEC) == 0;

	errno = saved;
	return knows;
}
