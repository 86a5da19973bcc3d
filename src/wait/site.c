/* SPDX-License-Identifier: MIT */
#include "wait/site.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sennit/wait_stats.h>

#include "arch/compiler.h"
#include "arch/sized.h"
#include "wait/checked.h"

static const struct {
	const char *name, *what;
} sites[SN_WAIT_SITES] = {
	[SN_WAIT_LOCK] = {"lock", "one of the runtime's own locks"},
	[SN_WAIT_LEASE] = {"lease", "the monitor's decision on taking a processor"},
	[SN_WAIT_PROCESSOR] = {"processor",
			       "a processor, with a task that is back from foreign code"},
	[SN_WAIT_IDLE] = {"idle", "work for a processor that has none, at most until it sleeps"},
	[SN_WAIT_GATHER] = {"gather", "more than one task to steal"},
	[SN_WAIT_STEAL] = {"steal", "a processor to run its own next task, before that is stolen"},
	[SN_WAIT_SCAN] = {"scan", "a running task to show its stack"},
	[SN_WAIT_SCAN_OWNER] = {"scan owner", "the runtime to be done with a task's stack"},
	[SN_WAIT_MUTEX] = {"mutex", "a contended mutex, spinning and parked together"},
	[SN_WAIT_ALARM] = {"alarm", "an alarm that has fired to be started as a task"},
	[SN_WAIT_RESET] = {"reset", "another thread's write, to tell a reset from an end"},
	[SN_WAIT_END] = {"end", "threads to end, or to leave, when the runtime does"},
};

/* ---- counting ---- */

struct counts {
	_Atomic uint64_t slept, total_ns, longest_ns;
	_Atomic uint64_t buckets[SN_WAIT_BUCKETS];
};

struct block {
	struct block *next;
	_Atomic pid_t owner; /* a thread's id; perhaps one that has ended */
	struct counts counts[SN_WAIT_SITES];
};

static struct block *_Atomic blocks;
static _Atomic unsigned nblocks;
static struct block nobodys; /* not in the list; shared by threads that could not get a block of
                              * their own */

/*
 * Threads beyond this number share the block `nobodys`, with atomic additions: where there are
 * thousands, nearly all are in foreign code and seldom wait for each other. A block is a page, and
 * is never freed. Without the bound, 10,000 simultaneous threads left 40 MiB behind, and starting
 * them took 7 s, 5 of which they spent on searching each other's blocks.
 */
#ifndef SN_WAIT_MOST_BLOCKS
#	define SN_WAIT_MOST_BLOCKS 256u
#endif

static __thread struct block *mine __attribute__((tls_model("initial-exec")));

/*
 * How many blocks are tried, each with a system call, before a new one is made. With more threads
 * alive than this, the block of an ended thread may be missed, and another thread finds it.
 */
#define TRIES 32

static pid_t own_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* If the kernel does not answer, because a seccomp filter refuses the call, the thread counts as
 * alive. */
static bool has_ended(pid_t thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) < 0 && errno == ESRCH;
}

/*
 * The compare-and-swap's acquire, and the kernel's answer that the previous owner has ended, order
 * its counts before this thread's on every machine on which the end of a thread can be observed.
 */
static struct block *take_over(pid_t me)
{
	static _Atomic uint32_t turn;
	unsigned n = sn_wait_blocks(), left = n < TRIES ? n : TRIES, first = 0, at = 0;

	/* Each search begins elsewhere in the list, so that threads do not all try the same blocks.
	 * There are two rounds, because the first may begin near the end. */
	if (n > TRIES)
		first = atomic_fetch_add_explicit(&turn, TRIES, memory_order_relaxed) % n;
	for (int round = 0; round < 2; round++)
		for (struct block *block = atomic_load(&blocks); block; block = block->next) {
			pid_t owner = atomic_load(&block->owner);

			if (at++ < first)
				continue;
			if (left-- == 0)
				return NULL;
			/* A block with the calling thread's own id: an earlier thread had that id,
			 * and has ended. */
			if ((owner == me || has_ended(owner)) &&
			    atomic_compare_exchange_strong(&block->owner, &owner, me))
				return block;
		}
	return NULL;
}

