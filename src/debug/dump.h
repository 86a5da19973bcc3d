/* SPDX-License-Identifier: MIT */
/*
 * The dump of all tasks: what each of them does. <sennit/debug.h> has sn_dump(), dump.c what it
 * does, dump_signal.c the signal that requests a dump.
 *
 * Contract. One dump is written at a time; while one is under way, sn_dump() returns -EBUSY. A dump
 * takes nothing from the heap.
 *
 * Who may write what: whether a dump is under way, any thread, atomically; the state of the signal,
 * see dump_signal.c.
 */
#ifndef SENNIT_DEBUG_DUMP_H
#define SENNIT_DEBUG_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fork.h"

/* sn_dump() to stderr by a process that is about to end. If nobody reads stderr for some seconds,
 * the rest is dropped. */
void sn_dump_before_exit(void);

/*
 * Catches the signal that requests a dump. Returns 0, or -EINVAL after a line on stderr. If
 * wait_stats, the histograms of waits follow the dump.
 */
int sn_dump_install(bool wait_stats);
void sn_dump_uninstall(void);

/* A chore of the monitor: begins a requested dump, on a thread of its own. */
void sn_dump_serve(int64_t now, bool idle);
bool sn_dump_wanted(void);

/* Called by the monitor when a task has kept its processor, or has waited for one, for too long:
 * requests a trace, if there is a file for one, and at most one each minute. */
void sn_dump_note_stall(void);

/* Returns the signal if it is caught for dumps; otherwise 0. */
int sn_dump_own_signal(void);

/* sn_modules_find() under a lock that is held across fork(), so that the loader's lock is free in
 * the child. */
struct sn_modules;
void sn_dump_find_modules(struct sn_modules *modules);
/* The same lock, for other calls of dl_iterate_phdr(). No code of the program runs under it. */
void sn_dump_lock_loader(void);
void sn_dump_unlock_loader(void);

void sn_dump_fork(enum sn_fork_phase phase);
void sn_dump_signal_fork(enum sn_fork_phase phase);

#endif
