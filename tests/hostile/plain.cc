// SPDX-License-Identifier: MIT
#include "hostile/plain.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostile/board.hpp"

namespace hostile
{
namespace
{

struct Figures {
	std::atomic<int64_t> due;   // when the current wait should be over; 0: there is no wait
	std::atomic<int64_t> worst; // since the watchdog's last question
};
Figures figures[PLAINS];
int ends[2];
sem_t wake;

void expect(Plain kind, int64_t due)
{
	figures[kind].due.store(due);
}

void met(Plain kind)
{
	const int64_t late = now() - figures[kind].due.exchange(0);

	raise_to(figures[kind].worst, late);
	raise_to(board->plain_worst[kind], late);
	board->plain_measured[kind].fetch_add(1, std::memory_order_relaxed);
}

// Sleeps, and wakes the next two threads.
void sleeper()
{
	prctl(PR_SET_NAME, "plain-sleep");
	for (;;) {
		const int64_t due = now() + 3 * ms;
		struct timespec until = {(time_t)(due / second), (long)(due % second)};

		expect(PLAIN_SLEEP, due);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0)
			;
		met(PLAIN_SLEEP);
		if (figures[PLAIN_POLL].due == 0) {
			expect(PLAIN_POLL, now());
			if (write(ends[0], "x", 1) != 1)
				expect(PLAIN_POLL, 0);
		}
		if (figures[PLAIN_WAKE].due == 0) {
			expect(PLAIN_WAKE, now());
			sem_post(&wake);
		}
	}
}

void poller()
{
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {};
	char byte;

	prctl(PR_SET_NAME, "plain-poll");
	event.events = EPOLLIN;
	epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1], &event);
	for (;;)
		if (epoll_wait(epoll, &event, 1, -1) == 1 && read(ends[1], &byte, 1) == 1)
			met(PLAIN_POLL);
}

void waiter()
{
	prctl(PR_SET_NAME, "plain-wake");
	for (;;)
		if (sem_wait(&wake) == 0)
			met(PLAIN_WAKE);
}

int64_t thread_time()
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (int64_t)time.tv_sec * second + time.tv_nsec;
}

// Now and then computes for half a millisecond and maps a page.
void worker()
{
	prctl(PR_SET_NAME, "plain-work");
	for (;;) {
		const int64_t end = thread_time() + 500 * us;

		expect(PLAIN_WORK, now() + 500 * us);
		while (thread_time() < end)
			;
		void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page != MAP_FAILED) {
			memset(page, 1, 1);
			munmap(page, 4096);
		}
		met(PLAIN_WORK);
		usleep(20000);
	}
}

// The kernel's figures for a thread: how long it ran, and how long it waited for a CPU; -1:
// unknown.
struct Schedule {
	int64_t ran = -1, waited = -1;
};

bool read_text(const char *tid, const char *name, char *text, size_t size)
{
	char path[80];
	ssize_t n = -1;

	snprintf(path, sizeof path, "/proc/self/task/%.20s/%s", tid, name);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

Schedule schedule_of(const char *tid)
{
	char text[128];
	long long ran, waited;
	Schedule schedule;

	if (read_text(tid, "schedstat", text, sizeof text) &&
	    sscanf(text, "%lld %lld", &ran, &waited) == 2) {
		schedule.ran = ran;
		schedule.waited = waited;
	}
	return schedule;
}

// Whether the thread is runnable, or in an uninterruptible sleep, for example for a memory lock of
// the kernel.
bool wants_to_run(const char *tid)
{
	char text[512];

	if (!read_text(tid, "stat", text, sizeof text))
		return false;
	const char *end = strrchr(text, ')');
	return end && end[1] == ' ' && (end[2] == 'R' || end[2] == 'D');
}

} // namespace

void plain_start()
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		perror("hostile: socketpair");
		exit(2);
	}
	sem_init(&wake, 0, 0);
	for (void (*thread)() : {sleeper, poller, waiter, worker})
		std::thread(thread).detach();
}

int64_t plain_kept_by_system(int64_t span)
{
	static std::map<long, Schedule> former;
	static DIR *tasks;
	std::map<long, Schedule> next;
	int64_t most = 0;

	// Kept open, so that a lowered descriptor limit does not blind the watchdog entirely.
	if (!tasks && !(tasks = opendir("/proc/self/task")))
		return 0;
	rewinddir(tasks);
	while (const struct dirent *entry = readdir(tasks)) {
		const long tid = strtol(entry->d_name, nullptr, 10);

		if (tid <= 0)
			continue;
		const Schedule schedule = schedule_of(entry->d_name);
		const auto before = former.find(tid);
		if (schedule.ran >= 0 && before != former.end() && before->second.ran >= 0) {
			int64_t waited = schedule.waited - before->second.waited;

			// The kernel adds a wait to the figures when the wait ends, so this thread
			// may have waited all the time.
			if (waited == 0 && schedule.ran == before->second.ran &&
			    wants_to_run(entry->d_name))
				waited = span;
			most = std::max(most, waited);
		}
		next[tid] = schedule;
	}
	former.swap(next);
	return std::min(most, span);
}

int64_t plain_worst_since()
{
	int64_t worst = 0;

	for (Figures &figure : figures) {
		const int64_t due = figure.due.load();

		worst = std::max(worst, figure.worst.exchange(0));
		if (due)
			worst = std::max(worst, now() - due);
	}
	return worst;
}

} // namespace hostile
