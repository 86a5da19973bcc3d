/* SPDX-License-Identifier: MIT */
/*
 * Copying between connections, in userspace.
 *
 * A buffer is borrowed when there is something to read, and returned as soon as there is not, so
 * that memory goes with the connections that are busy, not with those that are open: ten thousand
 * idle ones hold none.
 */
#include <sennit/copy.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "net/sys.h"
#include "net/tcp.h"
#include "sched/fork.h"
#include "sched/netpoll.h"
#include "sched/thread.h"

/* One system call's worth: beyond 64 KiB a loopback copy gains little, and the L2 cache loses. */
#define BUFFER_SIZE ((size_t)64 << 10)

/* Free buffers that are kept: 4 MiB at most. */
#define MOST_FREE 64

static struct sn_lock lock;
static struct buffer {
	struct buffer *next;
} * free_buffers;
static int nfree;

void sn_buffers_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
}

static void *borrow_buffer(void)
{
	struct buffer *buffer;

	sn_lock(&lock);
	buffer = free_buffers;
	if (buffer) {
		free_buffers = buffer->next;
		nfree--;
	}
	sn_unlock(&lock);
	return buffer ? buffer : malloc(BUFFER_SIZE);
}

static void return_buffer(void *memory)
{
	struct buffer *buffer = memory;
	bool keep;

	sn_lock(&lock);
	keep = nfree < MOST_FREE;
	if (keep) {
		buffer->next = free_buffers;
		free_buffers = buffer;
		nfree++;
	}
	sn_unlock(&lock);
	if (!keep)
		free(buffer);
}

struct copy {
	struct sn_fd *dst, *src;
	int64_t left; /* negative: until the end */
	sn_copy_progress *progress;
	void *arg;
	struct sn_copy_result *result;
};

static int failed(struct copy *copy, enum sn_copy_side side, ssize_t err)
{
	copy->result->failed = side;
	return (int)err;
}

/* The caller's code, so outside of the runtime: it may use calls that do not park. */
static void report_progress(struct copy *copy, size_t n)
{
	sn_runtime_leave();
	copy->progress(copy->arg, n);
	sn_runtime_enter();
}

static int deliver(struct copy *copy, const char *data, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = sn_conn_write(copy->dst, data + done, size - done);

		if (n < 0)
			return failed(copy, SN_COPY_WRITE, n);
		done += (size_t)n;
		copy->result->bytes_written += (uint64_t)n;
		if (copy->progress)
			report_progress(copy, (size_t)n);
	}
	return 0;
}

/* Reads without waiting: -EAGAIN when there is nothing. */
static ssize_t read_now(struct sn_fd *src, void *buf, size_t size)
{
	ssize_t n = sn_fd_begin(src, SN_SIDE_READ);

	if (n < 0)
		return n;
	n = sn_fd_check_deadline(src, SN_SIDE_READ);
	if (n == 0)
		n = sn_sys_recv(src->fd, buf, size);
	sn_fd_end(src, SN_SIDE_READ);
	return n;
}

/* Moves what is there. 1: the end of the stream, 0: nothing more for now, or an error. */
static int move_available(struct copy *copy, char *buffer)
{
	for (;;) {
		size_t size = BUFFER_SIZE;
		ssize_t n;

		if (copy->left >= 0 && (uint64_t)copy->left < size)
			size = (size_t)copy->left;
		if (size == 0)
			return 1;
		n = read_now(copy->src, buffer, size);
		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return failed(copy, SN_COPY_READ, n);
		if (n == 0)
			return 1;
		copy->result->bytes_read += (uint64_t)n;
		if (copy->left >= 0)
			copy->left -= n;
		n = deliver(copy, buffer, (size_t)n);
		if (n < 0)
			return (int)n;
	}
}

static int copy_all(struct copy *copy)
{
	for (;;) {
		char *buffer = borrow_buffer();
		int n;

		if (!buffer)
			return failed(copy, SN_COPY_READ, -ENOMEM);
		n = move_available(copy, buffer);
		return_buffer(buffer);
		if (n != 0)
			return n < 0 ? n : 0;
		n = sn_conn_wait_readable(copy->src);
		if (n < 0)
			return failed(copy, SN_COPY_READ, n);
	}
}

int sn_copy(sn_tcp *dst, sn_tcp *src, int64_t n, sn_copy_progress *progress, void *arg,
	    struct sn_copy_result *result)
{
	struct sn_copy_result unwanted;
	struct copy copy = {.dst = (struct sn_fd *)dst,
			    .src = (struct sn_fd *)src,
			    .left = n,
			    .progress = progress,
			    .arg = arg,
			    .result = result ? result : &unwanted};
	int err;

	if (!sn_runtime_enter())
		return -EPERM;
	*copy.result = (struct sn_copy_result){0};
	err = copy_all(&copy);
	sn_runtime_leave();
	return err;
}
