/* SPDX-License-Identifier: MIT */
/*
 * A program with threads, which checks what POSIX and C11 say of them. It prints what does not
 * hold, and its status is the number of such lines. run_test.py runs it with and without
 * sennit-run.
 *
 *	threads          all checks
 *	threads count N  N threads sleep; prints how many threads the process has then
 *	threads wait N   the same with threads that wait for a condition variable
 *	threads exit N   main() returns N while a thread sleeps
 *	threads closed N the same, and stderr is closed before
 *	threads leave    main() ends by pthread_exit(), and a thread prints "late"
 *	threads signal   prints "ready", then waits in main() for SIGTERM, whose handler does not
 *	                 restart calls; prints "interrupted"
 *	threads sigwait  a thread waits for SIGTERM, which main() blocks before it creates threads;
 *	                 prints "waited"
 *	threads preload  prints LD_PRELOAD, and the variables that begin with SENNIT_RUN
 *	threads fork     a thread forks, and the child starts threads
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
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
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "count_threads.h"

int failures;

#define MS 1000

static void *result_of(pthread_t thread)
{
	void *result = NULL;

	CHECK(pthread_join(thread, &result) == 0);
	return result;
}

/* ---- identity and joining ---- */

static sem_t go, done;

static void *wait_for_go(void *arg)
{
	sem_wait(&go);
	return arg;
}

static void *own_identity(void *arg)
{
	const pthread_t before = pthread_self();

	usleep(MS);
	CHECK(pthread_equal(before, pthread_self()));
	*(pthread_t *)arg = before;
	CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
	return arg;
}

static void *join_other(void *arg)
{
	void *result = NULL;

	return pthread_join(*(pthread_t *)arg, &result) == 0 ? result : NULL;
}

static void check_joining(void)
{
	struct timespec soon;
	pthread_t seen, thread = start(own_identity, &seen);

	CHECK(result_of(thread) == &seen);
	CHECK(pthread_equal(seen, thread));
	CHECK(!pthread_equal(pthread_self(), thread));

	thread = start(wait_for_go, &go);
	CHECK(pthread_tryjoin_np(thread, NULL) == EBUSY);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 1000;
	if (soon.tv_nsec < 1000000000)
		CHECK(pthread_timedjoin_np(thread, NULL, &soon) == ETIMEDOUT);
	seen = thread;
	thread = start(join_other, &seen);
	sem_post(&go);
	CHECK(result_of(thread) == &go);
}

static void *post(void *arg)
{
	sem_post(arg);
	return NULL;
}

static void check_detaching(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int state = -1;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	CHECK(pthread_create(&thread, &attr, post, &done) == 0);
	sem_wait(&done);
	CHECK(pthread_create(&thread, &attr, wait_for_go, NULL) == 0);
	CHECK(pthread_getattr_np(thread, &attr) == 0);
	CHECK(pthread_attr_getdetachstate(&attr, &state) == 0 && state == PTHREAD_CREATE_DETACHED);
	CHECK(pthread_join(thread, NULL) == EINVAL);
	CHECK(pthread_detach(thread) == EINVAL);
	sem_post(&go);
	thread = start(wait_for_go, NULL);
	CHECK(pthread_detach(thread) == 0);
	sem_post(&go);
}

/* ---- ends ---- */

static char story[64];
static char inner[] = "inner ", outer[] = "outer", popped[] = "popped ", never_told[] = "never";

static void tell(void *text)
{
	strcat(story, text);
}

static void dive(int depth)
{
	pthread_cleanup_push(tell, inner);
	if (depth == 0)
		pthread_exit(story);
	if (depth > 0)
		dive(depth - 1);
	pthread_cleanup_pop(0);
}

static void *leave_from_below(void *arg)
{
	pthread_cleanup_push(tell, outer);
	pthread_cleanup_push(tell, popped);
	pthread_cleanup_pop(1);
	pthread_cleanup_push(tell, never_told);
	pthread_cleanup_pop(0);
	usleep(MS);
	dive(1);
	pthread_cleanup_pop(0);
	return arg;
}

static void check_ends(void)
{
	CHECK(result_of(start(leave_from_below, NULL)) == story);
	CHECK(strcmp(story, "popped inner inner outer") == 0);
}

/* ---- values ---- */

