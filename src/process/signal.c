/* SPDX-License-Identifier: MIT */
/*
 * Signals for tasks. The handler notes the signal in a bit mask and makes an eventfd readable; both
 * are async-signal-safe. The poller reports the eventfd, and pass_on() then gives each noted signal
 * to channels, or to a task that waits for it. Rejected: signalfd, which needs the signal blocked
 * in every thread of the program, even in those that the program starts itself, and children would
 * inherit that mask.
 *
 * No signal is lost. The handler sets the bit before it writes to the eventfd, and pass_on() reads
 * the eventfd before it looks at the bits, so a bit that pass_on() misses comes with another event.
 * A task enters the list and passes on what is noted, to itself or to one that has waited longer,
 * under the lock under which all of that happens. A signal that no task or channel wants is noted
 * again.
 *
 * Each noted signal goes to one task or to channels. One party clears its bit, and does so before
 * it gives the signal, so a signal that comes when the receiver has this one is a new one. A task
 * that has entered the list is given a signal with the claim of its waiter. If its deadline or a
 * cancellation has claimed the waiter first, the signal goes to the next task, or is noted again.
 *
 * models/signal.pml checks this.
 *
 * SIGILL, SIGFPE and SIGTRAP that an instruction of this process causes are not passed on. The
 * instruction would be executed again after the handler, and cause the next one, forever; no task
 * can do anything about it. They go to the program's previous handler, which may leave by
 * siglongjmp(), and the signal stays caught. If there was none, the handler restores the previous
 * action, which the instruction then meets.
 *
 * SIGTRAP differs on x86: after an int3 the program continues after it, so there it is passed on.
 * So are stops elsewhere that are no instruction's, such as those of perf_event_open(2).
 *
 * Locks. `lock` guards what is caught; `passing` guards the list, the channels and their signals. A
 * channel's lock is taken while passing is held, never the other way round. Neither is held while a
 * task is made runnable.
 */
#include "process/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <sennit/signal.h>

#include "base/standard.h"
#include "io/fd.h"
#include "process/signal_former.h"
#include "sched/netpoll.h"
#include "sched/ready.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sync/channel.h"
#include "task/cancel.h"
#include "task/waiter.h"

#define MOST_SIGNALS 64

/* Signal n is bit n - 1. */
typedef uint64_t signal_set;

static struct sn_lock lock = SN_LOCK_INIT(SN_RANK_SIGNALS); /* guards these five */
static struct sigaction former[MOST_SIGNALS + 1];
static signal_set caught;
static bool registered; /* event_fd is registered with the epoll of the present run */
/* During a fork(): whether its thread has blocked what is caught, and its mask before that. */
static bool masked_for_fork;
static sigset_t former_mask;

/*
 * Set once in a process and never closed: a late handler must not write into a descriptor whose
 * number has been reused.
 */
static _Atomic int event_fd = -1;
/* Two words, because the handler of a 32-bit program has no other atomic access to 64 bits. */
static _Atomic uint32_t noted[2];

/* A wait for signals, on the stack of the task. Under passing. */
struct wait {
	struct sn_waiter waiter;
	struct wait *next;
	signal_set set;
	int signum; /* the signal that the task was given; 0: none yet */
};

/* A channel that gets signals. Under passing. */
struct sink {
	struct sink *next;
	sn_chan *chan;
	signal_set set;
};

static struct sn_lock passing = SN_LOCK_INIT(SN_RANK_SIGNALS_PASSING);
static struct wait *waits; /* in the order in which the tasks came */
static struct sink *sinks;

static void note(int signum, siginfo_t *info, void *context)
{
	uint64_t one = 1;
	int saved = errno;

	/* former[] was written before this handler was installed. */
	if (sn_signal_is_of_an_instruction(signum, info)) {
		sn_signal_give_back(&former[signum], signum, info, context);
		errno = saved;
		return;
	}
	atomic_fetch_or(&noted[(signum - 1) / 32], 1u << (signum - 1) % 32);
	(void)!write(atomic_load(&event_fd), &one, sizeof one);
	errno = saved;
}

/* Notes a signal that no task or channel wants now. Whoever wants it later looks at the bits, so
 * this needs no event. */
static void note_again(int signum)
{
	atomic_fetch_or(&noted[(signum - 1) / 32], 1u << (signum - 1) % 32);
}

