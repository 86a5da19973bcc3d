/* SPDX-License-Identifier: MIT */
#include "copy/pipe_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "base/fork.h"
#include "io/sys.h"
#include "wait/lock.h"

/*
 * The most pipes, unless SENNIT_PIPES sets another number. A copy borrows one while its bytes are
 * in flight, so the pool needs as many as there are copies that move bytes at the same moment: a
 * few per processor, and one for each receiver that is slower than its sender.
 */
#define MOST_PIPES 64

/* How many free pipes are kept; each has two descriptors. */
#define MOST_FREE 16

/*
 * The size requested for a pipe: 256 slots. A pass moves what has accumulated in the socket, up to
 * megabytes, and each refill costs two system calls. Smaller sizes have not been compared yet. An
 * empty pipe holds no pages.
 */
#define WANTED_SIZE ((size_t)1 << 20)

/* Smaller pipes are used only if SENNIT_PIPE_SIZE asks for them: past the quota the kernel makes
 * pipes of one slot or two, and a call moves at most one piece of a segment for each slot. */
#define SMALLEST ((size_t)64 << 10)

/* How long no pipe is made after the system has refused one, or granted a small one. */
#define PAUSE_NS 1000000000

static struct sn_lock lock = SN_LOCK_INIT(SN_RANK_PIPES); /* guards all that is not atomic */
static bool configured;
static size_t wanted_size, smallest;
static _Atomic uint64_t limit;
static struct sn_pipe *free_pipes, *all_pipes;
static uint32_t nfree, nmaking;
static int64_t none_before; /* until this time of sn_now() no pipe is made */

static _Atomic uint64_t npipes, nborrowed, nbytes, nmade, nmissed;

/* ---- limits ---- */

