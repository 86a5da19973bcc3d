/* SPDX-License-Identifier: MIT */
/*
 * bench-relay-load short|closed|paced CONNECTIONS SECONDS PORT SINK_PORT [RATE]: small requests
 * through the relay that listens on PORT and connects to SINK_PORT, where this program answers.
 *
 * A request is 64 bytes, and so is the answer, which repeats it; each answer is compared. short: a
 * connection per request, with CONNECTIONS of them at the same time. The server closes the
 * connection once it has answered, as in HTTP/1.0, so that the ports in TIME_WAIT are not those of
 * the client, which has only 28,000. closed: one request after another on each of the connections,
 * which stay open. paced: RATE requests per second over these connections, each sent when it is due
 * whether or not earlier ones were answered. A request's latency counts from when it was due, so a
 * stall counts for all requests that it delayed.
 *
 * Prints how many requests there were, how many of them were answered in the measured time, that
 * time in nanoseconds, and three quantiles of their latency in nanoseconds: 50, 99 and 99.9 %. The
 * first fifth of the time is not measured. Client and server are one thread each, with epoll, so
 * that together they leave the relay most of a small machine.
 *
 * bench-relay-load serve SINK_PORT: the server alone, for another client.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../plain.h"

#define SIZE 64
#define MOST_EVENTS 256
#define MOST_FDS 65536

/* The first byte selects what the server does after answering. */
#define STAY 's'
#define CLOSE 'c'

/* A working relay never takes this long, so a longer wait is reported as a failure. */
#define PATIENCE_NS INT64_C(10000000000)

struct message {
	char what;
	char rest[SIZE - 1];
};

static void fail(const char *what)
{
	fprintf(stderr, "bench-relay-load: %s\n", what);
	exit(1);
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void watch(int epoll, int op, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	check(epoll_ctl(epoll, op, fd, &event) == 0, "epoll_ctl");
}

/* ---- the server ---- */

static struct {
	size_t got;
	struct message message;
} asked[MOST_FDS];

/* Reads a request, or a part of it, and answers. Returns false if the connection is over. */
static bool answer(int fd)
{
	ssize_t n = recv(fd, (char *)&asked[fd].message + asked[fd].got, SIZE - asked[fd].got, 0);

	if (n < 0)
		return errno == EAGAIN;
	if (n == 0)
		return false;
	asked[fd].got += (size_t)n;
	if (asked[fd].got < SIZE)
		return true;
	asked[fd].got = 0;
	/* The socket has room for 64 bytes, because the client sends no other request before it
	 * has them. */
	n = send(fd, &asked[fd].message, SIZE, MSG_NOSIGNAL);
	return n == SIZE && asked[fd].message.what == STAY;
}

static void serve(int listener)
{
	int epoll = epoll_create1(0);
	struct epoll_event events[MOST_EVENTS];

	watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
	for (;;) {
		int n = epoll_wait(epoll, events, MOST_EVENTS, -1);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd != listener) {
				if (!answer(fd))
					close(fd);
				continue;
			}
			while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
				if (fd >= MOST_FDS)
					fail("too many descriptors");
				asked[fd].got = 0;
				no_delay(fd);
				watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
			}
		}
	}
}

static int listen_at(const char *port)
{
	struct sockaddr_in address = at(port);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
	check(listen(listener, 4096) == 0, "listen");
	return listener;
}

static pid_t start_server(const char *port)
{
	int listener = listen_at(port);
	pid_t pid, parent = getpid();

	pid = fork();
	check(pid >= 0, "fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			serve(listener);
		_exit(1);
	}
	close(listener);
	return pid;
}

/* ---- the client ---- */

static struct request {
	int64_t since; /* 0: nothing is under way */
	size_t got;
	bool sent;
	struct message sending, getting;
} requests[MOST_FDS];

static int epoll;
static struct sockaddr_in relay;
static int64_t counted_from, until;
static uint64_t ndone, nasked, ncounted;
static uint32_t *latencies; /* in ns, at most 4.2 s */
static size_t nlatencies, room;

static void record(int64_t since)
{
	int64_t end = now(), taken = end - since;

	ndone++;
	if (end < counted_from || end > until)
		return;
	ncounted++;
	if (nlatencies == room) {
		room = room ? 2 * room : 1 << 16;
		latencies = realloc(latencies, room * sizeof *latencies);
		check(latencies != NULL, "realloc");
	}
	latencies[nlatencies++] = taken < UINT32_MAX ? (uint32_t)taken : UINT32_MAX;
}

