/* SPDX-License-Identifier: MIT */
/*
 * Internal parts of the library for the tests in C++, which cannot read headers with C11 atomics.
 * Objects are allocated and freed here; every other function calls the function of the same name in
 * src/.
 */
#ifndef SENNIT_TESTS_SUPPORT_INTERNALS_H
#define SENNIT_TESTS_SUPPORT_INTERNALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* wait/lock.h */
struct probe_lock;
struct probe_lock *probe_lock_new(void);
void probe_lock_free(struct probe_lock *lock);
void probe_lock_take(struct probe_lock *lock);
void probe_lock_release(struct probe_lock *lock);

/* wait/futex.h */
struct probe_parker;
struct probe_parker *probe_parker_new(void);
void probe_parker_free(struct probe_parker *parker);
int probe_parker_wait(struct probe_parker *parker, int64_t deadline);
void probe_parker_release(struct probe_parker *parker);
/* Calls sn_futex_wait() on a word that has the value, and returns its result. */
int probe_futex_wait(uint32_t value, uint32_t expected, int64_t deadline);

/* wait/backoff.h: pauses until the policy says to park. Returns the number of pauses. */
uint64_t probe_backoff(int64_t spin_ns, int64_t yield_ns);
/* The same at a site that waits for a task, or for a thread. Ends after `most` pauses. */
uint64_t probe_backoff_at(bool for_task, int64_t spin_ns, int64_t yield_ns, uint64_t most);
int probe_usable_cpus(void);

/* base/quota.h: the quota according to these files. */
long probe_quota(const char *mountinfo, const char *cgroup);

/* wait/site.h: `site` is a name from sn_wait_stats(). */
void probe_wait_record(const char *site, int64_t ns, bool slept);
unsigned probe_wait_blocks(void);

/* sched/control_block.h: a processor's cache; NULL: none, as on a thread without a processor. Only
 * outside of runs. */
struct probe_blocks;
struct probe_blocks *probe_blocks_new(void);
void probe_blocks_free(struct probe_blocks *blocks);
void *probe_block_alloc(struct probe_blocks *blocks);
void probe_block_free(void *block, struct probe_blocks *blocks);
void probe_block_flush(struct probe_blocks *blocks);
void probe_blocks_destroy(void);
/* The control block of a task, by its handle. */
const void *probe_block_of(const void *handle);

/* sched/lease.h: what the monitor does when a thread has had the first processor for too long. That
 * thread must not be about to end. */
void probe_expire(void);

/* sched/task.h: in how many more turns the calling task is expected to block. */
unsigned probe_may_block(void);

/* sched/sysmon_sleep.h, outside of runs: naps for 1 ms as the monitor does, and returns whether a
 * thread has ended the nap for such a task; does what that thread does. */
bool probe_nap_is_for_a_block(void);
void probe_expect_block(void);

/* sched/timer.h: a heap without a runtime around it. */
struct probe_heap;
struct probe_timer;
/* Called for each timer that fires, with the heap's lock held. Its result becomes fired->again. */
typedef int64_t probe_fired(void *arg, struct probe_timer *timer, int64_t now);
struct probe_heap *probe_heap_new(void);
void probe_heap_free(struct probe_heap *heap);
struct probe_timer *probe_timer_new(probe_fired *fired, void *arg);
/* The same, but fired is called after the heap's lock was released, with the time 0, and its result
 * is ignored. */
struct probe_timer *probe_timer_new_deferred(probe_fired *fired, void *arg);
void probe_timer_free(struct probe_timer *timer);
int64_t probe_timer_when(const struct probe_timer *timer);
int probe_timer_start(struct probe_heap *heap, struct probe_timer *timer, int64_t when);
bool probe_timer_move(struct probe_timer *timer, int64_t when);
int probe_timer_advance(struct probe_heap *heap, struct probe_timer *timer, int64_t when);
bool probe_timer_stop(struct probe_timer *timer);
uint32_t probe_timers_run(struct probe_heap *heap, int64_t now);
int64_t probe_timers_earliest(struct probe_heap *heap);

/* stack/stack.h and its parts */
struct probe_stack {
	char *low, *high;
	void *slab;
};
struct probe_caches;
enum { PROBE_STACK_CLASSES = 17, PROBE_STACK_CACHE_SIZE = 32 };
void probe_stacks_init(void);
void probe_stacks_destroy(void);
bool probe_stack_guard_is_madvise(void);
int probe_stack_class(size_t size);
size_t probe_stack_class_size(int number);
size_t probe_stack_guard_size(void);
size_t probe_stack_max_size(void);
size_t probe_stack_default_size(void);
struct probe_caches *probe_caches_new(void);
void probe_caches_free(struct probe_caches *caches);
uint32_t probe_caches_count(const struct probe_caches *caches, int number);
int probe_stack_alloc(struct probe_stack *stack, int number, struct probe_caches *caches,
		      const char **why);
