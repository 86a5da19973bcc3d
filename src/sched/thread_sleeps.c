/* SPDX-License-Identifier: MIT */
#include "sched/thread_sleeps.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "sched/thread.h"
#include "wait/checked.h"

int64_t sn_thread_cpu_time(const struct sn_thread *thread)
{
	struct timespec ts;

	if (clock_gettime(thread->cpu_clock, &ts) < 0)
		return -1;
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* /proc/self/task/TID/syscall is "running" for a thread that runs or could run, otherwise the
 * number of its system call. */
static bool proc_says_asleep(const struct sn_thread *thread)
{
	char path[64], text[16] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true; /* without /proc, or a descriptor, the CPU clock alone decides */
	n = read(fd, text, sizeof text - 1);
	close(fd);
	return n <= 0 || text[0] != 'r';
}

bool sn_thread_sleeps(const struct sn_thread *thread)
{
	bool asleep;

	sn_checked_pass(); /* a file in /proc, which waits for no device */
	asleep = proc_says_asleep(thread);
	sn_checked_pass_end();
	return asleep;
}
