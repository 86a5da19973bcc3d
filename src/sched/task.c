/* SPDX-License-Identifier: MIT */
/*
 * The life of a task, and the public calls about it.
 *
 * The end. A task that has ended still stands on its stack until it has switched away, so its stack
 * is disposed of in the commit of that last switch (commit_end()). Who frees its block, and who wakes
 * whom, is settled in one word, task->join:
 *
 *	RUNNING  -> ENDED      the task ended; whoever claims it later frees it
 *	RUNNING  -> DETACHED   the task frees itself when it ends
 *	RUNNING  -> a task     that one waits; the ending task wakes it and leaves its address: it has
 *	                       the claim, and frees
 *	ENDED    -> a task, or DETACHED    claimed: by a join that need not wait, by sn_detach()
 *
 * Stacks. A task that is runnable for the first time has none, unless it got one when it was spawned
 * (task.h). When there is none to be had it waits in a list, starved, and spawning more is refused.
 * The list is fed whenever a stack is given back, one task for one stack; and by the monitor, because
 * it may have been given back just before the task came into the list, and because address space may
 * be had again for other reasons.
 *
 * So exactly one call frees a task, and every other one that comes while that one waits gets
 * -EBUSY.
 *
 * Handles that outlive their task. The three states, which are no addresses, have the generation of the task with
 * them, and whoever frees it makes the block of the next generation. A call finds the handle to be of the present
 * generation or stale; if the task is freed after that, and another one lives in the block, its claim
 * fails, as the state that it expects is of the former generation. So it never joins or detaches
 * another task than its own.
 *
 * A join that may be given up, past its deadline or because the joining task is cancelled, waits by
 * a struct sn_waiter (waiter.h), of which it leaves the address with the bit JOIN_WAITER:
 *
 *	RUNNING  -> a waiter   that one waits
 *	a waiter -> RUNNING    it has given up; its waiter is about to go away
 *	a waiter -> ENDED      the task ended, and found that the waiter is about to give up
 *
 * These last two, and the ending task's claim of the waiter, are done under the lock that belongs
 * to the task in cancel.h, so that the waiter is there as long as the ending task looks at it. When
 * the ending task gets the waiter's claim its address stays, and says that the joiner frees the
 * task.
 */
#include "sched/task.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sennit/clock.h>
#include <sennit/unstable.h>

#include "sched/block.h"
#include "sched/cancel.h"
#include "sched/foreign.h"
#include "sched/processor.h"
#include "sched/runqueue.h"
#include "sched/runtime.h"
#include "sched/sanitizer.h"
#include "sched/scan.h"
#include "sched/schedule.h"
#include "sched/stack_slab.h"
#include "sched/thread.h"
#include "sched/waiter.h"
#include "wait/lock.h"

enum join_state { JOIN_RUNNING = 0, JOIN_ENDED = 1, JOIN_DETACHED = 2 };

/* What the word is, in its lowest bits. */
#define JOIN_KIND ((uintptr_t)3)
#define JOIN_JOINER ((uintptr_t)0) /* the address of a struct sn_task */
#define JOIN_WAITER ((uintptr_t)1) /* of a struct sn_waiter, and this bit */
#define JOIN_STATE ((uintptr_t)2)  /* a state, and the generation above it */

static inline uintptr_t join_word(enum join_state state, uint32_t generation)
{
	return (uintptr_t)generation << 4 | (uintptr_t)state << 2 | JOIN_STATE;
}

/* Of a task that is not freed meanwhile, relaxed therefore. */
static inline uint32_t generation_of(const struct sn_task *task)
{
	return atomic_load_explicit(&task->generation, memory_order_relaxed);
}

uint64_t sn_task_next_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* ---- stacks ---- */

/* No more than this at once, so that who feeds the starved is not kept by them. */
#define FED_BY_ONE_STACK 1

/* Tasks without a stack that may try again at a look of the monitor; each costs failing system calls. */
#define FED_AT_A_LOOK 16

static struct sn_lock starved_lock;
static struct sn_queue starved; /* under the lock */
static _Atomic bool anybody_starves;

void sn_tasks_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&starved_lock, phase);
	if (phase == SN_FORK_CHILD)
		sn_tasks_forget_starved();
}

