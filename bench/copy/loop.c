/* SPDX-License-Identifier: MIT */
/*
 * bench-copy-loop splice|copy PORT SINK_PORT: relays one connection at a time in one direction,
 * with a bare single-thread epoll loop, as the reference for the others.
 *
 * It does nothing else: it has no deadlines, no accounting, one connection, and one pipe of 1 MiB,
 * which is made in advance. copy: it has a buffer of 64 KiB instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../plain.h"

#define MOST ((size_t)1 << 20)

static int pipe_ends[2], epoll;
static char buffer[64 << 10];

static void wait_for(void)
{
	struct epoll_event event;

	while (epoll_wait(epoll, &event, 1, -1) < 0 && errno == EINTR)
		continue;
}

static bool again(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void drain_pipe(int to, size_t size)
{
	while (size > 0) {
		ssize_t n = splice(pipe_ends[0], NULL, to, NULL, size,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (again(n))
			wait_for();
		else
			check(n > 0, "splice out");
		if (n > 0)
			size -= (size_t)n;
	}
}

static void drain_buffer(int to, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = send(to, buffer + done, size - done, MSG_NOSIGNAL);

		if (again(n))
			wait_for();
		else
			check(n > 0, "send");
		if (n > 0)
			done += (size_t)n;
	}
}

static void relay(int from, int to, bool splicing)
{
	for (;;) {
		ssize_t n = splicing ? splice(from, NULL, pipe_ends[1], NULL, MOST,
					      SPLICE_F_MOVE | SPLICE_F_NONBLOCK)
				     : recv(from, buffer, sizeof buffer, 0);

		if (again(n)) {
			wait_for();
			continue;
		}
		check(n >= 0, "read");
		if (n == 0)
			return;
		if (splicing)
			drain_pipe(to, (size_t)n);
		else
			drain_buffer(to, (size_t)n);
	}
}

static void watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

int main(int argc, char **argv)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_in address;

	if (argc != 4) {
		fprintf(stderr, "usage: bench-copy-loop splice|copy PORT SINK_PORT\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	epoll = epoll_create1(0);
	check(pipe2(pipe_ends, O_NONBLOCK) == 0, "pipe2");
	fcntl(pipe_ends[1], F_SETPIPE_SZ, (int)MOST);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	address = at(argv[2]);
	check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
	check(listen(listener, 8) == 0, "listen");
	puts("ready");
	fflush(stdout);
	for (;;) {
		int from = accept(listener, NULL, NULL), to = socket(AF_INET, SOCK_STREAM, 0);

		check(from >= 0, "accept");
		address = at(argv[3]);
		check(connect(to, (struct sockaddr *)&address, sizeof address) == 0, "connect");
		watch(from);
		watch(to);
		relay(from, to, strcmp(argv[1], "splice") == 0);
		close(from);
		close(to);
	}
}
