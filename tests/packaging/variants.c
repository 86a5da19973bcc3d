/* SPDX-License-Identifier: MIT */
/*
 * For variants_test.sh. Without an argument, this is a correct program with many operations that a
 * tool has to follow. With an argument, tasks make the mistake of that name, which the tool has to
 * find.
 */
#include <sennit/sennit.h>

#include <alloca.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASKS 60
#define ROUNDS 20

static sn_chan *numbers;
static sn_mutex lock = SN_MUTEX_INIT;
static int under_lock, racy;
static atomic_int there;
static char *volatile kept;

/* Touches frames of many sizes, which a tool has to follow across switches. */
static __attribute__((noinline)) int deep(int depth)
{
	char *some = alloca((size_t)depth * 40 + 1);
	char fixed[1000];

	memset(some, depth, (size_t)depth * 40 + 1);
	memset(fixed, depth, sizeof fixed);
	if (depth % 3 == 0)
		sn_yield();
	return depth == 0 ? 0 : deep(depth - 1) + some[depth] - fixed[depth] + 1;
}

static int works(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		char *text = malloc(100);
		int number = deep(20);

		snprintf(text, 100, "%d of %p", number, arg);
		if (sn_mutex_lock(&lock) < 0)
			return 1;
		under_lock += number == 20 && strlen(text) > 0;
		sn_mutex_unlock(&lock);
		if (i % 8 == 0)
			sn_sleep(100000);
		if (i % 16 == 1)
			usleep(100); /* blocks without a bracket */
		(void)!sn_chan_send(numbers, &number);
		free(text);
	}
	return 0;
}

static void *foreign(void *arg)
{
	return sn_go(works, arg) < 0 ? arg : NULL;
}

static int echo(void *arg)
{
	sn_tcp *peer;
	char buf[4096];
	ssize_t n;
	int err = sn_tcp_accept(arg, &peer);

	if (err < 0)
		return err;
	while ((n = sn_tcp_read(peer, buf, sizeof buf)) > 0)
		(void)!sn_tcp_write_all(peer, buf, (size_t)n, NULL);
	sn_tcp_close(peer);
	return 0;
}

static int right(void *arg)
{
	sn_task *tasks[TASKS], *server;
	sn_tcp_listener *listener;
	sn_tcp *client;
	pthread_t thread;
	char address[64], said[1000] = "hello";
	int number, sum = 0;
	ssize_t n, got = 0;

	(void)arg;
	if (sn_chan_new(&numbers, sizeof(int), 4) < 0 ||
	    sn_tcp_listen(&listener, "127.0.0.1:0") < 0)
		return 1;
	if (sn_tcp_listener_address(listener, address, sizeof address) < 0)
		return 1;
	for (int i = 0; i < TASKS - 1; i++)
		if (sn_spawn(&tasks[i], works, &tasks[i], NULL) < 0)
			return 2;
	if (pthread_create(&thread, NULL, foreign, tasks) != 0 ||
	    sn_spawn(&server, echo, listener, NULL) < 0)
		return 3;
	for (int i = 0; i < TASKS * ROUNDS; i++)
		if (sn_chan_recv(numbers, &number) < 0)
			return 4;
		else
			sum += number;
	pthread_join(thread, NULL);
	for (int i = 0; i < TASKS - 1; i++)
		sn_join(tasks[i], NULL);
	if (sn_tcp_connect(&client, address, SN_NO_DEADLINE) < 0 ||
	    sn_tcp_write_all(client, said, sizeof said, NULL) < 0)
		return 5;
	while (got < (ssize_t)sizeof said &&
	       (n = sn_tcp_read(client, said + got, sizeof said - (size_t)got)) > 0)
		got += n;
	sn_tcp_close(client);
	sn_join(server, NULL);
	sn_tcp_listener_close(listener);
	sn_chan_unref(numbers);
	return sum == 20 * TASKS * ROUNDS && under_lock == TASKS * ROUNDS &&
			       strcmp(said, "hello") == 0
		       ? 0
		       : 6;
}

/* ---- mistakes ---- */

static int leaks(void *arg)
{
	(void)arg;
	kept = malloc(12345);
	sn_yield();
	kept = NULL;
	return 0;
}

static __attribute__((noinline)) int *address_of(int depth)
{
	int local[4] = {depth};
	int *volatile address = local;

	return address;
}

static int returns(void *arg)
{
	int *dead = address_of(5);

	(void)arg;
	sn_yield();
	return *dead == 77;
}

static int races(void *arg)
{
	/* Both tasks run at the same time, on two threads, and nothing orders them. */
	(void)arg;
	atomic_fetch_add_explicit(&there, 1, memory_order_relaxed);
	while (atomic_load_explicit(&there, memory_order_relaxed) < 2)
		;
	for (int i = 0; i < 1000; i++)
		racy++;
	return 0;
}

static int overruns(void *arg)
{
	(void)arg;
	kept = malloc(10);
	sn_yield();
	kept[10] = 1;
	free(kept);
	return 0;
}

static int parks_with_lock(void *arg)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	(void)arg;
	pthread_mutex_lock(&mutex);
	sn_yield();
	sn_sleep(1000);
	pthread_mutex_unlock(&mutex);
	return 0;
}

static int in_a_task(void *arg)
{
	sn_fn *fn = *(sn_fn **)arg;
	sn_task *task;

	if (sn_spawn(&task, fn, NULL, NULL) < 0)
		return 1;
	if (fn == races)
		fn(NULL);
	return sn_join(task, NULL);
}

int main(int argc, char **argv)
{
	static struct {
		const char *name;
		sn_fn *fn;
	} mistakes[] = {{"leak", leaks},
			{"return", returns},
			{"race", races},
			{"overrun", overruns},
			{"lock", parks_with_lock}};

	if (argc < 2)
		return sn_run(right, NULL);
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
		if (strcmp(mistakes[i].name, argv[1]) == 0)
			return sn_run(in_a_task, &mistakes[i].fn);
	return 100;
}
