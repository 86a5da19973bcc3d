/* SPDX-License-Identifier: MIT */
/*
 * The lines of reports.
 *
 * Contract. They are written to a descriptor without the heap and without a lock, because a report
 * may be made in a signal handler, or while a thread that hangs holds the heap's lock. All state is
 * the caller's.
 */
#ifndef SENNIT_DEBUG_OUT_H
#define SENNIT_DEBUG_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debug/modules.h"

/* Text on its way to a descriptor. Async-signal-safe. */
struct sn_out {
	int fd;
	int error; /* 0, or a negative errno, after which nothing more is written */
	/* 0, or only if fd is stderr: for how many ns writing still waits for room, after which
	 * error is -ETIMEDOUT, and what is not written is counted as dropped (base/log.h). */
	int64_t patience;
	bool each_flush; /* whether each flush may wait for so long, or all of them in total */
	bool begun;      /* whether there was a flush */
	size_t used;
	char buffer[2048];
};

void sn_out_text(struct sn_out *out, const char *text);
void sn_out_number(struct sn_out *out, uint64_t value, unsigned base);
void sn_out_flush(struct sn_out *out);

/* Writes "0x1234". */
void sn_out_address(struct sn_out *out, uintptr_t address);

/* Writes " name+0x12 (/lib/file.so+0x5678)", as far as these are known. */
void sn_out_symbol(struct sn_out *out, const struct sn_symbol *symbol);

/* Writes the line " #3 0x1234 name+0x12 (/lib/file.so+0x5678)". */
void sn_out_frame(struct sn_out *out, const struct sn_modules *modules, uint64_t number,
		  uintptr_t pc, bool is_return_address);

/* Writes "spawned at name+0x12 (/lib/file.so+0x5678) by task 7". by is 0 if a thread of the program
 * has spawned the task. The other two write one half each. */
void sn_out_spawned(struct sn_out *out, const struct sn_modules *modules, const void *at,
		    uint64_t by);
void sn_out_spawned_at(struct sn_out *out, const struct sn_modules *modules, const void *at);
void sn_out_spawned_by(struct sn_out *out, uint64_t by);

#endif
