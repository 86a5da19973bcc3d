/* SPDX-License-Identifier: MIT */
#include "sched/linger.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The period of sn_linger()'s looks where the kernel does not list children. */
#define LOOK_NS 500000000

/* waitid() looks at children of this thread only, and leaves their status to the program. */
#define LOOK (WEXITED | WNOWAIT | __WNOTHREAD | __WALL)

static int look_at(idtype_t which, pid_t pid, siginfo_t *info, int options)
{
	int result;

	info->si_pid = 0;
	do {
		/* Does not call waitid(), which is a cancellation point. */
		result = (int)syscall(SYS_waitid, which, pid, info, LOOK | options, NULL);
	} while (result < 0 && errno == EINTR);
	return result;
}

bool sn_has_children(void)
{
	siginfo_t info;

	return look_at(P_ALL, 0, &info, WNOHANG) == 0;
}

static bool lives(pid_t pid)
{
	siginfo_t info;

	return look_at(P_PID, pid, &info, WNOHANG) == 0 && info.si_pid == 0;
}

/* The kernel's list of the calling thread's children. */
struct children {
	pid_t living; /* one of them that lives, or 0 if none does */
	uint64_t all; /* a hash of the whole list, by which two lists are compared */
};

static void add(struct children *children, pid_t pid)
{
	children->all = (children->all + (uint64_t)pid) * 0x9e3779b97f4a7c15u;
	if (!children->living && lives(pid))
		children->living = pid;
}

/* Reads the kernel's list. Returns false if there is none. */
static bool list(struct children *children)
{
	int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	char text[512];
	pid_t pid = 0;
	ssize_t n;

	if (fd < 0)
		return false;
	*children = (struct children){0};
	while ((n = read(fd, text, sizeof text)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
			} else {
				add(children, pid);
				pid = 0;
			}
		}
	close(fd);
	return n == 0;
}

/* Returns when that child has ended, even if the program has taken its status. */
static void await(pid_t pid)
{
	siginfo_t info;

	look_at(P_PID, pid, &info, 0);
}

/* Waits without the list: until there are no children at all, and no traced threads. It cannot look
 * at single children, because waitid() may return a zombie each time and so hide the others. */
static void await_all(void)
{
	const struct timespec time = {.tv_nsec = LOOK_NS};
	siginfo_t info;

	while (look_at(P_ALL, 0, &info, 0) == 0)
		nanosleep(&time, NULL);
}

void sn_linger(void)
{
	struct children children, before = {.all = 0};
	bool seen = false;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	while (sn_has_children()) {
		if (!list(&children)) {
			await_all();
			return;
		}
		if (children.living)
			await(children.living);
		else if (seen && children.all == before.all)
			return; /* only zombies, or threads that are traced, are left */
		/* The kernel may leave a child out of the list while another one is reaped. This
		 * therefore returns only after it has read the same list twice. */
		seen = !children.living;
		before = children;
	}
}
