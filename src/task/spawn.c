/* SPDX-License-Identifier: MIT */
#include "task/spawn.h"

#include <errno.h>
#include <string.h>

#include <sennit/unstable.h>

#include "arch/compiler.h"
#include "arch/sized.h"
#include "base/counters.h"
#include "sched/control_block.h"
#include "sched/foreign.h"
#include "sched/processor.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/switch.h"
#include "sched/task_stack.h"
#include "sched/thread.h"
#include "stack/stack_slab.h"
#include "task/join.h"
#include "task/local.h"

/* The flags with which a task may be spawned. */
#define FLAGS (SN_TASK_BRIEF | SN_TASK_BLOCKS | HOOKS)
#define HOOKS (SN_TASK_HOOKED | SN_TASK_UNHOOKED)

static bool flags_are_valid(uint32_t flags)
{
	return !(flags & ~FLAGS) && (flags & HOOKS) != HOOKS;
}

/* How many ids a processor takes at a time. */
#define IDS 64

/* Takes n ids that no other caller gets, and returns the first. */
static uint64_t take_ids(uint64_t n)
{
	/* Alone on its cache line, because threads of all processors write it. */
	static struct {
		_Alignas(SN_CACHE_LINE) _Atomic uint64_t last;
	} ids;

	return atomic_fetch_add_explicit(&ids.last, n, memory_order_relaxed) + 1;
}

/*
 * Ids are unique, and those of one processor ascend. The ids that a processor has not used are lost
 * when the run ends. Taking each id from the shared word would be the only write of a spawn to
 * memory that other processors write (docs/scale.md). p is NULL on a thread of the program's own.
 */
static uint64_t next_id(struct sn_processor *p)
{
	if (!p)
		return take_ids(1);
	if (sn_unlikely(p->last_id == p->ids_end)) {
		p->last_id = take_ids(IDS) - 1;
		p->ids_end = p->last_id + IDS;
	}
	return ++p->last_id;
}

/*
 * Writes the fields that sn_tasks_each() reads. Another thread may still be reading those of the
 * block's previous task. The id is therefore 0 while the other fields are written, with a fence
 * after the store of 0, and the reader has a fence between its reads of the fields and its second
 * read of the id. If it reads the same id before and after, all fields belong to that task.
 * waits_for and waits_in keep their old values, because they are read only while a task is parked.
 */
static void describe(struct sn_task *task, const char *name)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_task *parent = self ? self->task : NULL;

	atomic_store_explicit(&task->id, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&task->spawned_at, NULL, memory_order_relaxed);
	/* Relaxed: the parent runs this, and its id was written before it ran. */
	atomic_store_explicit(&task->spawned_by,
			      parent ? atomic_load_explicit(&parent->id, memory_order_relaxed) : 0,
			      memory_order_relaxed);
	if (name)
		sn_task_put_name(task, name);
	atomic_store_explicit(&task->id, next_id(self ? self->processor : NULL),
			      memory_order_release);
}

/* Whether the fields have the values that a free block must have, so that a spawn need not write
 * them. */
static bool is_clean(const struct sn_task *task)
{
	return !task->is_bound && !task->tied && !task->may_block && !task->apart &&
	       !task->stack.low && !task->cancel && !task->on_begin && !task->on_end &&
	       !task->cancel_masks && !task->foreign.locks && !task->foreign.hooks &&
	       !task->in_waiter && !task->in_side && !task->name[0] && !task->scope &&
	       !task->locals_round && !task->named && !task->locals;
}

void sn_task_create(struct sn_task *task, const struct sn_stack *stack, sn_fn *fn, void *arg,
		    const struct sn_task_attr *attr)
{
	sn_status_set(&task->word, SN_TASK_NEW, SN_BY_CREATOR);
	if (sn_task_generation(task) == 0) /* the first task in this block */
		atomic_store_explicit(&task->generation,
				      sn_handle_next(sn_block_first_generation()),
				      memory_order_relaxed);
	SN_ASSERT(is_clean(task));
	/* Does not clear the whole line: a scanner may hold its bit in word.scan until it has seen
	 * the status. */
	memset(&task->context.cxx, 0, sizeof task->context.cxx);
	__atomic_store_n(&task->context.sp, NULL, __ATOMIC_RELAXED);
	if (sn_unlikely(sn_scan_initial))
		atomic_fetch_or(&task->word.scan, sn_scan_initial);
	atomic_store_explicit(&task->join, sn_join_word(SN_JOIN_RUNNING, sn_task_generation(task)),
			      memory_order_relaxed);
	task->fn = fn;
	task->arg = arg;
	task->modes = sn_arch_modes();
	describe(task, attr->name);
	task->brief = (attr->flags & SN_TASK_BRIEF) != 0;
	if (sn_unlikely(attr->flags & HOOKS))
		task->foreign.hooks = attr->flags & SN_TASK_HOOKED ? SN_HOOKS_ON : SN_HOOKS_OFF;
	if (sn_unlikely(attr->flags & SN_TASK_BLOCKS)) {
		task->apart = true;
		sn_tie_unbind(task);
	}
	if (attr->arg_size) {
		uintptr_t at = (uintptr_t)task->kept;

		/* The block names the place of the argument before the argument is moved there, so
		 * that a collector that stops this thread finds it. */
		if (attr->arg_size > sizeof task->kept) {
			sn_task_set_stack(task, *stack);
			at = (sn_stack_top(stack) - attr->arg_size) & ~(uintptr_t)63;
		}
		task->arg = (void *)at;
		if (attr->arg_move)
			attr->arg_move((void *)at, arg);
		else
			memcpy((void *)at, arg, attr->arg_size);
	}
	if (stack)
		sn_task_give_stack(task, *stack,
				   attr->arg_size > sizeof task->kept ? (uintptr_t)task->arg
								      : sn_stack_top(stack));
}

