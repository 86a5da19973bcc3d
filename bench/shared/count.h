/* SPDX-License-Identifier: MIT */
/*
 * Records what the instrumented runtime does to memory: count.c. A window is a stretch of one
 * thread's execution in which every access is kept, divided by marks into operations. Outside of
 * windows, only the cache lines are recorded that threads without a window touch: the monitor, and
 * threads that look for work.
 */
#ifndef SENNIT_BENCH_SHARED_COUNT_H
#define SENNIT_BENCH_SHARED_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#define LINE 64

enum count_kind {
	COUNT_READ,
	COUNT_WRITE,
	COUNT_STORE_FENCED, /* a sequentially consistent store: xchg on x86_64 */
	COUNT_RMW,
	COUNT_FENCE, /* a sequentially consistent fence */
	COUNT_SYSCALL,
	COUNT_MARK, /* an operation ends */
};

struct count_event {
	uintptr_t pc;      /* of the access; COUNT_SYSCALL: the name (const char *) */
	uintptr_t address; /* of the memory */
	enum count_kind kind;
};

struct count_log; /* of one thread */

/* Begins to watch threads that never had a window. */
void count_watch(void);

/* Opens a window on the calling thread. Returns NULL if the thread has one already. */
struct count_log *count_open(void);

/* Marks the end of an operation. Has no effect on another thread than the window's, so the
 * window then lacks a mark. */
void count_mark(void);

/* Closes a window. Returns false if the caller is on another thread than the one that opened it,
 * or if there were too many events; then the events are void. */
bool count_close(struct count_log *log, const struct count_event **events, uint32_t *n);

/* Whether a thread that never had a window has touched the cache line since count_watch(). */
bool count_watched(uintptr_t line);

/* A number of the calling thread, from 0. */
int count_thread(void);

#endif
