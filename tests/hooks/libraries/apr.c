/* SPDX-License-Identifier: MIT */
/*
 * The Apache Portable Runtime: WHERE is the address at which this program answers requests by UDP
 * itself, on a thread. Five tasks share a socket: each sends requests, and takes any of the
 * answers, which come after 20 ms. apr_socket_recvfrom() tries, finds EAGAIN in errno, polls, and
 * tries again; if another task was faster it looks at errno again.
 */
#include <apr_errno.h>
#include <apr_network_io.h>
#include <apr_portable.h>
#include <apr_time.h>
#include <errno.h>
#include <poll.h>

#include "crowd.h"

#define ROUNDS 10
#define TOGETHER 5
#define GROUPS ((CROWD_MOST + TOGETHER - 1) / TOGETHER)
#define DELAY_NS 20000000
#define LIMIT_US 60000000

/* A datagram, and its answer. */
struct request {
	int32_t number, round;
};

static apr_pool_t *pool;
static apr_sockaddr_t *servers[GROUPS];     /* where the group's server listens */
static apr_socket_t *clients[CROWD_MOST];   /* those of a group are the same socket */
static _Atomic int got[CROWD_MOST][ROUNDS]; /* how often each answer has come */

/* ---- the server ---- */

/* A socket for each group, so that none has to hold many datagrams. */
static struct pollfd fds[GROUPS];
static int groups;

struct late {
	struct request request;
	struct sockaddr_storage from;
	socklen_t length;
	int fd;
	int64_t due;
};

/* Answers are due in the order of the requests. */
static struct {
	struct late list[4096];
	unsigned first, end;
} queue;

static void accept_requests(int fd)
{
	struct late *next = &queue.list[queue.end % 4096];

	for (;;) {
		next->length = sizeof next->from;
		if (recvfrom(fd, &next->request, sizeof next->request, MSG_DONTWAIT,
			     (struct sockaddr *)&next->from, &next->length) < 0)
			return;
		next->fd = fd;
		next->due = sn_now() + DELAY_NS;
		next = &queue.list[++queue.end % 4096];
	}
}

/* Serves until the program ends. */
static void *serve(void *arg)
{
	for (;;) {
		poll(fds, (nfds_t)groups, queue.first == queue.end ? -1 : 1);
		for (int i = 0; i < groups; i++)
			if (fds[i].revents)
				accept_requests(fds[i].fd);
		while (queue.first != queue.end && queue.list[queue.first % 4096].due <= sn_now()) {
			const struct late *late = &queue.list[queue.first++ % 4096];

			sendto(late->fd, &late->request, sizeof late->request, 0,
			       (const struct sockaddr *)&late->from, late->length);
		}
	}
	return arg;
}

/* ---- the tasks ---- */

static int fail(int number, const char *what, apr_status_t status)
{
	char buf[100];

	fprintf(stderr, "%d: %s: %s\n", number, what, apr_strerror(status, buf, sizeof buf));
	return 1;
}

/* Makes the socket of a group, and that of its server. */
static apr_status_t make_group(const char *where, int group, apr_os_sock_t *client)
{
	apr_socket_t *server, *socket;
	apr_sockaddr_t *any;
	apr_status_t status;

	if ((status = apr_sockaddr_info_get(&any, where, APR_INET, 0, 0, pool)) != APR_SUCCESS ||
	    (status = apr_socket_create(&server, APR_INET, SOCK_DGRAM, APR_PROTO_UDP, pool)) !=
		    APR_SUCCESS ||
	    (status = apr_socket_bind(server, any)) != APR_SUCCESS ||
	    (status = apr_socket_addr_get(&servers[group], APR_LOCAL, server)) != APR_SUCCESS ||
	    (status = apr_socket_create(&socket, APR_INET, SOCK_DGRAM, APR_PROTO_UDP, pool)) !=
		    APR_SUCCESS)
		return status;
	fds[group].events = POLLIN;
	apr_os_sock_get(&fds[group].fd, server);
	return apr_os_sock_get(client, socket);
}

static int prepare(struct crowd *crowd)
{
	apr_status_t status = APR_SUCCESS;
	apr_os_sock_t fd = -1;
	pthread_t server;

	if (apr_initialize() != APR_SUCCESS || apr_pool_create(&pool, NULL) != APR_SUCCESS)
		return 1;
	for (int i = 0; i < crowd->tasks && status == APR_SUCCESS; i++) {
		if (i % TOGETHER == 0)
			status = make_group(crowd->where, groups++, &fd);
		if (status == APR_SUCCESS)
			status = apr_os_sock_put(&clients[i], &fd, pool);
		if (status == APR_SUCCESS)
			status = apr_socket_timeout_set(clients[i], LIMIT_US);
	}
	if (status != APR_SUCCESS)
		return fail(-1, "socket", status);
	return pthread_create(&server, NULL, serve, NULL) || pthread_detach(server);
}

static int work(const struct crowd *crowd, int number)
{
	const int group = number / TOGETHER;

	(void)crowd;
	for (int i = 0; i < ROUNDS; i++) {
		struct request request = {number, i};
		apr_size_t n = sizeof request;
		apr_sockaddr_t from = {.pool = pool};
		apr_status_t status = apr_socket_sendto(clients[number], servers[group], 0,
							(const char *)&request, &n);

		if (status != APR_SUCCESS)
			return fail(number, "send", status);
		n = sizeof request;
		status = apr_socket_recvfrom(&from, clients[number], 0, (char *)&request, &n);
		/* The errno of another thread may be 0, which apr_socket_recvfrom() returns. */
		if (status != APR_SUCCESS || n == 0)
			return fail(number, "nothing received", status);
		if (n != sizeof request || request.number / TOGETHER != group ||
		    request.round < 0 || request.round >= ROUNDS ||
		    atomic_fetch_add(&got[request.number][request.round], 1) != 0)
			return fail(number, "wrong answer", APR_SUCCESS);
	}
	return 0;
}

int main(int argc, char **argv)
{
	return crowd_main(argc, argv, (struct crowd){.job = work, .before = prepare});
}
