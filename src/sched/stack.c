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
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "arch/compiler.h"
#include "sched/fork.h"
#include "sched/sanitizer.h"
#include "wait/backoff.h"
#include "wait/futex.h"
#include "wait/lock.h"

#ifndef MADV_GUARD_INSTALL
#	define MADV_GUARD_INSTALL 102
#endif
#ifndef SYS_process_madvise
#	define SYS_process_madvise 440
#endif
#ifndef PIDFD_SELF
#	define PIDFD_SELF (-10000)
#endif

/*
 * Guards of one system call: 0.85 us each instead of 1.25, most of which is the page table. With more
 * there is little left to gain, and a task waits longer for the one that it needs.
 */
#define GUARDS_AT_ONCE 16

/*
 * A slab of the default class takes 12 MiB of address space: large enough that a million stacks
 * need 16,000 calls of mmap(), small enough for a 32-bit process.
 */
#define SLOTS_PER_SLAB 64

/* Large classes get fewer, so that a slab stays below this unless it holds one slot only. */
#define SLAB_SIZE_LIMIT (sizeof(void *) == 8 ? (size_t)64 << 20 : (size_t)8 << 20)

/* Lists of slabs of a class. A slab is in one while it has what the list is for. */
enum list {
	WARM, /* a free slot that may have pages */
	COLD, /* a free slot without any, or one that has never been used */
	LISTS,
};

struct sn_slab {
	struct sn_slab *next; /* in all_slabs; never changes once published */
	char *base;
	size_t slot_size;
	int class;
	int slots;
	/* From here on under the lock. Slots from used on are nobody's, and have never been used; a bit
	 * for each of the others that is free. */
	int used;
	int mprotected; /* how many of the guards are by mprotect() */
	uint64_t free[LISTS];
	struct sn_slab *before[LISTS], *after[LISTS];
#if SN_VALGRIND
	unsigned told[SLOTS_PER_SLAB];
#endif
};
_Static_assert(SLOTS_PER_SLAB <= 64, "free has 64 bits");

/* What is free of a class: first the slabs that were given something last. */
struct store {
	struct sn_slab *first[LISTS], *last[LISTS];
	uint32_t warm; /* stacks */
	uint32_t idle; /* the fewest there were of them since the last look: nobody needed those */
	uint32_t owed; /* of those, the ones still to be cooled */
};

static struct sn_lock lock; /* guards everything below but all_slabs' readers, and those slabs */
static struct sn_slab *_Atomic all_slabs;
/* Of former runs: orphans may still use them. Kept in sight of leak checkers, as they are not lost. */
static struct sn_slab *_Atomic forgotten_slabs;
/* How the end of a run waits for those in sn_stack_find(), which takes microseconds. */
#define FINDERS_SPIN_NS 5000
#define FINDERS_YIELD_NS 100000
#define FINDERS_LOOK_NS 1000000
#define FINDERS_NS 1000000000

/* In sn_stack_find(). They count themselves, then look; the end takes the list away, then waits for them. */
static _Atomic uint32_t finders;
static struct store stores[SN_STACK_CLASSES];
/* Set under the lock, cleared there by the monitor's look. Relaxed: the monitor, which alone reads it
 * without, comes again. */
static _Atomic bool any_warm;
static int64_t looked; /* the monitor's: when it last looked for idle ones */
static bool owing;     /* the monitor's: it found some, and may not be through with them */
static int64_t cooled; /* the monitor's: when stacks were cooled last */
static _Atomic uint64_t mapped;
static uint64_t guard_mappings_left; /* for guards by mprotect() */
/* The system has refused address space or a guard, and nothing since then. Relaxed: see
 * sn_stack_is_scarce(). */
static _Atomic bool refused;
static enum sn_stack_guard guard_kind;
static int default_class; /* constant while a runtime runs */
static bool several_work; /* guards by one process_madvise() */
static bool initialised;