#define KEYS 100

static pthread_key_t keys[KEYS];
static _Atomic int destroyed, again;

static void destroy(void *value)
{
	destroyed++;
	if (value == &again && again++ < 2)
		pthread_setspecific(keys[1], &again);
}

static void *have_values(void *arg)
{
	for (int i = 0; i < KEYS; i++) {
		CHECK(pthread_getspecific(keys[i]) == NULL);
		CHECK(pthread_setspecific(keys[i], (char *)arg + i) == 0);
	}
	usleep(MS);
	for (int i = 0; i < KEYS; i++)
		CHECK(pthread_getspecific(keys[i]) == (char *)arg + i);
	pthread_setspecific(keys[0], NULL);
	pthread_setspecific(keys[1], &again);
	return NULL;
}

static void *have_none(void *arg)
{
	for (int i = 0; i < KEYS; i++)
		CHECK(pthread_getspecific(keys[i]) == NULL);
	return arg;
}

static void check_values(void)
{
	static char texts[20][KEYS];
	pthread_t threads[20];

	for (int i = 0; i < KEYS; i++)
		CHECK(pthread_key_create(&keys[i], destroy) == 0);
	pthread_setspecific(keys[5], texts);
	for (int i = 0; i < 20; i++)
		threads[i] = start(have_values, texts[i]);
	for (int i = 0; i < 20; i++)
		result_of(threads[i]);
	CHECK(destroyed == 20 * (KEYS - 1) + 2);
	CHECK(pthread_getspecific(keys[5]) == texts);
	result_of(start(have_none, NULL));
	for (int i = 0; i < KEYS; i++)
		CHECK(pthread_key_delete(keys[i]) == 0);
}

/* ---- attributes ---- */

static void *look_at_itself(void *arg)
{
	pthread_attr_t attr;
	char name[16] = "", *low = NULL;
	size_t size = 0;

	CHECK(pthread_setname_np(pthread_self(), "a-worker") == 0);
	CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0);
	CHECK(strcmp(name, "a-worker") == 0);
	CHECK(pthread_setname_np(pthread_self(), "a name that is too long") == ERANGE);
	CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
	CHECK(pthread_attr_getstack(&attr, (void **)&low, &size) == 0);
	CHECK(name > low && name < low + size && arg == NULL);
	CHECK((uintptr_t)low % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
	return (void *)size;
}

/* Needs the stack that was asked for. */
static void *use_stack(void *arg)
{
	volatile char space[700 << 10];

	for (size_t i = 0; i < sizeof space; i += 512)
		space[i] = 1;
	return (void *)&space[0] == arg ? NULL : arg;
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
	handled = number;
}

static volatile sig_atomic_t handled_on; /* a thread of the kernel's */

static void handle_here(int number)
{
	handled = number;
	handled_on = (int)syscall(SYS_gettid);
}

static bool was_handled_here(int err)
{
	const bool was = err == 0 && handled && handled_on == (int)syscall(SYS_gettid);

	handled = handled_on = 0;
	return was;
}

/* Before the call returns, as POSIX says. */
static void *signal_itself(void *arg)
{
	const union sigval value = {0};

	signal(SIGUSR2, handle_here);
	CHECK(was_handled_here(pthread_kill(pthread_self(), SIGUSR2)));
	CHECK(was_handled_here(pthread_sigqueue(pthread_self(), SIGUSR2, value)));
	CHECK(was_handled_here(raise(SIGUSR2)));
	return arg;
}

