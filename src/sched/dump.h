/* SPDX-License-Identifier: MIT */
/*
 * Telling what tasks do: the dump of all of them, and the lines that other reports share with it.
 */
#ifndef SENNIT_SCHED_DUMP_H
#define SENNIT_SCHED_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/backtrace.h"
#include "sched/fork.h"

/* Text on its way to a descriptor. Async-signal-safe. */
struct sn_out {
	int fd;
	int error; /* of write(), after which nothing is written any more */
	size_t used;
	char buffer[2048];
};

void sn_out_text(struct sn_out *out, const char *text);
void sn_out_number(struct sn_out *out, uint64_t value, unsigned base);
void sn_out_flush(struct sn_out *out);

/* "  #3 0x1234 name+0x12 (/lib/file.so+0x5678)" */
void sn_out_frame(struct sn_out *out, const struct sn_modules *modules, uint64_t number,
		  uintptr_t pc, bool is_return_address);

/* "spawned at name+0x12 (/lib/file.so+0x5678) by task 7"; by 0: by no task. */
void sn_out_spawned(struct sn_out *out, const struct sn_modules *modules, const void *at,
		    uint64_t by);

/* The signal that asks for a dump: 0, or -EINVAL after a line on stderr. */
int sn_dump_install(void);
void sn_dump_uninstall(void);

/* The monitor: begins the dump that was asked for, on a thread of its own. */
void sn_dump_serve(void);
bool sn_dump_wanted(void);

/* As sn_scan_own_signal(). */
int sn_dump_own_signal(void);

void sn_dump_fork(enum sn_fork_phase phase);

#endif
