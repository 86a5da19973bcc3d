/* SPDX-License-Identifier: MIT */
/*
 * bench-udp-loop one|batch: a bare epoll loop that echoes datagrams, by recvfrom() and sendto() or
 * by recvmmsg() and sendmmsg(). It has nothing around the system calls, so it shows the least that
 * they cost.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "server.h"

static void echo_singly(int fd)
{
	static char buf[ROOM];
	struct sockaddr_in peer;

	for (;;) {
		socklen_t length = sizeof peer;
		ssize_t n = recvfrom(fd, buf, sizeof buf, 0, (struct sockaddr *)&peer, &length);

		if (n < 0)
			break;
		CHECK(sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&peer, length) == n);
	}
	CHECK(errno == EAGAIN);
}

static void echo_in_batches(int fd)
{
	static char bufs[BATCH][ROOM];
	static struct sockaddr_in peers[BATCH];
	static struct iovec parts[BATCH];
	static struct mmsghdr messages[BATCH];
	int n;

	do {
		for (int i = 0; i < BATCH; i++) {
			parts[i] = (struct iovec){.iov_base = bufs[i], .iov_len = ROOM};
			messages[i].msg_hdr = (struct msghdr){.msg_name = &peers[i],
							      .msg_namelen = sizeof peers[i],
							      .msg_iov = &parts[i],
							      .msg_iovlen = 1};
		}
		n = recvmmsg(fd, messages, BATCH, 0, NULL);
		if (n < 0)
			break;
		for (int i = 0; i < n; i++)
			parts[i].iov_len = messages[i].msg_len;
		CHECK(sendmmsg(fd, messages, (unsigned)n, 0) == n);
	} while (n == BATCH);
	CHECK(n > 0 || errno == EAGAIN);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct epoll_event event = {.events = EPOLLIN};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), poller = epoll_create1(0);
	socklen_t length = sizeof at;

	CHECK(argc == 2 && fd >= 0 && poller >= 0);
	CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&at, &length) == 0);
	CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0);
	announce(ntohs(at.sin_port));
	for (;;) {
		if (epoll_wait(poller, &event, 1, -1) < 1)
			continue;
		if (strcmp(argv[1], "batch") == 0)
			echo_in_batches(fd);
		else
			echo_singly(fd);
	}
}
