/* SPDX-License-Identifier: MIT */
/*
 * A program with threads, for run_test.py: what threads.c does not check because it is about the
 * whole process, or about what other libraries do. Prints what does not hold, and its status is the
 * number of such lines.
 *
 *	corners keys      a key is deleted, and created again, before threads with a value end
 *	corners handlers  a library's handlers of fork() wake, join and create threads
 *	corners child     the child of a fork() in a thread returns from the thread's function
 *	corners identity  such a child is still the same thread, and the others are gone
 *	corners open F    F is a library whose constructor creates and joins the first thread
 *	corners defer     pthread_cleanup_push_defer_np()
 *	corners bare      a child that no handler knows of waits
 *	corners first     such a child creates the first thread
 *	corners mask      threads end with a blocked signal
 *	corners times     times that are as early as can be
 *	corners settings  the environment is changed before the first thread is created
 *	corners input     standard input is closed before the first thread is created
 *	corners replace F all descriptors are closed, and F gets their numbers
 *	corners alone     main() ends by pthread_exit() when there were no threads
 *	corners leave     the same with a thread
 *	corners early     the same with a thread from before main() began, which prints "late"
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int failures;

#define WORKERS 20

static sem_t go, done;

static void join(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

static char told[16];

static void tell(void *text)
{
	strcat(told, text);
}

static void *defer(void *arg)
{
	static char outer[] = "outer", inner[] = "inner ";

	pthread_cleanup_push(tell, outer);
	pthread_cleanup_push_defer_np(tell, inner);
	if (arg)
		pthread_exit(arg);
	pthread_cleanup_pop_restore_np(0);
	pthread_cleanup_pop(0);
	return arg;
}

static void *nothing(void *arg)
{
	return arg;
}

/* ---- keys ---- */

static pthread_key_t key;
static tss_t c11_key;
static _Atomic int destroyed;

static void destroy(void *value)
{
	(void)value;
	destroyed++;
}

static void *set_and_wait(void *arg)
{
	CHECK(pthread_setspecific(key, &key) == 0);
	CHECK(tss_set(c11_key, &key) == thrd_success);
	sem_post(&done);
	sem_wait(&go);
	return arg;
}

static void check_keys(void)
{
	pthread_t thread;

	CHECK(pthread_key_create(&key, destroy) == 0);
	CHECK(tss_create(&c11_key, destroy) == thrd_success);
	thread = start(set_and_wait, NULL);
	sem_wait(&done);
	CHECK(pthread_key_delete(key) == 0);
	tss_delete(c11_key);
	sem_post(&go);
	join(thread);
	CHECK(destroyed == 0);
}

static sem_t set, renewed;

static void *see_new_key(void *arg)
{
	pthread_setspecific(key, arg);
	sem_post(&set);
	sem_wait(&renewed);
	return pthread_getspecific(key);
}

static void check_new_key(void)
{
	pthread_key_t former;
	pthread_t thread;
	void *seen = NULL;

	pthread_key_create(&key, NULL);
	thread = start(see_new_key, &former);
	sem_wait(&set);
	former = key;
	pthread_key_delete(former);
	pthread_key_create(&key, NULL);
	sem_post(&renewed);
	CHECK(pthread_join(thread, &seen) == 0);
	CHECK(key != former || seen == NULL);
	pthread_key_delete(key);
}