void sn_tasks_forget_starved(void)
{
	starved = (struct sn_queue){0};
	atomic_store(&anybody_starves, false);
}

static void log_no_stack(const char *why)
{
	static _Atomic bool told;

	/* Once: a program that retries would otherwise fill its log with it. */
	if (!atomic_exchange_explicit(&told, true, memory_order_relaxed))
		sn_log("no stack for a new task: out of %s; %llu stacks are in use or cached", why,
		       (unsigned long long)sn_stacks_mapped());
}

static void set_stack(struct sn_task *task, struct sn_stack stack)
{
	__atomic_store_n(&task->stack.low, stack.low, __ATOMIC_RELAXED);
	__atomic_store_n(&task->stack.high, stack.high, __ATOMIC_RELAXED);
	task->stack.slab = stack.slab;
}

static void task_main(void *arg);

/* top: the lowest address in the stack that is taken. */
static void give_stack(struct sn_task *task, struct sn_stack stack, uintptr_t top)
{
	set_stack(task, stack);
#if SN_ASAN || SN_TSAN || SN_VALGRIND
	task->context.stack_low = stack.low;
	task->context.stack_size = (size_t)(stack.high - stack.low);
#endif
	sn_sanitizer_create(&task->context, sn_task_name(task));
	__atomic_store_n(&task->context.sp,
			 sn_arch_prepare((void *)top, task_main, task, task->modes),
			 __ATOMIC_RELAXED);
}

static sn_noinline void starve(struct sn_task *task, const char *why)
{
	log_no_stack(why);
	sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_RUNNER);
	sn_lock(&starved_lock);
	sn_queue_put(&starved, task);
	atomic_store(&anybody_starves, true);
	sn_unlock(&starved_lock);
}

sn_noinline bool sn_task_bind(struct sn_thread *self, struct sn_task *task)
{
	struct sn_stack stack;
	const char *why;

	if (sn_stack_alloc(&stack, task->stack_class, self->processor->stacks, &why) < 0) {
		starve(task, why);
		return false;
	}
	give_stack(task, stack, (uintptr_t)stack.high & ~(uintptr_t)63);
	return true;
}

static void feed(int n)
{
	struct sn_task *task;

	while (atomic_load_explicit(&anybody_starves, memory_order_relaxed) && n-- > 0) {
		sn_lock(&starved_lock);
		task = sn_queue_get(&starved);
		if (!starved.head)
			atomic_store(&anybody_starves, false);
		sn_unlock(&starved_lock);
		if (task)
			sn_requeue(task);
	}
}

void sn_tasks_feed(int64_t now, bool idle)
{
	(void)now, (void)idle;
	feed(FED_AT_A_LOOK);
}

bool sn_tasks_starve(void)
{
	return atomic_load_explicit(&anybody_starves, memory_order_relaxed);
}

/* Nobody stands on it any more. */
static void take_stack(struct sn_thread *self, struct sn_task *task)
{
	struct sn_stack stack = task->stack;

	if (!stack.low)
		return;
	sn_sanitizer_destroy(&task->context);
	set_stack(task, (struct sn_stack){NULL, NULL, NULL});
	__atomic_store_n(&task->context.sp, NULL, __ATOMIC_RELAXED);
	sn_stack_free(stack, self && self->processor ? self->processor->stacks : NULL);
	feed(FED_BY_ONE_STACK);
}

/* ---- the end ---- */

static void task_free(struct sn_thread *self, struct sn_task *task)
{
	/* Relaxed: whoever gets the block gets this with it, and others need not know how soon. */
	atomic_store_explicit(&task->generation, sn_handle_next(generation_of(task)),
			      memory_order_relaxed);
	sn_status_set(&task->word, SN_TASK_FREE, SN_BY_FREER);
	sn_block_free(task, self && self->processor ? &self->processor->blocks : NULL);
}

/*
 * Somebody joins, or has just given that up. Under the lock, because one who gives up takes it
 * before his waiter goes away.
 */