/* Sends a request. Returns false if the connection must be established first. */
static bool send_request(int fd)
{
	ssize_t n = send(fd, &requests[fd].sending, SIZE, MSG_NOSIGNAL);

	if (n < 0 && errno == EAGAIN)
		return false;
	check(n == SIZE, "send");
	requests[fd].sent = true;
	return true;
}

static void prepare(int fd, char what, int64_t since)
{
	struct request *request = &requests[fd];
	uint64_t number = nasked++;

	request->since = since;
	request->got = 0;
	request->sent = false;
	request->sending.what = what;
	memset(request->sending.rest, 'a' + (int)(number % 26), sizeof request->sending.rest);
	memcpy(request->sending.rest, &number, sizeof number);
}

static void ask(int fd, int64_t since)
{
	prepare(fd, STAY, since);
	check(send_request(fd), "send");
}

/* Reads an answer. Returns true if it is complete; then it has also been compared. */
static bool get_answer(int fd)
{
	struct request *request = &requests[fd];
	ssize_t n = recv(fd, (char *)&request->getting + request->got, SIZE - request->got, 0);

	if (n < 0 && errno == EAGAIN)
		return false;
	check(n >= 0, "recv");
	if (n == 0)
		fail("a connection has ended early");
	request->got += (size_t)n;
	if (request->got < SIZE)
		return false;
	if (memcmp(&request->getting, &request->sending, SIZE) != 0)
		fail("an answer is not what was asked");
	return true;
}

static int wait_for(struct epoll_event *events, int64_t when)
{
	int64_t left = when - now();
	struct timespec ts = {left / 1000000000, left % 1000000000};
	int n;

	if (left < 0)
		ts = (struct timespec){0, 0};
	n = epoll_pwait2(epoll, events, MOST_EVENTS, &ts, NULL);
	check(n >= 0 || errno == EINTR, "epoll_pwait2");
	return n < 0 ? 0 : n;
}

static int open_connection(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	check(fd >= 0 && fd < MOST_FDS, "socket");
	no_delay(fd);
	check(connect(fd, (struct sockaddr *)&relay, sizeof relay) == 0 || errno == EINPROGRESS,
	      "connect");
	return fd;
}

/* ---- short ---- */

static void begin_short(void)
{
	int64_t since = now();
	int fd = open_connection();

	prepare(fd, CLOSE, since);
	watch(epoll, EPOLL_CTL_ADD, fd, send_request(fd) ? EPOLLIN : EPOLLOUT);
}

/* Continues a connection. Returns true if it is over. */
static bool go_on_short(int fd)
{
	char more;
	ssize_t n;

	if (!requests[fd].sent) {
		if (send_request(fd))
			watch(epoll, EPOLL_CTL_MOD, fd, EPOLLIN);
		return false;
	}
	if (requests[fd].got < SIZE && !get_answer(fd))
		return false;
	n = recv(fd, &more, 1, 0);
	if (n < 0 && errno == EAGAIN)
		return false;
	check(n >= 0, "recv");
	if (n > 0)
		fail("more than was asked for");
	close(fd);
	return true;
}

static void run_short(int nconnections)
{
	struct epoll_event events[MOST_EVENTS];
	int open = nconnections;

	for (int i = 0; i < nconnections; i++)
		begin_short();
	while (open > 0) {
		int n = wait_for(events, until + PATIENCE_NS);

		if (n == 0)
			fail("no answer");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			int64_t since = requests[fd].since;

			if (!go_on_short(fd))
				continue;
			record(since);
			if (now() < until)
				begin_short();
			else
				open--;
		}
	}
}

/* ---- connections that stay ---- */