/* ---- fork() ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool works, stops, has_workers;
static pthread_t worker;

static void *work(void *arg)
{
	pthread_mutex_lock(&mutex);
	works = true;
	pthread_cond_broadcast(&changed);
	while (!stops)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void begin_work(void)
{
	works = stops = false;
	worker = start(work, NULL);
	pthread_mutex_lock(&mutex);
	while (!works)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

static void end_work(void)
{
	pthread_mutex_lock(&mutex);
	stops = true;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&mutex);
	join(worker);
}

static void before_fork(void)
{
	if (has_workers)
		end_work();
}

static void after_fork(void)
{
	if (has_workers)
		begin_work();
}

static void *say_late(void *arg)
{
	await_end_of_main();
	puts("late");
	return arg;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
	if (getenv("CORNERS_EARLY"))
		start(say_late, NULL);
}

static void check_child(pid_t child, int wanted)
{
	int status = -1;

	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
}

static void *fork_with_workers(void *arg)
{
	const pid_t child = fork();

	if (child == 0) {
		end_work();
		_exit(failures ? 1 : 42);
	}
	check_child(child, 42);
	return arg;
}

static void check_handlers(void)
{
	has_workers = true;
	begin_work();
	fork_with_workers(NULL);
	join(start(fork_with_workers, NULL));
	end_work();
}

static void *fork_and_return(void *arg)
{
	const pid_t child = fork();

	if (child == 0)
		start(nothing, NULL);
	else
		check_child(child, 0);
	return arg;
}

static void *fork_and_exit(void *arg)
{
	const pid_t child = fork();

	if (child == 0)
		pthread_exit(NULL);
	check_child(child, 0);
	return arg;
}

static void *wait_for_go(void *arg)
{
	sem_wait(&go);
	return arg;
}

/* Compilers take pthread_self() for a constant. */
static pthread_t (*volatile self)(void) = pthread_self;

static void *fork_and_compare(void *arg)
{
	const pthread_t before = self(), other = start(wait_for_go, NULL);
	const pid_t child = fork();

	if (child == 0) {
		pthread_t threads[WORKERS];

		CHECK(pthread_equal(before, self()));
		CHECK(pthread_join(before, NULL) == EDEADLK);
		if (arg) /* only tasks know that */
			CHECK(pthread_join(other, NULL) == ESRCH);
		for (int i = 0; i < WORKERS; i++) {
			threads[i] = start(wait_for_go, NULL);
			CHECK(!pthread_equal(threads[i], before));
		}
		for (int i = 0; i < WORKERS; i++)
			sem_post(&go);
		for (int i = 0; i < WORKERS; i++)
			join(threads[i]);
		CHECK(pthread_equal(before, self()));
		_exit(failures ? 1 : 42);
	}
	check_child(child, 42);
	sem_post(&go);
	join(other);
	return arg;
}

static void *clone_and_wait(void *arg)
{
	const pthread_t other = start(wait_for_go, NULL);
	const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (child == 0) {
		struct timespec until;

		alarm(60);
		pthread_mutex_lock(&mutex);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		CHECK(pthread_cond_timedwait(&changed, &mutex, &until) == ETIMEDOUT);
		pthread_mutex_unlock(&mutex);
		if (arg)
			CHECK(pthread_join(other, NULL) == ESRCH);
		_exit(failures ? 1 : 42);
	}
	check_child(child, 42);
	sem_post(&go);
	join(other);
	return arg;
}

/* The child of main() is no task, but the other one is. */
static void clone_and_join(void)
{
	const pthread_t other = start(wait_for_go, NULL);
	const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (child == 0) {
		alarm(60);
		_exit(pthread_join(other, NULL) == ESRCH ? 42 : 1);
	}
	check_child(child, 42);
	sem_post(&go);
	join(other);
}

static void *end_late(void *arg)
{
	usleep(20000);
	return arg;
}

/* The runtime begins in the child of main(). The calls of pthread_join() come before the threads
 * have ended. */
static void clone_and_begin(void)
{
	const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (child == 0) {
		alarm(60);
		join(start(end_late, NULL));
		join(start(end_late, NULL));
		_exit(failures ? 1 : 42);
	}
	check_child(child, 42);
}

/* ---- the signal mask ---- */

static void *block(void *arg)
{
	CHECK(pthread_sigmask(SIG_BLOCK, arg, NULL) == 0);
	return NULL;
}

static void *see_mask(void *arg)
{
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	CHECK(!sigismember(&mask, SIGUSR1));
	return arg;
}

static void check_mask(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	for (int i = 0; i < WORKERS; i++)
		join(start(block, &mask));
	for (int i = 0; i < WORKERS; i++)
		join(start(see_mask, NULL));
}

/* ---- times ---- */