static sn_noinline void end_joined(struct sn_thread *self, struct sn_task *task)
{
	const uintptr_t ended = join_word(JOIN_ENDED, generation_of(task));
	const uintptr_t detached = join_word(JOIN_DETACHED, generation_of(task));
	struct sn_lock *lock = sn_cancel_lock_of(task);
	struct sn_task *woken = NULL;
	uintptr_t state;

	sn_lock(lock);
	/* Only what is read under the lock names a waiter that is still there. */
	state = atomic_load_explicit(&task->join, memory_order_acquire);
	for (;;) {
		struct sn_waiter *waiter = (struct sn_waiter *)(state & ~JOIN_KIND);
		bool waits = (state & JOIN_KIND) == JOIN_WAITER;

		if (state == detached || (state & JOIN_KIND) == JOIN_JOINER)
			break; /* it stays so */
		if (waits && sn_waiter_claim(waiter)) {
			woken = sn_waiter_finish(waiter, 0);
			break;
		}
		if (atomic_compare_exchange_strong_explicit(
			    &task->join, &state, ended, memory_order_acq_rel, memory_order_acquire))
			break;
	}
	sn_unlock(lock);
	/* Whoever frees the task may have done so by now, but in these two cases. */
	if (state == detached)
		task_free(self, task);
	else if ((state & JOIN_KIND) == JOIN_JOINER)
		woken = (struct sn_task *)state;
	if (woken)
		sn_ready(self, woken, SN_READY_LAST);
}

static bool commit_end(struct sn_thread *self, struct sn_task *task, void *arg)
{
	const uint32_t generation = generation_of(task);
	uintptr_t state = join_word(JOIN_RUNNING, generation);

	(void)arg;
	if (self->processor)
		sn_count(&self->processor->stats.ended, 1);
	take_stack(self, task);
	/* Release: the result. Acquire: what the joiner wrote before it parked. */
	if (atomic_compare_exchange_strong_explicit(&task->join, &state,
						    join_word(JOIN_ENDED, generation),
						    memory_order_acq_rel, memory_order_acquire))
		return true;
	if (state == join_word(JOIN_DETACHED, generation))
		task_free(self, task);
	else
		end_joined(self, task);
	return true;
}

/* Comes inside for the last time. */
static struct sn_thread *enter_to_end(struct sn_task *task)
{
	struct sn_thread *self = sn_runtime_enter();

	/* In a child of fork() there is no runtime to return to. The task was the process's only
	 * thread. */
	if (!self)
		exit(task->result);
	return self;
}

static void task_main(void *arg)
{
	struct sn_task *task = arg;
	struct sn_thread *self;

	sn_sanitizer_entered(&task->context);
	sn_task_entered();
	sn_runtime_leave();
	task->result = task->fn(task->arg);
	self = enter_to_end(task);
	if (task->on_end) {
		task->on_end(task);
		self = sn_thread_self();
	}
	/* Not before on_end, which may park: a bound task can only be resumed by its own thread. */
	sn_thread_unpin(self);
	sn_exit_task(self, commit_end);
}

/* snprintf() for a name that others may be reading. */
static void set_name(struct sn_task *task, const char *name)
{
	size_t i = 0;

	for (; name && name[i] && i < SN_TASK_NAME_MAX; i++)
		atomic_store_explicit(&task->name[i], name[i], memory_order_relaxed);
	atomic_store_explicit(&task->name[i], 0, memory_order_relaxed);
}

/*
 * What sn_tasks_each() reads. It may have found the block's former task and still be reading: id is 0
 * while anything else is written, with a fence in between (and one between its reads), so what it has
 * read is of one task when it has seen the same id before and after.
 */
static void describe(struct sn_task *task, const char *name)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_task *parent = self ? self->task : NULL;

	atomic_store_explicit(&task->id, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	sn_task_waits(task, NULL, NULL);
	atomic_store_explicit(&task->spawned_at, NULL, memory_order_relaxed);
	atomic_store_explicit(&task->spawned_by, parent ? sn_task_id(parent) : 0,
			      memory_order_relaxed);
	set_name(task, name);
	atomic_store_explicit(&task->id, sn_task_next_id(), memory_order_release);
}

