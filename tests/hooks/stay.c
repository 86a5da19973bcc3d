/* SPDX-License-Identifier: MIT */
/*
 * 500 hooked tasks wait in a library (stay_library.c, whose path is the argument) that remembers
 * properties of its thread. Prints for each of the library's shapes how often it was wrong, how
 * many tasks changed threads, and how many of these because their thread was stuck. Exits with 1 if
 * any shape was wrong.
 *
 * The bytes for which the tasks wait all come at the same time, while other tasks compute for a
 * moment and yield, so that threads have more work than they can do, and steal.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sennit/hooks.h>
#include <sennit/sennit.h>

#define TASKS 500
#define NOISE 4
#define ROUNDS 3
#define MS INT64_C(1000000)

static const char *(*name)(int shape);
static int (*waits)(int shape), (*check)(int shape, int fd);
static int shape;
static int ends[TASKS][2];
static _Atomic int wrong, moved;
static _Atomic bool over;

static uint64_t parked(void)
{
	struct sn_hooks_stats counters = SN_HOOKS_STATS_INIT();

	sn_hooks_stats(&counters);
	return counters.parked;
}

static int wait_for_byte(void *arg)
{
	const int i = (int)(intptr_t)arg;
	const long thread = syscall(SYS_gettid);

	if (!check(shape, ends[i][0]))
		wrong++;
	moved += syscall(SYS_gettid) != thread;
	return 0;
}

/* Sets errno to a value that no other call here sets. */
static int make_noise(void *arg)
{
	(void)arg;
	while (!over) {
		(void)!open("/nothing/here", O_RDONLY);
		for (volatile int i = 0; i < 20000; i++)
			;
		sn_sleep(MS / 20);
	}
	return 0;
}

static int play(void)
{
	const uint64_t enough = parked() + (uint64_t)(TASKS * waits(shape));
	const struct sn_task_attr hooked = SN_TASK_ATTR_INIT(.flags = SN_TASK_HOOKED);
	sn_task *tasks[TASKS], *noise[NOISE];

	over = false;
	for (int i = 0; i < NOISE; i++)
		if (sn_spawn(&noise[i], make_noise, NULL, NULL) < 0)
			return 1;
	for (int i = 0; i < TASKS; i++)
		if (sn_spawn(&tasks[i], wait_for_byte, (void *)(intptr_t)i, &hooked) < 0)
			return 1;
	while (parked() < enough)
		sn_sleep(MS);
	for (int i = 0; i < TASKS; i++)
		if (write(ends[i][1], "x", 1) != 1)
			return 1;
	for (int i = 0; i < TASKS; i++)
		sn_join(tasks[i], NULL);
	over = true;
	for (int i = 0; i < NOISE; i++)
		sn_join(noise[i], NULL);
	return 0;
}

static int first(void *arg)
{
	struct sn_hooks_stats counters = SN_HOOKS_STATS_INIT();
	int all = 0;

	(void)arg;
	for (int i = 0; i < TASKS; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]) < 0)
			return 2;
	for (shape = 0; name(shape); shape++) {
		wrong = moved = 0;
		for (int i = 0; i < ROUNDS; i++)
			if (play() != 0)
				return 2;
		printf("%s: wrong %d, moved %d\n", name(shape), wrong, moved);
		all += wrong;
	}
	sn_hooks_stats(&counters);
	printf("all: wrong %d, stuck %llu\n", all, (unsigned long long)counters.moved);
	return all > 0;
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (!library) {
		fprintf(stderr, "usage: hooks-stay LIBRARY\n");
		return 2;
	}
	name = (const char *(*)(int))(intptr_t)dlsym(library, "stay_name");
	waits = (int (*)(int))(intptr_t)dlsym(library, "stay_waits");
	check = (int (*)(int, int))(intptr_t)dlsym(library, "stay_check");
	return sn_run(first, NULL);
}
