/* SPDX-License-Identifier: MIT */
/*
 * bench-load echo|http CONNECTIONS SECONDS PORT [RATE]: requests over connections to PORT that stay
 * open. With echo, a request is 64 bytes that the server sends back; the answer is compared. With
 * http it is "GET / HTTP/1.1"; the answer has a Content-Length, and all answers are equally long.
 *
 * Without RATE it is a closed loop: each connection has one request under way, always. With RATE it
 * is an open loop: request k is due at k / RATE and belongs to connection k modulo CONNECTIONS. If
 * that connection still waits for an answer, the request is sent once it has come; its latency
 * counts from when it was due. No other connection takes its requests, so a connection that stalls
 * is not avoided. In an open loop the program runs with the policy SCHED_FIFO if it may, so that
 * what a server computes does not delay it.
 *
 * Prints "open" when each connection has had an answer, and waits for a line. The caller can read
 * the server's CPU time then, without that for opening connections. It prints the result, and waits
 * for the end of its input before it closes the connections. The result is, in one line: requests
 * answered, those that were answered in the measured time, that time in nanoseconds, the latencies'
 * quantiles 50, 99 and 99.9 % and the longest in nanoseconds, this program's CPU time and how long
 * it ran in nanoseconds, and 1 if it ran with SCHED_FIFO. The first fifth of SECONDS is not in the
 * measured time, but in the two before the last.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../plain.h"

#define SIZE 64
#define MOST_ANSWER 4096
#define MOST_EVENTS 256
/* Fewer than fit into a backlog of 4,096, beyond which the kernel drops what arrives. */
#define OPENING_AT_ONCE 1000
/* A working server never takes this long, so a longer wait is reported as a failure. */
#define PATIENCE_NS INT64_C(10000000000)

static const char get[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

static struct connection {
	int fd;
	bool busy, connecting;
	size_t got;
	int64_t since;       /* when the request was due */
	uint64_t next;       /* in an open loop: the number of its next request */
	char asked[SIZE];    /* echo */
	char answered[SIZE]; /* echo */
} * connections;

static bool http;
static int nconnections, epoll;
static double rate;
static size_t answer_size; /* http: of all answers, once there was one */
static int64_t began, counted_from, until;
static uint64_t nasked, ndone;
static int64_t *latencies;
static size_t nlatencies, room;

static void fail(const char *what)
{
	fprintf(stderr, "bench-load: %s\n", what);
	exit(1);
}

static void send_request(struct connection *c)
{
	const char *what = c->asked;
	ssize_t size = SIZE;

	if (http) {
		what = get;
		size = sizeof get - 1;
	}
	/* The socket has room, because the server has read whatever was sent before. */
	check(send(c->fd, what, (size_t)size, MSG_NOSIGNAL) == size, "send");
}

static void ask(struct connection *c, int64_t since)
{
	uint64_t number = nasked++;

	memset(c->asked, 'a' + (int)(number % 26), SIZE);
	memcpy(c->asked + 1, &number, sizeof number);
	c->asked[0] = 's'; /* bench-relay-load's server keeps the connection then */
	c->since = since;
	c->got = 0;
	c->busy = true;
	send_request(c);
}

/* How long an HTTP answer is that begins here, or 0 if its head is not complete. */
static size_t whole_size(char *text, size_t got)
{
	const char *end, *length;

	text[got] = '\0';
	end = strstr(text, "\r\n\r\n");
	if (!end)
		return 0;
	length = strcasestr(text, "\r\nContent-Length:");
	if (strncmp(text, "HTTP/1.1 200", 12) != 0 || !length || length > end)
		fail("an answer is not \"200 OK\" with a Content-Length");
	return (size_t)(end + 4 - text) + strtoul(length + 17, NULL, 10);
}

static ssize_t receive(int fd, char *into, size_t size)
{
	ssize_t n = recv(fd, into, size, 0);

	if (n == 0)
		fail("a connection has ended early");
	check(n > 0 || errno == EAGAIN || errno == EINTR, "recv");
	return n < 0 ? 0 : n;
}

static bool get_http(struct connection *c)
{
	char text[MOST_ANSWER + 1];
	size_t n = (size_t)receive(c->fd, text, MOST_ANSWER - c->got);

	if (c->got == 0 && n >= 12 && strncmp(text, "HTTP/1.1 200", 12) != 0)
		fail("an answer is not \"200 OK\"");
	/* The first answer comes in one piece, because nothing else is under way. */
	if (answer_size == 0 && n > 0) {
		answer_size = whole_size(text, n);
		if (answer_size == 0 || answer_size > MOST_ANSWER)
			fail("the first answer is not whole, or longer than 4 KiB");
	}
	c->got += n;
	if (c->got > answer_size)
		fail("an answer is longer than the first one");
	return c->got == answer_size;
}

static bool get_echo(struct connection *c)
{
	c->got += (size_t)receive(c->fd, c->answered + c->got, SIZE - c->got);
	if (c->got < SIZE)
		return false;
	if (memcmp(c->answered, c->asked, SIZE) != 0)
		fail("an answer is not what was asked");
	return true;
}

/* Reads an answer. Returns true if it is complete and right. */
static bool get_answer(struct connection *c)
{
	if (!c->busy)
		fail("an answer that nobody asked for");
	if (!(http ? get_http(c) : get_echo(c)))
		return false;
	c->busy = false;
	return true;
}

static void record(int64_t since)
{
	int64_t end = now();

	ndone++;
	if (end < counted_from || end > until)
		return;
	if (nlatencies == room) {
		room = room ? 2 * room : 1 << 16;
		latencies = realloc(latencies, room * sizeof *latencies);
		check(latencies != NULL, "realloc");
	}
	latencies[nlatencies++] = end - since;
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

/* ---- opening ---- */

static void watch(struct connection *c, int op, uint32_t what)
{
	struct epoll_event event = {.events = what, .data.ptr = c};

	check(epoll_ctl(epoll, op, c->fd, &event) == 0, "epoll_ctl");
}

static void open_one(struct connection *c, const struct sockaddr_in *to)
{
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	check(c->fd >= 0, "socket");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	check(connect(c->fd, (const struct sockaddr *)to, sizeof *to) == 0 || errno == EINPROGRESS,
	      "connect");
	c->connecting = true;
	watch(c, EPOLL_CTL_ADD, EPOLLOUT);
}

static void established(struct connection *c)
{
	int err = 0;
	socklen_t size = sizeof err;

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &size);
	errno = err;
	check(err == 0, "connect");
	c->connecting = false;
	watch(c, EPOLL_CTL_MOD, EPOLLIN);
	ask(c, 0);
}

/* Opens the connections and sends a request over each, so that each has reached the server. The
 * first one is alone, because its answer tells the length of all others. */
static void open_all(const struct sockaddr_in *to)
{
	struct epoll_event events[MOST_EVENTS];
	int begun = 0, open = 0;

	while (open < nconnections) {
		int n;

		while (begun < nconnections && begun - open < (open ? OPENING_AT_ONCE : 1))
			open_one(&connections[begun++], to);
		n = wait_for(events, now() + PATIENCE_NS);
		if (n == 0)
			fail("no answer at the beginning");
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (c->connecting)
				established(c);
			else if (get_answer(c))
				open++;
		}
	}
}