static void check_attributes(void)
{
	struct sched_param param;
	pthread_attr_t attr;
	pthread_t thread;
	clockid_t clock;
	cpu_set_t cpus;
	char name[16];
	const union sigval value = {0};
	int (*cancel)(pthread_t handle);
	int policy, err;

	CHECK((size_t)result_of(start(look_at_itself, NULL)) >= 64 << 10);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1000003);
	CHECK(pthread_create(&thread, &attr, look_at_itself, NULL) == 0);
	result_of(thread);
	pthread_attr_setstacksize(&attr, 1 << 20);
	CHECK(pthread_create(&thread, &attr, use_stack, name) == 0);
	CHECK(result_of(thread) == name);

	result_of(start(signal_itself, NULL));
	thread = start(wait_for_go, NULL);
	CHECK(pthread_setname_np(thread, "other") == 0);
	CHECK(pthread_getname_np(thread, name, sizeof name) == 0 && strcmp(name, "other") == 0);
	CHECK(pthread_getschedparam(thread, &policy, &param) == 0 && policy == SCHED_OTHER);
	CHECK(pthread_setschedparam(thread, policy, &param) == 0);
	CHECK(pthread_getaffinity_np(thread, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 0);
	CHECK(pthread_setaffinity_np(thread, sizeof cpus, &cpus) == 0);
	CHECK(pthread_getcpuclockid(thread, &clock) == 0);
	CHECK(pthread_kill(thread, 0) == 0);
	signal(SIGUSR1, handle);
	CHECK(pthread_kill(thread, SIGUSR1) == 0);
	while (!handled)
		usleep(MS);
	sem_post(&go);
	/* When it has ended, it gets none any more. Before version 2.34 the C library says so. A
	 * signal that the process got instead might be handled by another thread a moment later. */
	for (int quiet = 0; quiet < 20; quiet = handled ? 0 : quiet + 1) {
		handled = 0;
		err = pthread_kill(thread, SIGUSR1);
		CHECK(err == 0 || err == ESRCH);
		usleep(MS);
	}
	CHECK(pthread_sigqueue(thread, SIGUSR1, value) == ESRCH);
	/* A program that imports the name is refused. */
	*(void **)&cancel = dlsym(RTLD_DEFAULT, "pthread_cancel");
	err = cancel(thread);
	CHECK(err == 0 || err == ESRCH);
	usleep(MS);
	CHECK(!handled);
	result_of(thread);
}

/* ---- locks ---- */

#define WORKERS 20
#define ROUNDS 200

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

/* Each waits for its turn. */
static void *take_turns(void *arg)
{
	const int mine = (int)(intptr_t)arg;

	pthread_mutex_lock(&mutex);
	for (int i = 0; i < ROUNDS; i++) {
		while (turn % WORKERS != mine)
			pthread_cond_wait(&changed, &mutex);
		turn++;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

/* Waits on the variable with a time limit that is far away or, for an odd number, very near. A
 * signal must not be lost on a waiter whose time is over. */
static pthread_cond_t token = PTHREAD_COND_INITIALIZER;
static int tokens, taken, timeouts;

static void *take_token(void *arg)
{
	const bool impatient = (intptr_t)arg & 1;
	struct timespec until;

	pthread_mutex_lock(&mutex);
	while (tokens == 0) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += impatient ? 0 : 100;
		if (impatient && (until.tv_nsec += 20000) >= 1000000000)
			until.tv_nsec = 999999999;
		if (pthread_cond_timedwait(&token, &mutex, &until) == ETIMEDOUT)
			timeouts++;
	}
	tokens--;
	taken++;
	pthread_mutex_unlock(&mutex);
	return NULL;
}

#define TAKERS 100

/* Here main() signals, which is no task, and then a task does. */
static void *give_tokens(void *arg)
{
	for (int i = 0; i < TAKERS / 2; i++) {
		pthread_mutex_lock(&mutex);
		tokens++;
		pthread_mutex_unlock(&mutex);
		pthread_cond_signal(&token);
	}
	return arg;
}

static void check_signals(void)
{
	pthread_t threads[TAKERS];

	for (intptr_t i = 0; i < TAKERS; i++)
		threads[i] = start(take_token, (void *)i);
	give_tokens(NULL);
	result_of(start(give_tokens, NULL));
	for (int i = 0; i < TAKERS; i++)
		result_of(threads[i]);
	CHECK(taken == TAKERS && tokens == 0);
}

/* Both sides wait, and main() is no task. */
static void *answer_main(void *arg)
{
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < ROUNDS; i++) {
		while (turn != 1)
			pthread_cond_wait(&changed, &mutex);
		turn = 0;
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void check_main_waits(void)
{
	pthread_t thread;

	turn = 0;
	thread = start(answer_main, NULL);
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < ROUNDS; i++) {
		turn = 1;
		pthread_cond_signal(&changed);
		while (turn != 0)
			pthread_cond_wait(&changed, &mutex);
	}
	pthread_mutex_unlock(&mutex);
	result_of(thread);
}

static void *timed_wait(void *arg)
{
	struct timespec past = {1, 0};
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&own);
	CHECK(pthread_cond_timedwait(&never, &own, &past) == ETIMEDOUT);
	CHECK(pthread_mutex_trylock(&own) == EBUSY);
	pthread_mutex_unlock(&own);
	return arg;
}

