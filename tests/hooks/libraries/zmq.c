/* SPDX-License-Identifier: MIT */
/*
 * libzmq: WHERE is an address of ZeroMQ's, at which this program answers requests itself, on a
 * thread. A reply takes 20 ms, so zmq_recv() tries, finds EAGAIN in errno, polls, and tries again.
 */
#include <errno.h>
#include <poll.h>
#include <zmq.h>

#include "crowd.h"

#define ROUNDS 3
#define DELAY_NS 20000000

static void *context;

struct request {
	zmq_msg_t id;
	int64_t due;
};

/* Answers are due in the order of the requests. */
static struct {
	struct request list[4096];
	unsigned first, end;
} queue;

static int answer(void *router, struct request *to)
{
	return zmq_msg_send(&to->id, router, ZMQ_SNDMORE) < 0 ||
	       zmq_send(router, "", 0, ZMQ_SNDMORE) < 0 || zmq_send(router, "yes", 3, 0) < 0;
}

/* A frame with the sender, an empty one, and the request. */
static int accept_request(void *router)
{
	struct request *next = &queue.list[queue.end % 4096];
	char buf[16];

	zmq_msg_init(&next->id);
	if (zmq_msg_recv(&next->id, router, ZMQ_DONTWAIT) < 0)
		return 0;
	zmq_recv(router, buf, sizeof buf, 0);
	zmq_recv(router, buf, sizeof buf, 0);
	next->due = sn_now() + DELAY_NS;
	queue.end++;
	return 1;
}

/* Serves until the context ends. */
static void *serve(void *router)
{
	zmq_pollitem_t item = {.socket = router, .events = ZMQ_POLLIN};

	for (;;) {
		while (accept_request(router))
			;
		if (zmq_errno() == ETERM)
			break;
		while (queue.first != queue.end && queue.list[queue.first % 4096].due <= sn_now())
			if (answer(router, &queue.list[queue.first++ % 4096]))
				break;
		if (zmq_poll(&item, 1, queue.first == queue.end ? -1 : 1) < 0)
			break;
	}
	zmq_close(router);
	return NULL;
}

static int fail(void *socket, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
	zmq_close(socket);
	return 1;
}

static int work(const struct crowd *crowd, int number)
{
	void *socket = zmq_socket(context, ZMQ_REQ);
	const int none = 0, limit = 60000;
	char buf[8];

	(void)number;
	if (!socket)
		return fail(socket, "socket");
	zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
	zmq_setsockopt(socket, ZMQ_RCVTIMEO, &limit, sizeof limit);
	if (zmq_connect(socket, crowd->where) != 0)
		return fail(socket, "connect");
	for (int i = 0; i < ROUNDS; i++) {
		if (zmq_send(socket, "ask", 3, 0) != 3)
			return fail(socket, "send");
		if (zmq_recv(socket, buf, sizeof buf, 0) != 3)
			return fail(socket, "receive");
	}
	zmq_close(socket);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t server;
	void *router;
	int status;

	context = zmq_ctx_new();
	zmq_ctx_set(context, ZMQ_MAX_SOCKETS, CROWD_MOST + 16);
	router = zmq_socket(context, ZMQ_ROUTER);
	if (argc < 2 || !router || zmq_bind(router, argv[1]) != 0 ||
	    pthread_create(&server, NULL, serve, router) != 0) {
		fprintf(stderr, "no server: %s\n", zmq_strerror(zmq_errno()));
		return 1;
	}
	status = crowd_main(argc, argv, (struct crowd){.job = work});
	zmq_ctx_term(context);
	pthread_join(server, NULL);
	return status;
}