/* Reads the number in a file of /proc; returns `fallback` if it cannot be read. */
static uint64_t read_limit(const char *path, uint64_t fallback)
{
	char text[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? sn_sys_read(fd, text, sizeof text - 1) : -1;

	if (fd >= 0)
		sn_sys_close(fd);
	if (n <= 0)
		return fallback;
	text[n] = 0;
	return strtoull(text, NULL, 10);
}

/* How many bytes the user's pipes may hold; 0: there is no limit. */
static uint64_t quota(void)
{
	uint64_t soft = read_limit("/proc/sys/fs/pipe-user-pages-soft", 16384);
	uint64_t hard = read_limit("/proc/sys/fs/pipe-user-pages-hard", 0);
	uint64_t pages = soft && (!hard || soft < hard) ? soft : hard;

	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Reads a number from the environment; returns `fallback` if it is missing or impossible. */
static uint64_t from_environment(const char *name, uint64_t most, uint64_t fallback)
{
	const char *text = getenv(name);
	char *end;
	unsigned long long value;

	if (!text || !*text)
		return fallback;
	value = strtoull(text, &end, 10);
	if (*end || *text == '-' || value > most) {
		sn_log("%s=%s: expected a number up to %llu; taking %llu", name, text,
		       (unsigned long long)most, (unsigned long long)fallback);
		return fallback;
	}
	return value;
}

struct limits {
	size_t wanted_size, smallest;
	uint64_t most;
};

/* Called without the lock, because it reads files. */
static struct limits find_limits(void)
{
	struct limits found;
	uint64_t half = quota() / 2, most = MOST_PIPES, asked;

	found.wanted_size = WANTED_SIZE;
	found.smallest = SMALLEST;
	asked = from_environment("SENNIT_PIPE_SIZE", INT_MAX, 0);
	if (asked) {
		found.wanted_size = (size_t)asked;
		if (found.smallest > found.wanted_size)
			found.smallest = found.wanted_size;
	} else {
		/* Prefers more pipes over larger ones. */
		while (half && half / found.wanted_size < MOST_PIPES / 2 &&
		       found.wanted_size > SMALLEST)
			found.wanted_size /= 2;
	}
	if (half && half / found.wanted_size < most)
		most = half / found.wanted_size;
	found.most = from_environment("SENNIT_PIPES", 1 << 20, most);
	return found;
}

static void configure_once(void)
{
	struct limits found;
	bool done;

	sn_lock(&lock);
	done = configured;
	sn_unlock(&lock);
	if (done)
		return;
	found = find_limits();
	sn_lock(&lock);
	if (!configured) {
		wanted_size = found.wanted_size;
		smallest = found.smallest;
		atomic_store(&limit, found.most);
		none_before = 0;
		configured = true;
	}
	sn_unlock(&lock);
}

bool sn_pipes_wanted(void)
{
	configure_once();
	return atomic_load_explicit(&limit, memory_order_relaxed) > 0;
}

/* ---- making and closing ---- */

static struct sn_pipe *make(size_t size)
{
	struct sn_pipe *pipe = malloc(sizeof *pipe);
	int ends[2], granted;

	if (!pipe)
		return NULL;
	if (sn_sys_pipe(ends) < 0) {
		free(pipe);
		return NULL;
	}
	granted = sn_sys_pipe_resize(ends[1], (int)size);
	pipe->read_end = ends[0];
	pipe->write_end = ends[1];
	pipe->size = granted > 0 ? (size_t)granted : 0;
	return pipe;
}

static void close_ends(struct sn_pipe *pipe)
{
	sn_sys_close(pipe->read_end);
	sn_sys_close(pipe->write_end);
}

/* Called with the lock held. */
static void add(struct sn_pipe *pipe)
{
	pipe->prev = NULL;
	pipe->next = all_pipes;
	if (all_pipes)
		all_pipes->prev = pipe;
	all_pipes = pipe;
	atomic_fetch_add_explicit(&npipes, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&nmade, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&nbytes, pipe->size, memory_order_relaxed);
}

/* Called with the lock held. The caller owns the pipe afterwards, and closes it without the
 * lock. */
static void take_out(struct sn_pipe *pipe)
{
	if (pipe->prev)
		pipe->prev->next = pipe->next;
	else
		all_pipes = pipe->next;
	if (pipe->next)
		pipe->next->prev = pipe->prev;
	atomic_fetch_sub_explicit(&npipes, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&nbytes, pipe->size, memory_order_relaxed);
}

/* Makes a pipe that the caller has counted in nmaking, which counts against the limit. */
static struct sn_pipe *make_reserved(void)
{
	struct sn_pipe *pipe = make(wanted_size);
	bool small = pipe && pipe->size < smallest;

	sn_lock(&lock);
	nmaking--;
	if (pipe && !small)
		add(pipe);
	else
		none_before = sn_now() + PAUSE_NS;
	sn_unlock(&lock);
	if (!small)
		return pipe;
	close_ends(pipe);
	free(pipe);
	return NULL;
}

/* ---- borrowing ---- */

/* Whether a pipe is lent for a short time only, if with it so many are. */
static bool is_short_loan(uint64_t borrowed)
{
	const uint64_t most = atomic_load_explicit(&limit, memory_order_relaxed);

	return borrowed > most - most / 2;
}

struct sn_pipe *sn_pipe_borrow(void)
{
	struct sn_pipe *pipe;
	bool may_make = false;

	configure_once();
	sn_lock(&lock);
	pipe = free_pipes;
	if (pipe) {
		free_pipes = pipe->next_free;
		nfree--;
	} else if (atomic_load_explicit(&npipes, memory_order_relaxed) + nmaking <
			   atomic_load_explicit(&limit, memory_order_relaxed) &&
		   (none_before == 0 || sn_now() >= none_before)) {
		may_make = true;
		nmaking++;
	}
	sn_unlock(&lock);
	if (may_make)
		pipe = make_reserved();
	if (pipe)
		pipe->is_short = is_short_loan(
			atomic_fetch_add_explicit(&nborrowed, 1, memory_order_relaxed) + 1);
	else
		atomic_fetch_add_explicit(&nmissed, 1, memory_order_relaxed);
	return pipe;
}

void sn_pipe_return(struct sn_pipe *pipe, bool empty)
{
	bool keep;

	atomic_fetch_sub_explicit(&nborrowed, 1, memory_order_relaxed);
	sn_lock(&lock);
	keep = empty && nfree < MOST_FREE;
	if (keep) {
		pipe->next_free = free_pipes;
		free_pipes = pipe;
		nfree++;
	} else {
		take_out(pipe);
	}
	sn_unlock(&lock);
	if (!keep) {
		close_ends(pipe);
		free(pipe);
	}
}

void sn_pipes_trim(void)
{
	struct sn_pipe *pipe, *next;

	sn_lock(&lock);
	pipe = free_pipes;
	free_pipes = NULL;
	nfree = 0;
	for (next = pipe; next; next = next->next_free)
		take_out(next);
	sn_unlock(&lock);
	for (; pipe; pipe = next) {
		next = pipe->next_free;
		close_ends(pipe);
		free(pipe);
	}
}

void sn_pipes_reset(void)
{
	sn_pipes_trim();
	sn_lock(&lock);
	configured = false;
	sn_unlock(&lock);
}

/*
 * The child of fork() has the same pipes open, and bytes that one process puts into a pipe could be
 * taken out by the other. Therefore the child closes them all. Borrowed pipes belong to tasks that
 * do not exist in the child; their memory is not freed.
 */
void sn_pipes_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase != SN_FORK_CHILD)
		return;
	for (struct sn_pipe *pipe = all_pipes; pipe; pipe = pipe->next)
		close_ends(pipe);
	for (struct sn_pipe *pipe = free_pipes, *next; pipe; pipe = next) {
		next = pipe->next_free;
		free(pipe);
	}
	all_pipes = free_pipes = NULL;
	nfree = nmaking = 0;
	atomic_store(&npipes, 0);
	atomic_store(&nborrowed, 0);
	atomic_store(&nbytes, 0);
}

void sn_pipes_count(struct sn_copy_stats *stats)
{
	configure_once();
	*stats = (struct sn_copy_stats){
		.pipes = atomic_load_explicit(&npipes, memory_order_relaxed),
		.pipes_borrowed = atomic_load_explicit(&nborrowed, memory_order_relaxed),
		.pipes_limit = atomic_load_explicit(&limit, memory_order_relaxed),
		.pipe_bytes = atomic_load_explicit(&nbytes, memory_order_relaxed),
		.pipes_made = atomic_load_explicit(&nmade, memory_order_relaxed),
		.pipes_missed = atomic_load_explicit(&nmissed, memory_order_relaxed),
	};
}
