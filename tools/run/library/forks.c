/* SPDX-License-Identifier: MIT */
/*
 * fork() in a program under sennit-run.
 *
 * Contract. The library's handlers are the innermost ones: before a fork they run after all others,
 * and after it before all others. So the handlers of the program's libraries, which may stop
 * threads, wake them and create them, find the runtime at work in the parent, and in the child one
 * that has not begun. The runtime's own handlers are nested within the library's, because they hold
 * every lock of the runtime.
 *
 * Handlers nest in the order in which they were registered, and other libraries register theirs
 * before this one's constructor runs. Therefore __register_atfork(), to which the C library's
 * pthread_atfork() leads, is replaced: the first call registers this library's handlers. Those of
 * libsennit, which come with the first run, are kept here and called from there. They come from a
 * thread of the runtime, for which the caller of pthread_create() waits, perhaps in a constructor
 * and with the dynamic linker's lock: so its functions must not be asked then whose they are.
 *
 * A signal handler may fork although it has interrupted the runtime or this library, which may hold
 * their locks then; or another fork(), after the first of these handlers has begun and before the
 * last has ended, when all of the locks may be held. Such a fork() is like _Fork(): no handler of
 * this library or of the runtime does anything but this: the child's thread is no task any more.
 * Otherwise hooked calls that are safe in signal handlers, such as close(), would tell the runtime
 * of what they do, and wait for a processor or for a lock of another thread. The handlers of
 * libsennit-hooks run, because they take no lock. POSIX restricts the child to calls that are safe
 * in signal handlers. It does not forbid it to return from the handler, but here that is code of
 * the runtime or of this library, which makes other calls, and needs locks and threads that the
 * child does not have.
 *
 * Before version 2.36 glibc holds a lock of its own while it calls handlers of fork(). A signal
 * handler that has interrupted such a handler stands still in its fork(), as it does without this
 * library; programs block the signal around fork().
 *
 * Who may write what: a handler's place is taken by one fetch_add; `forking` is written under the
 * lock that sn_world_before_fork() takes; `process` by the first thread, and in a child; `bare` in
 * a child; `interrupts` by its thread; the rest by the first thread, before any other.
 *
 * Rejected: handlers of libsennit that are registered when it is loaded. Programs that are linked
 * with it and never run it would take its locks in each fork(), and it would still not be first.
 */
#include <link.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adopted.h"

#define MOST 8 /* libsennit registers three */

static struct {
	_Atomic(sn_run_fork_fn *) prepare, parent, child;
} nested[MOST];
static _Atomic int nested_length;

static uintptr_t runtime_first, runtime_end; /* addresses of libsennit */
static struct sn_adopted *forking;
static _Atomic pid_t process;

/* The process is a child of a fork() that has interrupted the runtime, or a child of that: locks
 * may be held that nobody releases. */
static volatile bool bare;

/* How many calls of fork() the calling thread is in that have interrupted the runtime: a handler
 * may have interrupted such a one, too. */
static __thread __attribute__((tls_model("initial-exec"))) volatile sig_atomic_t interrupts;

/* Whether the fork() that ends is such a one. If it is not, none is left: those that have
 * interrupted it have ended. */
static bool ends_one(void)
{
	if (interrupts == 0)
		return false;
	interrupts--;
	return true;
}

/* From the first lock until the last is released, sn_world_is_inside(). */
static void before_fork(void)
{
	if (bare || interrupts > 0 || sn_world_is_inside()) {
		interrupts++;
		return;
	}
	sn_world_before_fork();
	sn_adopted_before_fork();
	forking = sn_adopted_self();
	for (int i = atomic_load(&nested_length); i-- > 0;)
		if (nested[i].prepare)
			nested[i].prepare();
}

static void in_parent(void)
{
	if (ends_one())
		return;
	for (int i = 0; i < atomic_load(&nested_length); i++)
		if (nested[i].parent)
			nested[i].parent();
	sn_adopted_after_fork();
	sn_world_after_fork(false);
}

bool sn_run_is_bare(void)
{
	return bare;
}

static void become_bare(void)
{
	bare = true;
	sn_adopted_keep_self();
	sn_private_current = NULL;
}

/* First the runtime's, after which the calls are no longer those of a task. */
static void in_child(void)
{
	if (ends_one()) {
		become_bare();
		return;
	}
	atomic_store(&process, getpid());
	for (int i = 0; i < atomic_load(&nested_length); i++)
		if (nested[i].child)
			nested[i].child();
	if (forking)
		sn_adopted_keep_values(forking);
	if (atomic_load(&sn_run_counts.adopted) > 0) {
		sn_cond_in_child();
		sn_sem_forget();
	}
	sn_sem_in_child();
	sn_run_exit_in_child();
	sn_adopted_in_child(forking);
	sn_world_after_fork(true);
}

void sn_run_world_begins(void)
{
	atomic_store(&process, getpid());
}

bool sn_run_own_process(void)
{
	return syscall(SYS_getpid) == atomic_load_explicit(&process, memory_order_relaxed);
}

/* Notes where libsennit is. */
static int find_runtime(struct dl_phdr_info *info, size_t size, void *arg)
{
	const uintptr_t wanted = (uintptr_t)sn_run;
	uintptr_t low = UINTPTR_MAX, high = 0;

	(void)size, (void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const uintptr_t first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		const uintptr_t end = first + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		low = first < low ? first : low;
		high = end > high ? end : high;
	}
	if (wanted < low || wanted >= high)
		return 0;
	runtime_first = low;
	runtime_end = high;
	return 1;
}

static bool is_of_the_runtime(sn_run_fork_fn *fn)
{
	return (uintptr_t)fn >= runtime_first && (uintptr_t)fn < runtime_end;
}

void sn_run_watch_forks(void)
{
	static _Atomic bool registered;

	if (atomic_exchange(&registered, true))
		return;
	atomic_store(&process, getpid());
	dl_iterate_phdr(find_runtime, NULL);
	sn_run_real()->__register_atfork(before_fork, in_parent, in_child, NULL);
}

SN_RUN_EXPORT int __register_atfork(sn_run_fork_fn *prepare, sn_run_fork_fn *parent,
				    sn_run_fork_fn *child, void *dso)
{
	int i;

	sn_run_watch_forks();
	if (!is_of_the_runtime(prepare) && !is_of_the_runtime(parent) && !is_of_the_runtime(child))
		return sn_run_real()->__register_atfork(prepare, parent, child, dso);
	i = atomic_fetch_add(&nested_length, 1);
	if (i >= MOST)
		abort();
	nested[i].prepare = prepare;
	nested[i].parent = parent;
	nested[i].child = child;
	return 0;
}