static struct block *make(pid_t me)
{
	struct block *block = MAP_FAILED;

	/* A thread that records its wait for a lock may hold other locks here. Blocks are made so
	 * rarely that this matters no more than a page fault does. */
	sn_checked_pass();
	if (atomic_fetch_add(&nblocks, 1) < SN_WAIT_MOST_BLOCKS)
		block = mmap(NULL, sizeof *block, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sn_checked_pass_end();
	if (block == MAP_FAILED) {
		atomic_fetch_sub(&nblocks, 1);
		return NULL;
	}
	atomic_store(&block->owner, me);
	block->next = atomic_load(&blocks);
	while (!atomic_compare_exchange_weak(&blocks, &block->next, block))
		;
	return block;
}

/* The calling thread's block, or nobodys. Out of line, so that no caller keeps the address of
 * `mine` across a park. */
static sn_noinline struct block *my_block(void)
{
	pid_t me;

	if (sn_likely(mine != NULL))
		return mine;
	me = own_id();
	mine = take_over(me);
	if (!mine)
		mine = make(me);
	if (!mine)
		mine = &nobodys;
	return mine;
}

static unsigned bucket_of(int64_t ns)
{
	unsigned bucket = ns > 1 ? 63u - (unsigned)__builtin_clzll((uint64_t)ns) : 0;

	return bucket < SN_WAIT_BUCKETS ? bucket : SN_WAIT_BUCKETS - 1;
}

/* Relaxed everywhere: readers are promised only some recent value. */
static void add(_Atomic uint64_t *count, uint64_t n, bool shared)
{
	if (shared)
		atomic_fetch_add_explicit(count, n, memory_order_relaxed);
	else
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
				      memory_order_relaxed);
}

void sn_wait_record(enum sn_wait_site site, int64_t ns, bool slept)
{
	int saved = errno;
	struct block *block = my_block();
	struct counts *counts = &block->counts[site];
	bool shared = block == &nobodys;

	if (ns < 0)
		ns = 0;
	add(&counts->buckets[bucket_of(ns)], 1, shared);
	add(&counts->total_ns, (uint64_t)ns, shared);
	if (slept)
		add(&counts->slept, 1, shared);
	/* In nobodys this may overwrite another thread's longer wait; the buckets still have it. */
	if ((uint64_t)ns > atomic_load_explicit(&counts->longest_ns, memory_order_relaxed))
		atomic_store_explicit(&counts->longest_ns, (uint64_t)ns, memory_order_relaxed);
	errno = saved;
}

void sn_wait_fork_child(void)
{
	/* The other threads do not exist in the child: their blocks are free. */
	if (mine && mine != &nobodys)
		atomic_store(&mine->owner, own_id());
}

unsigned sn_wait_blocks(void)
{
	return atomic_load(&nblocks);
}

/* ---- reading ---- */

static void merge(struct sn_wait_stats *stats, struct counts *counts)
{
	uint64_t longest = atomic_load_explicit(&counts->longest_ns, memory_order_relaxed);

	stats->slept += atomic_load_explicit(&counts->slept, memory_order_relaxed);
	stats->total_ns += atomic_load_explicit(&counts->total_ns, memory_order_relaxed);
	if (longest > stats->longest_ns)
		stats->longest_ns = longest;
	for (int i = 0; i < SN_WAIT_BUCKETS; i++) {
		uint64_t n = atomic_load_explicit(&counts->buckets[i], memory_order_relaxed);

		stats->buckets[i] += n;
		stats->waits += n;
	}
}

static void read_site(int site, struct sn_wait_stats *stats)
{
	memset(stats, 0, sizeof *stats);
	stats->name = sites[site].name;
	stats->what = sites[site].what;
	merge(stats, &nobodys.counts[site]);
	for (struct block *block = atomic_load(&blocks); block; block = block->next)
		merge(stats, &block->counts[site]);
}

