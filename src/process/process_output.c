/* SPDX-License-Identifier: MIT */
/*
 * Running a program from beginning to end, in one task. The task serves whichever of the three
 * pipes is ready, so none can fill up while the task waits for another. The parent's ends are plain
 * non-blocking descriptors; the program's ends stay blocking. Outside the runtime, because the
 * calls made here are public.
 */
#include <sennit/process.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/fd.h>
#include <sennit/scope.h>
#include <sennit/task.h>

#include "arch/sized.h"
#include "io/sys.h"
#include "process/process.h"

/* How much one call reads, and the first size of a collection. */
#define PIECE ((size_t)16 << 10)

struct collection {
	char *bytes;
	size_t size, room;
};

struct exchange {
	sn_process *process;   /* it owns the ends, so that none is left open if the run ends */
	struct pollfd ends[3]; /* by the standard descriptor; fd is -1 once the end is closed */
	const char *input;
	size_t input_left, limit;
	struct collection collected[3];
};

static void close_end(struct exchange *exchange, int number)
{
	if (exchange->ends[number].fd < 0)
		return;
	sn_process_close_end(exchange->process, number);
	exchange->ends[number].fd = -1;
}

/* Writes some of the input. Returns 0, or an error that ends the exchange. */
static int feed(struct exchange *exchange)
{
	ssize_t n = sn_sys_write(exchange->ends[0].fd, exchange->input, exchange->input_left);

	if (n == -EAGAIN)
		return 0;
	if (n < 0 && n != -EPIPE)
		return (int)n;
	if (n > 0) {
		exchange->input += n;
		exchange->input_left -= (size_t)n;
	}
	/* EPIPE is not an error, because a program need not read all of its input. */
	if (n < 0 || exchange->input_left == 0)
		close_end(exchange, 0);
	return 0;
}

/* Makes room for another piece, and for a zero after it. */
static int grow(struct collection *collection)
{
	size_t room = collection->room ? collection->room : PIECE;
	char *bytes;

	if (collection->size + PIECE < collection->room)
		return 0;
	while (room <= collection->size + PIECE)
		if (__builtin_mul_overflow(room, 2, &room))
			return -ENOMEM;
	bytes = realloc(collection->bytes, room);
	if (!bytes)
		return -ENOMEM;
	collection->bytes = bytes;
	collection->room = room;
	return 0;
}

static int collect(struct exchange *exchange, int number)
{
	struct collection *collection = &exchange->collected[number];
	int err = grow(collection);
	ssize_t n;

	if (err < 0)
		return err;
	n = sn_sys_read(exchange->ends[number].fd, collection->bytes + collection->size, PIECE);
	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		return (int)n;
	if (n == 0)
		close_end(exchange, number);
	collection->size += (size_t)n;
	if (exchange->limit && collection->size > exchange->limit) {
		collection->size = exchange->limit;
		return -EMSGSIZE;
	}
	return 0;
}

static bool is_over(const struct exchange *exchange)
{
	return exchange->ends[0].fd < 0 && exchange->ends[1].fd < 0 && exchange->ends[2].fd < 0;
}

/* Moves bytes until all pipes are at their end. */
static int move(struct exchange *exchange, int64_t deadline)
{
	int err = 0;

	while (err >= 0 && !is_over(exchange)) {
		err = sn_fd_wait_any(exchange->ends, 3, deadline);
		for (int number = 0; number < 3 && err >= 0; number++)
			if (exchange->ends[number].fd >= 0 && exchange->ends[number].revents)
				err = number == 0 ? feed(exchange) : collect(exchange, number);
	}
	return err;
}

static void give(char **bytes, size_t *size, struct collection *collection)
{
	if (collection->bytes)
		collection->bytes[collection->size] = '\0';
	*bytes = collection->bytes;
	*size = collection->size;
}

/* Kills the program, and waits for its end even if the scope is cancelled. */
static void end_early(sn_process *process, struct sn_process_status *status)
{
	if (sn_process_kill_group(process, SIGKILL) < 0)
		sn_process_kill(process, SIGKILL);
	sn_cancel_mask();
	(void)!sn_process_wait(process, status, SN_NO_DEADLINE);
	sn_cancel_unmask();
}

static int begin(struct exchange *exchange, const char *const argv[],
		 const struct sn_process_attr *attr)
{
	struct sn_process_attr own;
	int err = SN_SIZED_TAKE(&own, attr);

	if (err < 0)
		return err;
	if (own.in.kind != SN_PROCESS_INHERIT || own.out.kind != SN_PROCESS_INHERIT ||
	    own.err.kind == SN_PROCESS_TERMINAL)
		return -EINVAL;
	own.in.kind = exchange->input_left ? SN_PROCESS_PIPE : SN_PROCESS_NULL;
	own.out.kind = SN_PROCESS_PIPE;
	if (own.err.kind == SN_PROCESS_INHERIT)
		own.err.kind = SN_PROCESS_PIPE;
	err = sn_process_launch(&exchange->process, argv, &own, true);
	if (err < 0)
		return err;
	for (int number = 0; number < 3; number++) {
		const int fd = sn_process_end(exchange->process, number);

		exchange->ends[number] = (struct pollfd){
			.fd = fd,
			.events = number == 0 ? POLLOUT : POLLIN,
		};
		if (fd >= 0)
			sn_sys_set_nonblocking(fd);
	}
	return 0;
}

int sn_process_output(struct sn_process_result *result, const char *const argv[], const void *input,
		      size_t input_size, size_t limit, const struct sn_process_attr *attr,
		      int64_t deadline)
{
	struct exchange exchange = {.input = input, .input_left = input_size, .limit = limit};
	int err;

	if (!result)
		return -EINVAL;
	*result = (struct sn_process_result){0};
	if (!argv || !argv[0] || (input_size && !input))
		return -EINVAL;
	if (!sn_self())
		return -ENOTSUP;
	err = begin(&exchange, argv, attr);
	if (err < 0)
		return err;
	err = move(&exchange, deadline);
	if (err >= 0)
		err = sn_process_wait(exchange.process, &result->status, deadline);
	if (err < 0 && err != -ECHILD)
		end_early(exchange.process, &result->status);
	for (int number = 0; number < 3; number++)
		close_end(&exchange, number);
	sn_process_close(exchange.process);
	give(&result->out, &result->out_size, &exchange.collected[1]);
	give(&result->err, &result->err_size, &exchange.collected[2]);
	return err < 0 ? err : 0;
}

void sn_process_result_free(struct sn_process_result *result)
{
	if (!result)
		return;
	free(result->out);
	free(result->err);
	result->out = result->err = NULL;
	result->out_size = result->err_size = 0;
}
