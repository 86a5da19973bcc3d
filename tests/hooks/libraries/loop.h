/* SPDX-License-Identifier: MIT */
/*
 * An event loop for the asynchronous interfaces of libraries: one thread, which waits in
 * epoll_wait() for all descriptors. Whatever fails ends the program.
 */
#ifndef LOOP_H
#define LOOP_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

/* What the loop knows of one descriptor. It starts with {.ready = a function}, and stays valid
 * until loop_run() returns. */
struct loop_watch {
	void (*ready)(struct loop_watch *watch, uint32_t events); /* called by the loop */
	int fd;
	uint32_t events; /* what the loop waits for; 0: the descriptor is not watched */
};

/* For a library that has time limits. */
struct loop_timer {
	int (*left)(void); /* the ms until due() is to be called; -1: never */
	void (*due)(void);
};

static int loop_epoll(void)
{
	static int epoll = -1;

	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	return epoll;
}

/* From now on waits for these events, or with 0 for none. */
static void loop_wait_for(struct loop_watch *watch, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	int how = EPOLL_CTL_MOD;

	if (watch->events == events && (events == 0 || watch->fd == fd))
		return;
	if (watch->events == 0)
		how = EPOLL_CTL_ADD;
	else if (events == 0)
		how = EPOLL_CTL_DEL;
	watch->fd = fd;
	watch->events = events;
	if (epoll_ctl(loop_epoll(), how, fd, &event) < 0) {
		perror("epoll_ctl");
		exit(1);
	}
}

/* Calls what is ready until *left is 0. The timer may be NULL. */
static void loop_run(const int *left, const struct loop_timer *timer)
{
	struct epoll_event events[256];

	while (*left > 0) {
		const int n = epoll_wait(loop_epoll(), events, 256, timer ? timer->left() : -1);

		if (n < 0 && errno != EINTR) {
			perror("epoll_wait");
			exit(1);
		}
		for (int i = 0; i < n; i++) {
			struct loop_watch *watch = events[i].data.ptr;

			/* The descriptor may have been given up since the wait. */
			if (watch->events != 0)
				watch->ready(watch, events[i].events);
		}
		if (timer && timer->left() == 0)
			timer->due();
	}
}

#endif
