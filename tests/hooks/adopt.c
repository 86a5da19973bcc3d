/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program that does not know sennit, this makes its main() a task, and each of its
 * threads another one, so that tasks make all of its blocking calls. Together with libsennit-hooks
 * these calls park. In this way the tests of other projects test the hooks (python_test.py).
 *
 *	LD_PRELOAD=libhooks-adopt.so:libsennit-hooks.so SENNIT_HOOKS=1 program
 *
 * Tasks change threads, so a task needs what a thread has: an identity (pthread_self()) and values
 * (pthread_getspecific()). Thread-local variables and errno still belong to the thread. Locks,
 * conditions and semaphores block the thread, as in every task.
 *
 * Without libsennit-hooks, or with SENNIT_HOOKS=0, the tasks block their threads.
 *
 * A child of fork() has no tasks. The values of the task that forked become those of the child's
 * thread, and pthread_self() returns another identity, which a program with threads rarely notices.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sennit/hooks.h>
#include <sennit/sennit.h>

#define EXPORT __attribute__((visibility("default")))
#define STACK ((size_t)8 << 20)
#define MOST_THREADS 500

typedef int main_fn(int argc, char **argv, char **envp);

/* A task in place of a thread. Its address is the thread's handle. */
struct adopted {
	_Atomic int owners; /* the task itself, and its joiner or detacher; 0: the slot is free */
	sn_task *task;
	void *(*start)(void *arg);
	void *arg, *result;
	void *values[PTHREAD_KEYS_MAX];
};

/* The first slot is for main(). */
static struct adopted slots[1 + MOST_THREADS];
static void (*_Atomic destructors[PTHREAD_KEYS_MAX])(void *value);

/* ---- functions of the C library ---- */

static struct {
	pthread_t (*self)(void);
	int (*create)(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *arg),
		      void *arg);
	int (*join)(pthread_t thread, void **result);
	int (*detach)(pthread_t thread);
	int (*kill)(pthread_t thread, int number);
	int (*clock)(pthread_t thread, clockid_t *clock);
	int (*key_create)(pthread_key_t *key, void (*destructor)(void *value));
	void *(*get)(pthread_key_t key);
	int (*set)(pthread_key_t key, const void *value);
} real;

/* Called by the first caller, before there are threads. */
static void look_up(void)
{
	if (real.set)
		return;
	*(void **)&real.self = dlsym(RTLD_NEXT, "pthread_self");
	*(void **)&real.create = dlsym(RTLD_NEXT, "pthread_create");
	*(void **)&real.join = dlsym(RTLD_NEXT, "pthread_join");
	*(void **)&real.detach = dlsym(RTLD_NEXT, "pthread_detach");
	*(void **)&real.kill = dlsym(RTLD_NEXT, "pthread_kill");
	*(void **)&real.clock = dlsym(RTLD_NEXT, "pthread_getcpuclockid");
	*(void **)&real.key_create = dlsym(RTLD_NEXT, "pthread_key_create");
	*(void **)&real.get = dlsym(RTLD_NEXT, "pthread_getspecific");
	*(void **)&real.set = dlsym(RTLD_NEXT, "pthread_setspecific");
}

/* ---- the caller ---- */

static const sn_local mine;

/* The calling task; NULL on ordinary threads, and in the runtime itself. */
static struct adopted *self(void)
{
	look_up();
	return sn_foreign_self() ? sn_local_get(&mine) : NULL;
}

/* The task of a handle; NULL if it is an ordinary thread. */
static struct adopted *adopted_of(pthread_t thread)
{
	struct adopted *slot = (struct adopted *)thread;

	look_up();
	return slot >= slots && slot < slots + 1 + MOST_THREADS ? slot : NULL;
}

static void leave(struct adopted *slot)
{
	if (slot != slots)
		atomic_fetch_sub(&slot->owners, 1);
}

/* ---- values ---- */

EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *value))
{
	int err;

	look_up();
	err = real.key_create(key, destructor);
	if (err)
		return err;
	/* A new key has no value in any task, though an earlier key with its number may have had
	 * some. */
	for (int i = 0; i < 1 + MOST_THREADS; i++)
		slots[i].values[*key] = NULL;
	atomic_store(&destructors[*key], destructor);
	return 0;
}

EXPORT void *pthread_getspecific(pthread_key_t key)
{
	const struct adopted *slot = self();

	return slot && key < PTHREAD_KEYS_MAX ? slot->values[key] : real.get(key);
}

EXPORT int pthread_setspecific(pthread_key_t key, const void *value)
{
	struct adopted *slot = self();

	if (!slot || key >= PTHREAD_KEYS_MAX)
		return real.set(key, value);
	slot->values[key] = (void *)value;
	return 0;
}