static int *open_all(int nconnections)
{
	int *fds = calloc((size_t)nconnections, sizeof *fds);
	struct epoll_event events[MOST_EVENTS];

	check(fds != NULL, "calloc");
	for (int i = 0; i < nconnections; i++) {
		fds[i] = open_connection();
		prepare(fds[i], STAY, 1);
		watch(epoll, EPOLL_CTL_ADD, fds[i], send_request(fds[i]) ? EPOLLIN : EPOLLOUT);
	}
	/* Sends one request over each connection, so that all connections reach the server
	 * before the measured time begins. */
	for (int open = 0; open < nconnections;) {
		int n = wait_for(events, now() + PATIENCE_NS);

		if (n == 0)
			fail("no answer at the beginning");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (!requests[fd].sent) {
				if (send_request(fd))
					watch(epoll, EPOLL_CTL_MOD, fd, EPOLLIN);
			} else if (get_answer(fd)) {
				requests[fd].since = 0;
				open++;
			}
		}
	}
	return fds;
}

static void run_closed(const int *fds, int nconnections)
{
	struct epoll_event events[MOST_EVENTS];
	int busy = nconnections;

	for (int i = 0; i < nconnections; i++)
		ask(fds[i], now());
	while (busy > 0) {
		int n = wait_for(events, until + PATIENCE_NS);

		if (n == 0)
			fail("no answer");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (!get_answer(fd))
				continue;
			record(requests[fd].since);
			if (now() < until)
				ask(fd, now());
			else
				busy--;
		}
	}
}

/* The next connection without a pending request, or -1. */
static int find_free(const int *fds, int nconnections, int *next)
{
	for (int i = 0; i < nconnections; i++) {
		int fd = fds[*next];

		*next = (*next + 1) % nconnections;
		if (requests[fd].since == 0)
			return fd;
	}
	return -1;
}

static void run_paced(const int *fds, int nconnections, double rate, int64_t began)
{
	struct epoll_event events[MOST_EVENTS];
	uint64_t due_number = 0, busy = 0;
	int next = 0;

	prctl(PR_SET_TIMERSLACK, 1UL);
	for (;;) {
		int64_t due = began + (int64_t)((double)due_number * 1e9 / rate);
		bool only_answers;
		int n, fd;

		while (due < until && due <= now()) {
			fd = find_free(fds, nconnections, &next);
			if (fd < 0)
				break;
			ask(fd, due);
			busy++;
			due = began + (int64_t)((double)++due_number * 1e9 / rate);
		}
		if (due >= until && busy == 0)
			return;
		/* All requests have been sent, or no connection is free. */
		only_answers = due >= until || busy == (uint64_t)nconnections;
		n = wait_for(events, only_answers ? now() + PATIENCE_NS : due);
		if (n == 0 && only_answers)
			fail("no answer");
		for (int i = 0; i < n; i++) {
			fd = events[i].data.fd;
			if (!get_answer(fd))
				continue;
			record(requests[fd].since);
			requests[fd].since = 0;
			busy--;
		}
	}
}

/* ---- the result ---- */

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static unsigned long quantile(double of)
{
	return latencies[(size_t)(of * (double)(nlatencies - 1))];
}

int main(int argc, char **argv)
{
	struct rlimit files;
	int nconnections, status = 0;
	int64_t began, length;
	int *fds = NULL;
	double rate;
	pid_t server;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		serve(listen_at(argv[2]));
	if (argc != (argc > 1 && strcmp(argv[1], "paced") == 0 ? 7 : 6)) {
		fprintf(stderr,
			"usage: bench-relay-load short|closed|paced CONNECTIONS SECONDS PORT "
			"SINK_PORT [RATE]\n       bench-relay-load serve SINK_PORT\n");
		return 2;
	}
	nconnections = atoi(argv[2]);
	length = (int64_t)(atof(argv[3]) * 1e9);
	rate = argc == 7 ? atof(argv[6]) : 0;
	server = start_server(argv[5]);
	relay = at(argv[4]);
	epoll = epoll_create1(0);
	if (strcmp(argv[1], "short") != 0)
		fds = open_all(nconnections);
	began = now();
	counted_from = began + length / 5;
	until = began + length;
	if (!fds)
		run_short(nconnections);
	else if (rate > 0)
		run_paced(fds, nconnections, rate, began);
	else
		run_closed(fds, nconnections);
	kill(server, SIGKILL);
	waitpid(server, &status, 0);
	if (nlatencies == 0)
		fail("nothing was answered in time");
	qsort(latencies, nlatencies, sizeof *latencies, ascending);
	printf("%llu %llu %lld %lu %lu %lu\n", (unsigned long long)ndone,
	       (unsigned long long)ncounted, (long long)(until - counted_from), quantile(0.5),
	       quantile(0.99), quantile(0.999));
	return 0;
}