/* ---- the loops ---- */

static void run_closed(void)
{
	struct epoll_event events[MOST_EVENTS];
	int busy = nconnections;

	for (int i = 0; i < nconnections; i++)
		ask(&connections[i], now());
	while (busy > 0) {
		int n = wait_for(events, until + PATIENCE_NS);

		if (n == 0 && now() > until + PATIENCE_NS)
			fail("no answer");
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (!get_answer(c))
				continue;
			record(c->since);
			if (now() < until)
				ask(c, now());
			else
				busy--;
		}
	}
}

static int64_t due_at(uint64_t number)
{
	return began + (int64_t)((double)number * 1e9 / rate);
}

/* Sends the connection's next request, which is due. */
static void ask_next(struct connection *c)
{
	int64_t due = due_at(c->next);

	c->next += (uint64_t)nconnections;
	ask(c, due);
}

static void run_open(void)
{
	struct epoll_event events[MOST_EVENTS];
	uint64_t number = 0; /* the next request that falls due */
	int busy = 0;

	for (int i = 0; i < nconnections; i++)
		connections[i].next = (uint64_t)i;
	while (busy > 0 || due_at(number) < until) {
		int n;

		/* Connections that are busy send theirs later. */
		for (; due_at(number) < until && due_at(number) <= now(); number++) {
			struct connection *c = &connections[number % (uint64_t)nconnections];

			if (c->busy || c->next != number)
				continue;
			ask_next(c);
			busy++;
		}
		n = wait_for(events, due_at(number) < until ? due_at(number) : until + PATIENCE_NS);
		if (n == 0 && now() > until + PATIENCE_NS)
			fail("no answer");
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (!get_answer(c))
				continue;
			record(c->since);
			if (c->next < number)
				ask_next(c); /* it is overdue */
			else
				busy--;
		}
	}
}

static bool become_fifo(void)
{
	struct sched_param param = {.sched_priority = 1};

	prctl(PR_SET_TIMERSLACK, 1UL);
	return sched_setscheduler(0, SCHED_FIFO, &param) == 0;
}

/* ---- the result ---- */

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static long long quantile(double of)
{
	return (long long)latencies[(size_t)(of * (double)(nlatencies - 1))];
}

static int64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	struct sockaddr_in to;
	int64_t cpu, took, length;
	bool fifo = false;

	if (argc < 5 || argc > 6 ||
	    (strcmp(argv[1], "echo") != 0 && strcmp(argv[1], "http") != 0) || atoi(argv[2]) < 1) {
		fprintf(stderr, "usage: bench-load echo|http CONNECTIONS SECONDS PORT [RATE]\n");
		return 2;
	}
	http = strcmp(argv[1], "http") == 0;
	nconnections = atoi(argv[2]);
	length = (int64_t)(atof(argv[3]) * 1e9);
	to = at(argv[4]);
	rate = argc == 6 ? atof(argv[5]) : 0;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	connections = calloc((size_t)nconnections, sizeof *connections);
	check(connections != NULL, "calloc");
	epoll = epoll_create1(EPOLL_CLOEXEC);
	open_all(&to);
	printf("open\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;

	fifo = rate > 0 && become_fifo();
	cpu = cpu_ns();
	began = now();
	counted_from = began + length / 5;
	until = began + length;
	if (rate > 0)
		run_open();
	else
		run_closed();
	took = now() - began;
	cpu = cpu_ns() - cpu;
	if (nlatencies == 0)
		fail("nothing was answered in the measured time: run it for longer");
	qsort(latencies, nlatencies, sizeof *latencies, ascending);
	printf("%llu %zu %lld %lld %lld %lld %lld %lld %lld %d\n", (unsigned long long)ndone,
	       nlatencies, (long long)(until - counted_from), quantile(0.5), quantile(0.99),
	       quantile(0.999), quantile(1), (long long)cpu, (long long)took, fifo);
	fflush(stdout);
	/* The line that began it may have had more characters. */
	while (getchar() != EOF)
		;
	return 0;
}