void sn_task_create(struct sn_task *task, const struct sn_stack *stack, sn_fn *fn, void *arg,
		    const struct sn_task_attr *attr)
{
	sn_status_set(&task->word, SN_TASK_NEW, SN_BY_CREATOR);
	if (generation_of(task) == 0) /* the first in this block */
		atomic_store_explicit(&task->generation,
				      sn_handle_next(sn_block_first_generation()),
				      memory_order_relaxed);
	/* Not the status word: a scanner may have its bit there, until it has seen the status. */
	memset(&task->context.cxx, 0,
	       offsetof(struct sn_task, stack) - offsetof(struct sn_task, context.cxx));
	__atomic_store_n(&task->context.sp, NULL, __ATOMIC_RELAXED);
	if (sn_unlikely(sn_scan_initial))
		atomic_fetch_or(&task->word.scan, sn_scan_initial);
	atomic_store_explicit(&task->join, join_word(JOIN_RUNNING, generation_of(task)),
			      memory_order_relaxed);
	task->fn = fn;
	task->arg = arg;
	task->modes = sn_arch_modes();
	describe(task, attr->name);
	task->brief = (attr->flags & SN_TASK_BRIEF) != 0;
	if (attr->arg_size) {
		uintptr_t at = (uintptr_t)task->kept;

		/* A collector that stops this thread here finds the argument by the block. */
		if (attr->arg_size > sizeof task->kept) {
			set_stack(task, *stack);
			at = ((uintptr_t)stack->high - attr->arg_size) & ~(uintptr_t)63;
		}
		task->arg = (void *)at;
		if (attr->arg_move)
			attr->arg_move((void *)at, arg);
		else
			memcpy((void *)at, arg, attr->arg_size);
	}
	if (stack)
		give_stack(task, *stack,
			   attr->arg_size > sizeof task->kept ? (uintptr_t)task->arg
							      : (uintptr_t)stack->high);
}

/* What a spawn takes: -ENOMEM when it is not to be had. */
static int take_memory(struct sn_processor *p, int class, bool with_stack, struct sn_task **task,
		       struct sn_stack *stack)
{
	const char *why = "memory for control blocks";

	if (sn_unlikely(sn_tasks_starve()))
		return -ENOMEM;
	*task = sn_block_alloc(p ? &p->blocks : NULL);
	if (*task && (!with_stack || sn_stack_alloc(stack, class, p ? p->stacks : NULL, &why) == 0))
		return 0;
	log_no_stack(why);
	if (*task)
		sn_block_free(*task, p ? &p->blocks : NULL);
	return -ENOMEM;
}

struct sn_task *sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, const void *at, int *err)
{
	static const struct sn_task_attr defaults;
	struct sn_stack stack;
	struct sn_task *task;
	bool with_stack;
	int class;

	if (!attr)
		attr = &defaults;
	class = attr->stack_size ? sn_stack_class(attr->stack_size) : sn_stack_default_class();
	*err = -EINVAL;
	if (!fn || class < 0 || (attr->flags & ~SN_TASK_BRIEF) ||
	    attr->arg_size > SN_TASK_ARG_MAX || (attr->arg_size && !arg && !attr->arg_move))
		return NULL;
	with_stack = attr->arg_size > sizeof task->kept || sn_stack_is_scarce(class);
	*err = take_memory(self ? self->processor : NULL, class, with_stack, &task, &stack);
	if (*err < 0)
		return NULL;
	sn_task_create(task, with_stack ? &stack : NULL, fn, arg, attr);
	task->stack_class = (uint8_t) class;
	atomic_store_explicit(&task->spawned_at, at, memory_order_relaxed);
	atomic_store_explicit(&task->join, join_word(JOIN_DETACHED, generation_of(task)),
			      memory_order_relaxed);
	return task;
}

void sn_task_launch(struct sn_thread *self, struct sn_task *task)
{
	if (self && self->processor)
		sn_count(&self->processor->stats.spawned, 1);
	else
		atomic_fetch_add_explicit(&sn_runtime.foreign_spawned, 1, memory_order_relaxed);
	sn_ready(self, task, SN_READY_LAST);
}

void sn_task_discard(struct sn_thread *self, struct sn_task *task)
{
	take_stack(self, task);
	task_free(self, task);
}

static int spawn(struct sn_thread *self, struct sn_task **handle, sn_fn *fn, void *arg,
		 const struct sn_task_attr *attr, const void *at)
{
	int err;
	struct sn_task *task = sn_task_new(self, fn, arg, attr, at, &err);

	if (!task)
		return err;
	if (handle) {
		atomic_store_explicit(&task->join, join_word(JOIN_RUNNING, generation_of(task)),
				      memory_order_relaxed);
		*handle = sn_task_handle(task);
	}
	sn_task_launch(self, task);
	return 0;
}

