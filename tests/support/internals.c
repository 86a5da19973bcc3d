/* SPDX-License-Identifier: MIT */
#include "support/internals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/wait_stats.h>

#include "base/log.h"
#include "base/quota.h"
#include "copy/pipe_pool.h"
#include "debug/profile.h"
#include "debug/report.h"
#include "io/fd.h"
#include "io/watch.h"
#include "names/address.h"
#include "net/udp.h"
#include "sched/control_block.h"
#include "sched/foreign.h"
#include "sched/lease.h"
#include "sched/netpoll.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/status.h"
#include "sched/switch.h"
#include "sched/sysmon_sleep.h"
#include "sched/thread.h"
#include "sched/timer.h"
#include "stack/stack.h"
#include "stack/stack_cool.h"
#include "stack/stack_slab.h"
#include "sync/channel.h"
#include "sync/waits.h"
#include "wait/backoff.h"
#include "wait/futex.h"
#include "wait/lock.h"

static void *zeroed(size_t alignment, size_t size)
{
	void *memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);

	if (!memory)
		sn_fatal("the test is out of memory");
	return memset(memory, 0, size);
}

/* A test holds a lock while it starts the thread that comes to the lock, and sleeps until that has
 * happened. Only the test's own threads wait for the lock. */
static void take_for_long(struct sn_lock *lock)
{
	sn_lock(lock);
	sn_checked_pass();
}

static void release(struct sn_lock *lock)
{
	sn_checked_pass_end();
	sn_unlock(lock);
}

struct probe_lock {
	struct sn_lock lock;
};

struct probe_lock *probe_lock_new(void)
{
	struct probe_lock *lock = zeroed(16, sizeof *lock);

	sn_lock_init(&lock->lock, SN_RANK_TEST_OUTER);
	return lock;
}

void probe_lock_free(struct probe_lock *lock)
{
	free(lock);
}

void probe_lock_take(struct probe_lock *lock)
{
	take_for_long(&lock->lock);
}

void probe_lock_release(struct probe_lock *lock)
{
	release(&lock->lock);
}

struct probe_parker {
	struct sn_parker parker;
};

struct probe_parker *probe_parker_new(void)
{
	return zeroed(16, sizeof(struct probe_parker));
}

void probe_parker_free(struct probe_parker *parker)
{
	free(parker);
}

int probe_parker_wait(struct probe_parker *parker, int64_t deadline)
{
	return sn_parker_wait(&parker->parker, deadline);
}

void probe_parker_release(struct probe_parker *parker)
{
	sn_parker_release(&parker->parker);
}

int probe_futex_wait(uint32_t value, uint32_t expected, int64_t deadline)
{
	_Atomic uint32_t word = value;

	return sn_futex_wait(&word, expected, deadline);
}

uint64_t probe_backoff_at(bool for_task, int64_t spin_ns, int64_t yield_ns, uint64_t most)
{
	SN_BACKOFF(backoff, for_task ? SN_WAIT_MUTEX : SN_WAIT_LOCK, spin_ns, yield_ns);
	uint64_t pauses = 0;

	while (pauses < most && sn_backoff_pause(&backoff))
		pauses++;
	return pauses;
}

uint64_t probe_backoff(int64_t spin_ns, int64_t yield_ns)
{
	return probe_backoff_at(false, spin_ns, yield_ns, UINT64_MAX);
}

void probe_wait_record(const char *site, int64_t ns, bool slept)
{
	struct sn_wait_stats all[SN_WAIT_SITES];

	for (int i = 0; i < SN_WAIT_SITES; i++)
		all[i] = (struct sn_wait_stats)SN_WAIT_STATS_INIT();
	(void)sn_wait_stats(all, SN_WAIT_SITES);
	for (int i = 0; i < SN_WAIT_SITES; i++)
		if (strcmp(all[i].name, site) == 0)
			sn_wait_record((enum sn_wait_site)i, ns, slept);
}

unsigned probe_wait_blocks(void)
{
	return sn_wait_blocks();
}

int probe_usable_cpus(void)
{
	return sn_usable_cpus();
}

long probe_quota(const char *mountinfo, const char *cgroup)
{
	struct sn_quota_mount *mounts = sn_quota_mounts_read(mountinfo);
	const long quota = sn_quota_read(mounts, cgroup);

	sn_quota_mounts_free(mounts);
	return quota;
}

/* Timers go to the heap of the calling thread's processor, so a probe needs both a processor and a
 * thread. */
struct probe_heap {
	struct sn_processor processor;
	struct sn_thread thread;
};

struct probe_timer {
	struct sn_timer timer;
	struct sn_deferred deferred;
	probe_fired *fired;
	void *arg;
};

