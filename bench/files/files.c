/* SPDX-License-Identifier: MIT */
/*
 * Operations on files, by several workers at a time:
 *
 *	bench-files tasks|threads|ring cached|direct|sync WORKERS SECONDS DIRECTORY
 *
 *   tasks     plain calls in sennit's tasks, whose processors are taken away while they block
 *   threads   plain calls, a thread for each worker
 *   ring      one thread with an io_uring, in which each worker has one operation under way; an
 *             upper bound for what a runtime could gain by it
 *
 *   cached    reads of 4 KiB that the page cache has
 *   direct    reads of 4 KiB that it has not: O_DIRECT, at random
 *   sync      writes of 4 KiB, each followed by fdatasync(), to a file for each worker
 *
 * Prints the operations, the nanoseconds, the nanoseconds of CPU time, and the threads at the end;
 * exits with 77 if the system does not allow the variant.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "../check.h"

#define BLOCK 4096
#define BLOCKS 16384 /* 64 MiB */
#define MOST 256

enum work { CACHED, DIRECT, SYNC };

struct worker {
	int fd;
	uint32_t random;
	char *block;
	bool wrote; /* ring: the write is done, and fdatasync() is next */
};

static enum work work;
static int count;
static int64_t until;
static struct worker workers[MOST];
static _Atomic long done;

static off_t next_place(struct worker *w)
{
	w->random = w->random * 1664525 + 1013904223;
	return work == SYNC ? 0 : (off_t)(w->random >> 8) % BLOCKS * BLOCK;
}

static int one_after_the_other(void *arg)
{
	struct worker *w = arg;
	long n = 0;

	for (; sn_now() < until; n++) {
		if (work == SYNC) {
			CHECK(pwrite(w->fd, w->block, BLOCK, next_place(w)) == BLOCK);
			CHECK(fdatasync(w->fd) == 0);
		} else {
			CHECK(pread(w->fd, w->block, BLOCK, next_place(w)) == BLOCK);
		}
	}
	atomic_fetch_add(&done, n);
	return 0;
}

/* ---- tasks and threads ---- */

static int run_tasks(void *arg)
{
	sn_scope *scope;

	(void)arg;
	CHECK(sn_scope_open(&scope, SN_NO_DEADLINE) == 0);
	for (int i = 0; i < count; i++)
		CHECK(sn_scope_go(scope, one_after_the_other, &workers[i]) == 0);
	return sn_scope_close(scope);
}

static void *thread(void *arg)
{
	one_after_the_other(arg);
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[MOST];

	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], NULL, thread, &workers[i]) == 0);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* ---- io_uring, by its system calls ---- */

struct ring {
	int fd;
	struct io_uring_params params;
	char *submission, *completion;
	struct io_uring_sqe *entries;
};

static uint32_t *field(char *area, uint32_t offset)
{
	return (uint32_t *)(void *)(area + offset);
}

static bool ring_open(struct ring *ring)
{
	struct io_uring_params *p = &ring->params;
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;

	memset(p, 0, sizeof *p);
	ring->fd = (int)syscall(SYS_io_uring_setup, MOST, p);
	if (ring->fd < 0)
		return false;
	ring->submission = mmap(NULL, p->sq_off.array + p->sq_entries * sizeof(uint32_t), prot,
				flags, ring->fd, IORING_OFF_SQ_RING);
	ring->completion = mmap(NULL, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe),
				prot, flags, ring->fd, IORING_OFF_CQ_RING);
	ring->entries = mmap(NULL, p->sq_entries * sizeof(struct io_uring_sqe), prot, flags,
			     ring->fd, IORING_OFF_SQES);
	return ring->submission != MAP_FAILED && ring->completion != MAP_FAILED &&
	       ring->entries != MAP_FAILED;
}

