/* SPDX-License-Identifier: MIT */
/*
 * The functions that the compiler calls at every memory access when it compiles for the thread
 * sanitizer. Usually the sanitizer's library defines them. These record the access, and carry out
 * atomic accesses. The linker's --wrap (CMakeLists.txt) makes calls of libc that enter the kernel
 * come here.
 *
 * They do not see assembly (the context switch, which writes the stack that it leaves, and the
 * accessor of the thread's block, which only reads), nor the accesses of libc inside malloc(),
 * memcpy() and so on. All atomic accesses have the strongest order; no count depends on that.
 *
 * A log belongs to its thread. A signal handler that interrupts the recording may lose an event, so
 * callers compare many operations and drop those that differ.
 */
#include "count.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "../check.h"

#define MOST_EVENTS (1 << 17)
#define TABLE (1 << 20)

struct count_log {
	bool open, had_window;
	int number;
	uint32_t n;
	struct count_event events[MOST_EVENTS];
};

static _Atomic bool watching;
static _Atomic int threads;
static _Atomic uintptr_t watched[TABLE];
static __thread struct count_log *mine;
static __thread bool has_number;
static __thread int number;

static uint32_t hash(uintptr_t line)
{
	return (uint32_t)((line / LINE * 0x9e3779b97f4a7c15u) >> 40) % TABLE;
}

static void watch(uintptr_t line)
{
	for (uint32_t i = hash(line);; i = (i + 1) % TABLE) {
		uintptr_t there = atomic_load_explicit(&watched[i], memory_order_relaxed);

		if (there == line)
			return;
		if (!there &&
		    (atomic_compare_exchange_strong(&watched[i], &there, line) || there == line))
			return;
	}
}

bool count_watched(uintptr_t line)
{
	for (uint32_t i = hash(line);; i = (i + 1) % TABLE) {
		uintptr_t there = atomic_load_explicit(&watched[i], memory_order_relaxed);

		if (!there || there == line)
			return there == line;
	}
}

static void note(enum count_kind kind, uintptr_t address, uintptr_t pc)
{
	struct count_log *log = mine;

	if (log && log->open) {
		if (log->n < MOST_EVENTS)
			log->events[log->n++] = (struct count_event){pc, address, kind};
	} else if (!log && kind <= COUNT_RMW &&
		   atomic_load_explicit(&watching, memory_order_relaxed)) {
		watch(address / LINE * LINE);
	}
}

/* ---- windows ---- */

void count_watch(void)
{
	atomic_store(&watching, true);
}

int count_thread(void)
{
	if (!has_number) {
		number = atomic_fetch_add(&threads, 1);
		has_number = true;
	}
	return number;
}

struct count_log *count_open(void)
{
	if (!mine) {
		mine = malloc(sizeof *mine);
		CHECK(mine);
		mine->open = false;
	}
	if (mine->open)
		return NULL;
	mine->n = 0;
	mine->open = true;
	return mine;
}

void count_mark(void)
{
	note(COUNT_MARK, 0, 0);
}

bool count_close(struct count_log *log, const struct count_event **events, uint32_t *n)
{
	log->open = false;
	*events = log->events;
	*n = log->n;
	return log == mine && log->n < MOST_EVENTS;
}

/* ---- what the compiler calls ---- */

#define CALLER ((uintptr_t)__builtin_return_address(0))

#define PLAIN(name, kind)                         \
	void __tsan_##name(void *p);              \
	void __tsan_##name(void *p)               \
	{                                         \
		note(kind, (uintptr_t)p, CALLER); \
	}
