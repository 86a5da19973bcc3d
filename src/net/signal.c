/* SPDX-License-Identifier: MIT */
/*
 * Signals for tasks. The handler notes the signal in a bit mask and makes an eventfd readable, both
 * async-signal-safe; a task waits on the eventfd like on any descriptor. Not signalfd: it would
 * need the signal blocked in every thread of the program, also in those that the program starts
 * itself, and children would inherit that mask.
 */
#include "net/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <sennit/signal.h>

#include "net/fd.h"
#include "sched/fork.h"
#include "sched/thread.h"

#define MOST_SIGNALS 64

static struct sn_lock lock; /* guards everything except what the handler touches */
static struct sigaction former[MOST_SIGNALS + 1];
static bool caught[MOST_SIGNALS + 1];
static struct sn_fd *event; /* of the present run: a copy of event_fd */

/*
 * Set once in a process and never closed: a late handler must not write into a descriptor whose
 * number has been reused.
 */
static _Atomic int event_fd = -1;
static _Atomic uint32_t pending[2]; /* signal n is bit (n - 1) % 32 of word (n - 1) / 32 */

static void note(int signum)
{
	uint64_t one = 1;
	int saved = errno;

	atomic_fetch_or(&pending[(signum - 1) / 32], 1u << (signum - 1) % 32);
	(void)!write(atomic_load(&event_fd), &one, sizeof one);
	errno = saved;
}

static int take_pending(void)
{
	for (int word = 0; word < 2; word++) {
		uint32_t bits = atomic_load(&pending[word]);

		while (bits) {
			int bit = __builtin_ctz(bits);

			if (atomic_fetch_and(&pending[word], ~(1u << bit)) & 1u << bit)
				return word * 32 + bit + 1;
			bits &= ~(1u << bit);
		}
	}
	return 0;
}

/* Under the lock. */
static int open_event(void)
{
	int fd, err;

	if (event)
		return 0;
	if (atomic_load(&event_fd) < 0) {
		fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (fd < 0)
			return -errno;
		atomic_store(&event_fd, fd);
	}
	fd = fcntl(atomic_load(&event_fd), F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = sn_fd_open(&event, fd, true);
	if (err < 0)
		close(fd);
	return err;
}

static int catch_signal(int signum)
{
	struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | SA_ONSTACK};
	int err;

	if (signum < 1 || signum > MOST_SIGNALS || signum == SIGSEGV || signum == SIGBUS)
		return -EINVAL;
	sn_lock(&lock);
	err = open_event();
	sigfillset(&action.sa_mask);
	if (err == 0 && !caught[signum]) {
		if (sigaction(signum, &action, &former[signum]) == 0)
			caught[signum] = true;
		else
			err = -errno;
	}
	sn_unlock(&lock);
	return err;
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

/* May park: the caller's self is stale. */
static int wait_signal(int64_t deadline)
{
	uint64_t count;
	int err, signum;

	if (!event)
		return -EINVAL;
	err = sn_fd_begin(event, SN_SIDE_READ);
	if (err < 0)
		return err;
	sn_fd_set_deadline(sn_thread_self(), event, SN_SIDE_READ, deadline);
	for (;;) {
		/* Drained first: a signal that comes later makes it readable again. */
		(void)!read(event->fd, &count, sizeof count);
		signum = take_pending();
		if (signum > 0)
			break;
		signum = sn_fd_await(event, SN_SIDE_READ);
		if (signum < 0)
			break;
	}
	sn_fd_end(event, SN_SIDE_READ);
	return signum;
}

int sn_signal_wait(int64_t deadline)
{
	int result;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	result = wait_signal(deadline);
	sn_runtime_leave();
	return result;
}

/* Under the lock. The end of the run closes the copy (net/fd.c). */
static void catch_none(void)
{
	for (int signum = 1; signum <= MOST_SIGNALS; signum++)
		if (caught[signum]) {
			sigaction(signum, &former[signum], NULL);
			caught[signum] = false;
		}
	event = NULL;
	atomic_store(&pending[0], 0);
	atomic_store(&pending[1], 0);
}

void sn_signal_destroy(void)
{
	sn_lock(&lock);
	catch_none();
	sn_unlock(&lock);
}

/*
 * The child has no tasks to notify, so its signals have their former effect again. It needs an
 * eventfd of its own, because either process could read what the other writes to a shared one. It
 * is closed here, before the program can have reused its number, and while no handler uses it: the
 * child has one thread, this one.
 */
void sn_signal_fork(enum sn_fork_phase phase)
{
	int fd;

	sn_fork_lock(&lock, phase);
	if (phase != SN_FORK_CHILD)
		return;
	catch_none();
	fd = atomic_exchange(&event_fd, -1);
	if (fd >= 0)
		close(fd);
}
