/* SPDX-License-Identifier: MIT */
#include "sched/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <sennit/clock.h>
#include <sennit/debug.h>

#include "sched/collector.h"
#include "sched/runtime.h"
#include "sched/sanitizer.h"
#include "sched/task.h"

/*
 * The stack of the threads that the runtime starts. Only the scheduler's loop runs there, a few
 * hundred bytes deep. The rest is for signal handlers of the program, the C library's thread block
 * and static TLS.
 */
#define THREAD_STACK_SIZE ((size_t)256 << 10)

/* How long to wait after the system has refused a thread, instead of asking again at each
 * wake-up. */
#define RETRY_NS 20000000

/* The stack for the report of a stack overflow: unwinding takes some KiB, and signal handlers of
 * the program run there too. */
#define SIGNAL_STACK_SIZE ((size_t)64 << 10)

/* What each thread runs. Set by sn_threads_inherit(), before the first one is started. */
static void (*thread_loop)(struct sn_thread *self);

void sn_check_entry(struct sn_thread *self, const char *call)
{
	if (self->lease.inside)
		sn_fatal("%s() called in task %llu from within sennit, by a callback", call,
			 (unsigned long long)sn_task_id(self->task));
	self->call = call;
}

/* How many locks sn_debug_foreign_locks() has announced on this thread. */
static __thread int foreign_locks;

void sn_debug_foreign_locks(int by)
{
	if (SENNIT_DEBUG)
		foreign_locks += by;
}

void sn_check_park(struct sn_thread *self)
{
	if (foreign_locks > 0)
		sn_fatal("%s() called in task %llu, which holds %d lock%s of its thread",
			 self->call, (unsigned long long)sn_task_id(self->task), foreign_locks,
			 foreign_locks == 1 ? "" : "s");
	if (self->lease.blocking)
		sn_fatal("%s() called in task %llu within its blocking bracket%s%s", self->call,
			 (unsigned long long)sn_task_id(self->task),
			 *self->lease.blocking ? " " : "", self->lease.blocking);
}

/*
 * A task that calls pthread_exit(), or whose thread is cancelled, unwinds its stack and then ends
 * the thread, which has a processor and perhaps locks. From attach to detach, the value of this key
 * is the thread's block, so its destructor is called only in that case. In C++ code the C library
 * may have aborted before, when something stopped the unwinding.
 */
static pthread_key_t vanishing;
static bool has_vanishing;
static pthread_once_t vanishing_once = PTHREAD_ONCE_INIT;

static _Noreturn void report_vanished(const struct sn_task *task)
{
	/* Otherwise the report of SIGABRT would take the thread's own stack for a fault of the
	 * task. */
	sn__current = NULL;
	if (!task)
		sn_fatal("a thread of the runtime's was ended while it ran no task: by "
			 "pthread_cancel(), or by pthread_exit() in a signal handler");
	sn_fatal("task %llu \"%s\" has ended the thread that it ran on: by pthread_exit(), which a "
		 "task must not call, or because another thread has cancelled that one",
		 (unsigned long long)sn_task_id(task), sn_task_name(task));
}

static void vanish(void *arg)
{
	struct sn_thread *self = arg;

	/* In a child of fork() the thread no longer belongs to the runtime. */
	if (sn_thread_self() == self)
		report_vanished(self->task);
}

static void vanishing_create(void)
{
	/* Without the key, the end of such a task is not noticed, and a join never returns. */
	has_vanishing = pthread_key_create(&vanishing, vanish) == 0;
}

/* From the C++ runtime, if there is one; pure C programs have none. */
extern struct sn_cxx_globals *__cxa_get_globals(void) __attribute__((weak));

