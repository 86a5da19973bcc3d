/* SPDX-License-Identifier: MIT */
/*
 * The lines of reports. They are written to a descriptor without the heap and without a lock,
 * because a report may be made in a signal handler, or while a thread that hangs holds the heap's
 * lock.
 */
#ifndef SENNIT_DEBUG_OUT_H
#define SENNIT_DEBUG_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "debug/modules.h"

/* Text on its way to a descriptor. Async-signal-safe. */
struct sn_out {
	int fd;
	int error; /* of write(); nothing more is written after one */
	size_t used;
	char buffer[2048];
};

void sn_out_text(struct sn_out *out, const char *text);
void sn_out_number(struct sn_out *out, uint64_t value, unsigned base);
void sn_out_flush(struct sn_out *out);

/* "0x1234" */
void sn_out_address(struct sn_out *out, uintptr_t address);

/* " name+0x12 (/lib/file.so+0x5678)", as far as it is known */
void sn_out_symbol(struct sn_out *out, const struct sn_symbol *symbol);

/* "  #3 0x1234 name+0x12 (/lib/file.so+0x5678)" */
void sn_out_frame(struct sn_out *out, const struct sn_modules *modules, uint64_t number,
		  uintptr_t pc, bool is_return_address);

/* "spawned at name+0x12 (/lib/file.so+0x5678) by task 7"; by 0: by no task. */
void sn_out_spawned(struct sn_out *out, const struct sn_modules *modules, const void *at,
		    uint64_t by);
void sn_out_spawned_at(struct sn_out *out, const struct sn_modules *modules, const void *at);
void sn_out_spawned_by(struct sn_out *out, uint64_t by);

#endif
