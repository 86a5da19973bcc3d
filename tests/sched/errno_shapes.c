/* SPDX-License-Identifier: MIT */
/*
 * Functions that look at errno, park, and look at it again, written in the ways that are common in
 * programs. errno_test.sh compiles this with each compiler at each level of optimization. Prints
 * how many tasks changed threads while they were parked, and how many saw an errno other than that
 * of their last call; exits with 1 if any did.
 */
#include <errno.h> /* before sennit's headers, as programs do */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sennit/sennit.h>

#define NOINLINE __attribute__((noinline))
#define TASKS 200
#define MS 1000000
#define ENOUGH 50 /* how many tasks of each form have to change threads */
#define ROUNDS 50

static int nothing; /* the read end of an empty, nonblocking pipe */

/* Makes a call that fails, each kind with another error, so that a right errno is no
 * coincidence. */
static NOINLINE int fail(int kind)
{
	char byte;

	switch (kind % 4) {
	case 0:
		return (int)read(-1, &byte, 1);
	case 1:
		return open("/nothing/here", O_RDONLY);
	case 2:
		return (int)lseek(nothing, 0, SEEK_SET);
	default:
		return mkdir("/", 0);
	}
}

static const int errors[] = {EBADF, ENOENT, ESPIPE, EEXIST};

static NOINLINE long thread(void)
{
	return syscall(SYS_gettid);
}

static NOINLINE int tries(void)
{
	char byte;

	return (int)read(nothing, &byte, 1);
}

/* Each returns whether errno was right. */

static NOINLINE int sleeps(int kind)
{
	if (tries() >= 0 || errno != EAGAIN)
		return 0;
	sn_sleep(MS);
	return fail(kind) < 0 && errno == errors[kind % 4];
}

static NOINLINE int waits(int kind)
{
	if (tries() >= 0 || errno != EAGAIN)
		return 0;
	sn_fd_wait(nothing, POLLIN, sn_after(MS));
	return fail(kind) < 0 && errno == errors[kind % 4];
}

static NOINLINE int loops(int kind)
{
	for (int round = 0;; round++) {
		int n = round < 2 ? tries() : fail(kind);

		if (n >= 0)
			return 0;
		if (errno != EAGAIN)
			return round == 2 && errno == errors[kind % 4];
		sn_fd_wait(nothing, POLLIN, sn_after(MS));
	}
}

static NOINLINE int converts(int kind)
{
	long first, second;

	(void)kind;
	errno = 0;
	first = strtol("17", NULL, 10);
	if (errno || first != 17)
		return 0;
	sn_sleep(MS);
	errno = 0;
	second = strtol("99999999999999999999999", NULL, 10);
	return second > 0 && errno == ERANGE;
}

static NOINLINE void parks(void)
{
	sn_sleep(MS);
}

static NOINLINE int parks_below(int kind)
{
	if (tries() >= 0 || errno != EAGAIN)
		return 0;
	parks();
	return fail(kind) < 0 && errno == errors[kind % 4];
}

/* A function that is always inlined. */
static inline __attribute__((always_inline)) int expanded(int kind)
{
	return fail(kind) < 0 ? errno : 0;
}

static NOINLINE int looks_in_another(int kind)
{
	if (expanded(kind) != errors[kind % 4])
		return 0;
	sn_sleep(MS);
	return expanded(kind + 1) == errors[(kind + 1) % 4];
}

static int (*const forms[])(int kind) = {sleeps,   waits,       loops,
					 converts, parks_below, looks_in_another};
#define FORMS ((int)(sizeof forms / sizeof forms[0]))

static _Atomic int moved[FORMS], wrong;

static int task(void *arg)
{
	const int n = (int)(intptr_t)arg, form = n % FORMS;
	const long before = thread();

	wrong += !forms[form](n / FORMS);
	moved[form] += thread() != before;
	return 0;
}

static int enough(void)
{
	for (int i = 0; i < FORMS; i++)
		if (moved[i] < ENOUGH)
			return 0;
	return 1;
}

static int first(void *arg)
{
	int ends[2], total = 0;

	(void)arg;
	if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0)
		return 2;
	nothing = ends[0];
	for (int round = 0; round < ROUNDS && !enough(); round++) {
		sn_task *tasks[TASKS];

		for (int i = 0; i < TASKS; i++)
			if (sn_spawn(&tasks[i], task, (void *)(intptr_t)i, NULL) < 0)
				return 2;
		for (int i = 0; i < TASKS; i++)
			sn_join(tasks[i], NULL);
	}
	for (int i = 0; i < FORMS; i++)
		total += moved[i];
	printf("moved %d, wrong %d\n", total, wrong);
	return wrong > 0;
}

int main(void)
{
	return sn_run(first, NULL);
}
