/* SPDX-License-Identifier: MIT */
/*
 * Tasks, switches, channels, timers, locks, TCP and cancellation. A task has a stack of 128 KiB,
 * whatever the C library gives its threads.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "check.h"

#define TASKS 1000
#define ROUNDS 100

/* ---- switches ---- */

/* Registers and floating point outlast the switches. */
static int yields(void *arg)
{
	double sum = 0;

	for (int i = 0; i < ROUNDS; i++) {
		sum += 0.5;
		CHECK(sn_yield() == 0);
	}
	CHECK(sum == ROUNDS * 0.5);
	return (int)(intptr_t)arg;
}

static void many_tasks(void)
{
	static sn_task *tasks[TASKS];
	int result;

	for (intptr_t i = 0; i < TASKS; i++)
		CHECK(sn_spawn(&tasks[i], yields, (void *)i, NULL) == 0);
	for (int i = 0; i < TASKS; i++)
		CHECK(sn_join(tasks[i], &result) == 0 && result == i);
}

/* The C library's own printing and sorting on a task's stack. */
static int uses_its_stack(void *arg)
{
	char large[96 * 1024], text[64];

	(void)arg;
	memset(large, 'x', sizeof large);
	CHECK(snprintf(text, sizeof text, "%.17g %d", 0.1, large[sizeof large - 1]) > 0);
	CHECK(strcmp(text, "0.10000000000000001 120") == 0);
	return 0;
}

static void stacks(void)
{
	sn_task *task;
	int result;

	CHECK(sn_spawn(&task, uses_its_stack, NULL, NULL) == 0);
	CHECK(sn_join(task, &result) == 0 && result == 0);
}

/* ---- channels, timers, locks ---- */

static int sends(void *arg)
{
	for (int i = 0; i < TASKS; i++)
		CHECK(sn_chan_send(arg, &i) == 0);
	return sn_chan_close(arg);
}

static void channels(void)
{
	sn_chan *chan;
	int value, count = 0;

	CHECK(sn_chan_new(&chan, sizeof value, 0) == 0);
	CHECK(sn_chan_recv_until(chan, &value, sn_after(2 * MS)) == -ETIMEDOUT);
	CHECK(sn_go(sends, sn_chan_ref(chan)) == 0);
	while (sn_chan_recv(chan, &value) == 0)
		CHECK(value == count++);
	CHECK(count == TASKS);
	sn_chan_unref(chan);
}

static void timers(void)
{
	const int64_t before = sn_now(), wall = sn_walltime();

	CHECK(sn_sleep(5 * MS) == 0);
	CHECK(sn_now() - before >= 5 * MS);
	CHECK(wall > 1600000000 * SECOND);
}

static sn_mutex mutex = SN_MUTEX_INIT;
static int counted;

static int counts(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(sn_mutex_lock(&mutex) == 0);
		counted++;
		CHECK(sn_mutex_unlock(&mutex) == 0);
	}
	return 0;
}

/* ---- scopes ---- */

static int waits(void *arg)
{
	int value;

	CHECK(sn_chan_recv(arg, &value) == -ECANCELED);
	counted++;
	return 0;
}

static void scopes(void)
{
	sn_scope *scope;
	sn_chan *chan;

	counted = 0;
	CHECK(sn_scope_open(&scope, SN_NO_DEADLINE) == 0);
	for (int i = 0; i < 10; i++)
		CHECK(sn_scope_go(scope, counts, NULL) == 0);
	CHECK(sn_scope_close(scope) == 0);
	CHECK(counted == 10 * ROUNDS);

	counted = 0;
	CHECK(sn_chan_new(&chan, sizeof(int), 0) == 0);
	CHECK(sn_scope_open(&scope, SN_NO_DEADLINE) == 0);
	CHECK(sn_scope_go(scope, waits, chan) == 0);
	CHECK(sn_yield() == 0);
	CHECK(sn_scope_cancel(scope) == 0);
	sn_scope_close(scope);
	CHECK(counted == 1);
	sn_chan_unref(chan);
}

/* ---- TCP ---- */

static int session(void *arg)
{
	char buf[4096];
	ssize_t n;

	while ((n = sn_tcp_read(arg, buf, sizeof buf)) > 0)
		CHECK(sn_tcp_write_all(arg, buf, (size_t)n, NULL) >= 0);
	CHECK(n == 0);
	return sn_tcp_close(arg);
}

static int serve(void *listener)
{
	sn_tcp *peer;
	int err;

	while ((err = sn_tcp_accept(listener, &peer)) == 0)
		CHECK(sn_go(session, peer) == 0);
	CHECK(err == -ECANCELED);
	return 0;
}

static int client(void *address)
{
	static const char text[] = "hello";
	char buf[sizeof text];
	sn_tcp *conn;

	CHECK(sn_tcp_connect(&conn, address, sn_after(60 * SECOND)) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		size_t have = 0;

		CHECK(sn_tcp_write_all(conn, text, sizeof text, NULL) >= 0);
		while (have < sizeof buf) {
			const ssize_t n = sn_tcp_read(conn, buf + have, sizeof buf - have);

			CHECK(n > 0);
			have += (size_t)n;
		}
		CHECK(memcmp(buf, text, sizeof text) == 0);
	}
	return sn_tcp_close(conn);
}

static void echo(void)
{
	sn_scope *scope, *clients;
	sn_tcp_listener *listener;
	char address[64];

	CHECK(sn_tcp_listen(&listener, "127.0.0.1:0") == 0);
	CHECK(sn_tcp_listener_address(listener, address, sizeof address) >= 0);
	CHECK(sn_scope_open(&scope, SN_NO_DEADLINE) == 0);
	CHECK(sn_scope_go(scope, serve, listener) == 0);
	CHECK(sn_scope_open(&clients, SN_NO_DEADLINE) == 0);
	for (int i = 0; i < 20; i++)
		CHECK(sn_scope_go(clients, client, address) == 0);
	CHECK(sn_scope_close(clients) == 0);
	CHECK(sn_scope_cancel(scope) == 0);
	sn_scope_close(scope);
	CHECK(sn_tcp_listener_close(listener) == 0);
}

static int first(void *arg)
{
	(void)arg;
	many_tasks();
	stacks();
	channels();
	timers();
	scopes();
	echo();
	return 0;
}

int main(void)
{
	alarm(120);
	for (int run = 0; run < 3; run++)
		CHECK(sn_run(first, NULL) == 0);
	return 0;
}
