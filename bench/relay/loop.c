/* SPDX-License-Identifier: MIT */
/*
 * bench-relay-loop splice|copy PORT SINK_PORT: a bare relay, one thread and one epoll loop, as the
 * reference for the others.
 *
 * It passes bytes and half-closes on, in both directions, and does nothing else: no timeouts, no
 * accounting, no limits; any error ends the connection. splice: each direction that moves bytes
 * takes a pipe of 1 MiB from a free list, and keeps it while its receiver has no room. copy: all
 * share one buffer of 64 KiB; a direction whose receiver has no room keeps the rest in a buffer of
 * its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../plain.h"

#define MOST ((size_t)1 << 20)
#define BUFFER ((size_t)64 << 10)
#define MOST_EVENTS 128

struct tube {
	int ends[2];
	struct tube *next;
};

/* One side of a connection, and the direction that reads from it. */
struct side {
	int fd;
	struct side *other;
	bool at_end;  /* the end was read, and passed on */
	bool hung_up; /* epoll has reported an end, which must still be read */
	size_t left;  /* bytes that the other side has not taken yet */
	struct tube *tube;
	char *rest; /* copy: the bytes that are left */
};

struct pair {
	struct side sides[2];
	struct pair *next; /* in the list of pairs to be freed */
	bool over;
};

static bool splicing;
static int epoll, listener;
static struct sockaddr_in sink;
static struct tube *free_tubes;
static struct pair *ended;
static char buffer[BUFFER];

static struct tube *get_tube(void)
{
	struct tube *tube = free_tubes;

	if (tube) {
		free_tubes = tube->next;
		return tube;
	}
	tube = malloc(sizeof *tube);
	check(tube && pipe2(tube->ends, O_NONBLOCK) == 0, "pipe2");
	fcntl(tube->ends[1], F_SETPIPE_SZ, (int)MOST);
	return tube;
}

static void put_tube(struct side *from)
{
	from->tube->next = free_tubes;
	free_tubes = from->tube;
	from->tube = NULL;
}

/* ---- moving bytes: 1 if there may be more, 0 if there are none for now, -1 at the end ---- */

static int drain_tube(struct side *from)
{
	while (from->left > 0) {
		ssize_t n = splice(from->tube->ends[0], NULL, from->other->fd, NULL, from->left,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n <= 0)
			return n < 0 && errno == EAGAIN ? 0 : -1;
		from->left -= (size_t)n;
	}
	put_tube(from);
	return 1;
}

static int move_by_splice(struct side *from)
{
	ssize_t n;

	from->tube = get_tube();
	n = splice(from->fd, NULL, from->tube->ends[1], NULL, MOST,
		   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n <= 0) {
		put_tube(from);
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		from->at_end = true;
		return shutdown(from->other->fd, SHUT_WR);
	}
	from->left = (size_t)n;
	return drain_tube(from);
}

static int drain_rest(struct side *from)
{
	ssize_t n = send(from->other->fd, from->rest, from->left, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	from->left -= (size_t)n;
	memmove(from->rest, from->rest + n, from->left);
	if (from->left > 0)
		return 0;
	free(from->rest);
	from->rest = NULL;
	return 1;
}

static int move_by_copy(struct side *from)
{
	ssize_t n = recv(from->fd, buffer, sizeof buffer, 0), sent;

	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (n == 0) {
		from->at_end = true;
		return shutdown(from->other->fd, SHUT_WR);
	}
	sent = send(from->other->fd, buffer, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN)
		return -1;
	if (sent < n) {
		size_t done = sent < 0 ? 0 : (size_t)sent;

		from->left = (size_t)n - done;
		from->rest = malloc(from->left);
		check(from->rest != NULL, "malloc");
		memcpy(from->rest, buffer + done, from->left);
		return 0;
	}
	/* A short read means that there was no more, and epoll will report what arrives. */
	return (size_t)n < sizeof buffer && !from->hung_up ? 0 : 1;
}

static bool pump(struct side *from)
{
	int more = 1;

	if (from->left > 0)
		more = splicing ? drain_tube(from) : drain_rest(from);
	while (more > 0 && !from->at_end)
		more = splicing ? move_by_splice(from) : move_by_copy(from);
	return more >= 0;
}

/* ---- connections ---- */

static void end(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		struct side *side = &pair->sides[i];

		close(side->fd);
		if (side->tube) { /* has bytes, so it cannot be reused */
			close(side->tube->ends[0]);
			close(side->tube->ends[1]);
			free(side->tube);
		}
		free(side->rest);
	}
	/* Events of this round may still refer to it. */
	pair->over = true;
	pair->next = ended;
	ended = pair;
}

static void watch(struct side *side)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				    .data.ptr = side};
	int one = 1;

	setsockopt(side->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	check(epoll_ctl(epoll, EPOLL_CTL_ADD, side->fd, &event) == 0, "epoll_ctl");
}

static void begin(int fd)
{
	struct pair *pair = calloc(1, sizeof *pair);
	int to = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	check(pair != NULL && to >= 0, "socket");
	pair->sides[0] = (struct side){.fd = fd, .other = &pair->sides[1]};
	pair->sides[1] = (struct side){.fd = to, .other = &pair->sides[0]};
	if (connect(to, (struct sockaddr *)&sink, sizeof sink) != 0 && errno != EINPROGRESS) {
		end(pair);
		return;
	}
	watch(&pair->sides[0]);
	watch(&pair->sides[1]);
}

static struct pair *pair_of(struct side *side)
{
	return (struct pair *)(side < side->other ? side : side->other);
}

static void handle(struct side *side, uint32_t events)
{
	struct pair *pair = pair_of(side);
	bool good = true;

	if (pair->over)
		return;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		side->hung_up = true;
	if (events & ~(uint32_t)EPOLLOUT)
		good = pump(side);
	if (good && (events & EPOLLOUT))
		good = pump(side->other);
	if (!good || (side->at_end && side->other->at_end))
		end(pair);
}

static void free_ended(void)
{
	while (ended) {
		struct pair *pair = ended;

		ended = pair->next;
		free(pair);
	}
}

int main(int argc, char **argv)
{
	struct epoll_event events[MOST_EVENTS], accepting = {.events = EPOLLIN};
	struct sockaddr_in address;
	struct rlimit files;
	int one = 1;

	if (argc != 4) {
		fprintf(stderr, "usage: bench-relay-loop splice|copy PORT SINK_PORT\n");
		return 2;
	}
	splicing = strcmp(argv[1], "splice") == 0;
	signal(SIGPIPE, SIG_IGN);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	address = at(argv[2]);
	sink = at(argv[3]);
	epoll = epoll_create1(0);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
	check(listen(listener, 4096) == 0, "listen");
	check(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &accepting) == 0, "epoll_ctl");
	for (;;) {
		int n = epoll_wait(epoll, events, MOST_EVENTS, -1);

		for (int i = 0; i < n; i++) {
			int fd;

			if (events[i].data.ptr)
				handle(events[i].data.ptr, events[i].events);
			else
				while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
					begin(fd);
		}
		free_ended();
	}
}