static void check_locks(void)
{
	pthread_t threads[WORKERS];

	for (intptr_t i = 0; i < WORKERS; i++)
		threads[i] = start(take_turns, (void *)i);
	for (int i = 0; i < WORKERS; i++)
		result_of(threads[i]);
	CHECK(turn == WORKERS * ROUNDS);
	result_of(start(timed_wait, NULL));
	check_signals();
	check_main_waits();
}

/* ---- the other runs ---- */

static void *rest(void *arg)
{
	int ends[2];
	char byte;

	sem_post(&done);
	if (pipe(ends) == 0 && read(ends[0], &byte, 1) == 1)
		return arg;
	return NULL;
}

static void *wait_for_ever(void *arg)
{
	pthread_mutex_lock(&mutex);
	sem_post(&done);
	for (;;)
		pthread_cond_wait(&changed, &mutex);
	return arg;
}

static void *late(void *arg)
{
	await_end_of_main();
	puts("late");
	return arg;
}

static void *fork_and_start(void *arg)
{
	int status = -1;
	const pid_t child = fork();

	if (child == 0) {
		pthread_t thread = start(wait_for_go, arg);

		sem_post(&go);
		_exit(result_of(thread) == arg ? 42 : 1);
	}
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	return arg;
}

static void wait_for_signal(void)
{
	struct sigaction action = {.sa_handler = handle};

	start(rest, NULL);
	sem_wait(&done);
	sigaction(SIGTERM, &action, NULL);
	puts("ready");
	if (poll(NULL, 0, -1) < 0 && errno == EINTR && handled == SIGTERM)
		puts("interrupted");
}

static void *wait_for_term(void *arg)
{
	int number = 0;

	sem_post(&done);
	return sigwait(arg, &number) == 0 && number == SIGTERM ? arg : NULL;
}

static void check_sigwait(void)
{
	sigset_t term;
	pthread_t waiter;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	for (int i = 0; i < WORKERS; i++)
		start(rest, NULL);
	waiter = start(wait_for_term, &term);
	for (int i = 0; i < WORKERS + 1; i++)
		sem_wait(&done);
	kill(getpid(), SIGTERM);
	if (result_of(waiter) == &term)
		puts("waited");
}

extern char **environ;

static void print_environment(void)
{
	const char *preload = getenv("LD_PRELOAD");

	printf("LD_PRELOAD=%s\n", preload ? preload : "(none)");
	for (char **each = environ; *each; each++)
		if (strncmp(*each, "SENNIT_RUN", 10) == 0)
			puts(*each);
}

static void check_all(void)
{
	check_joining();
	check_detaching();
	check_ends();
	check_values();
	check_attributes();
	check_locks();
	check_c11();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	const int n = argc > 2 ? atoi(argv[2]) : 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	if (strcmp(what, "all") == 0) {
		check_all();
	} else if (strcmp(what, "count") == 0 || strcmp(what, "wait") == 0) {
		for (int i = 0; i < n; i++)
			start(strcmp(what, "wait") == 0 ? wait_for_ever : rest, NULL);
		for (int i = 0; i < n; i++)
			sem_wait(&done);
		pthread_mutex_lock(&mutex); /* the last one has released it, so it waits */
		printf("%d\n", count_threads());
		return 0;
	} else if (strcmp(what, "exit") == 0 || strcmp(what, "closed") == 0) {
		if (strcmp(what, "closed") == 0)
			close(STDERR_FILENO);
		start(rest, NULL);
		return n;
	} else if (strcmp(what, "leave") == 0) {
		start(late, NULL);
		pthread_exit(NULL);
	} else if (strcmp(what, "signal") == 0) {
		wait_for_signal();
	} else if (strcmp(what, "sigwait") == 0) {
		check_sigwait();
	} else if (strcmp(what, "preload") == 0) {
		print_environment();
	} else if (strcmp(what, "fork") == 0) {
		result_of(start(fork_and_start, &go));
		result_of(start(fork_and_start, &go));
	}
	return failures;
}
