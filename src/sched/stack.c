/* SPDX-License-Identifier: MIT */
#include "sched/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "arch/compiler.h"
#include "sched/fork.h"
#include "wait/lock.h"

#ifndef MADV_GUARD_INSTALL
#	define MADV_GUARD_INSTALL 102
#endif

/*
 * A slab of the default class takes 12 MiB of address space: large enough that a million stacks
 * need 16,000 calls of mmap(), small enough for a 32-bit process.
 */
#define SLOTS_PER_SLAB 64

/* Large classes get fewer, so that a slab stays below this unless it holds one slot only. */
#define SLAB_SIZE_LIMIT (sizeof(void *) == 8 ? (size_t)64 << 20 : (size_t)8 << 20)

struct sn_slab {
	struct sn_slab *next;      /* in all_slabs; never changes once published */
	struct sn_slab *next_free; /* in free_slabs[class]; under the lock */
	char *base;
	size_t slot_size;
	int class;
	int slots;
	int used;  /* slots [0, used) have a guard; grows under the lock */
	int nfree; /* under the lock */
	uint8_t free[SLOTS_PER_SLAB];
};

static struct sn_lock lock; /* guards everything below but all_slabs' readers */
static struct sn_slab *_Atomic all_slabs;
static struct sn_slab *free_slabs[SN_STACK_CLASSES]; /* those with a free or an unused slot */
static _Atomic uint64_t mapped;
static uint64_t guard_mappings_left; /* mprotect only */
static enum sn_stack_guard guard_kind;
static bool initialised;

/* True when the kernel itself may not read or write the page: what a guard is for. */
static bool kernel_refuses(void *page)
{
	return syscall(SYS_uname, page) < 0 && errno == EFAULT;
}

static bool madvise_guards_work(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *probe = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool works;

	if (probe == MAP_FAILED)
		return false;
	works = madvise(probe, page, MADV_GUARD_INSTALL) == 0 && kernel_refuses(probe);
	munmap(probe, page);
	return works;
}

static uint64_t max_map_count(void)
{
	char text[32] = "";
	int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 ? strtoull(text, NULL, 10) : 65530; /* the kernel's default */
}

void sn_stacks_init(void)
{
	const char *wish = getenv("SENNIT_STACK_GUARD");

	sn_lock(&lock);
	if (!initialised) {
		bool forced = wish && strcmp(wish, "mprotect") == 0;

		guard_kind = !forced && madvise_guards_work() ? SN_STACK_GUARD_MADVISE
							      : SN_STACK_GUARD_MPROTECT;
		/* Two mappings a stack; the other half is for the program's own libraries and
		 * heaps. */
		guard_mappings_left = max_map_count() / 2 / 2;
		initialised = true;
	}
	sn_unlock(&lock);
}

void sn_stacks_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase == SN_FORK_CHILD) {
		/* The child stands on one of them. */
		atomic_store(&all_slabs, NULL);
		memset(free_slabs, 0, sizeof free_slabs);
		atomic_store_explicit(&mapped, 0, memory_order_relaxed);
	}
}

enum sn_stack_guard sn_stack_guard_kind(void)
{
	return guard_kind;
}

/* Large stacks may have touched much, and are rare: not worth keeping warm. */
static bool is_large(int class)
{
	return sn_stack_class_size(class) > 4 * SN_STACK_DEFAULT_SIZE;
}

bool sn_stack_is_scarce(int class)
{
	return sizeof(void *) < 8 || guard_kind == SN_STACK_GUARD_MPROTECT || is_large(class);
}

int sn_stack_class(size_t size)
{
	/* Pages may be larger than the smallest class (64 KiB on some aarch64 kernels), and both a
	 * guard and a stack are whole pages. */
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int class = 0;

	if (size > SN_STACK_MAX_SIZE)
		return -1;
	if (size < page)
		size = page;
	while (sn_stack_class_size(class) < size)
		class ++;
	return class;
}