static struct sn_task *fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	struct probe_timer *probe = sn_container_of(timer, struct probe_timer, timer);

	if (probe->deferred.run)
		fired->later = &probe->deferred;
	else
		fired->again = probe->fired(probe->arg, probe, now);
	return NULL;
}

static void run_later(struct sn_thread *self, struct sn_deferred *deferred)
{
	struct probe_timer *probe = sn_container_of(deferred, struct probe_timer, deferred);

	(void)self;
	probe->fired(probe->arg, probe, 0);
}

struct probe_heap *probe_heap_new(void)
{
	struct probe_heap *heap = zeroed(SN_CACHE_LINE, sizeof *heap);

	heap->thread.processor = &heap->processor;
	sn_timers_init(&heap->processor.timers);
	return heap;
}

void probe_heap_free(struct probe_heap *heap)
{
	sn_timers_destroy(&heap->processor.timers);
	free(heap);
}

struct probe_timer *probe_timer_new(probe_fired *fired, void *arg)
{
	struct probe_timer *timer = zeroed(16, sizeof *timer);

	timer->timer.fire = fire;
	timer->fired = fired;
	timer->arg = arg;
	return timer;
}

struct probe_timer *probe_timer_new_deferred(probe_fired *fired, void *arg)
{
	struct probe_timer *timer = probe_timer_new(fired, arg);

	timer->deferred.run = run_later;
	return timer;
}

void probe_timer_free(struct probe_timer *timer)
{
	free(timer);
}

int64_t probe_timer_when(const struct probe_timer *timer)
{
	return timer->timer.when;
}

int probe_timer_start(struct probe_heap *heap, struct probe_timer *timer, int64_t when)
{
	return sn_timer_start(&heap->thread, &timer->timer, when);
}

int probe_timer_advance(struct probe_heap *heap, struct probe_timer *timer, int64_t when)
{
	return sn_timer_advance(&heap->thread, &timer->timer, when, NULL);
}

bool probe_timer_move(struct probe_timer *timer, int64_t when)
{
	return sn_timer_move(&timer->timer, when);
}

bool probe_timer_stop(struct probe_timer *timer)
{
	return sn_timer_stop(&timer->timer);
}

uint32_t probe_timers_run(struct probe_heap *heap, int64_t now)
{
	struct sn_due due;
	const uint32_t count = sn_timers_run(&heap->processor.timers, now, &due);

	while (due.later) {
		struct sn_deferred *deferred = due.later;

		due.later = deferred->next;
		deferred->run(&heap->thread, deferred);
	}
	return count;
}

int64_t probe_timers_earliest(struct probe_heap *heap)
{
	return sn_timers_earliest(&heap->processor.timers);
}

struct probe_blocks *probe_blocks_new(void)
{
	return zeroed(16, sizeof(struct sn_block_cache));
}

void probe_blocks_free(struct probe_blocks *blocks)
{
	free(blocks);
}

void *probe_block_alloc(struct probe_blocks *blocks)
{
	return sn_block_alloc((struct sn_block_cache *)blocks);
}

void probe_block_free(void *block, struct probe_blocks *blocks)
{
	sn_block_free(block, (struct sn_block_cache *)blocks);
}

void probe_block_flush(struct probe_blocks *blocks)
{
	sn_block_flush((struct sn_block_cache *)blocks);
}

const void *probe_block_of(const void *handle)
{
	return sn_handle_object(handle);
}

void probe_expire(void)
{
	struct sn_processor *p = &sn_runtime.processors[0];
	struct sn_thread *thread = atomic_load_explicit(&p->thread, memory_order_acquire);

	if (thread)
		sn_lease_expire(thread, atomic_load_explicit(&p->tick, memory_order_relaxed));
}

void probe_blocks_destroy(void)
{
	sn_blocks_destroy();
}

_Static_assert((int)PROBE_STACK_CLASSES == SN_STACK_CLASSES, "internals.h is out of date");
_Static_assert((int)PROBE_STACK_CACHE_SIZE == SN_STACK_CACHE_SIZE, "internals.h is out of date");

struct probe_caches {
	struct sn_stack_cache caches[SN_STACK_CLASSES];
};

static struct probe_stack to_probe(struct sn_stack stack)
{
	return (struct probe_stack){stack.low, stack.high, stack.slab};
}

void probe_stacks_init(void)
{
	sn_stacks_init();
}

void probe_stacks_destroy(void)
{
	sn_stacks_destroy();
}

bool probe_stack_guard_is_madvise(void)
{
	return sn_stack_guard_kind() == SN_STACK_GUARD_MADVISE;
}

int probe_stack_class(size_t size)
{
	return sn_stack_class(size);
}

