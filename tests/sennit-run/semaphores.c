/* SPDX-License-Identifier: MIT */
/*
 * A program whose threads wait for semaphores, for run_test.py. Prints what does not hold, and its
 * status is the number of such lines.
 *
 *	semaphores          what POSIX says of times, of handlers of signals, and of sharing
 *	semaphores crowd    threads and main() post, wait, and give up: no permit is lost
 *	semaphores signals  handlers post, which interrupt threads that post and wait
 *	semaphores runtime  a thread registers descriptors, and one waits for what handlers post
 *	semaphores each     main() posts many semaphores, for each of which a thread waits
 *	semaphores leave    main() ends by pthread_exit() while a thread waits
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int failures;

static sem_t semaphore, other;

static void join(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem) < 0)
		CHECK(errno == EINTR);
}

static int value_of(sem_t *sem)
{
	int value = -1;

	sem_getvalue(sem, &value);
	return value;
}

static struct timespec in(clockid_t clock, int ms)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_sec += ms / 1000;
	time.tv_nsec += ms % 1000 * 1000000L;
	if (time.tv_nsec >= 1000000000) {
		time.tv_nsec -= 1000000000;
		time.tv_sec++;
	}
	return time;
}

/* ---- times ---- */

static void *give_up(void *arg)
{
	const struct timespec invalid = {.tv_nsec = 1000000000};
	struct timespec until = in(CLOCK_REALTIME, 20);

	CHECK(sem_timedwait(&semaphore, &until) < 0 && errno == ETIMEDOUT);
	until = in(CLOCK_MONOTONIC, 20);
	CHECK(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) < 0 && errno == ETIMEDOUT);
	CHECK(sem_timedwait(&semaphore, &invalid) < 0 && errno == EINVAL);
	CHECK(sem_trywait(&semaphore) < 0 && errno == EAGAIN);
	errno = 0;
	CHECK(sem_post(&semaphore) == 0 && errno == 0);
	until = in(CLOCK_REALTIME, -1000);
	CHECK(sem_timedwait(&semaphore, &until) == 0);
	CHECK(value_of(&semaphore) == 0);
	return arg;
}

static void *take_in_time(void *arg)
{
	const struct timespec until = in(CLOCK_REALTIME, 60000);

	sem_post(&other);
	CHECK(sem_timedwait(&semaphore, &until) == 0);
	return arg;
}

static void check_times(void)
{
	pthread_t thread;

	join(start(give_up, NULL));
	thread = start(take_in_time, NULL);
	wait_for(&other);
	sem_post(&semaphore);
	join(thread);
	CHECK(value_of(&semaphore) == 0);
}

/* ---- what threads inherit ---- */

static int count_nice(int wanted)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	while (folder && (entry = readdir(folder)))
		if (atoi(entry->d_name) > 0 &&
		    getpriority(PRIO_PROCESS, (id_t)atoi(entry->d_name)) == wanted)
			n++;
	closedir(folder);
	return n;
}

/* The first that waits: no thread is started by it then. */
static void *wait_nicely(void *arg)
{
	const struct timespec until = in(CLOCK_REALTIME, 20);
	const int value = getpriority(PRIO_PROCESS, 0) + 3;

	if (value > 19) /* all of them may have that */
		return arg;
	CHECK(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), value) == 0);
	CHECK(sem_timedwait(&semaphore, &until) < 0 && errno == ETIMEDOUT);
	CHECK(count_nice(value) == 1);
	return arg;
}

/* ---- handlers of signals ---- */

#define SIGNALS 50

static void post(int signum)
{
	(void)signum;
	sem_post(&semaphore);
}

static void *take_all(void *arg)
{
	for (int i = 0; i < SIGNALS; i++)
		wait_for(&semaphore);
	return arg;
}

static void *raise_all(void *arg)
{
	for (int i = 0; i < SIGNALS; i++)
		raise(*(int *)arg);
	return arg;
}

/* In the threads of tasks, and in that of main(); with a mask like that of other code, and without.
 */
static void check_handlers(int flags)
{
	struct sigaction action = {.sa_handler = post, .sa_flags = flags}, former;
	int signum = SIGUSR1;
	pthread_t thread;

	sigaction(signum, &action, &former);
	thread = start(take_all, NULL);
	join(start(raise_all, &signum));
	join(thread);
	thread = start(take_all, NULL);
	raise_all(&signum);
	join(thread);
	sigaction(signum, &former, NULL);
	CHECK(value_of(&semaphore) == 0);
}

