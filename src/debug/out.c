/* SPDX-License-Identifier: MIT */
#include "debug/out.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/log.h"

static void flush_to_stderr(struct sn_out *out)
{
	int64_t left = out->patience;
	size_t done = 0;

	if (out->used == 0)
		return;
	if (!out->error && (out->begun || sn_stderr_say_dropped(&left)))
		done = sn_stderr_write(out->buffer, out->used, &left);
	if (done < out->used) {
		out->error = -ETIMEDOUT;
		sn_stderr_count_dropped(out->buffer + done, out->used - done);
	}
	if (!out->each_flush)
		out->patience = left > 0 ? left : 1; /* 0 would mean that there is no limit */
	out->begun = true;
	out->used = 0;
}

void sn_out_flush(struct sn_out *out)
{
	const char *at = out->buffer;

	if (out->patience) {
		flush_to_stderr(out);
		return;
	}
	while (out->used > 0 && !out->error) {
		ssize_t written = write(out->fd, at, out->used);
		struct pollfd writable = {.fd = out->fd, .events = POLLOUT};

		if (written > 0) {
			at += written;
			out->used -= (size_t)written;
		} else if (errno == EAGAIN) {
			poll(&writable, 1, -1);
		} else if (errno != EINTR) {
			out->error = -errno;
		}
	}
	out->used = 0;
}

void sn_out_text(struct sn_out *out, const char *text)
{
	for (; *text; text++) {
		if (out->used == sizeof out->buffer)
			sn_out_flush(out);
		out->buffer[out->used++] = *text;
	}
}

void sn_out_number(struct sn_out *out, uint64_t value, unsigned base)
{
	char digits[24], *at = digits + sizeof digits - 1;

	*at = 0;
	do {
		*--at = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	sn_out_text(out, at);
}

void sn_out_address(struct sn_out *out, uintptr_t address)
{
	sn_out_text(out, "0x");
	sn_out_number(out, address, 16);
}

void sn_out_symbol(struct sn_out *out, const struct sn_symbol *symbol)
{
	if (symbol->name[0]) {
		sn_out_text(out, " ");
		sn_out_text(out, symbol->name);
		sn_out_text(out, "+");
		sn_out_address(out, symbol->offset);
	}
	if (symbol->module) {
		sn_out_text(out, " (");
		sn_out_text(out, symbol->module);
		sn_out_text(out, "+");
		sn_out_address(out, symbol->module_offset);
		sn_out_text(out, ")");
	}
}

void sn_out_frame(struct sn_out *out, const struct sn_modules *modules, uint64_t number,
		  uintptr_t pc, bool is_return_address)
{
	struct sn_symbol symbol;

	sn_symbol_of(modules, pc, is_return_address, &symbol);
	sn_out_text(out, "  #");
	sn_out_number(out, number, 10);
	sn_out_text(out, " ");
	sn_out_address(out, pc);
	sn_out_symbol(out, &symbol);
	sn_out_text(out, "\n");
}

void sn_out_spawned_at(struct sn_out *out, const struct sn_modules *modules, const void *at)
{
	struct sn_symbol symbol;

	sn_symbol_of(modules, (uintptr_t)at, true, &symbol);
	sn_out_text(out, "spawned at");
	sn_out_symbol(out, &symbol);
}

void sn_out_spawned_by(struct sn_out *out, uint64_t by)
{
	if (by) {
		sn_out_text(out, " by task ");
		sn_out_number(out, by, 10);
	} else {
		sn_out_text(out, " by a thread of the program");
	}
}

void sn_out_spawned(struct sn_out *out, const struct sn_modules *modules, const void *at,
		    uint64_t by)
{
	sn_out_spawned_at(out, modules, at);
	sn_out_spawned_by(out, by);
}