int sn_wait_stats(struct sn_wait_stats *stats, int count)
{
	size_t distance = 0;
	int err = 0;

	if (count < 0 || (count > 0 && !stats))
		return -EINVAL;
	if (count > 0)
		err = sn_sized_read(stats, &distance);
	for (int i = 0; err == 0 && i < count && i < SN_WAIT_SITES; i++) {
		struct sn_wait_stats *to = (void *)((char *)stats + (size_t)i * distance), site;

		to->size = distance; /* the size of the first element holds for all */
		read_site(i, &site);
		err = SN_SIZED_GIVE(to, &site);
	}
	return err < 0 ? err : SN_WAIT_SITES;
}

/* ---- printing ---- */

#define BAR 50

static int write_all(int fd, const char *text, size_t size)
{
	while (size > 0) {
		struct pollfd writable = {.fd = fd, .events = POLLOUT};
		ssize_t written = write(fd, text, size);

		if (written > 0) {
			text += written;
			size -= (size_t)written;
		} else if (errno == EAGAIN) {
			poll(&writable, 1, -1);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

/* Three significant digits: "1.02 us", "16.4 us", "131 us". */
static const char *text_of(uint64_t ns, char *text, size_t size)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	uint64_t whole = ns, rest = 0;
	unsigned unit = 0;

	while (whole >= 1000 && unit < 3) {
		rest = whole % 1000;
		whole /= 1000;
		unit++;
	}
	if (unit == 0 || whole >= 100)
		snprintf(text, size, "%llu %s", (unsigned long long)whole, units[unit]);
	else if (whole >= 10)
		snprintf(text, size, "%llu.%llu %s", (unsigned long long)whole,
			 (unsigned long long)rest / 100, units[unit]);
	else
		snprintf(text, size, "%llu.%02llu %s", (unsigned long long)whole,
			 (unsigned long long)rest / 10, units[unit]);
	return text;
}

static int print_head(sn_wait_writer *writer, int fd, const struct sn_wait_stats *stats,
		      uint64_t each)
{
	char line[320], total[32], longest[32];
	int n = snprintf(line, sizeof line,
			 "%s: %llu waits for %s\n"
			 "# %llu slept, longest %s, together %s; each * stands for %llu\n",
			 stats->name, (unsigned long long)stats->waits, stats->what,
			 (unsigned long long)stats->slept,
			 text_of(stats->longest_ns, longest, sizeof longest),
			 text_of(stats->total_ns, total, sizeof total), (unsigned long long)each);

	return writer(fd, line, (size_t)n);
}

static int print_bucket(sn_wait_writer *writer, int fd, int number, uint64_t count, uint64_t each)
{
	char line[192], bar[BAR + 1], from[32], to[32];
	size_t length = (size_t)((count + each - 1) / each);
	int n;

	memset(bar, '*', length);
	bar[length] = 0;
	text_of(number ? (uint64_t)1 << number : 0, from, sizeof from);
	text_of((uint64_t)2 << number, to, sizeof to);
	n = snprintf(line, sizeof line, "%9s - %9s [%10llu]%s%s\n", from, to,
		     (unsigned long long)count, *bar ? " " : "", bar);
	return writer(fd, line, (size_t)n);
}

static int print_site(sn_wait_writer *writer, int fd, const struct sn_wait_stats *stats)
{
	int first = SN_WAIT_BUCKETS, last = 0, err;
	uint64_t most = 0, each;

	for (int i = 0; i < SN_WAIT_BUCKETS; i++) {
		if (!stats->buckets[i])
			continue;
		if (first > i)
			first = i;
		last = i;
		if (most < stats->buckets[i])
			most = stats->buckets[i];
	}
	each = (most + BAR - 1) / BAR;
	err = print_head(writer, fd, stats, each);
	for (int i = first; err == 0 && i <= last; i++)
		err = print_bucket(writer, fd, i, stats->buckets[i], each);
	return err;
}

int sn_wait_print_by(sn_wait_writer *writer, int fd)
{
	struct sn_wait_stats stats;
	int err = 0;

	for (int site = 0; err == 0 && site < SN_WAIT_SITES; site++) {
		read_site(site, &stats);
		if (stats.waits > 0)
			err = print_site(writer, fd, &stats);
	}
	return err;
}

int sn_wait_print(int fd)
{
	return sn_wait_print_by(write_all, fd);
}
