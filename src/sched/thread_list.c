/* SPDX-License-Identifier: MIT */
#include "sched/thread_list.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <sennit/clock.h>

#include "base/counters.h"
#include "sched/collector.h"
#include "sched/cpu_timer.h"
#include "sched/linger.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/thread.h"

/* How long to wait after the system has refused a thread, instead of asking again at each
 * wake-up. */
#define RETRY_NS 20000000

/* One wait for a thread whose destructors run. */
#define JOIN_NS 10000000

struct sn_threads sn_threads;

/* The function that each thread runs. */
static void (*thread_loop)(struct sn_thread *self);

/* The attributes of sn_run()'s caller, which every thread gets, whichever thread starts it.
 * Constant during a run. */
static struct {
	sigset_t mask;
	char name[16];
	unsigned long timer_slack;
} inherited;

static bool limit_logged; /* under the lock */

/* The size of the thread-locals of all libraries that were loaded when the run began. The C library
 * takes it from the stack of each thread. Constant during a run, because computing it takes the
 * loader's lock, which other threads may hold for long. */
static size_t static_tls;

static int add_static_tls(struct dl_phdr_info *info, size_t size, void *sum)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

void sn_threads_begin(int most, int64_t idle_ns)
{
	memset(&sn_threads, 0, sizeof sn_threads);
	sn_lock_init(&sn_threads.start_lock, SN_RANK_THREAD_START);
	sn_threads.most = most;
	sn_threads.idle_ns = idle_ns;
	limit_logged = false;
	static_tls = 0;
	dl_iterate_phdr(add_static_tls, &static_tls);
}

void sn_thread_attr_init(pthread_attr_t *attr)
{
	pthread_attr_init(attr);
	pthread_attr_setstacksize(attr, (SN_THREAD_STACK_SIZE + static_tls + 4095) & ~(size_t)4095);
}

/*
 * Called by a thread that ends, or will end after its children: moves it from the list of live
 * threads to the list of those to join. The block is freed only by the monitor, which may be
 * looking at it now, or at the end of the runtime.
 */
static void thread_dismiss(struct sn_thread *self)
{
	bool orphan;

	sn_lock(&sn_runtime.lock);
	orphan = atomic_load(&self->orphan);
	/* The runtime of an orphan is gone, and nothing else knows its block. An orphan was
	 * detached when it became one. */
	if (!orphan) {
		if (self->lingers)
			pthread_detach(self->pthread);
		sn_threads.leaving -= self->leaves;
		sn_thread_unlink(self);
		self->next_all = sn_threads.dead;
		sn_threads.dead = self;
	}
	sn_unlock(&sn_runtime.lock);
	if (orphan)
		free(self);
}

void sn_thread_unlink(struct sn_thread *thread)
{
	sn_cpu_timer_end(thread);
	if (thread->prev_all)
		thread->prev_all->next_all = thread->next_all;
	else
		sn_threads.all = thread->next_all;
	if (thread->next_all)
		thread->next_all->prev_all = thread->prev_all;
	atomic_fetch_sub(&sn_threads.count, 1);
	if (atomic_load(&sn_runtime.stopping))
		sn_futex_wake(&sn_threads.count, 1); /* threads_join() waits for it */
}

/* Takes the list of threads that have ended, if no other thread uses their blocks any more. */
static struct sn_thread *take_dead(void)
{
	struct sn_thread *thread = NULL;

	sn_lock(&sn_runtime.lock);
	/*
	 * A thread that retired had left the list of idle ones, so no other thread was about to
	 * wake it. A thread that ends with the runtime may still be woken by another, so it is
	 * freed when all have ended.
	 */
	if (!atomic_load(&sn_runtime.stopping) || atomic_load(&sn_threads.count) == 0) {
		thread = sn_threads.dead;
		sn_threads.dead = NULL;
	}
	sn_unlock(&sn_runtime.lock);
	return thread;
}