#define PLAIN_SIZES(size)                       \
	PLAIN(read##size, COUNT_READ)           \
	PLAIN(write##size, COUNT_WRITE)         \
	PLAIN(unaligned_read##size, COUNT_READ) \
	PLAIN(unaligned_write##size, COUNT_WRITE)

PLAIN_SIZES(1)
PLAIN_SIZES(2)
PLAIN_SIZES(4)
PLAIN_SIZES(8)
PLAIN_SIZES(16)

#define RANGE(name, kind)                                                                 \
	void __tsan_##name(void *p, size_t size);                                         \
	void __tsan_##name(void *p, size_t size)                                          \
	{                                                                                 \
		uintptr_t end = (uintptr_t)p + size, pc = CALLER;                         \
                                                                                          \
		for (uintptr_t at = (uintptr_t)p; at < end; at = at / LINE * LINE + LINE) \
			note(kind, at, pc);                                               \
	}
RANGE(read_range, COUNT_READ)
RANGE(write_range, COUNT_WRITE)

void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *pc)
{
	(void)pc;
}
void __tsan_func_exit(void) {}

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	/* Weaker fences are no instruction on x86_64. */
	if (order == __ATOMIC_SEQ_CST)
		note(COUNT_FENCE, 0, CALLER);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define CHANGE(bits, type, name)                                           \
	type __tsan_atomic##bits##_##name(type *p, type value, int order); \
	type __tsan_atomic##bits##_##name(type *p, type value, int order)  \
	{                                                                  \
		(void)order;                                               \
		note(COUNT_RMW, (uintptr_t)p, CALLER);                     \
		return __atomic_##name(p, value, __ATOMIC_SEQ_CST);        \
	}
#define COMPARE(bits, type, strength)                                                        \
	bool __tsan_atomic##bits##_compare_exchange_##strength(type *p, type *old, type new, \
							       int order, int order2);       \
	bool __tsan_atomic##bits##_compare_exchange_##strength(type *p, type *old, type new, \
							       int order, int order2)        \
	{                                                                                    \
		(void)order, (void)order2;                                                   \
		note(COUNT_RMW, (uintptr_t)p, CALLER);                                       \
		return __atomic_compare_exchange_n(p, old, new, false, __ATOMIC_SEQ_CST,     \
						   __ATOMIC_SEQ_CST);                        \
	}
#define ATOMIC(bits, type)                                                                       \
	type __tsan_atomic##bits##_load(const type *p, int order);                               \
	type __tsan_atomic##bits##_load(const type *p, int order)                                \
	{                                                                                        \
		(void)order;                                                                     \
		note(COUNT_READ, (uintptr_t)p, CALLER);                                          \
		return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                     \
	}                                                                                        \
	void __tsan_atomic##bits##_store(type *p, type value, int order);                        \
	void __tsan_atomic##bits##_store(type *p, type value, int order)                         \
	{                                                                                        \
		note(order == __ATOMIC_SEQ_CST ? COUNT_STORE_FENCED : COUNT_WRITE, (uintptr_t)p, \
		     CALLER);                                                                    \
		__atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                    \
	}                                                                                        \
	typedef type count_exchange##bits;                                                       \
	type __tsan_atomic##bits##_exchange(type *p, type value, int order);                     \
	type __tsan_atomic##bits##_exchange(type *p, type value, int order)                      \
	{                                                                                        \
		(void)order;                                                                     \
		note(COUNT_RMW, (uintptr_t)p, CALLER);                                           \
		return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                          \
	}                                                                                        \
	CHANGE(bits, type, fetch_add)                                                            \
	CHANGE(bits, type, fetch_sub)                                                            \
	CHANGE(bits, type, fetch_and)                                                            \
	CHANGE(bits, type, fetch_or)                                                             \
	CHANGE(bits, type, fetch_xor)                                                            \
	COMPARE(bits, type, strong)                                                              \
	COMPARE(bits, type, weak)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

/* ---- system calls ---- */

/* Passing more arguments than the callee has does no harm on x86_64. */
#define CALL(name)                                                                  \
	long __real_##name(long a, long b, long c, long d, long e, long f, long g); \
	long __wrap_##name(long a, long b, long c, long d, long e, long f, long g); \
	long __wrap_##name(long a, long b, long c, long d, long e, long f, long g)  \
	{                                                                           \
		note(COUNT_SYSCALL, 0, (uintptr_t) #name);                          \
		return __real_##name(a, b, c, d, e, f, g);                          \
	}
#include "calls.h"