static void *wait_in_the_past(void *arg)
{
	const struct timespec past = {.tv_sec = sizeof past.tv_sec == 8 ? INT64_MIN : INT32_MIN};

	pthread_mutex_lock(&mutex);
	CHECK(pthread_cond_timedwait(&changed, &mutex, &past) == ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
	return arg;
}

/* ---- descriptors ---- */

static void check_input(void)
{
	close(STDIN_FILENO);
	join(start(nothing, NULL));
	CHECK(open("/dev/null", O_RDONLY) == STDIN_FILENO);
}

static pthread_mutex_t robust;

static void *end_as_owner(void *arg)
{
	CHECK(pthread_mutex_lock(&robust) == 0);
	return arg;
}

/* The time limit only keeps a failure from hanging. */
static void *succeed_owner(void *arg)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 60;
	CHECK(pthread_mutex_timedlock(&robust, &limit) == EOWNERDEAD);
	CHECK(pthread_mutex_consistent(&robust) == 0);
	pthread_mutex_unlock(&robust);
	return arg;
}

/* Whatever thread the next one runs on, the mutex is not its own. */
static void check_robust(int type, int protocol)
{
	pthread_mutexattr_t attr;
	pthread_t waits = start(wait_for_go, NULL);

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_settype(&attr, type);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutex_init(&robust, &attr);
	pthread_mutexattr_destroy(&attr);
	for (int i = 0; i < 20; i++) {
		join(start(end_as_owner, NULL));
		if (protocol == PTHREAD_PRIO_NONE) { /* immediately */
			CHECK(pthread_mutex_trylock(&robust) == EOWNERDEAD);
			CHECK(pthread_mutex_consistent(&robust) == 0);
			pthread_mutex_unlock(&robust);
			join(start(end_as_owner, NULL));
		}
		join(start(succeed_owner, NULL));
	}
	sem_post(&go);
	join(waits);
}

static void replace(const char *name)
{
	const int file = open(name, O_WRONLY | O_CREAT, 0600);

	for (int fd = STDERR_FILENO + 1; fd < 300; fd++)
		CHECK(fd == file || dup2(file, fd) == fd);
}

/* ---- main() ---- */

static void say(void *text)
{
	puts(text);
}

static void leave(void)
{
	static char pushed[] = "pushed", value[] = "value";

	pthread_key_create(&key, say);
	pthread_setspecific(key, value);
	pthread_cleanup_push(say, pushed);
	pthread_exit(NULL);
	pthread_cleanup_pop(0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	if (strcmp(what, "keys") == 0) {
		check_keys();
		check_new_key();
	} else if (strcmp(what, "handlers") == 0) {
		check_handlers();
	} else if (strcmp(what, "child") == 0) {
		join(start(fork_and_return, NULL));
		join(start(fork_and_exit, NULL));
	} else if (strcmp(what, "identity") == 0) {
		join(start(fork_and_compare, argc > 2 ? &go : NULL));
	} else if (strcmp(what, "open") == 0 && argc > 2) {
		CHECK(dlopen(argv[2], RTLD_NOW) != NULL);
	} else if (strcmp(what, "bare") == 0) {
		join(start(clone_and_wait, argc > 2 ? &go : NULL));
		if (argc > 2)
			clone_and_join();
	} else if (strcmp(what, "first") == 0) {
		clone_and_begin();
	} else if (strcmp(what, "defer") == 0) {
		join(start(defer, NULL));
		join(start(defer, &go));
		CHECK(strcmp(told, "inner outer") == 0);
	} else if (strcmp(what, "mask") == 0) {
		check_mask();
	} else if (strcmp(what, "times") == 0) {
		join(start(wait_in_the_past, NULL));
	} else if (strcmp(what, "settings") == 0) {
		setenv("SENNIT_MAX_THREADS", "none", 1);
		setenv("SENNIT_DUMP_SIGNAL", "none", 1);
		join(start(nothing, NULL));
	} else if (strcmp(what, "input") == 0) {
		check_input();
	} else if (strcmp(what, "robust") == 0) {
		check_robust(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE);
		check_robust(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE);
		check_robust(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT);
	} else if (strcmp(what, "replace") == 0 && argc > 2) {
		replace(argv[2]);
		join(start(nothing, NULL));
	} else if (strcmp(what, "alone") == 0 || strcmp(what, "early") == 0) {
		leave();
	} else if (strcmp(what, "leave") == 0) {
		start(say_late, NULL);
		leave();
	}
	return failures;
}