void sn_threads_reap(void)
{
	struct sn_thread *thread = take_dead(), *next, *first = NULL, *last = NULL;

	for (; thread; thread = next) {
		next = thread->next_all;
		/* The block stays while tasks are tied to the thread, which use it when they are
		 * woken: sn_ties_end(). */
		if (atomic_load_explicit(&thread->ties.owned, memory_order_acquire) == 0 &&
		    (thread->lingers || pthread_tryjoin_np(thread->pthread, NULL) == 0)) {
			free(thread);
			continue;
		}
		thread->next_all = first;
		first = thread;
		if (!last)
			last = thread;
	}
	if (!first)
		return;
	sn_lock(&sn_runtime.lock);
	last->next_all = sn_threads.dead;
	sn_threads.dead = first;
	sn_unlock(&sn_runtime.lock);
}

/* Waits until the thread has ended. Returns false if its destructors still run at give_up. The
 * waits are short, because the C library's deadlines are by the wall clock, which may be set. */
static bool join_until(pthread_t thread, int64_t give_up)
{
	for (;;) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += JOIN_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		if (pthread_timedjoin_np(thread, NULL, &until) == 0)
			return true;
		if (sn_now() >= give_up)
			return false;
	}
}

void sn_threads_join(int64_t give_up)
{
	struct sn_thread *thread = take_dead(), *next;

	for (; thread; thread = next) {
		next = thread->next_all;
		/* A thread in this list does not touch its block any more. */
		if (!thread->lingers && !join_until(thread->pthread, give_up))
			pthread_detach(thread->pthread);
		free(thread);
	}
}

void sn_threads_inherit(void (*loop)(struct sn_thread *self))
{
	int slack = prctl(PR_GET_TIMERSLACK);

	thread_loop = loop;
	pthread_sigmask(SIG_SETMASK, NULL, &inherited.mask);
	prctl(PR_GET_NAME, inherited.name);
	inherited.timer_slack = slack > 0 ? (unsigned long)slack : 0;
}

/* In a sigset_t the kernel's 64 signals come first. */
bool sn_threads_have_mask(uint64_t mask)
{
	return memcmp(&mask, &inherited.mask, sizeof mask) == 0;
}

/*
 * A thread inherits these from its creator (birth.h): the monitor, which blocks all signals and has
 * minimal timer slack, or a thread on which a task may have left its own. Tasks must not be able to
 * tell which.
 */
static void become_like_the_first(void)
{
	prctl(PR_SET_NAME, inherited.name);
	prctl(PR_SET_TIMERSLACK, inherited.timer_slack);
}

static void block_signals(sigset_t *former)
{
	sigset_t all;

	sigfillset(&all);
	if (SENNIT_CHECKED)
		sigdelset(&all, SIGSYS); /* wait/system_call.c */
	pthread_sigmask(SIG_SETMASK, &all, former);
}

/* Without signals, which the creator has blocked, wherever it takes locks of the runtime and is not
 * attached: a handler could not know that it has interrupted the runtime, and sennit-run's fork()
 * would wait for such a lock (tools/run/library/forks.c). */
static void *thread_main(void *arg)
{
	struct sn_thread *self = arg;
	sigset_t former;
	bool lingers;

	become_like_the_first();
	/* Waits until the creator has stored this thread's handle. */
	sn_lock(&sn_threads.start_lock);
	sn_unlock(&sn_threads.start_lock);
	self->stack_high = (const char *)__builtin_frame_address(0) + 2 * sizeof(void *);
	sn_thread_attach(self);
	pthread_sigmask(SIG_SETMASK, &inherited.mask, NULL);
	sn_cpu_timer_begin(self);
	sn_collector_thread_begins(self);
	thread_loop(self);
	sn_collector_thread_ends(self);
	block_signals(&former);
	sn_thread_detach(self);
	lingers = self->lingers = sn_has_children();
	thread_dismiss(self);
	/* For the destructors of the program's thread-locals. */
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	if (lingers)
		sn_linger();
	return NULL;
}

