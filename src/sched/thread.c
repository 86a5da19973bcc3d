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

#include <sennit/debug.h>

#include "sched/task.h"
#include "stack/sanitizer.h"

/* The stack for the report of a stack overflow: unwinding takes some KiB, and signal handlers of
 * the program run there too. */
#define SIGNAL_STACK_SIZE ((size_t)64 << 10)

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
 * may have aborted before that, if something stopped the unwinding.
 */
static pthread_key_t vanishing;
static bool has_vanishing;
static pthread_once_t vanishing_once = PTHREAD_ONCE_INIT;

static _Noreturn void report_vanished(const struct sn_task *task)
{
	/* Otherwise the report of SIGABRT would take the thread's own stack for a fault of the
	 * task. */
	sn_private_current = NULL;
	if (!task)
		sn_fatal("a thread of the runtime was ended while it ran no task: by "
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
	/* Without the key, the end of such a thread is not noticed, and a join of its task never
	 * returns. */
	has_vanishing = pthread_key_create(&vanishing, vanish) == 0;
}

/* A function of the C++ runtime, which pure C programs do not have. */
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
		self->cpu_clock = CLOCK_MONOTONIC; /* it never stands still, so the thread
						      never seems to sleep */
	sn_private_current = &self->lease;
	pthread_once(&vanishing_once, vanishing_create);
	if (has_vanishing)
		pthread_setspecific(vanishing, self);

	/* Without a signal stack, an overflow still ends the process, but without a report. */
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
	sn_private_current = NULL;
}

void sn_thread_forks(enum sn_fork_phase phase)
{
	struct sn_thread *self = sn_thread_self();

	/* In the child the thread has given up its block by now. */
	if (self)
		__atomic_store_n(&self->forks, phase == SN_FORK_PREPARE, __ATOMIC_SEQ_CST);
}

void sn_thread_fork(enum sn_fork_phase phase)
{
	struct sn_thread *self = sn_thread_self();

	if (phase == SN_FORK_CHILD) {
		if (self)
			self->forks = false;
		sn_private_current = NULL;
	}
}