/* On a thread of the program's own. */
static int foreign_spawn(sn_task **task, sn_fn *fn, void *arg, const struct sn_task_attr *attr,
			 const void *at)
{
	int err = sn_foreign_enter();

	if (err < 0)
		return err;
	err = spawn(NULL, task, fn, arg, attr, at);
	sn_foreign_leave();
	return err;
}

/* at: for reports, where the program called. */
static inline int spawn_from(sn_task **task, sn_fn *fn, void *arg, const struct sn_task_attr *attr,
			     const void *at)
{
	struct sn_thread *self = sn_runtime_enter_for("sn_spawn");
	int err;

	if (!self)
		return foreign_spawn(task, fn, arg, attr, at);
	err = spawn(self, task, fn, arg, attr, at);
	sn_runtime_leave();
	return err;
}

int sn_spawn(sn_task **task, sn_fn *fn, void *arg, const struct sn_task_attr *attr)
{
	return spawn_from(task, fn, arg, attr, __builtin_return_address(0));
}

int sn_go(sn_fn *fn, void *arg)
{
	return spawn_from(NULL, fn, arg, NULL, __builtin_return_address(0));
}

/* A task as a handle knows it: what it is claimed by has to be of the same generation. */
struct target {
	struct sn_task *task;
	uint32_t generation;
};

/* 0; -EINVAL for NULL, -ESRCH when the task was freed. */
static int find(struct target *target, const sn_task *handle)
{
	struct sn_task *task = sn_handle_object(handle);

	if (!task)
		return -EINVAL;
	/* Relaxed: see sn_task_of(). */
	*target = (struct target){task, generation_of(task)};
	return sn_handle_fits(handle, target->generation) ? 0 : -ESRCH;
}

/* Claims a task that has ended, or becomes the one who waits for it. */
static bool claim(struct target target, enum join_state from, uintptr_t to)
{
	uintptr_t word = join_word(from, target.generation);

	return atomic_compare_exchange_strong_explicit(&target.task->join, &word, to,
						       memory_order_acq_rel, memory_order_acquire);
}

/* Why there is no claim: somebody joins it, -EBUSY, or has; or it was detached, -EINVAL. */
static int why_not(struct target target)
{
	uintptr_t word = atomic_load_explicit(&target.task->join, memory_order_acquire);

	if (generation_of(target.task) != target.generation)
		return -ESRCH;
	return word == join_word(JOIN_DETACHED, target.generation) ? -EINVAL : -EBUSY;
}

/* The last time that a joiner who does not get the claim touches the task. */
static bool commit_join(struct sn_thread *self, struct sn_task *joiner, void *arg)
{
	/* On the joiner's stack, who may run once he has the claim. */
	const struct target target = *(struct target *)arg;

	(void)self;
	if (claim(target, JOIN_RUNNING, (uintptr_t)joiner))
		return true;
	if (!claim(target, JOIN_ENDED, (uintptr_t)joiner))
		joiner->wake_reason = why_not(target);
	return false;
}

/* With a deadline, or in a scope: see the top. */
static int join_patiently(struct sn_thread *self, struct target target, int64_t deadline)
{
	struct sn_lock *lock = sn_cancel_lock_of(target.task);
	struct sn_waiter waiter;
	uintptr_t word;
	int err;

	sn_waiter_init(&waiter, self, deadline, SN_WAITER_SHARED);
	if (!claim(target, JOIN_RUNNING, (uintptr_t)&waiter | JOIN_WAITER))
		return claim(target, JOIN_ENDED, (uintptr_t)self->task) ? 0 : why_not(target);
	err = sn_waiter_park(&waiter, NULL);
	if (err < 0) {
		sn_lock(lock);
		word = (uintptr_t)&waiter | JOIN_WAITER;
		atomic_compare_exchange_strong_explicit(&target.task->join, &word,
							join_word(JOIN_RUNNING, target.generation),
							memory_order_acq_rel, memory_order_acquire);
		sn_unlock(lock);
	}
	return err;
}

