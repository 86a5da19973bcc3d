/* SPDX-License-Identifier: MIT */
/*
 * The operations. One task does each again and again, some with a partner task. The partner starts
 * on the processor of the task and stays there as long as no other processor is idle. The tasks are
 * never ended; the process ends with them.
 */
#include "operations.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "../check.h"
#include "sched/processor.h"
#include "sched/thread.h"
#include "sched/timer.h"

/* Allocates memory apart from that of other tasks, so that no line is shared by accident. */
static void *apart(size_t size)
{
	void *memory = aligned_alloc(128, (size + 127) / 128 * 128);

	CHECK(memory);
	memset(memory, 0, (size + 127) / 128 * 128);
	return memory;
}

static void *begin_nothing(void)
{
	return NULL;
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

static void spawn_join(void *on)
{
	sn_task *task;

	(void)on;
	CHECK(sn_spawn(&task, nothing, NULL, NULL) == 0);
	CHECK(sn_join(task, NULL) == 0);
}

static int yielder(void *arg)
{
	(void)arg;
	for (;;)
		sn_yield();
	return 0;
}

static void *begin_yield(void)
{
	CHECK(sn_go(yielder, NULL) == 0);
	return NULL;
}

static void yield(void *on)
{
	(void)on;
	sn_yield();
}

/* ---- channels ---- */

typedef sn_chan_of(long) numbers;

struct ends {
	numbers from, to;
};

static int echo(void *arg)
{
	struct ends *ends = arg;
	long value;

	for (;;) {
		CHECK(sn_recv(ends->from, &value) == 0);
		CHECK(sn_send(ends->to, value) == 0);
	}
	return 0;
}

static void *begin_ping(void)
{
	struct ends *ends = apart(sizeof *ends);

	CHECK(sn_chan_new_of(&ends->from, 0) == 0 && sn_chan_new_of(&ends->to, 0) == 0);
	CHECK(sn_go(echo, ends) == 0);
	return ends;
}

static void ping(void *on)
{
	struct ends *ends = on;
	long value;

	CHECK(sn_send(ends->from, 1) == 0);
	CHECK(sn_recv(ends->to, &value) == 0);
}

static void *begin_buffered(void)
{
	struct ends *ends = apart(sizeof *ends);

	CHECK(sn_chan_new_of(&ends->to, 16) == 0);
	return ends;
}

static void buffered(void *on)
{
	struct ends *ends = on;
	long value;

	CHECK(sn_send(ends->to, 1) == 0);
	CHECK(sn_recv(ends->to, &value) == 0);
}

/* ---- locks, wake and park ---- */

static void *begin_mutex(void)
{
	return apart(sizeof(sn_mutex));
}

static void mutex(void *on)
{
	CHECK(sn_mutex_lock(on) == 0);
	sn_mutex_unlock(on);
}

static int rival(void *arg)
{
	for (;;) {
		mutex(arg);
		sn_yield();
	}
	return 0;
}

static void *begin_contended(void)
{
	sn_mutex *lock = apart(sizeof *lock);

	CHECK(sn_go(rival, lock) == 0);
	return lock;
}

/* The rival finds the mutex locked and parks, is woken, and holds the mutex while this task is
 * in the queue. */
static void contended(void *on)
{
	CHECK(sn_mutex_lock(on) == 0);
	sn_yield();
	sn_mutex_unlock(on);
	sn_yield();
}

struct turns {
	sn_semaphore mine, yours;
};

static int sleeper(void *arg)
{
	struct turns *turns = arg;

	for (;;) {
		CHECK(sn_semaphore_acquire(&turns->yours) == 0);
		CHECK(sn_semaphore_release(&turns->mine, 1) == 0);
	}
	return 0;
}

static void *begin_wake(void)
{
	struct turns *turns = apart(sizeof *turns);

	CHECK(sn_go(sleeper, turns) == 0);
	return turns;
}

static void wake(void *on)
{
	struct turns *turns = on;

	CHECK(sn_semaphore_release(&turns->yours, 1) == 0);
	CHECK(sn_semaphore_acquire(&turns->mine) == 0);
}

/* ---- timers ---- */

static struct sn_task *fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	(void)timer, (void)now, (void)fired;
	return NULL;
}

static void *begin_timer(void)
{
	return apart(sizeof(struct sn_timer));
}

/* Does what a sleeping task and the fair turn after it do. A task that really sleeps would leave
 * the processor idle, or be counted with the turns of others. */
static void timer(void *on)
{
	struct sn_thread *self = sn_runtime_enter();
	struct sn_timer *timer = on;
	struct sn_due due = {0};

	timer->fire = fire;
	CHECK(sn_timer_start(self, timer, 1) == 0);
	CHECK(sn_timers_run(&self->processor->timers, 2, &due) == 1);
	sn_runtime_leave();
}