size_t sn_stack_class_size(int class)
{
	return SN_STACK_MIN_SIZE << class;
}

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static struct sn_slab *slab_create(int class, const char **why)
{
	struct sn_slab *slab = calloc(1, sizeof *slab);
	size_t slots;

	if (!slab) {
		*why = "heap";
		return NULL;
	}
	slab->class = class;
	/* The kernel may have larger pages than the smallest classes. */
	slab->slot_size = round_up(SN_STACK_GUARD_SIZE + sn_stack_class_size(class), page_size());
	slots = SLAB_SIZE_LIMIT / slab->slot_size;
	slab->slots = slots < 1 ? 1 : slots > SLOTS_PER_SLAB ? SLOTS_PER_SLAB : (int)slots;
	slab->base = mmap(NULL, slab->slot_size * (size_t)slab->slots, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (slab->base == MAP_FAILED) {
		*why = "address space";
		free(slab);
		return NULL;
	}
	/* A huge page would commit two megabytes for one touched stack. Fails where there are none:
	 * fine. */
	madvise(slab->base, slab->slot_size * (size_t)slab->slots, MADV_NOHUGEPAGE);
	slab->next = atomic_load_explicit(&all_slabs, memory_order_relaxed);
	atomic_store_explicit(&all_slabs, slab, memory_order_release);
	return slab;
}

static bool guard_install(char *at)
{
	if (guard_kind == SN_STACK_GUARD_MADVISE)
		return madvise(at, SN_STACK_GUARD_SIZE, MADV_GUARD_INSTALL) == 0;
	if (guard_mappings_left == 0 || mprotect(at, SN_STACK_GUARD_SIZE, PROT_NONE) < 0)
		return false;
	guard_mappings_left--;
	return true;
}

static struct sn_stack slot_stack(struct sn_slab *slab, int slot)
{
	char *at = slab->base + slab->slot_size * (size_t)slot;

	return (struct sn_stack){
		.low = at + SN_STACK_GUARD_SIZE, .high = at + slab->slot_size, .slab = slab};
}

/* Takes a slot of the class. Under the lock. */
static int slot_take(int class, struct sn_stack *stack, const char **why)
{
	struct sn_slab *slab = free_slabs[class];
	int slot;

	if (!slab) {
		slab = slab_create(class, why);
		if (!slab)
			return -ENOMEM;
		free_slabs[class] = slab;
	}
	if (slab->nfree > 0) {
		slot = slab->free[--slab->nfree];
	} else {
		slot = slab->used;
		if (!guard_install(slab->base + slab->slot_size * (size_t)slot)) {
			*why = "mappings for guard pages (vm.max_map_count)";
			return -ENOMEM;
		}
		/* Readers without the lock may see the slot only with its guard in place. */
		__atomic_store_n(&slab->used, slot + 1, __ATOMIC_RELEASE);
		atomic_fetch_add_explicit(&mapped, 1, memory_order_relaxed);
	}
	if (slab->nfree == 0 && slab->used == slab->slots)
		free_slabs[class] = slab->next_free;
	*stack = slot_stack(slab, slot);
	return 0;
}

/* Gives a slot back, its pages to the kernel. Under the lock. */
static void slot_give(struct sn_stack stack)
{
	struct sn_slab *slab = stack.slab;
	int slot = (int)((size_t)(stack.low - slab->base) / slab->slot_size);

	/* Guards survive this: only munmap() and MADV_GUARD_REMOVE end them. */
	madvise(stack.low, (size_t)(stack.high - stack.low), MADV_DONTNEED);
	if (slab->nfree == 0 && slab->used == slab->slots) {
		slab->next_free = free_slabs[slab->class];
		free_slabs[slab->class] = slab;
	}
	slab->free[slab->nfree++] = (uint8_t)slot;
}

int sn_stack_alloc(struct sn_stack *stack, int class, struct sn_stack_cache *caches,
		   const char **why)
{
	int err;

	if (caches && caches[class].count > 0) {
		*stack = caches[class].stacks[--caches[class].count];
		return 0;
	}
	sn_lock(&lock);
	err = slot_take(class, stack, why);
	sn_unlock(&lock);
	return err;
}

void sn_stack_free(struct sn_stack stack, struct sn_stack_cache *caches)
{
	struct sn_stack_cache *cache = caches ? &caches[stack.slab->class] : NULL;

	if (cache && !is_large(stack.slab->class)) {
		if (cache->count < SN_STACK_CACHE_SIZE) {
			cache->stacks[cache->count++] = stack;
			return;
		}
		/* Half, the coldest, so that a run of frees does not take the lock each time. */
		sn_lock(&lock);
		for (int i = 0; i < SN_STACK_CACHE_SIZE / 2; i++)
			slot_give(cache->stacks[i]);
		sn_unlock(&lock);
		cache->count -= SN_STACK_CACHE_SIZE / 2;
		memmove(cache->stacks, cache->stacks + SN_STACK_CACHE_SIZE / 2,
			cache->count * sizeof cache->stacks[0]);
		cache->stacks[cache->count++] = stack;
		return;
	}
	sn_lock(&lock);
	slot_give(stack);
	sn_unlock(&lock);
}

void sn_stack_flush(struct sn_stack_cache *caches)
{
	sn_lock(&lock);
	for (int class = 0; class < SN_STACK_CLASSES; class ++) {
		for (uint32_t i = 0; i < caches[class].count; i++)
			slot_give(caches[class].stacks[i]);
		caches[class].count = 0;
	}
	sn_unlock(&lock);
}

void sn_stacks_destroy(void)
{
	struct sn_slab *slab, *next;

	sn_lock(&lock);
	slab = atomic_exchange(&all_slabs, NULL);
	memset(free_slabs, 0, sizeof free_slabs);
	for (; slab; slab = next) {
		next = slab->next;
		if (guard_kind == SN_STACK_GUARD_MPROTECT)
			guard_mappings_left += (uint64_t)slab->used;
		munmap(slab->base, slab->slot_size * (size_t)slab->slots);
		free(slab);
	}
	atomic_store_explicit(&mapped, 0, memory_order_relaxed);
	sn_unlock(&lock);
}

void sn_stacks_forget(void)
{
	/* Kept in sight of leak checkers: orphans may still use them, so they are not lost. */
	static struct sn_slab *forgotten;
	struct sn_slab *slab, *last;

	sn_lock(&lock);
	slab = atomic_exchange(&all_slabs, NULL);
	for (last = slab; last && last->next; last = last->next)
		;
	if (last) {
		last->next = forgotten;
		forgotten = slab;
	}
	memset(free_slabs, 0, sizeof free_slabs);
	atomic_store_explicit(&mapped, 0, memory_order_relaxed);
	sn_unlock(&lock);
}

uint64_t sn_stacks_mapped(void)
{
	return atomic_load_explicit(&mapped, memory_order_relaxed);
}

bool sn_stack_find(const void *address, struct sn_stack *stack, bool *in_guard)
{
	struct sn_slab *slab = atomic_load_explicit(&all_slabs, memory_order_acquire);

	for (; slab; slab = slab->next) {
		size_t offset = (uintptr_t)address - (uintptr_t)slab->base;

		/* Unsigned: an address below the base is far above the size. */
		if (offset >= slab->slot_size * (size_t)slab->slots)
			continue;
		*stack = slot_stack(slab, (int)(offset / slab->slot_size));
		*in_guard = (const char *)address < stack->low;
		return true;
	}
	return false;
}