static signal_set bit_of(int signum)
{
	return (signal_set)1 << (signum - 1);
}

static signal_set noted_now(void)
{
	return atomic_load(&noted[0]) | (signal_set)atomic_load(&noted[1]) << 32;
}

static int first_of(signal_set set)
{
	return set ? __builtin_ctzll(set) + 1 : 0;
}

/* passing is held, so no other thread clears bits. */
static void clear_noted(int signum)
{
	atomic_fetch_and(&noted[(signum - 1) / 32], ~(1u << (signum - 1) % 32));
}

/* ---- passing signals on; passing is held ---- */

static void take_out(struct wait *wait)
{
	for (struct wait **at = &waits; *at; at = &(*at)->next)
		if (*at == wait) {
			*at = wait->next;
			return;
		}
}

/* Gives the signal to the first task that waits for it and whose waiter can be claimed. */
static bool give_to_task(int signum, struct sn_queue *ready, int *count)
{
	struct sn_task *task;
	struct wait *wait = waits;

	while (wait && !(wait->set & bit_of(signum) && sn_waiter_claim(&wait->waiter)))
		wait = wait->next;
	if (!wait)
		return false;
	wait->signum = signum;
	take_out(wait);
	task = sn_waiter_finish(&wait->waiter, 0);
	if (task) {
		sn_queue_put(ready, task);
		++*count;
	}
	return true;
}

/* Gives the signal to all channels that want it. A full channel has enough to report already.
 * Receivers that were waiting are claimed, and chained by their nodes into *met. */
static bool give_to_channels(int signum, struct sn_chan_node **met)
{
	/* An element, with the size that the compiler believes a channel's element may need. */
	union {
		int signum;
		_Alignas(16) char room[16];
	} elem = {signum};
	struct sn_chan_node *node;
	bool given = false;

	for (struct sink *sink = sinks; sink; sink = sink->next) {
		struct sn_chan *chan = sn_chan_at(sink->chan);

		if (!(sink->set & bit_of(signum)))
			continue;
		given = true;
		sn_lock(&chan->lock);
		if (sn_chan_send_locked(chan, &elem, &node) == 0 && node) {
			node->next = *met;
			*met = node;
		}
		sn_unlock(&chan->lock);
	}
	return given;
}

static int pass_on(struct sn_queue *ready, struct sn_chan_node **met)
{
	signal_set left = noted_now();
	int count = 0, signum;

	while ((signum = first_of(left)) != 0) {
		left &= ~bit_of(signum);
		/* Cleared first: a receiver may take the signal out of its channel immediately, and
		 * one that comes after that is another signal. */
		clear_noted(signum);
		if (!give_to_channels(signum, met) && !give_to_task(signum, ready, &count))
			note_again(signum);
	}
	return count;
}

int sn_signal_event(struct sn_queue *ready)
{
	struct sn_chan_node *met = NULL, *next;
	uint64_t writes;
	int count;

	(void)!read(atomic_load(&event_fd), &writes, sizeof writes);
	SN_RACE_WINDOW();
	sn_lock(&passing);
	count = pass_on(ready, &met);
	sn_unlock(&passing);
	for (; met; met = next) {
		next = met->next;
		sn_chan_wake_met(NULL, met);
	}
	return count;
}

/* ---- catching ---- */

