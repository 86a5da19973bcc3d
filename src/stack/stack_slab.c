/* SPDX-License-Identifier: MIT */
#include "stack/stack_slab.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <sennit/clock.h>

#include "stack/sanitizer.h"
#include "wait/backoff.h"
#include "wait/checked.h"
#include "wait/futex.h"

/* A slab of a large class gets fewer slots, so that it stays below this size if it has more than
 * one. */
#define SLAB_SIZE_LIMIT (sizeof(void *) == 8 ? (size_t)64 << 20 : (size_t)8 << 20)

/* How the end of a run waits for threads in sn_stack_find(), which takes microseconds. */
#define FINDERS_SPIN_NS 5000
#define FINDERS_YIELD_NS 100000
#define FINDERS_LOOK_NS 1000000
#define FINDERS_NS 1000000000

static struct sn_slab *_Atomic all_slabs;
/* The slabs of earlier runs, which orphans may still use. The list also shows leak checkers that
 * they are not lost. */
static struct sn_slab *_Atomic forgotten_slabs;

/* How many threads are in the part of sn_stack_find() that reads all_slabs, in the lower half. The
 * upper half is the number of the count, which changes when a count is given up. After 65,536 more
 * changes, a finder that was left behind could be taken for one of the present count. */
#define NEXT_COUNT 0x10000u
#define FINDERS(word) ((word) & (NEXT_COUNT - 1))
#define COUNT_OF(word) ((word) & ~(NEXT_COUNT - 1))

static _Atomic uint32_t finders;

/* The system has refused address space or a guard, and has granted none since then. Relaxed: see
 * sn_stack_is_scarce(). */
static _Atomic bool refused;

bool sn_stack_is_scarce(int class)
{
	/* Relaxed: a spawn that does not see it yet makes a task that waits for its stack. */
	return sizeof(void *) < 8 || sn_stack_guard_kind() == SN_STACK_GUARD_MPROTECT ||
	       sn_stack_is_large(class) || atomic_load_explicit(&refused, memory_order_relaxed);
}

bool sn_stack_note_grant(bool granted, const char *what, const char **why)
{
	if (!granted)
		*why = errno == EAGAIN ? "memory that may be locked (RLIMIT_MEMLOCK)" : what;
	if (atomic_load_explicit(&refused, memory_order_relaxed) == granted)
		atomic_store_explicit(&refused, !granted, memory_order_relaxed);
	return granted;
}

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Maps a slab. After mlockall(MCL_FUTURE) the kernel locks all of it into memory immediately. If so
 * much may not be locked (EAGAIN), tries smaller slabs, down to one slot. Does not do that for want
 * of address space, because the heap and threads need some, too. */
