/* SPDX-License-Identifier: MIT */
/*
 * Task stacks.
 *
 * A *slab* is one mapping that holds a number of equal *slots*; a slot is a guard, then the usable
 * stack, growing down towards the guard. Sizes come in classes, powers of two. The mapping is
 * reserved, not committed: the kernel gives a page at its first touch, and never a huge one.
 *
 * The guard is installed when a slot is used for the first time and stays until the slab is
 * unmapped:
 *   - by MADV_GUARD_INSTALL (Linux 6.13), which lives in the page table and splits no mapping, so
 *     that a million guarded stacks fit under vm.max_map_count;
 *   - otherwise by mprotect(), which costs two mappings a stack, while a budget of half of
 *     vm.max_map_count lasts. Past it there are no more stacks: -ENOMEM. An unguarded stack is never
 *     handed out, because its overflow would corrupt another task in silence. That the kernel really
 *     refuses access is probed at start, not believed: emulators accept advice that they do not
 *     know. So are single guards where memory is locked: by mlockall() while the program runs, after
 *     which the kernel refuses the other kind.
 *
 * Freed stacks go to the processor's cache, warm, and from there, when it is full, to a store that
 * all processors share, still warm: a first touch and an madvise() cost 2.5 us each where spawning
 * costs 0.2. What the store has had for a second and nobody needed, which is the fewest it held in
 * that time, is *cooled*: the monitor gives its pages back to the kernel. So what a burst of tasks
 * has touched is given back one to two seconds after it, and what a steady load needs is kept. A
 * large stack is cooled when it is freed.
 *
 * Slots that have never been used go, where stacks are not scarce, to a processor's cache 16 at a time:
 * it installs their guards without the lock, which others would have to wait for meanwhile, by one
 * process_madvise() where the kernel has it (Linux 6.15).
 *
 * Rejected: cooling as soon as a processor's cache is full, which took 40 % of the time of a million
 * tasks that sleep, under a lock. One mmap() a stack, two system calls and up to three
 * mappings each, where the kernel's mapping lock becomes the bottleneck of spawning. Growing stacks by
 * copying, as Go does: C code keeps addresses of its locals. Segmented stacks: foreign code is not
 * compiled for them.
 */
#ifndef SENNIT_SCHED_STACK_H
#define SENNIT_SCHED_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/fork.h"

struct sn_slab;

/* A stack in use. low is the lowest usable byte, high the end; the guard ends at low. */
struct sn_stack {
	char *low, *high;
	struct sn_slab *slab;
};

#define SN_STACK_MIN_SIZE ((size_t)16 << 10)
#if UINTPTR_MAX > 0xffffffffu
/* musl's default for threads: enough for a resolver, a database client or a TLS library. */
#	define SN_STACK_DEFAULT_SIZE ((size_t)128 << 10)
#	define SN_STACK_MAX_SIZE ((size_t)1 << 30)
/* The first task runs what was written for main()'s 8 MiB. */
#	define SN_STACK_MAIN_SIZE ((size_t)8 << 20)
/* A frame larger than the guard can jump over it; I/O buffers of 64 KiB on the stack are usual. */
#	define SN_STACK_GUARD_SIZE ((size_t)64 << 10)
#else
#	define SN_STACK_DEFAULT_SIZE ((size_t)64 << 10)
#	define SN_STACK_MAX_SIZE ((size_t)64 << 20)
#	define SN_STACK_MAIN_SIZE ((size_t)1 << 20)
#	define SN_STACK_GUARD_SIZE ((size_t)16 << 10)
#endif

/* 16 KiB << class; 17 classes reach 1 GiB. */
#define SN_STACK_CLASSES 17

/*
 * One class's cache, owned by one processor: stacks, and the slots [next, end) of a slab that have
 * never been used, if slab is not NULL; those below guarded have a guard.
 */
#define SN_STACK_CACHE_SIZE 32
struct sn_stack_cache {
	uint32_t count;
	struct sn_stack stacks[SN_STACK_CACHE_SIZE];
	struct sn_slab *slab;
	int next, guarded, end;
};

enum sn_stack_guard {
	SN_STACK_GUARD_MADVISE,
	SN_STACK_GUARD_MPROTECT,
};

/* Chooses the guard. SENNIT_STACK_GUARD=mprotect in the environment forces the fallback.
 * Idempotent. */
void sn_stacks_init(void);
enum sn_stack_guard sn_stack_guard_kind(void);

/*
 * Whether stacks of the class may run out before memory does: of address space in a 32-bit process or
 * when they are large, of mappings with guards by mprotect(). Then a task gets its stack when it is
 * spawned, so that -ENOMEM is the spawn's.
 */
bool sn_stack_is_scarce(int class);

/* The class for a size, -1 when it is too large; and a class's usable bytes. */
int sn_stack_class(size_t size);
size_t sn_stack_class_size(int class);

/* The class of tasks that ask for no size. Set before the first thread of a run starts. */
void sn_stack_set_default(int class);
int sn_stack_default_class(void);

/* Of the system, in bytes. */
size_t sn_page_size(void);

/*
 * A stack of the class from the processor's caches (an array of SN_STACK_CLASSES, or NULL) or from
 * a slab. Returns 0 or -ENOMEM; then *why says which resource ran out.
 */
int sn_stack_alloc(struct sn_stack *stack, int class, struct sn_stack_cache *caches,
		   const char **why);
void sn_stack_free(struct sn_stack stack, struct sn_stack_cache *caches);

/* Gives all that a processor's caches hold to the store. By who owns the processor. */
void sn_stack_flush(struct sn_stack_cache *caches);

/* A second, the period of many a load that comes in bursts. */
#define SN_STACK_IDLE_NS 1000000000

/*
 * sn_stacks_cool() cools the free stacks of one slab that have been idle: false when there are none
 * (left). Takes 50 us for the 64 of a slab. sn_stacks_cool_due() says from which time on (ns, as of
 * sn_now()) that is worth calling; 0: not before a stack is given to the store. For the monitor only,
 * whose chore is sn_stacks_cool_step(): some of that, at its pace.
 */
void sn_stacks_cool_step(int64_t now, bool idle);
bool sn_stacks_cool(int64_t now);
int64_t sn_stacks_cool_due(int64_t now);

/* Leaves everything mapped and forgets it: somebody may still stand on one of the stacks. */
void sn_stacks_forget(void);

/* Unmaps everything. No stack may be in use. */
void sn_stacks_destroy(void);
void sn_stacks_fork(enum sn_fork_phase phase);

/* Stacks that have been used at least once, or could be without a further guard, and are still mapped;
 * not those that are in a cache unused. */
uint64_t sn_stacks_mapped(void);

/*
 * What lies at an address, in this run or in one whose orphans are alive: a stack's slot (true, with
 * the stack in *stack; *in_guard says which part of it) or nothing of ours. Async-signal-safe: takes
 * no lock.
 */
bool sn_stack_find(const void *address, struct sn_stack *stack, bool *in_guard);

#endif