/* Kept, as each spawn asks: sysconf() is 5 % of a spawn that is joined at once (bench-tasks). */
size_t sn_page_size(void)
{
	static _Atomic size_t kept;
	size_t size = atomic_load_explicit(&kept, memory_order_relaxed);

	if (sn_unlikely(size == 0)) {
		size = (size_t)sysconf(_SC_PAGESIZE);
		atomic_store_explicit(&kept, size, memory_order_relaxed);
	}
	return size;
}

/* True when the kernel itself may not read or write the page: what a guard is for. */
static bool kernel_refuses(void *page)
{
	return syscall(SYS_uname, page) < 0 && errno == EFAULT;
}

static long guard_alone(char *page, size_t size)
{
	return madvise(page, size, MADV_GUARD_INSTALL);
}

static long guard_among_several(char *page, size_t size)
{
	const struct iovec guard = {page, size};

	return syscall(SYS_process_madvise, PIDFD_SELF, &guard, 1L, MADV_GUARD_INSTALL, 0);
}

static bool guards_work(long (*install)(char *page, size_t size))
{
	size_t page = sn_page_size();
	char *probe = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool works;

	if (probe == MAP_FAILED)
		return false;
	works = install(probe, page) >= 0 && kernel_refuses(probe);
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

		guard_kind = !forced && guards_work(guard_alone) ? SN_STACK_GUARD_MADVISE
								 : SN_STACK_GUARD_MPROTECT;
		/* valgrind does not know process_madvise(), and says so at each. */
		several_work = !SN_VALGRIND && guard_kind == SN_STACK_GUARD_MADVISE &&
			       guards_work(guard_among_several);
		/* Two mappings a stack; the other half is for the program's own libraries and
		 * heaps. */
		guard_mappings_left = max_map_count() / 2 / 2;
		initialised = true;
	}
	sn_unlock(&lock);
}

/* Under the lock. */
static void nothing_is_free(void)
{
	memset(stores, 0, sizeof stores);
	looked = 0;
	owing = false;
	atomic_store_explicit(&any_warm, false, memory_order_relaxed);
	atomic_store_explicit(&mapped, 0, memory_order_relaxed);
	atomic_store_explicit(&refused, false, memory_order_relaxed);
}

/* Under the lock. */
static void forget(void)
{
	struct sn_slab *slab = atomic_load(&all_slabs), *last;

	for (last = slab; last && last->next; last = last->next)
		;
	/* In this order: who looks without the lock finds a stack in either list. */
	if (last) {
		last->next = atomic_load(&forgotten_slabs);
		atomic_store(&forgotten_slabs, slab);
	}
	atomic_store(&all_slabs, NULL);
	nothing_is_free();
}

void sn_stacks_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&lock, phase);
	if (phase == SN_FORK_CHILD) {
		/* The child stands on one of them. */
		forget();
		atomic_store(&finders, 0);
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
	/* Relaxed: who does not see it yet is given a task that waits for its stack. */
	return sizeof(void *) < 8 || guard_kind == SN_STACK_GUARD_MPROTECT || is_large(class) ||
	       atomic_load_explicit(&refused, memory_order_relaxed);
}