size_t probe_stack_class_size(int number)
{
	return sn_stack_class_size(number);
}

size_t probe_stack_guard_size(void)
{
	return SN_STACK_GUARD_SIZE;
}

size_t probe_stack_max_size(void)
{
	return SN_STACK_MAX_SIZE;
}

size_t probe_stack_default_size(void)
{
	return SN_STACK_DEFAULT_SIZE;
}

struct probe_caches *probe_caches_new(void)
{
	return zeroed(16, sizeof(struct probe_caches));
}

void probe_caches_free(struct probe_caches *caches)
{
	free(caches);
}

uint32_t probe_caches_count(const struct probe_caches *caches, int number)
{
	return caches->caches[number].count;
}

int probe_stack_alloc(struct probe_stack *stack, int number, struct probe_caches *caches,
		      const char **why)
{
	struct sn_stack s;
	int err = sn_stack_alloc(&s, number, caches ? caches->caches : NULL, why);

	if (err == 0)
		*stack = to_probe(s);
	return err;
}

void probe_stack_free(struct probe_stack stack, struct probe_caches *caches)
{
	sn_stack_free((struct sn_stack){stack.low, stack.high, stack.slab},
		      caches ? caches->caches : NULL);
}

void probe_stack_flush(struct probe_caches *caches)
{
	sn_stack_flush(caches->caches);
}

bool probe_stacks_cool(int64_t now)
{
	return sn_stacks_cool(now);
}

int64_t probe_stacks_cool_due(void)
{
	return sn_stacks_cool_due(0);
}

int64_t probe_stack_idle_ns(void)
{
	return SN_STACK_IDLE_NS;
}

uint64_t probe_stacks_mapped(void)
{
	return sn_stacks_mapped();
}

bool probe_stack_find(const void *address, struct probe_stack *stack, bool *in_guard)
{
	struct sn_stack s;

	if (!sn_stack_find(address, &s, in_guard))
		return false;
	*stack = to_probe(s);
	return true;
}

uint32_t probe_stack_finder_enter(void)
{
	return sn_stack_finder_enter();
}

void probe_stack_finder_leave(uint32_t count)
{
	sn_stack_finder_leave(count);
}

uint32_t probe_stack_finders_await(int64_t ns)
{
	return sn_stack_finders_await(ns);
}

bool probe_profile_reads(uintptr_t address)
{
	struct sn_profile *profile = sn_profile_begin(sizeof *profile);
	bool reads;

	if (!profile)
		sn_fatal("the test is out of memory");
	reads = sn_module_of(&profile->modules, address) != NULL;
	sn_profile_end(profile, sizeof *profile);
	return reads;
}

int probe_cpu_profile_start(int hz)
{
	return sn_cpu_profile_start(hz);
}

int probe_cpu_profile_stop(int fd)
{
	return sn_cpu_profile_stop(fd);
}

bool probe_report_begin(void)
{
	return sn_report_begin(SN_STDERR_PATIENCE);
}

bool probe_report_begin_briefly(void)
{
	return sn_report_begin(SN_STDERR_BRIEFLY);
}

void probe_report_put(const char *text)
{
	sn_put(text);
}

void probe_report_miss(void)
{
	sn_report_miss();
}

void probe_report_end(void)
{
	sn_put_flush();
	sn_report_end(false);
}

bool probe_status_allowed(int from, int to, int by)
{
	return sn_status_allowed((enum sn_task_status)from, (enum sn_task_status)to,
				 (enum sn_status_actor)by);
}

unsigned probe_waiting(const void *address, const struct sn_private_waits *waits)
{
	struct sn_lock *lock = sn_waits_lock_of(address);
	unsigned n = 0;

	sn_lock(lock);
	for (const struct sn_wait *wait = waits->first; wait; wait = wait->next)
		n++;
	sn_unlock(lock);
	return n;
}

bool probe_foreign_admitted(void)
{
	return sn_foreign_admitted();
}

void probe_netpoll_wake(void)
{
	sn_netpoll_wake();
}

bool probe_netpoll_used(void)
{
	return sn_netpoll_used();
}

bool probe_fd_waiting(const void *conn, int side)
{
	struct sn_fd *d = sn_handle_object(conn);
	uintptr_t state = atomic_load(&d->sides[side].state);

	return state != SN_SIDE_NONE && state != SN_SIDE_READY;
}

size_t probe_udp_waiting(const void *udp, int side)
{
	struct sn_fd *d = sn_handle_object(udp);
	struct sn_side_queue *queue = &sn_udp_state(d)->queues[side];
	struct sn_lock *lock = sn_waits_lock_of(queue);
	size_t n = probe_fd_waiting(udp, side);

	sn_lock(lock);
	for (const struct sn_wait *wait = queue->waits.first; wait; wait = wait->next)
		n++;
	sn_unlock(lock);
	return n;
}