/* Takes the block and, if with_stack, the stack for a spawn. Returns 0 or -ENOMEM. */
static int take_memory(struct sn_processor *p, int class, bool with_stack, struct sn_task **task,
		       struct sn_stack *stack)
{
	const char *why = "memory for control blocks";

	if (sn_unlikely(sn_tasks_starve()))
		return -ENOMEM;
	*task = sn_block_alloc(p ? &p->blocks : NULL);
	if (*task && (!with_stack || sn_stack_alloc(stack, class, p ? p->stacks : NULL, &why) == 0))
		return 0;
	sn_log_no_stack(why);
	if (*task)
		sn_block_free(*task, p ? &p->blocks : NULL);
	return -ENOMEM;
}

/* Returns the attributes as this version has them: the defaults for NULL, the program's own where
 * it has this version's header, or else a copy in *own. NULL with *err if they ask for something
 * unknown. A copy each time took 46 of a spawn's 470 instructions. */
static const struct sn_task_attr *complete(const struct sn_task_attr *attr,
					   struct sn_task_attr *own, int *err)
{
	static const struct sn_task_attr defaults = SN_TASK_ATTR_INIT();

	if (!attr)
		return &defaults;
	if (sn_likely(attr->size == sizeof *attr))
		return attr;
	*err = SN_SIZED_TAKE(own, attr);
	return *err < 0 ? NULL : own;
}

struct sn_task *sn_task_new(struct sn_thread *self, sn_fn *fn, void *arg,
			    const struct sn_task_attr *attr, const void *at, int *err)
{
	struct sn_task_attr own;
	struct sn_stack stack;
	struct sn_task *task;
	bool with_stack;
	int class;

	attr = complete(attr, &own, err);
	if (!attr)
		return NULL;
	class = attr->stack_size ? sn_stack_class(attr->stack_size) : sn_stack_default_class();
	*err = -EINVAL;
	if (!fn || class < 0 || !flags_are_valid(attr->flags) || attr->arg_size > SN_TASK_ARG_MAX ||
	    (attr->arg_size && !arg && !attr->arg_move))
		return NULL;
	with_stack = attr->arg_size > sizeof task->kept || sn_stack_is_scarce(class);
	*err = take_memory(self ? self->processor : NULL, class, with_stack, &task, &stack);
	if (*err < 0)
		return NULL;
	sn_task_create(task, with_stack ? &stack : NULL, fn, arg, attr);
	task->stack_class = (uint8_t) class;
	atomic_store_explicit(&task->spawned_at, at, memory_order_relaxed);
	atomic_store_explicit(&task->join, sn_join_word(SN_JOIN_DETACHED, sn_task_generation(task)),
			      memory_order_relaxed);
	return task;
}

void sn_task_count(struct sn_thread *self)
{
	if (self && self->processor)
		sn_count(&self->processor->stats.spawned, 1);
	else
		atomic_fetch_add_explicit(&sn_counters.foreign_spawned, 1, memory_order_relaxed);
}

void sn_task_launch(struct sn_thread *self, struct sn_task *task)
{
	sn_task_count(self);
	sn_record_spawn(self, task, false);
	sn_ready_recorded(self, task, SN_READY_LAST);
}

/* Spawns a task. If it succeeds, the heritage (local.h) belongs to the task. */
static inline int spawn(struct sn_thread *self, struct sn_task **handle, sn_fn *fn, void *arg,
			const struct sn_task_attr *attr, const void *at,
			struct sn_local_node *heritage)
{
	int err;
	struct sn_task *task = sn_task_new(self, fn, arg, attr, at, &err);

	if (!task)
		return err;
	if (handle) {
		atomic_store_explicit(&task->join,
				      sn_join_word(SN_JOIN_RUNNING, sn_task_generation(task)),
				      memory_order_relaxed);
		*handle = sn_task_handle(task);
	}
	if (heritage)
		task->locals = heritage;
	sn_task_launch(self, task);
	return 0;
}

/* Spawns a task from a thread of the program's own. */
static int foreign_spawn(sn_task **task, sn_fn *fn, void *arg, const struct sn_task_attr *attr,
			 const void *at)
{
	int err = sn_foreign_enter();

	if (err < 0)
		return err;
	err = spawn(NULL, task, fn, arg, attr, at, NULL);
	sn_foreign_leave();
	return err;
}

/* Spawns a task from a task that has task-local values. Called inside the runtime, which it
 * leaves. */
static sn_noinline int spawn_heir(struct sn_thread *self, sn_task **task, sn_fn *fn, void *arg,
				  const struct sn_task_attr *attr, const void *at)
{
	struct sn_local_node *heritage;
	int err = sn_locals_inherit(&self, "sn_spawn", &heritage);

	if (err < 0)
		return err;
	err = spawn(self, task, fn, arg, attr, at, heritage);
	sn_runtime_leave();
	if (err < 0)
		sn_locals_drop(heritage);
	return err;
}

/* at is the place of the program's call, for reports. */
static inline int spawn_from(sn_task **task, sn_fn *fn, void *arg, const struct sn_task_attr *attr,
			     const void *at)
{
	struct sn_thread *self = sn_runtime_enter_for("sn_spawn");
	int err;

	if (!self)
		return foreign_spawn(task, fn, arg, attr, at);
	if (sn_unlikely(self->task->locals))
		return spawn_heir(self, task, fn, arg, attr, at);
	err = spawn(self, task, fn, arg, attr, at, NULL);
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