int sn_stack_class(size_t size)
{
	/* Pages may be larger than the smallest class (64 KiB on some aarch64 kernels), and both a
	 * guard and a stack are whole pages. */
	size_t page = sn_page_size();
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

void sn_stack_set_default(int class)
{
	default_class = class;
}

int sn_stack_default_class(void)
{
	return default_class;
}

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Keeps what the system has last said in refused. errno is that of the call when it has not done. */
static bool was_granted(bool granted, const char *what, const char **why)
{
	if (!granted)
		*why = errno == EAGAIN ? "memory that may be locked (RLIMIT_MEMLOCK)" : what;
	if (atomic_load_explicit(&refused, memory_order_relaxed) == granted)
		atomic_store_explicit(&refused, !granted, memory_order_relaxed);
	return granted;
}

/* After mlockall(MCL_FUTURE) it is all locked into memory at once. Where so much may not be (EAGAIN) a smaller
 * one is tried, down to one slot. Not for want of address space: heap and threads have to live, too. */
static char *slab_map(struct sn_slab *slab)
{
	char *base;

	do
		base = mmap(NULL, slab->slot_size * (size_t)slab->slots, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	while (base == MAP_FAILED && errno == EAGAIN && (slab->slots /= 2) > 0);
	return base;
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
	slab->slot_size =
		round_up(SN_STACK_GUARD_SIZE + sn_stack_class_size(class), sn_page_size());
	slots = SLAB_SIZE_LIMIT / slab->slot_size;
	slab->slots = slots < 1 ? 1 : slots > SLOTS_PER_SLAB ? SLOTS_PER_SLAB : (int)slots;
	slab->base = slab_map(slab);
	if (!was_granted(slab->base != MAP_FAILED, "address space", why)) {
		free(slab);
		return NULL;
	}
	/* A huge page would commit two megabytes for one touched stack. Fails where there are none:
	 * fine. */
	madvise(slab->base, slab->slot_size * (size_t)slab->slots, MADV_NOHUGEPAGE);
#if SN_VALGRIND
	sn_sanitizer_slab_begins(slab->base, SN_STACK_GUARD_SIZE, slab->slot_size, slab->slots,
				 slab->told);
#endif
	slab->next = atomic_load_explicit(&all_slabs, memory_order_relaxed);
	atomic_store_explicit(&all_slabs, slab, memory_order_release);
	return slab;
}

/*
 * Under the lock, for the budget of mappings. The kernel refuses MADV_GUARD_INSTALL with EINVAL where memory
 * is locked (mlockall() by the program, while it runs): that slot's guard is by mprotect() then, and its
 * pages, which nobody can touch, are not kept in memory.
 */
static bool guard_install(struct sn_slab *slab, int slot)
{
	char *at = slab->base + slab->slot_size * (size_t)slot;

	if (guard_kind == SN_STACK_GUARD_MADVISE) {
		if (madvise(at, SN_STACK_GUARD_SIZE, MADV_GUARD_INSTALL) == 0)
			return true;
		if (errno != EINVAL)
			return false;
		munlock(at, SN_STACK_GUARD_SIZE);
		madvise(at, SN_STACK_GUARD_SIZE, MADV_DONTNEED);
	}
	if (guard_mappings_left == 0) {
		errno = ENOMEM;
		return false;
	}
	if (mprotect(at, SN_STACK_GUARD_SIZE, PROT_NONE) < 0)
		return false;
	guard_mappings_left--;
	slab->mprotected++;
	return true;
}

/* How many of these guards one call has installed; 0: none, or there is no such call. */
static int guards_at_once(const struct iovec *guards, int n)
{
	long size =
		syscall(SYS_process_madvise, PIDFD_SELF, guards, (long)n, MADV_GUARD_INSTALL, 0);
	long done = size / (long)SN_STACK_GUARD_SIZE;

	return done < 0 || done > n ? 0 : (int)done;
}

/* MADVISE only: of n slots from the first on, 0 < n <= GUARDS_AT_ONCE. How many have one now, or a
 * negative errno. */
static int guards_install(const struct sn_slab *slab, int first, int n)
{
	struct iovec guards[GUARDS_AT_ONCE];
	char *at = slab->base + slab->slot_size * (size_t)first;
	int saved = errno, done = 0;

	for (int i = 0; i < n; i++)
		guards[i] = (struct iovec){at + slab->slot_size * (size_t)i, SN_STACK_GUARD_SIZE};
	if (several_work)
		done = guards_at_once(guards, n);
	if (done == 0)
		done = madvise(at, SN_STACK_GUARD_SIZE, MADV_GUARD_INSTALL) == 0 ? 1 : -errno;
	errno = saved;
	return done;
}

static struct sn_stack slot_stack(struct sn_slab *slab, int slot)
{
	char *at = slab->base + slab->slot_size * (size_t)slot;

	return (struct sn_stack){
		.low = at + SN_STACK_GUARD_SIZE, .high = at + slab->slot_size, .slab = slab};
}

/* ---- lists; under the lock ---- */

static void list_put(struct sn_slab *slab, enum list which)
{
	struct store *store = &stores[slab->class];
	struct sn_slab *after = store->first[which];

	slab->before[which] = NULL;
	slab->after[which] = after;
	store->first[which] = slab;
	if (after)
		after->before[which] = slab;
	else
		store->last[which] = slab;
}

static void list_remove(struct sn_slab *slab, enum list which)
{
	struct store *store = &stores[slab->class];
	struct sn_slab *before = slab->before[which], *after = slab->after[which];

	if (before)
		before->after[which] = after;
	else
		store->first[which] = after;
	if (after)
		after->before[which] = before;
	else
		store->last[which] = before;
}

static bool has_some(const struct sn_slab *slab, enum list which)
{
	return slab->free[which] || (which == COLD && slab->used < slab->slots);
}

static void free_set(struct sn_slab *slab, enum list which, uint64_t slots)
{
	if (!has_some(slab, which))
		list_put(slab, which);
	slab->free[which] |= slots;
}

static void free_clear(struct sn_slab *slab, enum list which, uint64_t slots)
{
	slab->free[which] &= ~slots;
	if (!has_some(slab, which))
		list_remove(slab, which);
}

/* ---- slots; under the lock, but for their pages ---- */

static int slot_of(struct sn_stack stack)
{
	return (int)((size_t)(stack.low - stack.slab->base) / stack.slab->slot_size);
}

/* Atomic: an allocation looks without the lock whether there are some. Relaxed: with an old number it
 * takes the lock for nothing, or a new stack where a warm one was; what the stacks hold is passed on
 * under the lock. */
static void set_warm(struct store *store, uint32_t n)
{
	__atomic_store_n(&store->warm, n, __ATOMIC_RELAXED);
	if (n < store->idle)
		store->idle = n;
}

static bool take_warm(int class, struct sn_stack *stack)
{
	struct store *store = &stores[class];
	struct sn_slab *slab = store->first[WARM];
	int slot;

	if (!slab)
		return false;
	slot = __builtin_ctzll(slab->free[WARM]);
	free_clear(slab, WARM, (uint64_t)1 << slot);
	set_warm(store, store->warm - 1);
	*stack = slot_stack(slab, slot);
	return true;
}

static void give_warm(struct sn_stack stack)
{
	free_set(stack.slab, WARM, (uint64_t)1 << slot_of(stack));
	set_warm(&stores[stack.slab->class], stores[stack.slab->class].warm + 1);
	if (!atomic_load_explicit(&any_warm, memory_order_relaxed))
		atomic_store_explicit(&any_warm, true, memory_order_relaxed);
}

/* From now on the slots from used on are those that are nobody's. */
static void set_used(struct sn_slab *slab, int used)
{
	bool had = has_some(slab, COLD);

	slab->used = used;
	if (had && !has_some(slab, COLD))
		list_remove(slab, COLD);
	else if (!had && has_some(slab, COLD))
		list_put(slab, COLD);
}

/* Makes some of the slab's slots that have never been used the cache's, which has none. */
static void take_unused(struct sn_slab *slab, struct sn_stack_cache *cache)
{
	int left = slab->slots - slab->used;

	cache->slab = slab;
	cache->next = cache->guarded = slab->used;
	cache->end = slab->used + (left < GUARDS_AT_ONCE ? left : GUARDS_AT_ONCE);
	set_used(slab, cache->end);
}

/* Gives those that are left back, as unused or with a guard. One for whose guard there is no memory is
 * lost. */
static void give_unused(struct sn_stack_cache *cache)
{
	struct sn_slab *slab = cache->slab;
	int saved = errno;

	cache->slab = NULL;
	if (slab && slab->used == cache->end) {
		set_used(slab, cache->next);
		return;
	}
	for (int slot = cache->next; slab && slot < cache->end; slot++) {
		if (slot >= cache->guarded && !guard_install(slab, slot))
			continue;
		free_set(slab, COLD, (uint64_t)1 << slot);
		atomic_fetch_add_explicit(&mapped, 1, memory_order_relaxed);
	}
	errno = saved;
}

/* 1: *stack is still to be had, from the cache's unused slots. */
static int take_cold(int class, struct sn_stack *stack, struct sn_stack_cache *cache,
		     const char **why)
{
	struct sn_slab *slab = stores[class].first[COLD];
	int slot;

	if (!slab) {
		slab = slab_create(class, why);
		if (!slab)
			return -ENOMEM;
		list_put(slab, COLD);
	}
	if (slab->free[COLD]) {
		slot = __builtin_ctzll(slab->free[COLD]);
		free_clear(slab, COLD, (uint64_t)1 << slot);
	} else if (cache && !sn_stack_is_scarce(class)) {
		take_unused(slab, cache);
		return 1;
	} else {
		slot = slab->used;
		if (!was_granted(guard_install(slab, slot),
				 "mappings for guard pages (vm.max_map_count)", why))
			return -ENOMEM;
		set_used(slab, slot + 1);
		atomic_fetch_add_explicit(&mapped, 1, memory_order_relaxed);
	}
	*stack = slot_stack(slab, slot);
	return 0;
}

/* Gives the pages of neighbouring slots back to the kernel, in one call: a call for each would cost
 * three times as much. Guards survive it: only munmap() and MADV_GUARD_REMOVE end them. Without the
 * lock, by who owns the slots. */
static void cool(struct sn_slab *slab, uint64_t slots)
{
	while (slots) {
		int first = __builtin_ctzll(slots);
		uint64_t rest = ~(slots >> first);
		int n = rest ? __builtin_ctzll(rest) : 64;

		madvise(slab->base + slab->slot_size * (size_t)first, slab->slot_size * (size_t)n,
			MADV_DONTNEED);
		if (first + n >= 64)
			return;
		slots &= ~(uint64_t)0 << (first + n);
	}
}

/* A free slot that has a guard, for who cannot have another. */
static bool take_guarded(int class, struct sn_stack *stack)
{
	struct sn_slab *slab = stores[class].first[COLD];
	int slot;

	if (take_warm(class, stack))
		return true;
	while (slab && !slab->free[COLD])
		slab = slab->after[COLD];
	if (!slab)
		return false;
	slot = __builtin_ctzll(slab->free[COLD]);
	free_clear(slab, COLD, (uint64_t)1 << slot);
	*stack = slot_stack(slab, slot);
	return true;
}

/*
 * There is no guard for the cache's next slot without the lock. 1: it has got one; 0: *stack is another
 * that has one.
 */
static sn_noinline int guard_slowly(struct sn_stack_cache *cache, int class, struct sn_stack *stack,
				    const char **why)
{
	int saved = errno, err = 0;

	sn_lock(&lock);
	if (was_granted(guard_install(cache->slab, cache->next), "memory for guard pages", why))
		err = 1;
	else if (!take_guarded(class, stack))
		err = -ENOMEM;
	sn_unlock(&lock);
	cache->guarded += err == 1;
	errno = saved;
	return err;
}

/* The next of the cache's unused slots, of which there is one. Without the lock. */
static int take_own(struct sn_stack_cache *cache, int class, struct sn_stack *stack,
		    const char **why)
{
	struct sn_slab *slab = cache->slab;

	if (cache->next == cache->guarded) {
		int n = guards_install(slab, cache->next, cache->end - cache->next);

		if (n < 0) {
			n = guard_slowly(cache, class, stack, why);
			if (n <= 0)
				return n;
		} else {
			cache->guarded += n;
		}
	}
	*stack = slot_stack(slab, cache->next++);
	if (cache->next == cache->end)
		cache->slab = NULL;
	atomic_fetch_add_explicit(&mapped, 1, memory_order_relaxed);
	return 0;
}

int sn_stack_alloc(struct sn_stack *stack, int class, struct sn_stack_cache *caches,
		   const char **why)
{
	struct sn_stack_cache *cache = caches ? &caches[class] : NULL;
	int err = 0;

	if (cache && cache->count > 0) {
		*stack = cache->stacks[--cache->count];
		return 0;
	}
	if (cache && cache->slab && !__atomic_load_n(&stores[class].warm, __ATOMIC_RELAXED))
		return take_own(cache, class, stack, why);
	sn_lock(&lock);
	if (!take_warm(class, stack))
		err = cache && cache->slab ? 1 : take_cold(class, stack, cache, why);
	else if (cache)
		while (cache->count < SN_STACK_CACHE_SIZE / 2 &&
		       take_warm(class, &cache->stacks[cache->count]))
			cache->count++;
	sn_unlock(&lock);
	return err == 1 ? take_own(cache, class, stack, why) : err;
}

void sn_stack_free(struct sn_stack stack, struct sn_stack_cache *caches)
{
	struct sn_slab *slab = stack.slab;
	struct sn_stack_cache *cache = caches ? &caches[slab->class] : NULL;

	if (is_large(slab->class)) {
		cool(slab, (uint64_t)1 << slot_of(stack));
		sn_lock(&lock);
		free_set(slab, COLD, (uint64_t)1 << slot_of(stack));
		sn_unlock(&lock);
		return;
	}
	if (!cache) {
		sn_lock(&lock);
		give_warm(stack);
		sn_unlock(&lock);
		return;
	}
	if (cache->count == SN_STACK_CACHE_SIZE) {
		/* Half, the coldest, so that a run of frees does not take the lock each time. */
		sn_lock(&lock);
		for (int i = 0; i < SN_STACK_CACHE_SIZE / 2; i++)
			give_warm(cache->stacks[i]);
		sn_unlock(&lock);
		cache->count -= SN_STACK_CACHE_SIZE / 2;
		memmove(cache->stacks, cache->stacks + SN_STACK_CACHE_SIZE / 2,
			cache->count * sizeof cache->stacks[0]);
	}
	cache->stacks[cache->count++] = stack;
}

void sn_stack_flush(struct sn_stack_cache *caches)
{
	sn_lock(&lock);
	for (int class = 0; class < SN_STACK_CLASSES; class ++) {
		for (uint32_t i = 0; i < caches[class].count; i++)
			give_warm(caches[class].stacks[i]);
		caches[class].count = 0;
		give_unused(&caches[class]);
	}
	sn_unlock(&lock);
}

/* ---- cooling ---- */

/* What nobody has needed since the last look is owed to the kernel. Under the lock. */
static void look_for_idle(void)
{
	bool any = false;

	for (int class = 0; class < SN_STACK_CLASSES; class ++) {
		struct store *store = &stores[class];

		store->owed = store->idle;
		store->idle = store->warm;
		any |= store->warm > 0;
		owing |= store->owed > 0;
	}
	atomic_store_explicit(&any_warm, any, memory_order_relaxed);
}

/* Takes the warm stacks of the slab that was given some longest ago. Under the lock. */
static struct sn_slab *take_coldest(uint64_t *slots)
{
	for (int class = 0; class < SN_STACK_CLASSES; class ++) {
		struct store *store = &stores[class];
		struct sn_slab *slab = store->last[WARM];
		uint32_t n;

		if (store->owed == 0 || !slab)
			continue;
		*slots = slab->free[WARM];
		n = (uint32_t)__builtin_popcountll(*slots);
		for (; n > store->owed; n--)
			*slots &= *slots - 1;
		free_clear(slab, WARM, *slots);
		set_warm(store, store->warm - n);
		store->owed -= n;
		return slab;
	}
	return NULL;
}

int64_t sn_stacks_cool_due(int64_t now)
{
	(void)now;
	if (!atomic_load_explicit(&any_warm, memory_order_relaxed))
		return 0;
	return owing ? looked : looked + SN_STACK_IDLE_NS;
}

bool sn_stacks_cool(int64_t now)
{
	int64_t due = sn_stacks_cool_due(now);
	struct sn_slab *slab;
	uint64_t slots = 0;

	if (due == 0 || due > now)
		return false;
	sn_lock(&lock);
	if (!owing) {
		looked = now;
		look_for_idle();
	}
	slab = take_coldest(&slots);
	owing = slab != NULL;
	sn_unlock(&lock);
	if (!slab)
		return false;
	cool(slab, slots);
	sn_lock(&lock);
	free_set(slab, COLD, slots);
	sn_unlock(&lock);
	return true;
}

/* Cooling has a share of a CPU of a tenth at most. That its threads are looked at a little later matters
 * to a process that works; to one that waits memory does. */
#define COOL_STEP_NS 100000
#define COOL_STEP_IDLE_NS 1000000

void sn_stacks_cool_step(int64_t now, bool idle)
{
	int64_t step = idle ? COOL_STEP_IDLE_NS : COOL_STEP_NS;

	if (now - cooled < 10 * step)
		return;
	while (sn_stacks_cool(now)) {
		cooled = sn_now();
		if (cooled - now >= step)
			return;
	}
}

/*
 * Handlers of faults, and others as short. One that faulted in there itself was left by a jump (debug/fault.c), so
 * not for ever: what it was looking for then is not worth more.
 */
static void await_finders(void)
{
	SN_BACKOFF(backoff, SN_WAIT_END, FINDERS_SPIN_NS, FINDERS_YIELD_NS);
	int64_t give_up = sn_now() + FINDERS_NS;
	uint32_t inside;

	while ((inside = atomic_load(&finders)) > 0 && sn_now() < give_up)
		if (!sn_backoff_pause(&backoff))
			sn_futex_wait(&finders, inside, sn_now() + FINDERS_LOOK_NS);
	atomic_store(&finders, 0);
}

void sn_stacks_destroy(void)
{
	struct sn_slab *slab, *next;

	sn_lock(&lock);
	slab = atomic_exchange(&all_slabs, NULL);
	await_finders();
	for (; slab; slab = next) {
		next = slab->next;
		guard_mappings_left += (uint64_t)slab->mprotected;
#if SN_VALGRIND
		sn_sanitizer_slab_ends(slab->slots, slab->told);
#endif
		munmap(slab->base, slab->slot_size * (size_t)slab->slots);
		free(slab);
	}
	nothing_is_free();
	sn_unlock(&lock);
}

void sn_stacks_forget(void)
{
	sn_lock(&lock);
	forget();
	sn_unlock(&lock);
}

uint64_t sn_stacks_mapped(void)
{
	return atomic_load_explicit(&mapped, memory_order_relaxed);
}

static bool find_from(struct sn_slab *slab, const void *address, struct sn_stack *stack,
		      bool *in_guard)
{
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

bool sn_stack_find(const void *address, struct sn_stack *stack, bool *in_guard)
{
	bool found;

	atomic_fetch_add(&finders, 1);
	found = find_from(atomic_load(&all_slabs), address, stack, in_guard);
	atomic_fetch_sub(&finders, 1);
	return found || find_from(atomic_load_explicit(&forgotten_slabs, memory_order_acquire),
				  address, stack, in_guard);
}