void probe_stack_free(struct probe_stack stack, struct probe_caches *caches);
void probe_stack_flush(struct probe_caches *caches);
bool probe_stacks_cool(int64_t now);
int64_t probe_stacks_cool_due(void);
int64_t probe_stack_idle_ns(void);
uint64_t probe_stacks_mapped(void);
bool probe_stack_find(const void *address, struct probe_stack *stack, bool *in_guard);
uint32_t probe_stack_finder_enter(void);
void probe_stack_finder_leave(uint32_t count);
uint32_t probe_stack_finders_await(int64_t ns);

/* debug/profile.h: begins a profile and ends it. Returns whether it could read the module that has
 * this address. */
bool probe_profile_reads(uintptr_t address);
/* The two halves of sn_profile_cpu(). */
int probe_cpu_profile_start(int hz);
int probe_cpu_profile_stop(int fd);

/* debug/report.h */
bool probe_report_begin(void);
bool probe_report_begin_briefly(void); /* as one after which a task continues */
void probe_report_put(const char *text);
void probe_report_miss(void);
void probe_report_end(void);

/* sched/status.h: the table of changes. */
bool probe_status_allowed(int from, int to, int by);

/* sync/waits.h: how many waiters are in the list of the object at the address. */
struct sn_private_waits;
unsigned probe_waiting(const void *address, const struct sn_private_waits *waits);
/* Locks and unlocks that list. */
void probe_waits_lock(const void *address);
void probe_waits_unlock(const void *address);

/* sched/switch.h: changes the number of processors in place of the monitor, which does not change
 * it if SENNIT_PROCS is set. Call it from one thread at a time. */
void probe_processors_adjust(int wanted);

/* sched/foreign.h */
bool probe_foreign_admitted(void);

/* sched/netpoll.h, io/fd.h */
void probe_netpoll_wake(void);
/* Whether anything counts as waiting for events. */
bool probe_netpoll_used(void);
/* Whether the first task has returned, so that no task is resumed any more. */
bool probe_run_is_ending(void);
/* Whether a task sleeps on a side (0: reading, 1: writing) of a connection or listener. */
bool probe_fd_waiting(const void *conn, int side);
/* Whether the poller has reported an end or an error of the connection. */
bool probe_fd_irregular(const void *conn);
bool probe_fd_disarmed(const void *conn);
/* Wakes the task that sleeps on the side as an edge does: sn_fd_wake(). */
void probe_fd_wake(const void *conn, int side);
/* io/side_queue.h: how many tasks wait to receive on a UDP socket (side 0), or to send (1): the one
 * on the side and those queued behind it. */
size_t probe_udp_waiting(const void *udp, int side);
/* io/watch.h: how many tasks wait for the descriptor of the program with that number. */
int probe_watch_waits(int fd);
/* The part of an operation that comes after it has found its connection: sn_fd_begin_handle(). */
int probe_fd_begin(const void *conn, int side);
void probe_fd_end(const void *conn, int side);
/* Between the two: sn_fd_sleep(). */
int probe_fd_sleep(const void *conn, int side, int64_t until);
/* What a waiter does that is overtaken by the task that it waits for: it arms the deadline of a
 * side, perhaps after the descriptor was closed. */
int probe_fd_arm(const void *conn, int side, int64_t when);
/* Whether the timer of a side is in a processor's heap. */
bool probe_fd_has_timer(const void *conn, int side);
/* Whether two handles refer to the same structure, possibly in different generations. */
bool probe_fd_same_place(const void *conn, const void *other);
/* The memory of a stream plus that of a task that has not begun. */
size_t probe_quiet_size(void);

/* sync/channel.h: how many tasks wait in a channel, to receive (0) or to send (1). */
struct sn_chan;
size_t probe_chan_waiting(struct sn_chan *chan, int op);
void probe_chan_lock(struct sn_chan *chan);
void probe_chan_unlock(struct sn_chan *chan);

/* net/udp.h: sn_udp_get_control(). */
struct msghdr;
struct sn_udp_message;
void probe_udp_get_control(struct msghdr *header, struct sn_udp_message *message);

/* copy/pipe_pool.h */
void probe_pipes_reset(void);

/* names/address.h: returns 0 and the parts, or a negative errno. */
int probe_address_split(const char *text, char *host, size_t host_size, char *service,
			size_t service_size);

#ifdef __cplusplus
}
#endif

#endif