/* Inside the runtime. */
static int join(struct sn_thread *self, const sn_task *handle, int *result, int64_t deadline)
{
	struct sn_task *me = self->task;
	struct target target;
	uintptr_t word;
	int err = find(&target, handle);

	if (err < 0)
		return err;
	if (target.task == me)
		return -EDEADLK;
	err = sn_cancel_reason(me);
	sn_task_waits(me, "a task's end", handle);
	word = atomic_load_explicit(&target.task->join, memory_order_acquire);
	if (word == join_word(JOIN_ENDED, target.generation))
		err = claim(target, JOIN_ENDED, (uintptr_t)me) ? 0 : why_not(target);
	else if (word != join_word(JOIN_RUNNING, target.generation))
		err = why_not(target);
	else if (err == 0 && (deadline || sn_cancel_possible(me)))
		err = join_patiently(self, target, deadline);
	else if (err == 0)
		err = sn_park(self, commit_join, &target);
	if (err < 0)
		return err;
	if (result)
		*result = target.task->result;
	task_free(sn_thread_self(), target.task);
	return 0;
}

int sn_join_until(sn_task *task, int *result, int64_t deadline)
{
	struct sn_thread *self = sn_runtime_enter();
	int err;

	if (!self)
		return -ENOTSUP;
	err = join(self, task, result, deadline);
	sn_runtime_leave();
	return err;
}

int sn_join(sn_task *task, int *result)
{
	return sn_join_until(task, result, SN_NO_DEADLINE);
}

static int detach(struct sn_thread *self, const sn_task *handle)
{
	struct target target;
	int err = find(&target, handle);

	if (err < 0)
		return err;
	if (claim(target, JOIN_RUNNING, join_word(JOIN_DETACHED, target.generation)))
		return 0;
	if (!claim(target, JOIN_ENDED, join_word(JOIN_DETACHED, target.generation)))
		return why_not(target);
	task_free(self, target.task);
	return 0;
}

int sn_detach(sn_task *task)
{
	struct sn_thread *self;
	int err;

	if (!task)
		return 0;
	self = sn_runtime_enter();
	if (self) {
		err = detach(self, task);
		sn_runtime_leave();
		return err;
	}
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	err = detach(NULL, task);
	sn_foreign_leave();
	return err;
}

int sn_yield(void)
{
	struct sn_thread *self = sn_runtime_enter();

	if (!self)
		return -ENOTSUP;
	sn_reschedule(self);
	sn_runtime_leave();
	return 0;
}

int sn_sleep_until(int64_t deadline)
{
	struct sn_thread *self = sn_runtime_enter();
	int err;

	if (!self)
		return -ENOTSUP;
	err = sn_cancel_reason(self->task);
	if (err == 0 && deadline <= sn_now()) {
		sn_reschedule(self);
	} else if (err == 0) {
		struct sn_waiter waiter;

		sn_task_waits(self->task, "a time", NULL);
		sn_waiter_init(&waiter, self, deadline, 0);
		err = sn_waiter_park(&waiter, NULL);
		/* Not the deadline of the scope. */
		if (err == -ETIMEDOUT && sn_now() >= deadline)
			err = 0;
	}
	sn_runtime_leave();
	return err;
}

int sn_sleep(int64_t ns)
{
	int64_t now = sn_now();

	if (ns <= 0)
		return sn_yield();
	/* Longer than the clock can tell is for ever, not the past. */
	return sn_sleep_until(ns > INT64_MAX - 1 - now ? INT64_MAX - 1 : now + ns);
}

sn_task *sn_self(void)
{
	struct sn_thread *self = sn_thread_self();

	return self && self->task ? sn_task_handle(self->task) : NULL;
}

uint64_t sn_task_id(const sn_task *handle)
{
	const struct sn_task *task = sn_task_of(handle);
	uint64_t id;

	if (!task)
		return 0;
	/* Acquire: an id of the block's next task comes with that task's generation. */
	id = atomic_load_explicit(&task->id, memory_order_acquire);
	return sn_task_of(handle) ? id : 0;
}

const char *sn_task_name(const sn_task *handle)
{
	const struct sn_task *task = sn_task_of(handle);

	if (!task)
		return "";
	/* Its bytes are atomic for those who read it while the task gives itself another. */
	return task->name[0] ? (const char *)task->name : "task";
}

int sn_task_set_name(const char *name)
{
	struct sn_thread *self = sn_thread_self();

	if (!self || !self->task)
		return -ENOTSUP;
	set_name(self->task, name);
	return 0;
}