void probe_udp_get_control(struct msghdr *header, struct sn_udp_message *message)
{
	sn_udp_get_control(header, message);
}

int probe_watch_waits(int fd)
{
	return sn_watch_waits(fd);
}

bool probe_fd_irregular(const void *conn)
{
	struct sn_fd *d = sn_handle_object(conn);

	return atomic_load(&d->irregular);
}

bool probe_run_is_ending(void)
{
	return atomic_load(&sn_runtime.stopping);
}

bool probe_fd_disarmed(const void *conn)
{
	return atomic_load(&((struct sn_fd *)sn_handle_object(conn))->disarmed);
}

void probe_fd_wake(const void *conn, int side)
{
	struct sn_thread *self = sn_runtime_enter();

	sn_fd_wake(self, sn_handle_object(conn), (enum sn_side_index)side);
	sn_runtime_leave();
}

int probe_fd_begin(const void *conn, int side)
{
	return sn_fd_begin_handle(sn_handle_object(conn), conn, (enum sn_side_index)side);
}

void probe_fd_end(const void *conn, int side)
{
	sn_fd_end(sn_handle_object(conn), (enum sn_side_index)side);
}

int probe_fd_sleep(const void *conn, int side, int64_t until)
{
	int err;

	sn_runtime_enter();
	err = sn_fd_sleep(sn_handle_object(conn), (enum sn_side_index)side, until);
	sn_runtime_leave();
	return err;
}

int probe_fd_arm(const void *conn, int side, int64_t when)
{
	struct sn_fd *d = sn_handle_object(conn);
	struct sn_thread *self = sn_runtime_enter();
	int err;

	sn_lock(&d->lock);
	err = sn_timer_advance(self, &d->sides[side].timer, when, NULL);
	sn_unlock(&d->lock);
	sn_runtime_leave();
	return err;
}

bool probe_fd_has_timer(const void *conn, int side)
{
	struct sn_fd *d = sn_handle_object(conn);

	return atomic_load(&d->sides[side].timer.heap) != NULL;
}

bool probe_fd_same_place(const void *conn, const void *other)
{
	return sn_handle_object(conn) == sn_handle_object(other);
}

size_t probe_quiet_size(void)
{
	return sizeof(struct sn_fd) + sizeof(struct sn_task);
}

void probe_waits_lock(const void *address)
{
	take_for_long(sn_waits_lock_of(address));
}

void probe_waits_unlock(const void *address)
{
	release(sn_waits_lock_of(address));
}

void probe_chan_lock(struct sn_chan *chan)
{
	take_for_long(&sn_chan_at(chan)->lock);
}

void probe_chan_unlock(struct sn_chan *chan)
{
	release(&sn_chan_at(chan)->lock);
}

size_t probe_chan_waiting(struct sn_chan *handle, int op)
{
	struct sn_chan *chan = sn_chan_at(handle);
	size_t n = 0;

	sn_lock(&chan->lock);
	for (struct sn_chan_node *node = sn_chan_queue_of(chan, op)->first; node; node = node->next)
		n++;
	sn_unlock(&chan->lock);
	return n;
}

int probe_address_split(const char *text, char *host, size_t host_size, char *service,
			size_t service_size)
{
	struct sn_host_port parts;
	int err = sn_address_split(&parts, text);

	if (err == 0) {
		snprintf(host, host_size, "%s", parts.host);
		snprintf(service, service_size, "%s", parts.service);
	}
	return err;
}

void probe_pipes_reset(void)
{
	sn_pipes_reset();
}

void probe_processors_adjust(int wanted)
{
	sn_processors_adjust(wanted);
}

unsigned probe_may_block(void)
{
	struct sn_thread *self = sn_runtime_enter();
	const unsigned turns = self->task->may_block;

	sn_runtime_leave();
	return turns;
}

static void serve_nothing(void) {}

bool probe_nap_is_for_a_block(void)
{
	const bool stopping = atomic_exchange(&sn_runtime.stopping, false);
	const uint32_t idle = atomic_exchange(&sn_runtime.idle_count, 0);
	enum sn_nap_end end;

	sn_sysmon_sleep_begin();
	end = sn_sysmon_nap(SN_MONITOR_BUSY_NS, serve_nothing);
	atomic_store(&sn_runtime.stopping, stopping);
	atomic_store(&sn_runtime.idle_count, idle);
	return end == SN_NAP_IS_EXPECTED;
}

void probe_expect_block(void)
{
	sn_sysmon_expect_block();
}
