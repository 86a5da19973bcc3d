/* SPDX-License-Identifier: MIT */
#include "sched/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sched/runtime.h"
#include "sched/sanitizer.h"
#include "sched/schedule.h"

/*
 * Stack of the threads that the runtime starts. Only the scheduler's loop runs there, a few hundred
 * bytes deep; the rest is for signal handlers of the program, the C library's thread block and
 * static TLS.
 */
#define THREAD_STACK_SIZE ((size_t)256 << 10)

/* Stack for the report of a stack overflow: unwinding takes some KiB, and handlers of the program
 * run there too. */
#define SIGNAL_STACK_SIZE ((size_t)64 << 10)

/* Used: link-time optimisation does not see the name in sn_thread_self()'s assembly. */
__thread struct sn_thread *sn_thread_current __attribute__((tls_model("initial-exec"), used));

#if !(defined(__x86_64__) || defined(__aarch64__)) || SN_TSAN
sn_noinline struct sn_thread *sn_thread_self(void)
{
	struct sn_thread *self = sn_thread_current;

	/* Not even this function's own result may be taken for constant. */
	__asm__ volatile("" : "+r"(self) : : "memory");
	return self;
}
#endif

/* Of the C++ runtime, where there is one: pure C programs do without. */
extern struct sn_cxx_globals *__cxa_get_globals(void) __attribute__((weak));

void sn_thread_attach(struct sn_thread *self)
{
	stack_t stack = {.ss_size = SIGNAL_STACK_SIZE}, former;
	pthread_attr_t attr;

	self->errno_location = &errno;
	self->cxx = __cxa_get_globals ? __cxa_get_globals() : NULL;
	self->random = (uint32_t)(uintptr_t)self >> 4 | 1;
	if (pthread_getattr_np(pthread_self(), &attr) == 0) {
		pthread_attr_getstack(&attr, &self->idle.stack_low, &self->idle.stack_size);
		pthread_attr_destroy(&attr);
	}
	sn_sanitizer_adopt(&self->idle);
	sn_thread_current = self;

	/* Without it an overflow still ends the process, only without the report. */
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

	if (self->signal_stack) {
		sigaltstack(&former, NULL);
		munmap(self->signal_stack, SIGNAL_STACK_SIZE);
	}
	sn_thread_current = NULL;
}

static void *thread_main(void *arg)
{
	struct sn_thread *self = arg;

	sn_thread_attach(self);
	atomic_store_explicit(&self->inside, 1, memory_order_relaxed);
	sn_schedule(self);
	sn_thread_detach(self);
	return NULL;
}

/* Enters the thread in the list, unless there are too many or the runtime ends. */
static int thread_admit(struct sn_thread *thread)
{
	int err = 0;

	sn_lock(&sn_runtime.lock);
	if (atomic_load(&sn_runtime.stopping)) {
		err = -ESRCH;
	} else if (atomic_load(&sn_runtime.nthreads) >= (uint32_t)sn_runtime.max_threads) {
		err = -EAGAIN;
		if (!sn_runtime.thread_limit_told) {
			sn_runtime.thread_limit_told = true;
			sn_log("%d threads are in use, as many as SENNIT_MAX_THREADS allows: "
			       "work waits for one of them",
			       sn_runtime.max_threads);
		}
	} else {
		thread->next_all =
			atomic_load_explicit(&sn_runtime.all_threads, memory_order_relaxed);
		atomic_store_explicit(&sn_runtime.all_threads, thread, memory_order_release);
		atomic_fetch_add(&sn_runtime.nthreads, 1);
	}
	sn_unlock(&sn_runtime.lock);
	return err;
}

/* The thread could not be created: it stays in the list, as one that is not to be joined. */
static int thread_failed(int err)
{
	sn_lock(&sn_runtime.lock);
	atomic_fetch_sub(&sn_runtime.nthreads, 1);
	if (!sn_runtime.thread_limit_told) {
		sn_runtime.thread_limit_told = true;
		sn_log("cannot start another thread (%s): work waits for one of %u", strerror(err),
		       atomic_load(&sn_runtime.nthreads));
	}
	sn_unlock(&sn_runtime.lock);
	return -err;
}

int sn_thread_start(struct sn_processor *processor, bool spinning)
{
	struct sn_thread *thread = calloc(1, sizeof *thread);
	pthread_attr_t attr;
	int err;

	if (!thread)
		return -ENOMEM;
	thread->processor = processor;
	thread->spinning = spinning;
	err = thread_admit(thread);
	if (err < 0) {
		free(thread);
		return err;
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK_SIZE);
	err = pthread_create(&thread->pthread, &attr, thread_main, thread);
	pthread_attr_destroy(&attr);
	if (err)
		return thread_failed(err);
	thread->joinable = true;
	return 0;
}