static void ring_put(struct ring *ring, int index)
{
	struct worker *w = &workers[index];
	uint32_t *tail = field(ring->submission, ring->params.sq_off.tail);
	uint32_t at = *tail & (ring->params.sq_entries - 1);
	struct io_uring_sqe *entry = &ring->entries[at];

	memset(entry, 0, sizeof *entry);
	entry->fd = w->fd;
	entry->user_data = (uint64_t)index;
	if (work == SYNC && w->wrote) {
		entry->opcode = IORING_OP_FSYNC;
		entry->fsync_flags = IORING_FSYNC_DATASYNC;
	} else {
		entry->opcode = work == SYNC ? IORING_OP_WRITE : IORING_OP_READ;
		entry->addr = (uintptr_t)w->block;
		entry->len = BLOCK;
		entry->off = (uint64_t)next_place(w);
	}
	field(ring->submission, ring->params.sq_off.array)[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

/* Takes completed operations, and begins the next ones in their place. Returns how many were
 * complete. */
static unsigned ring_take(struct ring *ring)
{
	uint32_t *head = field(ring->completion, ring->params.cq_off.head);
	uint32_t tail = __atomic_load_n(field(ring->completion, ring->params.cq_off.tail),
					__ATOMIC_ACQUIRE);
	struct io_uring_cqe *cqes = (void *)(ring->completion + ring->params.cq_off.cqes);
	unsigned taken = 0;

	for (; *head != tail; taken++) {
		struct io_uring_cqe *cqe = &cqes[*head & (ring->params.cq_entries - 1)];
		struct worker *w = &workers[cqe->user_data];

		CHECK(cqe->res == (work == SYNC && w->wrote ? 0 : BLOCK));
		w->wrote = work == SYNC && !w->wrote;
		if (!w->wrote)
			atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
		ring_put(ring, (int)cqe->user_data);
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
	return taken;
}

static bool run_ring(void)
{
	unsigned begin = (unsigned)count;
	struct ring ring;

	if (!ring_open(&ring))
		return false;
	for (int i = 0; i < count; i++)
		ring_put(&ring, i);
	while (sn_now() < until) {
		CHECK(syscall(SYS_io_uring_enter, ring.fd, begin, 1, IORING_ENTER_GETEVENTS, NULL,
			      0) >= 0);
		begin = ring_take(&ring);
	}
	return true; /* the process ends, and with it all pending operations */
}

/* ---- */

static void open_files(const char *directory)
{
	const int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
	char name[4096];
	int fd = -1;

	for (int i = 0; i < count; i++) {
		struct worker *w = &workers[i];

		w->random = (uint32_t)i * 2654435761u + 1;
		CHECK(posix_memalign((void **)&w->block, BLOCK, BLOCK) == 0);
		memset(w->block, i, BLOCK);
		if (i == 0 || work == SYNC) {
			snprintf(name, sizeof name, "%s/bench-files-%d-%d", directory,
				 (int)getpid(), i);
			fd = open(name, flags, 0600);
			CHECK(fd >= 0);
			for (int k = 0; k < (work == SYNC ? 1 : BLOCKS); k++)
				CHECK(write(fd, w->block, BLOCK) == BLOCK);
			CHECK(fsync(fd) == 0);
			if (work == DIRECT) {
				close(fd);
				fd = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
				if (fd < 0)
					_exit(77);
			}
			unlink(name);
		}
		w->fd = fd;
	}
}

static int threads_now(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	int n = 0;

	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	if (status)
		fclose(status);
	return n;
}

static int run_and_count(void *threads)
{
	CHECK(run_tasks(NULL) == 0);
	*(int *)threads = threads_now();
	return 0;
}

static int64_t cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000000) +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

int main(int argc, char **argv)
{
	static const char *const works[] = {"cached", "direct", "sync"};
	int64_t begin, cpu;
	int threads = 0;

	if (argc != 6) {
		fprintf(stderr,
			"usage: %s tasks|threads|ring cached|direct|sync WORKERS SECONDS "
			"DIRECTORY\n",
			argv[0]);
		return 2;
	}
	while (work <= SYNC && strcmp(works[work], argv[2]) != 0)
		work++;
	count = atoi(argv[3]);
	CHECK(work <= SYNC && count > 0 && count <= MOST);
	open_files(argv[5]);
	begin = sn_now();
	cpu = cpu_ns();
	until = begin + (int64_t)(atof(argv[4]) * 1e9);
	if (strcmp(argv[1], "tasks") == 0) {
		CHECK(sn_run(run_and_count, &threads) == 0);
	} else if (strcmp(argv[1], "threads") == 0) {
		run_threads();
		threads = count + 1;
	} else {
		CHECK(strcmp(argv[1], "ring") == 0);
		if (!run_ring())
			return 77;
		threads = threads_now();
	}
	printf("%ld %lld %lld %d\n", atomic_load(&done), (long long)(sn_now() - begin),
	       (long long)(cpu_ns() - cpu), threads);
	return 0;
}
