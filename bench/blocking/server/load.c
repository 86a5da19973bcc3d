/* SPDX-License-Identifier: MIT */
/*
 * Load for the servers of this folder: a number of connections, each of which sends a request,
 * waits for the answer and sends the next one; every twentieth request is slow. It is one thread
 * with epoll, and the same for every server.
 *
 *	bench-blocking-load port [connections, default 64] [seconds, default 3]
 *
 * Prints one line: requests per second, then the median, the 99th and the 99.9th percentile and the
 * maximum of the fast requests' latency, and the 99th percentile of all, in microseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_CONNECTIONS 4096
#define SLOW_EVERY 20
#define BUCKETS 1000000 /* of 1 us; the last one has all longer times */

struct connection {
	int fd;
	uint32_t requests;
	bool slow;
	int64_t sent;
};

static struct connection connections[MOST_CONNECTIONS];
static uint32_t fast[BUCKETS], all[BUCKETS];

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * (int64_t)1000000000 + ts.tv_nsec;
}

static void send_request(struct connection *c)
{
	c->slow = c->requests++ % SLOW_EVERY == SLOW_EVERY - 1;
	c->sent = now_ns();
	if (write(c->fd, c->slow ? "s" : "f", 1) != 1) {
		perror("write");
		exit(1);
	}
}

static double quantile(const uint32_t *buckets, double q)
{
	uint64_t n = 0, seen = 0;

	for (int i = 0; i < BUCKETS; i++)
		n += buckets[i];
	for (int i = 0; i < BUCKETS; i++) {
		seen += buckets[i];
		if ((double)seen >= q * (double)n)
			return i;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 64, epoll = epoll_create1(0);
	double seconds = argc > 3 ? strtod(argv[3], NULL) : 3;
	int64_t began, count_from, end, now;
	uint64_t answers = 0;

	if (argc < 2 || argc > 4 || n < 1 || n > MOST_CONNECTIONS || seconds <= 0) {
		fprintf(stderr, "usage: %s port [connections] [seconds]\n", argv[0]);
		return 2;
	}
	to.sin_port = htons((uint16_t)strtol(argv[1], NULL, 10));
	for (int i = 0; i < n; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
		int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

		if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
			perror("connect");
			return 1;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
		connections[i].fd = fd;
		connections[i].requests = (uint32_t)i; /* spreads the slow requests */
	}
	began = now_ns();
	count_from = began + 300000000; /* threads have started, and caches are warm */
	end = count_from + (int64_t)(seconds * 1e9);
	for (int i = 0; i < n; i++)
		send_request(&connections[i]);
	while ((now = now_ns()) < end) {
		struct epoll_event events[256];
		int ready = epoll_wait(epoll, events, 256, 100);

		for (int i = 0; i < ready; i++) {
			struct connection *c = events[i].data.ptr;
			char answer;
			int64_t us;

			if (read(c->fd, &answer, 1) != 1) {
				perror("read");
				return 1;
			}
			now = now_ns();
			us = (now - c->sent) / 1000;
			if (us >= BUCKETS)
				us = BUCKETS - 1;
			if (now >= count_from) {
				answers++;
				all[us]++;
				if (!c->slow)
					fast[us]++;
			}
			send_request(c);
		}
	}
	printf("%.0f %.0f %.0f %.0f %.0f %.0f\n", (double)answers / seconds, quantile(fast, 0.5),
	       quantile(fast, 0.99), quantile(fast, 0.999), quantile(fast, 1), quantile(all, 0.99));
	return 0;
}