/* ---- handlers that interrupt ---- */

#define BUSY 4
#define INTERRUPTIONS 5000

static _Atomic int interruptions;
static _Atomic pid_t where[BUSY]; /* the threads on which they have run last */

static void post_some(int signum)
{
	(void)signum;
	if (interruptions < INTERRUPTIONS && interruptions++ < INTERRUPTIONS)
		sem_post(&semaphore);
}

/* As many permits as waits. */
static void *post_and_take(void *arg)
{
	while (interruptions < INTERRUPTIONS) {
		*(_Atomic pid_t *)arg = (pid_t)syscall(SYS_gettid);
		sem_post(&semaphore);
		wait_for(&semaphore);
	}
	return NULL;
}

static void *take_what_handlers_post(void *arg)
{
	for (int i = 0; i < INTERRUPTIONS; i++)
		wait_for(&semaphore);
	return arg;
}

/* Signals go to the threads that run the busy ones, not to the process, because the kernel would
 * choose one that does nothing. A thread may have ended, and another runs the task then. If a
 * permit is lost, or not handed on, a thread waits forever. */
static void check_interruptions(int flags)
{
	struct sigaction action = {.sa_handler = post_some, .sa_flags = flags}, former;
	pthread_t threads[BUSY + 1];

	interruptions = 0;
	sigaction(SIGUSR1, &action, &former);
	threads[BUSY] = start(take_what_handlers_post, NULL);
	for (int i = 0; i < BUSY; i++)
		threads[i] = start(post_and_take, (void *)&where[i]);
	for (unsigned i = 0; interruptions < INTERRUPTIONS; i++) {
		const pid_t thread = where[i % BUSY];

		if (thread > 0)
			syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
		usleep(20);
	}
	for (int i = 0; i <= BUSY; i++)
		join(threads[i]);
	sigaction(SIGUSR1, &former, NULL);
	CHECK(value_of(&semaphore) == 0);
}

/* ---- handlers that interrupt the runtime, if run_test.py sends signals there ---- */

static _Atomic int handled, got;
static _Atomic bool ends;

static void post_and_count(int signum)
{
	(void)signum;
	handled++;
	sem_post(&semaphore);
}

static void *take_until_the_end(void *arg)
{
	while (!ends) {
		wait_for(&semaphore);
		got++;
	}
	return arg;
}

static void check_runtime(void)
{
	struct sigaction action = {.sa_handler = post_and_count, .sa_flags = SA_NODEFER};
	struct sigaction former[2];
	pthread_t taker;
	int descriptors = 50;

	sigaction(SIGUSR1, &action, &former[0]);
	sigaction(SIGUSR2, &action, &former[1]);
	taker = start(take_until_the_end, NULL);
	join(start(wait_for_descriptors, &descriptors));
	ends = true;
	sem_post(&semaphore);
	join(taker);
	sigaction(SIGUSR1, &former[0], NULL);
	sigaction(SIGUSR2, &former[1], NULL);
	CHECK(got + value_of(&semaphore) == handled + 1);
}

/* ---- a thread of the C library's own ---- */

static void post_of_timer(union sigval value)
{
	(void)value;
	sem_post(&semaphore);
}

static void *take_one(void *arg)
{
	wait_for(arg);
	return NULL;
}

static void check_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD,
				 .sigev_notify_function = post_of_timer};
	const struct itimerspec soon = {.it_value.tv_nsec = 20000000};
	pthread_t thread = start(take_one, &semaphore);
	timer_t timer;

	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
	join(thread);
	timer_delete(timer);
}

/* ---- another process ---- */

#define EXCHANGES 20

static void *answer(void *arg)
{
	sem_t *shared = arg;

	for (int i = 0; i < EXCHANGES; i++) {
		wait_for(&shared[0]);
		sem_post(&shared[1]);
	}
	return NULL;
}

/* The child pauses, so that the thread usually waits before it is woken. */
static void check_sharing(void)
{
	sem_t *shared = mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	pid_t child;
	int status = -1;

	CHECK(sem_init(&shared[0], 1, 0) == 0 && sem_init(&shared[1], 1, 0) == 0);
	thread = start(answer, shared);
	child = fork();
	if (child == 0) {
		for (int i = 0; i < EXCHANGES; i++) {
			usleep(1000);
			sem_post(&shared[0]);
			wait_for(&shared[1]);
		}
		_exit(0);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0);
	join(thread);
	munmap(shared, 2 * sizeof *shared);
}

