/* SPDX-License-Identifier: MIT */
/*
 * hiredis: WHERE is a port. Each task waits for an element of a list, of which there is none, and
 * counts, three times. The asynchronous interface is that of hiredis/async.h.
 */
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <sys/time.h>
#include <time.h>

#include "crowd.h"
#include "loop.h"

#define ROUNDS 3

/* No element comes, so BLPOP takes as long as its timeout. */
static const char wait_command[] = "BLPOP %s-list-%d 0.1", count_command[] = "INCR %s-count-%d";

/* The prefix of this run's keys, because the server may keep those of an earlier run. */
static char run[40];

static int fail(redisContext *context, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, context ? context->errstr : "no context");
	if (context)
		redisFree(context);
	return 1;
}

static int is_right(const redisReply *reply, int type, long long value)
{
	return reply && reply->type == type &&
	       (type != REDIS_REPLY_INTEGER || reply->integer == value);
}

static int expect(redisReply *reply, int type, long long value)
{
	const int right = is_right(reply, type, value);

	if (reply)
		freeReplyObject(reply);
	return right;
}

static int work(const struct crowd *crowd, int number)
{
	const struct timeval limit = {60, 0};
	redisContext *context =
		number % 2 ? redisConnect("127.0.0.1", atoi(crowd->where))
			   : redisConnectWithTimeout("127.0.0.1", atoi(crowd->where), limit);

	if (!context || context->err)
		return fail(context, "connect");
	if (number % 2 == 0 && redisSetTimeout(context, limit) != REDIS_OK)
		return fail(context, "timeout");
	for (int i = 1; i <= ROUNDS; i++) {
		if (!expect(redisCommand(context, wait_command, run, number), REDIS_REPLY_NIL, 0))
			return fail(context, "BLPOP");
		if (!expect(redisCommand(context, count_command, run, number), REDIS_REPLY_INTEGER,
			    i))
			return fail(context, "INCR");
	}
	redisFree(context);
	return 0;
}

/* ---- the asynchronous interface ---- */

static struct client {
	struct loop_watch watch;
	redisAsyncContext *context;
	int number, round;
	int waits; /* the next command, or the one under way, is BLPOP */
} clients[CROWD_MOST];

static int clients_left, clients_failed;

static void change(struct client *client, uint32_t more, uint32_t fewer)
{
	loop_wait_for(&client->watch, client->context->c.fd,
		      (client->watch.events | more) & ~fewer);
}

static void add_read(void *client)
{
	change(client, EPOLLIN, 0);
}

static void delete_read(void *client)
{
	change(client, 0, EPOLLIN);
}

static void add_write(void *client)
{
	change(client, EPOLLOUT, 0);
}

static void delete_write(void *client)
{
	change(client, 0, EPOLLOUT);
}

static void clean_up(void *client)
{
	change(client, 0, EPOLLIN | EPOLLOUT);
}

/* hiredis may free the context in any of its functions. */
static void ready(struct loop_watch *watch, uint32_t events)
{
	struct client *client = (struct client *)watch;

	if (events & ~(uint32_t)EPOLLOUT)
		redisAsyncHandleRead(client->context);
	if (events & EPOLLOUT && client->watch.events & EPOLLOUT)
		redisAsyncHandleWrite(client->context);
}

static void ask(struct client *client);

/* The answer to BLPOP or INCR, or NULL if the connection has ended. */
static void answered(redisAsyncContext *context, void *reply, void *arg)
{
	struct client *client = arg;
	const int right = client->waits ? is_right(reply, REDIS_REPLY_NIL, 0)
					: is_right(reply, REDIS_REPLY_INTEGER, client->round);

	clients_failed += !right;
	if (!client->waits)
		client->round++;
	client->waits = !client->waits;
	if (right && client->round <= ROUNDS)
		ask(client);
	else
		redisAsyncDisconnect(context);
}

static void ask(struct client *client)
{
	redisAsyncCommand(client->context, answered, client,
			  client->waits ? wait_command : count_command, run, client->number);
}

static void disconnected(const redisAsyncContext *context, int status)
{
	if (status != REDIS_OK)
		fprintf(stderr, "%s\n", context->errstr);
	clients_left--;
}

/* A connection that was not made is not disconnected, either. */
static void connected(const redisAsyncContext *context, int status)
{
	if (status != REDIS_OK)
		disconnected(context, status);
}

static int work_all(const struct crowd *crowd)
{
	clients_left = crowd->tasks;
	for (int i = 0; i < crowd->tasks; i++) {
		struct client *client = &clients[i];
		redisAsyncContext *context = redisAsyncConnect("127.0.0.1", atoi(crowd->where));

		if (!context || context->err)
			return 1;
		*client = (struct client){.watch.ready = ready,
					  .context = context,
					  .number = i,
					  .round = 1,
					  .waits = 1};
		context->ev.data = client;
		context->ev.addRead = add_read;
		context->ev.delRead = delete_read;
		context->ev.addWrite = add_write;
		context->ev.delWrite = delete_write;
		context->ev.cleanup = clean_up;
		redisAsyncSetConnectCallback(context, connected);
		redisAsyncSetDisconnectCallback(context, disconnected);
		ask(client);
	}
	loop_run(&clients_left, NULL);
	return clients_failed;
}

int main(int argc, char **argv)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(run, sizeof run, "%lld.%09ld", (long long)now.tv_sec, now.tv_nsec);
	return crowd_main(argc, argv, (struct crowd){.job = work, .all = work_all});
}