void sn_thread_attach(struct sn_thread *self)
{
	stack_t stack = {.ss_size = SIGNAL_STACK_SIZE}, former;
#if SN_ASAN || SN_TSAN
	pthread_attr_t attr;
#endif

	self->errno_location = &errno;
	self->cxx = __cxa_get_globals ? __cxa_get_globals() : NULL;
	self->random = (uint32_t)(uintptr_t)self >> 4 | 1;
#if SN_ASAN || SN_TSAN
	if (pthread_getattr_np(pthread_self(), &attr) == 0) {
		pthread_attr_getstack(&attr, &self->idle.stack_low, &self->idle.stack_size);
		pthread_attr_destroy(&attr);
	}
#endif
	sn_sanitizer_adopt(&self->idle);
	self->tid = (pid_t)syscall(SYS_gettid);
	if (pthread_getcpuclockid(pthread_self(), &self->cpu_clock) != 0)
		self->cpu_clock = CLOCK_MONOTONIC; /* never stands still: the thread never
						      seems to sleep */
	sn__current = &self->lease;
	pthread_once(&vanishing_once, vanishing_create);
	if (has_vanishing)
		pthread_setspecific(vanishing, self);

	/* Without it, an overflow still ends the process, but without the report. */
	stack.ss_sp = mmap(NULL, SIGNAL_STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (stack.ss_sp == MAP_FAILED)
		return;
	self->signal_stack = stack.ss_sp;
	if (sigaltstack(&stack, &former) == 0) {
		self->former_signal_stack.sp = former.ss_sp;
		self->former_signal_stack.flags = former.ss_flags;
		self->former_signal_stack.size = former.ss_size;
	}
}

void sn_thread_detach(struct sn_thread *self)
{
	stack_t former = {.ss_sp = self->former_signal_stack.sp,
			  .ss_flags = self->former_signal_stack.flags,
			  .ss_size = self->former_signal_stack.size};

	if (has_vanishing)
		pthread_setspecific(vanishing, NULL);
	if (self->signal_stack) {
		sigaltstack(&former, NULL);
		munmap(self->signal_stack, SIGNAL_STACK_SIZE);
	}
	sn__current = NULL;
}

void sn_thread_fork(enum sn_fork_phase phase)
{
	if (phase == SN_FORK_CHILD)
		sn__current = NULL;
}

/*
 * The thread ends: it moves from the list of live threads to the list of those to join. Only the
 * monitor frees its block, or the end of the runtime, because the monitor may be looking at it.
 */
static void thread_dismiss(struct sn_thread *self)
{
	bool orphan;

	sn_lock(&sn_runtime.lock);
	orphan = atomic_load(&self->orphan);
	/* An orphan belongs to a runtime that is gone; its block is all that is left of that
	 * runtime. */
	if (!orphan) {
		sn_thread_unlink(self);
		self->next_all = sn_runtime.dead_threads;
		sn_runtime.dead_threads = self;
	}
	sn_unlock(&sn_runtime.lock);
	if (orphan)
		free(self);
}

void sn_thread_unlink(struct sn_thread *thread)
{
	if (thread->prev_all)
		thread->prev_all->next_all = thread->next_all;
	else
		sn_runtime.all_threads = thread->next_all;
	if (thread->next_all)
		thread->next_all->prev_all = thread->prev_all;
	atomic_fetch_sub(&sn_runtime.nthreads, 1);
	if (atomic_load(&sn_runtime.stopping))
		sn_futex_wake(&sn_runtime.nthreads, 1); /* threads_join() waits for it */
}

void sn_threads_reap(void)
{
	struct sn_thread *thread = NULL, *next;

	sn_lock(&sn_runtime.lock);
	/*
	 * A thread that retired had left the list of idle ones, so no other thread was about to
	 * wake it. A thread that ends with the runtime may still be woken by another, so it is
	 * freed when all have ended.
	 */
	if (!atomic_load(&sn_runtime.stopping) || atomic_load(&sn_runtime.nthreads) == 0) {
		thread = sn_runtime.dead_threads;
		sn_runtime.dead_threads = NULL;
	}
	sn_unlock(&sn_runtime.lock);
	for (; thread; thread = next) {
		next = thread->next_all;
		pthread_join(thread->pthread, NULL);
		free(thread);
	}
}

void sn_threads_inherit(void (*loop)(struct sn_thread *self))
{
	int slack = prctl(PR_GET_TIMERSLACK);

	thread_loop = loop;
	pthread_sigmask(SIG_SETMASK, NULL, &sn_runtime.inherited.mask);
	prctl(PR_GET_NAME, sn_runtime.inherited.name);
	sn_runtime.inherited.timer_slack = slack > 0 ? (unsigned long)slack : 0;
}

/*
 * A thread inherits these from its creator: the monitor, which blocks all signals and has minimal
 * timer slack, or the thread of a task, which may have set its own. Tasks must not be able to tell
 * which.
 */
static void become_like_the_first(void)
{
	pthread_sigmask(SIG_SETMASK, &sn_runtime.inherited.mask, NULL);
	prctl(PR_SET_NAME, sn_runtime.inherited.name);
	prctl(PR_SET_TIMERSLACK, sn_runtime.inherited.timer_slack);
}

static void *thread_main(void *arg)
{
	struct sn_thread *self = arg;

	become_like_the_first();
	/* The creator may not have stored our handle yet. */
	sn_lock(&sn_runtime.start_lock);
	sn_unlock(&sn_runtime.start_lock);
	sn_thread_attach(self);
	sn_collector_thread_begins(self);
	thread_loop(self);
	sn_collector_thread_ends(self);
	sn_thread_detach(self);
	thread_dismiss(self);
	return NULL;
}

/* Adds the thread to the list, unless there are too many or the runtime ends. */
static int thread_admit(struct sn_thread *thread)
{
	int err = 0;

	sn_lock(&sn_runtime.lock);
	if (atomic_load(&sn_runtime.stopping)) {
		err = -ESRCH;
	} else if (sn_runtime.no_thread_before && sn_now() < sn_runtime.no_thread_before) {
		err = -EAGAIN;
	} else if (atomic_load(&sn_runtime.nthreads) >= (uint32_t)sn_runtime.max_threads) {
		err = -EAGAIN;
		atomic_fetch_add(&sn_runtime.thread_limit_hits, 1);
		if (!sn_runtime.thread_limit_told) {
			sn_runtime.thread_limit_told = true;
			sn_log("%d threads are in use, as many as SENNIT_MAX_THREADS allows: "
			       "work waits for one of them",
			       sn_runtime.max_threads);
		}
	} else {
		thread->next_all = sn_runtime.all_threads;
		if (thread->next_all)
			thread->next_all->prev_all = thread;
		sn_runtime.all_threads = thread;
		atomic_fetch_add(&sn_runtime.nthreads, 1);
	}
	sn_unlock(&sn_runtime.lock);
	return err;
}

/* The thread could not be created. No other thread knows its block, because the monitor sees only
 * threads that have a processor. */
static int thread_failed(struct sn_thread *thread, int err)
{
	sn_lock(&sn_runtime.lock);
	sn_thread_unlink(thread);
	atomic_fetch_add(&sn_runtime.thread_limit_hits, 1);
	sn_runtime.no_thread_before = sn_now() + RETRY_NS;
	if (!sn_runtime.thread_limit_told) {
		sn_runtime.thread_limit_told = true;
		sn_log("cannot start another thread (%s): work waits for one of %u", strerror(err),
		       atomic_load(&sn_runtime.nthreads));
	}
	sn_unlock(&sn_runtime.lock);
	free(thread);
	return -err;
}

int sn_thread_start(struct sn_processor *processor, bool spinning)
{
	struct sn_thread *thread = aligned_alloc(_Alignof(struct sn_thread), sizeof *thread);
	pthread_attr_t attr;
	int err;

	if (!thread)
		return -ENOMEM;
	memset(thread, 0, sizeof *thread);
	thread->lease.inside = 1;
	thread->lease.word = sn_lease_held();
	thread->processor = processor;
	thread->spinning = spinning;
	err = thread_admit(thread);
	if (err < 0) {
		free(thread);
		return err;
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK_SIZE);
	/*
	 * The thread is inside from its first moment, and becomes known as the processor's only
	 * when it runs; until then the monitor ignores it. The lock is for the handle: see
	 * thread_main().
	 */
	sn_lock(&sn_runtime.start_lock);
	err = pthread_create(&thread->pthread, &attr, thread_main, thread);
	sn_unlock(&sn_runtime.start_lock);
	pthread_attr_destroy(&attr);
	return err ? thread_failed(thread, err) : 0;
}