static void destroy_values(struct adopted *slot)
{
	bool any = true;

	for (int round = 0; any && round < PTHREAD_DESTRUCTOR_ITERATIONS; round++) {
		any = false;
		for (int key = 0; key < PTHREAD_KEYS_MAX; key++) {
			void (*destructor)(void *value) = atomic_load(&destructors[key]);
			void *value = slot->values[key];

			slot->values[key] = NULL;
			if (!value || !destructor)
				continue;
			destructor(value);
			any = true;
		}
	}
}

/* ---- threads ---- */

static int run(void *arg)
{
	struct adopted *slot = arg;

	sn_local_set(&mine, slot);
	slot->result = slot->start(slot->arg);
	destroy_values(slot);
	sn_local_set(&mine, NULL);
	leave(slot);
	return 0;
}

/* Returns a free slot, with both owners set, or NULL. */
static struct adopted *take_slot(void)
{
	for (int i = 1; i < 1 + MOST_THREADS; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&slots[i].owners, &none, 2))
			return &slots[i];
	}
	return NULL;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *arg),
			  void *arg)
{
	const struct sn_task_attr task_attr =
		SN_TASK_ATTR_INIT(.name = "thread", .stack_size = STACK);
	struct adopted *slot = self() ? take_slot() : NULL;
	int state = PTHREAD_CREATE_JOINABLE;

	if (!slot)
		return real.create(thread, attr, start, arg);
	if (attr)
		pthread_attr_getdetachstate(attr, &state);
	slot->start = start;
	slot->arg = arg;
	*thread = (pthread_t)slot;
	if (sn_spawn(&slot->task, run, slot, &task_attr) < 0) {
		atomic_store(&slot->owners, 0);
		return EAGAIN;
	}
	return state == PTHREAD_CREATE_DETACHED ? pthread_detach(*thread) : 0;
}

EXPORT int pthread_detach(pthread_t thread)
{
	struct adopted *slot = adopted_of(thread);

	if (!slot)
		return real.detach(thread);
	sn_detach(slot->task);
	leave(slot);
	return 0;
}

EXPORT int pthread_join(pthread_t thread, void **result)
{
	struct adopted *slot = adopted_of(thread);

	if (!slot)
		return real.join(thread, result);
	if (slot == slots || sn_join(slot->task, NULL) < 0)
		return EINVAL;
	if (result)
		*result = slot->result;
	leave(slot);
	return 0;
}

EXPORT pthread_t pthread_self(void)
{
	struct adopted *slot = self();

	return slot ? (pthread_t)slot : real.self();
}

/* The task may be on any thread, so the signal goes to the process. */
EXPORT int pthread_kill(pthread_t thread, int number)
{
	if (!adopted_of(thread))
		return real.kill(thread, number);
	return kill(getpid(), number) < 0 ? errno : 0;
}

EXPORT int pthread_getcpuclockid(pthread_t thread, clockid_t *clock)
{
	return real.clock(adopted_of(thread) ? real.self() : thread, clock);
}

/* ---- fork ---- */

static struct adopted *forking;

static void before_fork(void)
{
	forking = self();
}

static void in_child(void)
{
	for (pthread_key_t key = 0; forking && key < PTHREAD_KEYS_MAX; key++)
		if (forking->values[key])
			real.set(key, forking->values[key]);
}

/* ---- main() ---- */

static struct {
	main_fn *main;
	int argc;
	char **argv, **envp;
} program;

/* Writes how often tasks have parked, if ADOPT_COUNTERS is set. */
static void report(void)
{
	int (*get)(struct sn_hooks_stats * counters);
	const char *path = getenv("ADOPT_COUNTERS");
	struct sn_hooks_stats counters = SN_HOOKS_STATS_INIT();
	FILE *file;

	*(void **)&get = dlsym(RTLD_DEFAULT, "sn_hooks_stats");
	if (!path || !get || get(&counters) < 0 || !(file = fopen(path, "we")))
		return;
	fprintf(file, "%" PRIu64 "\n", counters.parked);
	fclose(file);
}

static int run_main(void *arg)
{
	int status;

	(void)arg;
	sn_local_set(&mine, slots);
	status = program.main(program.argc, program.argv, program.envp);
	report();
	exit(status);
}

static int adopted_main(int argc, char **argv, char **envp)
{
	program.argc = argc;
	program.argv = argv;
	program.envp = envp;
	for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++)
		slots[0].values[key] = real.get(key);
	pthread_atfork(before_fork, NULL, in_child);
	return sn_run(run_main, NULL);
}

typedef int start_fn(main_fn *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
		     void (*loader_fini)(void), void *stack_end);
/* Called by the C library's startup code, which is in the program. */
EXPORT start_fn __libc_start_main;

int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
		      void (*loader_fini)(void), void *stack_end)
{
	start_fn *start;

	look_up();
	*(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
	program.main = main;
	return start(adopted_main, argc, argv, init, fini, loader_fini, stack_end);
}