static char *slab_map(struct sn_slab *slab)
{
	char *base;

	do
		base = mmap(NULL, slab->slot_size * (size_t)slab->slots, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	while (base == MAP_FAILED && errno == EAGAIN && (slab->slots /= 2) > 0);
	return base;
}

struct sn_slab *sn_stack_slab_create(int class, const char **why)
{
	struct sn_slab *slab = calloc(1, sizeof *slab);
	size_t slots;

	if (!slab) {
		*why = "heap";
		return NULL;
	}
	slab->class = class;
	/* The kernel may have larger pages than the smallest classes. */
	slab->slot_size =
		round_up(SN_STACK_GUARD_SIZE + sn_stack_class_size(class), sn_page_size());
	slots = SLAB_SIZE_LIMIT / slab->slot_size;
	slab->slots = slots < 1                         ? 1
		      : slots > SN_STACK_SLOTS_PER_SLAB ? SN_STACK_SLOTS_PER_SLAB
							: (int)slots;
	slab->base = slab_map(slab);
	if (!sn_stack_note_grant(slab->base != MAP_FAILED, "address space", why)) {
		free(slab);
		return NULL;
	}
	/* A huge page would commit two megabytes for one touched stack. The call fails if the
	 * kernel has no huge pages, which is just as good. */
	madvise(slab->base, slab->slot_size * (size_t)slab->slots, MADV_NOHUGEPAGE);
#if SN_VALGRIND
	sn_sanitizer_slab_begins(slab->base, SN_STACK_GUARD_SIZE, slab->slot_size, slab->slots,
				 slab->valgrind_ids);
#endif
	slab->next = atomic_load_explicit(&all_slabs, memory_order_relaxed);
	/* Release: a finder that sees the slab sees what it is. */
	atomic_store_explicit(&all_slabs, slab, memory_order_release);
	return slab;
}

/* Cools neighbouring slots by one call, because one for each would cost three times as much. Guards
 * survive MADV_DONTNEED: only munmap() and MADV_GUARD_REMOVE end them. */
void sn_stack_slab_cool(struct sn_slab *slab, uint64_t slots)
{
	while (slots) {
		int first = __builtin_ctzll(slots);
		uint64_t rest = ~(slots >> first);
		int n = rest ? __builtin_ctzll(rest) : 64;

		madvise(sn_stack_slot(slab, first), slab->slot_size * (size_t)n, MADV_DONTNEED);
		if (first + n >= 64)
			return;
		slots &= ~(uint64_t)0 << (first + n);
	}
}

/* ---- the end ---- */

void sn_stack_slabs_forget(void)
{
	struct sn_slab *slab = atomic_load(&all_slabs), *last;

	for (last = slab; last && last->next; last = last->next)
		;
	/* In this order, so that a finder, which has no lock, finds each stack in at least one of
	 * the lists. */
	if (last) {
		last->next = atomic_load(&forgotten_slabs);
		atomic_store(&forgotten_slabs, slab);
	}
	atomic_store(&all_slabs, NULL);
	atomic_store_explicit(&refused, false, memory_order_relaxed);
}

/* Begins a new count, at zero. A finder of the previous count is not counted when it leaves. */
static void forget_finders(void)
{
	uint32_t seen = atomic_load(&finders);

	while (!atomic_compare_exchange_weak(&finders, &seen, COUNT_OF(seen) + NEXT_COUNT))
		;
}

uint32_t sn_stack_finder_enter(void)
{
	return COUNT_OF(atomic_fetch_add(&finders, 1));
}

void sn_stack_finder_leave(uint32_t count)
{
	uint32_t seen = atomic_load(&finders);

	do {
		if (COUNT_OF(seen) != count)
			return;
	} while (!atomic_compare_exchange_weak(&finders, &seen, seen - 1));
}

uint32_t sn_stack_finders_await(int64_t ns)
{
	SN_BACKOFF(backoff, SN_WAIT_END, FINDERS_SPIN_NS, FINDERS_YIELD_NS);
	int64_t deadline = sn_now() + ns;
	uint32_t seen;

	while (FINDERS(seen = atomic_load(&finders)) > 0 && sn_now() < deadline)
		if (!sn_backoff_pause(&backoff)) {
			sn_checked_pass(); /* bounded, and no task is left that needs a stack */
			sn_futex_wait(&finders, seen, sn_now() + FINDERS_LOOK_NS);
			sn_checked_pass_end();
		}
	if (FINDERS(seen) > 0)
		forget_finders();
	return FINDERS(seen);
}

void sn_stack_slabs_destroy(void)
{
	struct sn_slab *slab = atomic_exchange(&all_slabs, NULL), *next;

	sn_stack_finders_await(FINDERS_NS);
	for (; slab; slab = next) {
		next = slab->next;
		sn_stack_guards_unmapped(slab->mprotected);
#if SN_VALGRIND
		sn_sanitizer_slab_ends(slab->slots, slab->valgrind_ids);
#endif
		sn_sanitizer_unmap(slab->base, slab->slot_size * (size_t)slab->slots);
		munmap(slab->base, slab->slot_size * (size_t)slab->slots);
		free(slab);
	}
	atomic_store_explicit(&refused, false, memory_order_relaxed);
}

void sn_stack_slabs_fork_child(void)
{
	forget_finders();
}

/* ---- finding ---- */

static bool find_from(struct sn_slab *slab, const void *address, struct sn_stack *stack,
		      bool *in_guard)
{
	for (; slab; slab = slab->next) {
		size_t offset = (uintptr_t)address - (uintptr_t)slab->base;

		/* The offset is unsigned, so for an address below the base it exceeds the size. */
		if (offset >= slab->slot_size * (size_t)slab->slots)
			continue;
		*stack = sn_stack_in_slot(slab, (int)(offset / slab->slot_size));
		*in_guard = (const char *)address < stack->low;
		return true;
	}
	return false;
}

bool sn_stack_find(const void *address, struct sn_stack *stack, bool *in_guard)
{
	const uint32_t count = sn_stack_finder_enter();
	const bool found = find_from(atomic_load(&all_slabs), address, stack, in_guard);

	sn_stack_finder_leave(count);
	return found || find_from(atomic_load_explicit(&forgotten_slabs, memory_order_acquire),
				  address, stack, in_guard);
}