/* A child that no handler of fork() knows of has a copy of the lists, with the parent's tasks. The
 * pause is for the thread, which usually waits then. A task hands on itself. */
static void *check_bare_children(void *arg)
{
	pthread_t thread = start(take_one, &semaphore);

	for (int i = 0; i < 20; i++) {
		int status = -1;
		pid_t child;

		usleep(1000);
		child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
		if (child == 0) {
			sem_post(&semaphore);
			_exit(sem_trywait(&semaphore) != 0);
		}
		waitpid(child, &status, 0);
		CHECK(status == 0);
	}
	sem_post(&semaphore);
	join(thread);
	return arg;
}

static int post_and_end(void *arg)
{
	_exit(sem_post(arg) != 0);
}

/* A child that shares the memory wakes the parent's tasks. */
static void *check_children_with_the_same_memory(void *arg)
{
	static _Alignas(16) char stack[64 << 10];

	for (int i = 0; i < 20; i++) {
		pthread_t thread = start(take_in_time, NULL);
		int status = -1;
		pid_t child;

		wait_for(&other);
		usleep(1000);
		child = clone(post_and_end, stack + sizeof stack, CLONE_VM | SIGCHLD, &semaphore);
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
		join(thread);
	}
	return arg;
}

/* ---- many semaphores ---- */

#define SEMAPHORES 257
#define TURNS 200

static void *take_turns(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		wait_for(arg);
		sem_post(&other);
	}
	return arg;
}

static void check_each(void)
{
	static sem_t semaphores[SEMAPHORES];
	pthread_t threads[SEMAPHORES];

	for (int i = 0; i < SEMAPHORES; i++) {
		sem_init(&semaphores[i], 0, 0);
		threads[i] = start(take_turns, &semaphores[i]);
	}
	for (int turn = 0; turn < TURNS; turn++) {
		for (int i = 0; i < SEMAPHORES; i++)
			sem_post(&semaphores[i]);
		for (int i = 0; i < SEMAPHORES; i++)
			wait_for(&other);
	}
	for (int i = 0; i < SEMAPHORES; i++) {
		join(threads[i]);
		CHECK(value_of(&semaphores[i]) == 0);
	}
}

/* ---- many threads ---- */

#define CROWD 20
#define TIMES 300

static _Atomic int taken, posted;

static void *post_and_wait(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		const struct timespec soon = in(CLOCK_REALTIME, i % 3 == 0 ? 0 : 1);

		if (i % 2 == 0) {
			posted++;
			sem_post(&semaphore);
			wait_for(&semaphore);
			taken++;
		} else if (sem_timedwait(&semaphore, &soon) == 0) {
			taken++;
			posted++;
			sem_post(&semaphore);
		} else {
			CHECK(errno == ETIMEDOUT || errno == EINTR);
		}
	}
	return arg;
}

/* As many permits as waits without a limit, because those with one give back what they get. */
static void check_crowd(void)
{
	pthread_t threads[CROWD];

	for (int i = 0; i < CROWD; i++)
		threads[i] = start(post_and_wait, NULL);
	post_and_wait(NULL);
	for (int i = 0; i < CROWD; i++)
		join(threads[i]);
	CHECK(posted == taken);
	CHECK(value_of(&semaphore) == 0);
}

static void *post_late(void *arg)
{
	await_end_of_main();
	sem_post(&semaphore);
	return arg;
}

static void *say_late(void *arg)
{
	wait_for(&semaphore);
	puts("late");
	return arg;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&semaphore, 0, 0);
	sem_init(&other, 0, 0);
	if (strcmp(what, "crowd") == 0) {
		check_crowd();
	} else if (strcmp(what, "signals") == 0) {
		check_interruptions(0);
		check_interruptions(SA_NODEFER);
	} else if (strcmp(what, "runtime") == 0) {
		check_runtime();
	} else if (strcmp(what, "each") == 0) {
		check_each();
	} else if (strcmp(what, "leave") == 0) {
		start(say_late, NULL);
		start(post_late, NULL);
		pthread_exit(NULL);
	} else {
		join(start(wait_nicely, NULL));
		check_times();
		check_handlers(0);
		check_handlers(SA_NODEFER);
		check_timer();
		check_sharing();
		join(start(check_bare_children, NULL));
		join(start(check_children_with_the_same_memory, NULL));
	}
	return failures;
}
