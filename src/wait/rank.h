/* SPDX-License-Identifier: MIT */
/*
 * The order of the runtime's locks, and what may be done while each is held.
 *
 * A thread takes a lock only while all locks that it holds stand above it in this table. It takes
 * several of one line only where the line has SN_LOCK_ALIKE, in the order that the file named
 * beside it gives. This order rules out a circle of threads that wait for each other. The checked
 * build checks it at each lock (checked.h). Other builds do not use the table.
 *
 * fork() takes the locks that it needs in the order of this table, too (fork_handlers in
 * run/run.c).
 *
 *   SN_LOCK_ALIKE    several of this line may be held together
 *   SN_LOCK_MEMORY   memory may be allocated, freed and mapped while it is held, which may wait for
 *                    the process's memory map or a heap's lock. Each line with this flag says why
 *                    that wait is short enough.
 */
#ifndef SENNIT_WAIT_RANK_H
#define SENNIT_WAIT_RANK_H

#define SN_LOCK_RANKS(X)                                                                        \
	X(NONE, "a lock without a rank", 0)                                                     \
	/* Of tests that need locks of their own. */                                            \
	X(TEST_OUTER, "a test's outer lock", 0)                                                 \
	X(TEST_INNER, "a test's inner lock", SN_LOCK_MEMORY)                                    \
	/* observe/stats.c */                                                                   \
	X(STATS, "statistics", 0)                                                               \
	/* sched/thread_list.c */                                                               \
	X(THREAD_START, "the start of a thread", 0)                                             \
	/* sync/alarm.c, sync/ticker.c: of one caller. A heap of timers may grow. */            \
	X(TIMER_GUARD, "an alarm or a ticker", SN_LOCK_MEMORY)                                  \
	/* sched/tie.c: the home may have to be roused. */                                      \
	X(TIES, "a thread's tied tasks", 0)                                                     \
	/* sched/runtime.h: every thread needs it, so nothing may happen under it. */           \
	X(RUNTIME, "the runtime", 0)                                                            \
	/* process/signal.c */                                                                  \
	X(SIGNALS, "signals", 0)                                                                \
	X(SIGNALS_PASSING, "signals on their way", 0)                                           \
	/* copy/idle_timeout.c, io/fd.c: as for TIMER_GUARD. */                                 \
	X(IDLE_TIMEOUT, "a relay's idle timeout", SN_LOCK_MEMORY)                               \
	/* io/watch.c */                                                                        \
	X(WATCH, "a watch", 0)                                                                  \
	X(FD, "a descriptor", SN_LOCK_MEMORY)                                                   \
	/* sync/scope.c: the outer one first. A heap of timers may grow. */                     \
	X(SCOPE, "a scope", SN_LOCK_ALIKE | SN_LOCK_MEMORY)                                     \
	/* sync/select.h: by address. Elements are moved and destroyed under it (channel.h). */ \
	X(CHANNEL, "a channel", SN_LOCK_ALIKE | SN_LOCK_MEMORY)                                 \
	/* sched/timer.c: the first processor's last. It grows, twice as large each time. */    \
	X(TIMERS, "a heap of timers", SN_LOCK_ALIKE | SN_LOCK_MEMORY)                           \
	/* io/fd_table.c: grows by 256 descriptors. */                                          \
	X(FDS, "the table of descriptors", SN_LOCK_MEMORY)                                      \
	/* sched/free_store.h: in the order of the lists. */                                    \
	X(FREE_FDS, "free descriptors", SN_LOCK_ALIKE)                                          \
	X(WATCH_TABLE, "the table of watches", 0)                                               \
	/* sched/netpoll.c */                                                                   \
	X(NETPOLL, "the poller's descriptors", 0)                                               \
	/* sched/task_stack.c */                                                                \
	X(STARVED, "tasks without a stack", 0)                                                  \
	/* stack/stack.c, sched/control_block.c: they map memory, a slab at a time. */          \
	X(STACKS, "stacks", SN_LOCK_MEMORY)                                                     \
	X(BLOCKS, "control blocks", SN_LOCK_MEMORY)                                             \
	/* net/ */                                                                              \
	/* sched/free_store.h, likewise. */                                                     \
	X(BUFFERS, "buffers", SN_LOCK_ALIKE)                                                    \
	X(PIPES, "pipes", 0)                                                                    \
	X(LOOKUPS, "lookups", 0)                                                                \
	X(PROCESSES, "programs", 0)                                                             \
	/* sync/waits.c, sync/scope_memory.c, task/cancel.c: by their numbers, in a fork(). */  \
	X(WAITS, "a list of waits", SN_LOCK_ALIKE)                                              \
	X(SCOPE_LISTS, "free scopes", SN_LOCK_ALIKE)                                            \
	X(CANCEL, "the cancellation of a task", SN_LOCK_ALIKE)                                  \
	/* debug/dump.c */                                                                      \
	X(DUMP, "the loader's list", 0)                                                         \
	/* sched/record.c: mapped when a run begins, copied when a trace is made. */            \
	X(RINGS, "rings of records", SN_LOCK_MEMORY)                                            \
	X(LAST_RING, "the last ring", 0)

enum sn_lock_rank {
#define SN_LOCK_RANK(name, text, flags) SN_RANK_##name,
	SN_LOCK_RANKS(SN_LOCK_RANK)
#undef SN_LOCK_RANK
		SN_LOCK_RANK_COUNT
};

enum {
	SN_LOCK_ALIKE = 1,
	SN_LOCK_MEMORY = 2,
};

#endif