/* ---- brackets ---- */

static void bracket(void *on)
{
	(void)on;
	sn_enter_blocking();
	sn_exit_blocking();
}

/* ---- the network ---- */

struct listening {
	int fd;
	struct sockaddr_in address;
};

static struct listening listening(void)
{
	struct listening at = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	socklen_t size = sizeof at.address;

	at.address = (struct sockaddr_in){.sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(at.fd >= 0 && bind(at.fd, (struct sockaddr *)&at.address, size) == 0);
	CHECK(listen(at.fd, 128) == 0);
	CHECK(getsockname(at.fd, (struct sockaddr *)&at.address, &size) == 0);
	return at;
}

/* A connection that is made by system calls, without the runtime. */
static void connected(int ends[2])
{
	struct listening at = listening();

	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(connect(ends[0], (struct sockaddr *)&at.address, sizeof at.address) == 0);
	ends[1] = accept(at.fd, NULL, NULL);
	CHECK(ends[1] >= 0);
	close(at.fd);
}

struct streams {
	sn_stream *a, *b, *c, *d;
};

static void adopt_pair(sn_stream **a, sn_stream **b)
{
	int ends[2];

	connected(ends);
	CHECK(sn_stream_adopt(a, ends[0]) == 0 && sn_stream_adopt(b, ends[1]) == 0);
}

static void *begin_read_write(void)
{
	struct streams *streams = apart(sizeof *streams);

	adopt_pair(&streams->a, &streams->b);
	return streams;
}

static void read_write(void *on)
{
	struct streams *streams = on;
	char buf[64] = "message";

	CHECK(sn_stream_write(streams->a, buf, sizeof buf) == sizeof buf);
	CHECK(sn_stream_read(streams->b, buf, sizeof buf) == sizeof buf);
}

static int relayer(void *arg)
{
	struct streams *streams = arg;
	struct sn_relay_result result;

	CHECK(sn_relay(streams->b, streams->c, &result, NULL) == 0);
	return 0;
}

static void *begin_relay(void)
{
	struct streams *streams = apart(sizeof *streams);

	adopt_pair(&streams->a, &streams->b);
	adopt_pair(&streams->c, &streams->d);
	CHECK(sn_go(relayer, streams) == 0);
	return streams;
}

static void relayed(void *on)
{
	struct streams *streams = on;
	char buf[64] = "message";

	CHECK(sn_stream_write(streams->a, buf, sizeof buf) == sizeof buf);
	CHECK(sn_stream_read(streams->d, buf, sizeof buf) == sizeof buf);
}

struct serving {
	sn_tcp_listener *listener;
	struct sockaddr_in address;
};

static void *begin_serving(void)
{
	struct serving *serving = apart(sizeof *serving);
	struct listening at = listening();

	serving->address = at.address;
	CHECK(sn_tcp_listener_adopt(&serving->listener, at.fd) == 0);
	return serving;
}

static int client(struct serving *serving)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 &&
	      connect(fd, (struct sockaddr *)&serving->address, sizeof serving->address) == 0);
	return fd;
}

/* The client's end is a bare descriptor, and its calls are not counted. */
static void accepting(void *on)
{
	struct serving *serving = on;
	int fd = client(serving);
	sn_tcp *conn;

	CHECK(sn_tcp_accept(serving->listener, &conn) == 0);
	CHECK(sn_tcp_close(conn) == 0);
	close(fd);
}

static void short_connection(void *on)
{
	struct serving *serving = on;
	int fd = client(serving);
	char buf[64] = "message";
	sn_tcp *conn;

	CHECK(send(fd, buf, sizeof buf, 0) == sizeof buf);
	CHECK(sn_tcp_accept(serving->listener, &conn) == 0);
	CHECK(sn_stream_read((sn_stream *)conn, buf, sizeof buf) == sizeof buf);
	CHECK(sn_stream_write((sn_stream *)conn, buf, sizeof buf) == sizeof buf);
	CHECK(sn_tcp_close(conn) == 0);
	close(fd);
}

const struct operation operations[] = {
	{"spawn-join", begin_nothing, spawn_join},
	{"yield", begin_yield, yield},
	{"send-receive", begin_buffered, buffered},
	{"ping-pong", begin_ping, ping},
	{"mutex", begin_mutex, mutex},
	{"mutex-contended", begin_contended, contended},
	{"wake-park", begin_wake, wake},
	{"timer", begin_timer, timer},
	{"accept", begin_serving, accepting},
	{"read-write", begin_read_write, read_write},
	{"relayed-message", begin_relay, relayed},
	{"short-connection", begin_serving, short_connection},
	{"bracket", begin_nothing, bracket},
	{NULL, NULL, NULL},
};