/* The lock is held. */
static int open_event(void)
{
	int fd = atomic_load(&event_fd), err;

	if (fd < 0) {
		fd = sn_above_standard(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
		if (fd < 0)
			return -errno;
		atomic_store(&event_fd, fd);
	}
	if (registered)
		return 0;
	err = sn_netpoll_update(EPOLL_CTL_ADD, fd, SN_GUEST_TAG, (uint32_t)EPOLLIN | EPOLLET);
	registered = err == 0;
	return err;
}

static int catch_signal(int signum)
{
	struct sigaction action = {.sa_sigaction = note,
				   .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
	int err;

	if (signum < 1 || signum > MOST_SIGNALS || signum == SIGSEGV || signum == SIGBUS)
		return -EINVAL;
	sn_lock(&lock);
	err = open_event();
	sigfillset(&action.sa_mask);
	if (SENNIT_CHECKED)
		sigdelset(&action.sa_mask, SIGSYS); /* wait/system_call.c */
	if (err == 0 && !(caught & bit_of(signum))) {
		if (sigaction(signum, NULL, &former[signum]) == 0 &&
		    sigaction(signum, &action, NULL) == 0)
			caught |= bit_of(signum);
		else
			err = -errno;
	}
	sn_unlock(&lock);
	return err;
}

static signal_set caught_now(void)
{
	signal_set set;

	sn_lock(&lock);
	set = caught;
	sn_unlock(&lock);
	return set;
}

int sn_signal_catch(int signum)
{
	struct sn_thread *self = sn_runtime_enter();
	int err;

	if (!self)
		return -ENOTSUP;
	err = catch_signal(signum);
	sn_runtime_leave();
	return err;
}

/* The set of the signals in a list; 0 if the list is empty or has an invalid number. */
static signal_set set_of(const int *signums, size_t n)
{
	signal_set set = 0;

	for (size_t i = 0; i < n; i++) {
		if (!signums || signums[i] < 1 || signums[i] > MOST_SIGNALS)
			return 0;
		set |= bit_of(signums[i]);
	}
	return set;
}

/* ---- waiting ---- */

/* Enters the list. passing is held. */
static void begin_wait(struct wait *wait, signal_set set, int64_t deadline)
{
	struct wait **last = &waits;

	sn_waiter_init(&wait->waiter, sn_thread_self(), deadline, SN_WAITER_SHARED);
	wait->set = set;
	wait->signum = 0;
	wait->next = NULL;
	while (*last)
		last = &(*last)->next;
	*last = wait;
}

/* Wakes those to whom pass_on() has given signals, for a task. No lock is held. */
static void wake(struct sn_queue *ready, struct sn_chan_node *met)
{
	while (met) {
		struct sn_chan_node *next = met->next;

		sn_chan_wake_met(NULL, met);
		met = next;
	}
	sn_ready_each(sn_thread_self(), ready);
}

/* May park, after which the caller's self is stale. */
static int wait_signal(signal_set set, int64_t deadline)
{
	struct sn_queue ready = {0};
	struct sn_chan_node *met = NULL;
	struct wait wait;
	int err = sn_cancel_reason(sn_thread_self()->task), signum;

	if (err < 0)
		return err;
	sn_netpoll_wait_begins();
	sn_lock(&passing);
	begin_wait(&wait, set, deadline);
	/* The signals that have come already, which others may have waited for before. One that is
	 * given to this task ends its wait before that has begun. */
	pass_on(&ready, &met);
	sn_unlock(&passing);
	wake(&ready, met);
	SN_RACE_WINDOW();
	sn_task_waits(wait.waiter.task, "a signal", NULL);
	err = sn_waiter_park(&wait.waiter, NULL);
	sn_lock(&passing);
	take_out(&wait);
	signum = wait.signum;
	sn_unlock(&passing);
	sn_netpoll_wait_ends();
	return signum ? signum : err;
}

/* Waits for the signals in `within`, of which at least one must have been caught, or all of them if
 * `all`. */
static int enter_and_wait(signal_set within, bool all, int64_t deadline)
{
	signal_set present;
	int result = -EINVAL;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	present = caught_now() & within;
	if (present && (!all || present == within))
		result = wait_signal(within, deadline);
	sn_runtime_leave();
	return result;
}

int sn_signal_wait(int64_t deadline)
{
	return enter_and_wait(~(signal_set)0, false, deadline);
}

int sn_signal_wait_for(const int *signums, size_t n, int64_t deadline)
{
	return enter_and_wait(set_of(signums, n), true, deadline);
}

/* ---- channels ---- */

static struct sink *sink_of(const sn_chan *chan)
{
	struct sink *sink = sinks;

	while (sink && sink->chan != chan)
		sink = sink->next;
	return sink;
}

/* Adds the signals to those that the channel gets. *made: memory for a new entry, which is used if
 * the channel has none yet. */
static void add_to_sink(sn_chan *chan, signal_set set, struct sink **made)
{
	struct sn_queue ready = {0};
	struct sn_chan_node *met = NULL;
	struct sink *sink;

	sn_lock(&passing);
	sink = sink_of(chan);
	if (!sink) {
		sink = *made;
		*made = NULL;
		*sink = (struct sink){.next = sinks, .chan = sn_chan_ref(chan)};
		sinks = sink;
		sn_netpoll_wait_begins();
	}
	sink->set |= set;
	/* Passes on the signals that have come already and that no other receiver wanted. */
	pass_on(&ready, &met);
	sn_unlock(&passing);
	wake(&ready, met);
}

static int send_to(sn_chan *chan, const int *signums, size_t n)
{
	const signal_set set = set_of(signums, n);
	const struct sn_chan *its = sn_chan_find(chan);
	struct sink *made;
	int err = 0;

	if (!its || !its->plain || its->elem_size != sizeof(int) || its->capacity == 0 || !set)
		return -EINVAL;
	made = malloc(sizeof *made);
	if (!made)
		return -ENOMEM;
	for (size_t i = 0; i < n && err == 0; i++)
		err = catch_signal(signums[i]);
	if (err == 0)
		add_to_sink(chan, set, &made);
	free(made);
	return err;
}

int sn_signal_send_to(sn_chan *chan, const int *signums, size_t n)
{
	int err;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = send_to(chan, signums, n);
	sn_runtime_leave();
	return err;
}

int sn_signal_stop(sn_chan *chan)
{
	struct sink *sink, **at = &sinks;

	if (!chan)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	sn_lock(&passing);
	while (*at && (*at)->chan != chan)
		at = &(*at)->next;
	sink = *at;
	if (sink)
		*at = sink->next;
	sn_unlock(&passing);
	if (sink) {
		sn_netpoll_wait_ends();
		sn_chan_unref(sink->chan);
		free(sink);
	}
	sn_runtime_leave();
	return 0;
}

/* ---- a run, and fork() ---- */

/* Restores all dispositions. The lock is held. No task waits any more, and the run's epoll is about
 * to be closed. */
static void catch_none(void)
{
	for (int signum = 1; signum <= MOST_SIGNALS; signum++)
		if (caught & bit_of(signum))
			sigaction(signum, &former[signum], NULL);
	caught = 0;
	registered = false;
	waits = NULL;
	atomic_store(&noted[0], 0);
	atomic_store(&noted[1], 0);
}

void sn_signal_destroy(void)
{
	sn_lock(&lock);
	catch_none();
	sn_unlock(&lock);
	while (sinks) {
		struct sink *sink = sinks;

		sinks = sink->next;
		sn_chan_unref(sink->chan);
		free(sink);
	}
}

/*
 * From before a fork() until the child has its own actions, the thread blocks what is caught. The C
 * library delivers a signal to the child before it calls any handler of fork(), and note() would
 * take it for one of the parent's. Other signals are not blocked: a collector that waits for this
 * thread may have what a handler of fork() needs. The lock is held.
 */
static void mask_for_fork(void)
{
	sigset_t set;

	masked_for_fork = caught != 0;
	if (!masked_for_fork)
		return;
	sigemptyset(&set);
	for (int signum = 1; signum <= MOST_SIGNALS; signum++)
		if (caught & bit_of(signum))
			sigaddset(&set, signum);
	if (SENNIT_CHECKED)
		sigdelset(&set, SIGSYS); /* wait/system_call.c */
	pthread_sigmask(SIG_BLOCK, &set, &former_mask);
}

/*
 * The child has no tasks to notify, so its signals get their previous actions again. It needs an
 * eventfd of its own, because either process could read what the other writes to a shared one. The
 * shared one is closed here, before the program can have reused its number. No handler uses it
 * during that, because the child has only this thread. The channels' references stay with the
 * parent's tasks.
 */
static void disown(void)
{
	int fd;

	catch_none();
	sinks = NULL;
	fd = atomic_exchange(&event_fd, -1);
	if (fd >= 0)
		close(fd);
}

/* The lock is held from the first phase to the last, so the mask is that of this fork(). */
void sn_signal_fork(enum sn_fork_phase phase)
{
	bool masked = false;
	sigset_t mask;

	if (phase != SN_FORK_PREPARE) {
		masked = masked_for_fork;
		mask = former_mask;
	}
	sn_fork_lock(&lock, phase);
	sn_fork_lock(&passing, phase);
	if (phase == SN_FORK_PREPARE)
		mask_for_fork();
	else if (phase == SN_FORK_CHILD)
		disown();
	if (masked)
		pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
