/* SPDX-License-Identifier: MIT */
/*
 * A program in which a signal handler blocks that has interrupted a wait for a semaphore, while
 * libsennit-run had the lock of its list; others get their permits nevertheless. For run_test.py,
 * whose library raises SIGUSR1 there: nothing else does. Prints what does not hold, and its status
 * is the number of such lines.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define TURNS 200
#define SOON_NS 1000000

int failures;

static sem_t other;

/* Waits until the library's counter of that name is that high. */
static void await(const char *name, int count)
{
	_Atomic int *counter = dlsym(RTLD_DEFAULT, name);

	CHECK(counter);
	while (counter && *counter < count)
		usleep(1000);
}

static void join(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem) < 0)
		CHECK(errno == EINTR);
}

static void *take_turns(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		wait_for(arg);
		sem_post(&other);
	}
	return arg;
}

static int gate[2];
static _Atomic pid_t may_block, will_wait; /* threads, each of which writes its own */
static _Atomic bool blocks, waits;

static void block(int signum)
{
	const pid_t thread = (pid_t)syscall(SYS_gettid);
	char byte;

	(void)signum;
	if (thread == will_wait) {
		will_wait = 0;
		waits = true;
	} else if (thread == may_block) {
		may_block = 0;
		blocks = true;
		CHECK(read(gate[0], &byte, 1) == 1);
	}
}

/* It is in the list when it is interrupted. */
static void *wait_and_say(void *arg)
{
	will_wait = (pid_t)syscall(SYS_gettid);
	wait_for(arg);
	sem_post(&other);
	return NULL;
}

/* Not every wait is interrupted. */
static void *block_and_take(void *arg)
{
	struct timespec soon;

	do {
		may_block = (pid_t)syscall(SYS_gettid);
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += SOON_NS;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
	} while (sem_timedwait(arg, &soon) < 0);
	CHECK(blocks);
	return NULL;
}

/* The blocked thread has the lock of a list in which another waits for the same semaphore. It takes
 * the first permit itself when it continues. The second one is for the other, to whom it must be
 * handed on when the lock is released. Until then a third thread gets permits that are handed on.
 * If a permit is not, the program waits until the alarm. */
int main(void)
{
	struct sigaction action = {.sa_handler = block};
	/* Neighbours in memory are in different lists. */
	static sem_t pair[2];
	pthread_t waiting, blocked, busy;

	alarm(60);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&other, 0, 0);
	CHECK(pipe(gate) == 0);
	sem_init(&pair[0], 0, 0);
	sem_init(&pair[1], 0, 0);
	sigaction(SIGUSR1, &action, NULL);
	waiting = start(wait_and_say, &pair[0]);
	while (!waits)
		usleep(1000);
	blocked = start(block_and_take, &pair[0]);
	while (!blocks)
		usleep(1000);
	sem_post(&pair[0]);
	sem_post(&pair[0]);
	/* Twice: then the thread that hands on permits has said that it wants the lock. */
	await("test_refused", 2);
	busy = start(take_turns, &pair[1]);
	for (int i = 0; i < TURNS; i++) {
		sem_post(&pair[1]);
		wait_for(&other);
	}
	CHECK(write(gate[1], "", 1) == 1);
	wait_for(&other);
	join(waiting);
	join(blocked);
	join(busy);
	CHECK(sem_trywait(&pair[0]) < 0 && errno == EAGAIN);
	return failures;
}
