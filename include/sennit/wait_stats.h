/* SPDX-License-Identifier: MIT */
/*
 * How long the library waits for other threads, and where.
 *
 * Wherever one thread of sennit has to wait for another (to release a lock, to answer, to bring
 * work), it spins for a while, then yields to the OS, then sleeps. Each of these places is a named
 * site with a histogram of its waits. Only real waits are counted: taking a lock that was free is
 * not one, and costs nothing for this.
 *
 * Waits of tasks for other tasks (in channels, for connections, asleep) are not covered, with one
 * exception: a contended mutex spins before its caller parks, and so has a site.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_WAIT_STATS_H
#define SENNIT_WAIT_STATS_H

#include <sennit/base.h>

SN_BEGIN

/* Bucket i counts waits of at least 2^i ns and less than 2^(i+1) ns. The last one also counts
 * longer waits (9 minutes), the first one also waits too short for the clock to show. */
#define SN_WAIT_BUCKETS 40

/* The waits of one site since the process started, in all threads, also those that have ended. */
struct sn_wait_stats {
	/* Set by SN_WAIT_STATS_INIT(). */
	size_t size SN_SIZE_OF(struct sn_wait_stats);
	const char *name;    /* of the site, such as "lock"; valid forever */
	const char *what;    /* one line on what is waited for; likewise */
	uint64_t waits;      /* how many: the sum of the buckets */
	uint64_t slept;      /* of these, those that outlasted spinning and yielding */
	uint64_t total_ns;   /* the time of all waits together */
	uint64_t longest_ns; /* the longest of them */
	uint64_t buckets[SN_WAIT_BUCKETS]; /* how many took how long */
};

/* struct sn_wait_stats with its size, and the fields that are given, as .name = value. */
#define SN_WAIT_STATS_INIT(...) SN_SIZED_INIT(struct sn_wait_stats, __VA_ARGS__)

/*
 * Fills the caller's array of `count` sites, in an order that stays the same while the process
 * runs, and returns how many sites there are. That may be more (then the rest are left out) or
 * fewer. With NULL and a count of 0 it only returns the number. The size in the first element holds
 * for all: in C, set sites[0] = (struct sn_wait_stats)SN_WAIT_STATS_INIT(); in C++ every element
 * has it.
 *
 * The counts never go back; the difference of two readings is what happened in between (except for
 * longest_ns). Nothing is stopped for reading, so a wait that ends at that moment may show in one
 * field and not yet in another. After fork() the child has its own counts, which begin with those
 * of the parent.
 *
 * Any thread, with or without a runtime; does not park. Returns -EINVAL for a negative count, or
 * for one other than 0 without an array.
 */
SN_API int sn_wait_stats(struct sn_wait_stats *sites, int count);

/*
 * Writes the histograms of all sites that have waits to a descriptor, as text: the buckets from the
 * first to the last with counts, each with its count and a bar.
 *
 * Any thread; does not park, but blocks as write() does. Allocates nothing from the heap. Returns 0
 * or the negative errno of write().
 */
SN_API int sn_wait_print(int fd);

SN_END

#endif
