/* SPDX-License-Identifier: MIT */
/*
 * A program whose handler of SIGUSR1 forks, for forks_test.py, which preloads a library that raises
 * the signal at the worst moments; without it nothing happens. Prints what does not hold, and its
 * status is the number of such lines. If fork() waits for a lock that the interrupted code holds,
 * or keeps one for which that waits, the program stands still until its alarm.
 *
 *	forks descriptors  threads wait for descriptors, each with a number of its own
 *	forks wakes        main() wakes threads
 *	forks threads      main() and a thread create threads and join them
 *	forks beside       the same in a thread, while another computes
 *	forks joins        a signal comes while main() waits for a thread
 *	forks stats        signals come while main() reads the runtime's statistics
 *	forks task-stats   the same while a thread does
 *	forks releases     signals come while main() releases many threads from a library's semaphore
 *	forks scans        main() scans a thread's task
 *	forks nested       main() and a thread fork, and the children create threads
 *	forks ends         a thread of the runtime ends that has a child
 */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PATIENCE 60 /* seconds */

int failures;

/* The library's counter of that name; NULL without it. */
static _Atomic int *counter(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* The library's function of that name, or NULL. */
static void (*find(const char *name))(void)
{
	void (*fn)(void);

	*(void **)&fn = dlsym(RTLD_DEFAULT, name);
	return fn;
}

static void call(const char *name)
{
	void (*fn)(void) = find(name);

	if (fn)
		fn();
}

static void join(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- the handler ---- */

static _Atomic pid_t forks; /* the thread whose fork() calls handlers */
static _Atomic int nested, handled;

static void check_child(pid_t child)
{
	int status = -1;

	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

#define UNUSED 100 /* a descriptor's number */

/* The function is declared as one that always returns the same. */
static pthread_t (*volatile own_handle)(void) = pthread_self;

static pthread_key_t key;

/* What the runtime hears of when a task calls it, and another fork(). */
static _Noreturn void be_child(pthread_t self, const void *value)
{
	pid_t child;
	int status = -1;

	alarm(PATIENCE);
	if (dup2(STDERR_FILENO, UNUSED) != UNUSED || dup2(STDERR_FILENO, UNUSED) != UNUSED ||
	    close(UNUSED) != 0 || own_handle() != self || pthread_getspecific(key) != value)
		_exit(1);
	child = fork();
	if (child == 0)
		_exit(0);
	_exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 2);
}

static _Atomic bool computes;
static _Atomic unsigned steps; /* of the thread that computes */

/* So that the processor is not free, if the interrupted thread has lost it. */
static void await_another_step(void)
{
	const unsigned seen = steps;

	while (computes && steps == seen)
		usleep(1000);
}

static void fork_in_handler(int signum)
{
	const pthread_t self = own_handle();
	const void *value = pthread_getspecific(key);
	pid_t child;

	(void)signum;
	nested += forks == (pid_t)syscall(SYS_gettid);
	await_another_step();
	child = fork();
	if (child == 0)
		be_child(self, value);
	check_child(child);
	handled++;
}

/* ---- descriptors ---- */

#define BUSY 4

static void check_descriptors(void)
{
	pthread_t threads[BUSY];
	int descriptors = 10;

	for (int i = 0; i < BUSY; i++)
		threads[i] = start(wait_for_descriptors, &descriptors);
	for (int i = 0; i < BUSY; i++)
		join(threads[i]);
}

/* ---- wakes ---- */

#define WAKES 20
#define WAITERS 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn; /* under the mutex; -1: the end */
static pthread_barrier_t all_begin;
static sem_t answered;

/* Each on a runtime's thread of its own, because all of them block at first. So most wakes are for
 * a thread that does not poll. */
static void *answer(void *arg)
{
	int seen = 0;

	pthread_barrier_wait(&all_begin);
	while (seen >= 0) {
		pthread_mutex_lock(&mutex);
		while (turn == seen)
			pthread_cond_wait(&changed, &mutex);
		seen = turn;
		pthread_mutex_unlock(&mutex);
		sem_post(&answered);
	}
	return arg;
}

static void wake(int next)
{
	pthread_mutex_lock(&mutex);
	turn = next;
	pthread_mutex_unlock(&mutex);
	pthread_cond_broadcast(&changed);
	for (int i = 0; i < WAITERS; i++)
		while (sem_wait(&answered) < 0)
			;
}

/* Until signals have come often enough while main() wakes threads: they must have waited for that.
 */
static void check_wakes(void)
{
	_Atomic int *wakes = counter("test_wakes");
	pthread_t threads[WAITERS];
	int n = 0;

	sem_init(&answered, 0, 0);
	pthread_barrier_init(&all_begin, NULL, WAITERS);
	for (int i = 0; i < WAITERS; i++)
		threads[i] = start(answer, NULL);
	do {
		usleep(1000);
		wake(++n);
	} while (wakes && *wakes < WAKES);
	wake(-1);
	for (int i = 0; i < WAITERS; i++)
		join(threads[i]);
}

/* ---- threads ---- */

#define THREADS 5

static void *nothing(void *arg)
{
	return arg;
}

static void *create_and_join(void *arg)
{
	CHECK(pthread_setspecific(key, &key) == 0);
	for (int i = 0; i < THREADS; i++)
		join(start(nothing, NULL));
	return arg;
}

/* It enters the runtime, so that it has the processor. */
static void *compute(void *arg)
{
	while (computes) {
		close(UNUSED);
		steps++;
	}
	return arg;
}

static void check_beside(void)
{
	pthread_t busy;

	computes = true;
	busy = start(compute, NULL);
	join(start(create_and_join, NULL));
	computes = false;
	join(busy);
}

/* Whether main()'s thread sleeps. */
static bool main_sleeps(void)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
	file = fopen(path, "r");
	CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
	if (file)
		fclose(file);
	return state == 'S';
}

static void *interrupt_join(void *arg)
{
	for (int i = 0; i < 3; i++) {
		const int before = handled;

		while (!main_sleeps())
			usleep(1000);
		CHECK(pthread_kill(*(pthread_t *)arg, SIGUSR1) == 0);
		while (handled == before)
			usleep(1000);
	}
	return arg;
}

static void check_joins(void)
{
	pthread_t self = pthread_self();

	join(start(interrupt_join, &self));
}

/* ---- calls of main() that need no task ---- */

#define SIGNALS 20 /* most of them find a lock held */

static _Atomic pid_t reads; /* the thread that reads statistics */

static void *interrupt_stats(void *arg)
{
	while (reads == 0)
		usleep(1000);
	for (int i = 0; i < SIGNALS; i++) {
		const int before = handled;

		CHECK(syscall(SYS_tgkill, getpid(), reads, SIGUSR1) == 0);
		while (handled == before)
			usleep(1000);
	}
	return arg;
}

static void *read_stats(void *arg)
{
	/* Not while it is interrupted: without the library this allocates memory, and in a handler
	 * fork() would wait for that lock. */
	void (*reader)(void) = find("test_read_stats");

	reads = (pid_t)syscall(SYS_gettid);
	while (handled < SIGNALS)
		if (reader)
			reader();
		else
			usleep(1000);
	return arg;
}

static void check_stats(void)
{
	pthread_t thread = start(interrupt_stats, NULL);

	read_stats(NULL);
	join(thread);
}

static void check_stats_of_task(void)
{
	pthread_t thread = start(read_stats, NULL);

	interrupt_stats(NULL);
	join(thread);
}

#define RELEASED 2000 /* so that taking them out takes longer than a signal */

static _Atomic bool releases, no_more;

static void *interrupt_release(void *arg)
{
	const pid_t process = getpid();

	while (!no_more)
		if (atomic_exchange(&releases, false))
			CHECK(syscall(SYS_tgkill, process, process, SIGUSR1) == 0);
	return arg;
}

static void *be_released(void *arg)
{
	while (!no_more)
		call("test_wait");
	return arg;
}

static void check_releases(void)
{
	_Atomic int *waiting = counter("test_waiting");
	void (*release)(void) = find("test_release");
	pthread_t threads[RELEASED], interrupter;

	if (!release)
		return;
	for (int i = 0; i < RELEASED; i++)
		threads[i] = start(be_released, NULL);
	interrupter = start(interrupt_release, NULL);
	for (int i = 0; i < SIGNALS; i++) {
		const int before = handled;

		while (*waiting < RELEASED)
			usleep(1000);
		releases = true;
		release();
		while (handled == before)
			usleep(1000);
	}
	while (*waiting < RELEASED)
		usleep(1000);
	no_more = true;
	release();
	join(interrupter);
	for (int i = 0; i < RELEASED; i++)
		join(threads[i]);
}

static void *be_scanned(void *arg)
{
	call("test_be_scanned");
	return arg;
}

static void check_scans(void)
{
	pthread_t thread = start(be_scanned, NULL);

	call("test_scan");
	join(thread);
}

/* ---- nested calls of fork() ---- */

#define FORKS 3

/* Before version 2.36 the C library's fork() has a lock of its own while it calls handlers. */
static bool handlers_may_fork(void)
{
	const char *version = gnu_get_libc_version();
	const char *dot = strchr(version, '.');

	return atoi(version) > 2 || (dot && atoi(dot + 1) >= 36);
}

static void block_or_not(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (!handlers_may_fork())
		pthread_sigmask(how, &set, NULL);
}

static void fork_begins(void)
{
	block_or_not(SIG_BLOCK);
	forks = (pid_t)syscall(SYS_gettid);
}

static void fork_ends(void)
{
	forks = 0;
	block_or_not(SIG_UNBLOCK);
}

/* A child that the runtime knows of can create threads. */
static void *fork_and_create(void *arg)
{
	for (int i = 0; i < FORKS; i++) {
		const pid_t child = fork();

		if (child == 0) {
			alarm(PATIENCE);
			signal(SIGUSR1, SIG_IGN);
			join(start(nothing, NULL));
			_exit(failures);
		}
		check_child(child);
	}
	return arg;
}

static void check_nested(void)
{
	pthread_atfork(fork_begins, fork_ends, fork_ends);
	fork_and_create(NULL);
	join(start(fork_and_create, NULL));
	fork_and_create(NULL);
	CHECK(!counter("test_locks") || !handlers_may_fork() || nested > 0);
}

/* ---- the end of a thread of the runtime ---- */

static int ends_child[2];

/* With such a mutex the runtime's thread ends, and with a child it is detached under a lock. */
static void *leave_mutex_and_child(void *arg)
{
	static pthread_mutex_t left;
	pthread_mutexattr_t attr;
	char byte;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	CHECK(pthread_mutex_init(&left, &attr) == 0);
	CHECK(pthread_mutex_lock(&left) == 0);
	*(pid_t *)arg = fork();
	if (*(pid_t *)arg == 0) {
		close(ends_child[1]);
		_exit(read(ends_child[0], &byte, 1) != 0);
	}
	return NULL;
}

static void check_end(void)
{
	_Atomic int *ends = counter("test_ends");
	pid_t child = -1;

	CHECK(pipe(ends_child) == 0);
	join(start(leave_mutex_and_child, &child));
	while (ends && *ends == 0)
		usleep(1000);
	join(start(nothing, NULL));
	close(ends_child[1]);
	check_child(child);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = fork_in_handler};
	const char *what = argc > 1 ? argv[1] : "";

	alarm(PATIENCE);
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(pthread_key_create(&key, NULL) == 0);
	sigaction(SIGUSR1, &action, NULL);
	if (strcmp(what, "descriptors") == 0) {
		check_descriptors();
	} else if (strcmp(what, "wakes") == 0) {
		check_wakes();
	} else if (strcmp(what, "threads") == 0) {
		create_and_join(NULL);
		join(start(create_and_join, NULL));
	} else if (strcmp(what, "beside") == 0) {
		check_beside();
	} else if (strcmp(what, "joins") == 0) {
		check_joins();
	} else if (strcmp(what, "stats") == 0) {
		check_stats();
	} else if (strcmp(what, "task-stats") == 0) {
		check_stats_of_task();
	} else if (strcmp(what, "releases") == 0) {
		check_releases();
	} else if (strcmp(what, "scans") == 0) {
		check_scans();
	} else if (strcmp(what, "nested") == 0) {
		check_nested();
	} else {
		check_end();
	}
	/* The runtime still works, and fork() does all that it should. A signal may still be
	 * pending in a thread that ends. */
	signal(SIGUSR1, SIG_IGN);
	fork_and_create(NULL);
	join(start(create_and_join, NULL));
	return failures;
}