void sn_thread_leaves(struct sn_thread *self)
{
	sn_lock(&sn_runtime.lock);
	self->leaves = true;
	sn_threads.leaving++;
	sn_unlock(&sn_runtime.lock);
}

/* The lock is held. */
static bool are_enough(void)
{
	return atomic_load(&sn_threads.count) >= (uint32_t)sn_threads.most + sn_threads.leaving;
}

bool sn_threads_may_be_started(void)
{
	return !are_enough() && (!sn_threads.none_before || sn_now() >= sn_threads.none_before);
}

bool sn_threads_refused(void)
{
	if (!limit_logged) /* then an attempt to start one is still to log that */
		return false;
	if (!are_enough())
		return sn_threads.none_before && sn_now() < sn_threads.none_before;
	atomic_fetch_add(&sn_counters.thread_limit_hits, 1);
	return true;
}

/* Adds the thread to the list, unless there are too many or the runtime ends. */
static int thread_admit(struct sn_thread *thread)
{
	bool log = false;
	int err = 0;

	sn_lock(&sn_runtime.lock);
	if (atomic_load(&sn_runtime.stopping)) {
		err = -ESRCH;
	} else if (sn_threads.none_before && sn_now() < sn_threads.none_before) {
		err = -EAGAIN;
	} else if (are_enough()) {
		err = -EAGAIN;
		atomic_fetch_add(&sn_counters.thread_limit_hits, 1);
		log = !limit_logged;
		limit_logged = true;
	} else {
		thread->next_all = sn_threads.all;
		if (thread->next_all)
			thread->next_all->prev_all = thread;
		sn_threads.all = thread;
		atomic_fetch_add(&sn_threads.count, 1);
	}
	sn_unlock(&sn_runtime.lock);
	if (log)
		sn_log("%d threads are in use, as many as SENNIT_MAX_THREADS allows: "
		       "work waits for one of them",
		       sn_threads.most);
	return err;
}

/* The thread could not be created. No other thread knows its block, because the monitor sees only
 * threads that have a processor. */
static int thread_failed(struct sn_thread *thread, int err)
{
	bool log;

	sn_lock(&sn_runtime.lock);
	sn_thread_unlink(thread);
	atomic_fetch_add(&sn_counters.thread_limit_hits, 1);
	sn_threads.none_before = sn_now() + RETRY_NS;
	log = !limit_logged;
	limit_logged = true;
	sn_unlock(&sn_runtime.lock);
	if (log)
		sn_log("cannot start another thread (%s): work waits for one of the %u that run",
		       strerror(err), atomic_load(&sn_threads.count));
	free(thread);
	return -err;
}

int sn_thread_start(struct sn_processor *processor, bool spinning, struct sn_task *task)
{
	struct sn_thread *thread = aligned_alloc(_Alignof(struct sn_thread), sizeof *thread);
	pthread_attr_t attr;
	sigset_t former;
	int err;

	if (!thread)
		return -ENOMEM;
	memset(thread, 0, sizeof *thread);
	sn_lock_init(&thread->ties.lock, SN_RANK_TIES);
	thread->lease.inside = 1;
	thread->lease.word = sn_lease_held();
	thread->processor = processor;
	thread->home = processor ? processor->id : 0;
	thread->spinning = spinning;
	thread->picked = task;
	thread->apart = task != NULL;
	err = thread_admit(thread);
	if (err < 0) {
		free(thread);
		return err;
	}
	sn_thread_attr_init(&attr);
	/*
	 * The thread is inside from the beginning. It stores itself in the processor only when it
	 * runs; until then the monitor does not look at it. The lock is for the handle: see
	 * thread_main().
	 */
	sn_lock(&sn_threads.start_lock);
	/* This maps a stack under the lock, for which only threads that begin wait. */
	sn_checked_pass();
	block_signals(&former);
	err = pthread_create(&thread->pthread, &attr, thread_main, thread);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	sn_checked_pass_end();
	sn_unlock(&sn_threads.start_lock);
	pthread_attr_destroy(&attr);
	return err ? thread_failed(thread, err) : 0;
}
