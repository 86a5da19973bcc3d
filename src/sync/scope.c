/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing scopes, and starting tasks in them. scope.h says how a scope ends.
 */
#include "sync/scope.h"

#include "sched/foreign.h"
#include "sched/ready.h"
#include "sched/thread.h"
#include "task/local.h"
#include "task/spawn.h"

/* ---- opening and closing ---- */

/* Drops the opener's reference and waits until no other is left. close_by: when the tasks that are
 * still in the scope are cancelled; SN_NO_DEADLINE: never. Parks. */
static void await_last(struct sn_scope *scope, _Atomic uint32_t *count, int64_t close_by)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_waiter waiter;

	sn_waiter_init(&waiter, self, SN_NO_DEADLINE, SN_WAITER_SHARED | SN_WAITER_UNCANCELLABLE);
	scope->closer = &waiter;
	sn_task_waits(waiter.task, "the tasks of a scope", sn_scope_handle(scope));
	if (atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) == 1)
		return;
	/* Not before the count was dropped: if no task is left, nothing is cancelled, even when
	 * close_by has passed. */
	if (close_by)
		sn_scope_close_by(self, scope, close_by);
	sn_waiter_park(&waiter, NULL);
}

/* Puts the scope into the list of the scope around. Returns 0, or the reason for which the scope
 * around is cancelled. */
static int link_to_outer(struct sn_scope *scope)
{
	struct sn_scope *outer = scope->outer;
	int reason;

	sn_lock(&outer->lock);
	reason = atomic_load(&outer->cancel.reason);
	if (reason == 0)
		sn_link_add(&outer->inner, &scope->among_inner);
	sn_unlock(&outer->lock);
	return reason;
}

static void unlink_from_outer(struct sn_scope *scope)
{
	sn_lock(&scope->outer->lock);
	sn_link_remove(&scope->among_inner);
	sn_unlock(&scope->outer->lock);
}

static void work_in(struct sn_task *task, struct sn_scope *scope, uint32_t masks)
{
	task->cancel = scope ? &scope->cancel : NULL;
	task->cancel_masks = masks;
}

/* Called in the opener, which works in the scope. Parks. */
static int scope_close(struct sn_scope *scope, int64_t close_by)
{
	struct sn_task *me = scope->opener;
	int error;

	await_last(scope, &scope->running, close_by);
	sn_scope_end_deadline(scope);
	if (scope->linked)
		unlink_from_outer(scope);
	await_last(scope, &scope->active, SN_NO_DEADLINE);
	/* Masks that were taken in the scope and not released stay in force. */
	work_in(me, scope->outer, scope->masks + me->cancel_masks);
	error = atomic_load_explicit(&scope->error, memory_order_relaxed);
	sn_scope_free_values(scope);
	sn_scope_dealloc(scope);
	return error;
}

/* The task's function has returned. */
static void scope_task_ended(struct sn_task *task)
{
	struct sn_scope *scope = (struct sn_scope *)task->scope, *open;
	struct sn_queue ready = {0};
	struct sn_thread *self;

	while ((open = sn_scope_of(task)) != scope) {
		if (SENNIT_DEBUG)
			sn_fatal("task %llu \"%s\" has ended without sn_scope_close()",
				 (unsigned long long)sn_task_id(task), sn_task_name(task));
		scope_close(open, SN_NO_DEADLINE);
	}
	if (!scope)
		return;
	self = sn_thread_self();
	if (task->result < 0)
		sn_scope_cancel_for(self, scope, task->result, -ECANCELED);
	sn_lock(&scope->lock);
	sn_link_remove(&task->scope_link);
	if (sn_unlikely(scope->watches != NULL) && scope->tasks.next == &scope->tasks)
		ready = sn_scope_tell(self, scope, true);
	sn_unlock(&scope->lock);
	sn_ready_each(self, &ready);
	task->cancel = NULL;
	sn_scope_give_up(self, scope, &scope->running);
}

static int scope_open(struct sn_thread *self, struct sn_scope **out, int64_t deadline)
{
	struct sn_task *me = self->task;
	struct sn_scope *scope = sn_scope_alloc(self);
	int err = 0;

	if (!scope)
		return -ENOMEM;
	/* The fields are those of an earlier scope, whose counts are 0 and whose timer is
	 * stopped. */
	atomic_store_explicit(&scope->cancel.reason, 0, memory_order_relaxed);
	atomic_store_explicit(&scope->error, 0, memory_order_relaxed);
	atomic_store_explicit(&scope->values, NULL, memory_order_relaxed);
	atomic_store_explicit(&scope->run, atomic_load(&sn_runtime.run), memory_order_relaxed);
	scope->opener = me;
	scope->masks = me->cancel_masks;
	scope->outer = sn_scope_of(me);
	scope->linked = scope->outer && !scope->masks;
	sn_link_init(&scope->tasks);
	sn_link_init(&scope->inner);
	/* Release: a caller that takes a count with an old handle sees the fields above; see
	 * sn_scope_take_count(). */
	atomic_store_explicit(&scope->running, 1, memory_order_release);
	atomic_store_explicit(&scope->active, 1, memory_order_release);
	if (scope->linked)
		err = link_to_outer(scope);
	if (err < 0) {
		await_last(scope, &scope->running, SN_NO_DEADLINE);
		await_last(scope, &scope->active, SN_NO_DEADLINE);
		sn_scope_dealloc(scope);
		return err;
	}
	work_in(me, scope, 0);
	me->on_end = scope_task_ended;
	err = sn_scope_begin_deadline(self, scope, deadline);
	if (err < 0) {
		scope_close(scope, SN_NO_DEADLINE);
		return err;
	}
	*out = sn_scope_handle(scope);
	return 0;
}

int sn_scope_open(sn_scope **scope, int64_t deadline)
{
	struct sn_thread *self;
	int err;

	if (!scope)
		return -EINVAL;
	self = sn_runtime_enter();
	if (!self)
		return -ENOTSUP;
	err = scope_open(self, scope, deadline);
	sn_runtime_leave();
	return err;
}

int sn_scope_close(sn_scope *scope)
{
	return sn_scope_close_until(scope, SN_NO_DEADLINE);
}

int sn_scope_close_until(sn_scope *handle, int64_t deadline)
{
	struct sn_scope *scope = sn_handle_object(handle);
	struct sn_thread *self = sn_runtime_enter();
	int err = -EINVAL;

	if (!self)
		return -ENOTSUP;
	if (!scope)
		err = 0;
	else if (sn_scope_of(self->task) == scope && scope->opener == self->task &&
		 sn_scope_fits(scope, handle))
		err = scope_close(scope, deadline);
	else if (!sn_scope_fits(scope, handle))
		err = -ESRCH;
	else
		SN_MISUSE("sn_scope_close(): not the scope that this task has opened last");
	sn_runtime_leave();
	return err;
}

/* ---- tasks ---- */

struct sn_task *sn_scope_task_new(struct sn_thread *self, const sn_scope *handle, sn_fn *fn,
				  void *arg, const struct sn_task_attr *attr, const void *at,
				  int *err)
{
	struct sn_scope *scope;
	struct sn_task *task;

	*err = sn_scope_hold_handle(self, &scope, handle, true);
	if (*err < 0)
		return NULL;
	*err = atomic_load_explicit(&scope->cancel.reason, memory_order_acquire);
	task = *err < 0 ? NULL : sn_task_new(self, fn, arg, attr, at, err);
	if (!task) {
		sn_scope_give_up(self, scope, &scope->running);
		return NULL;
	}
	/* From now on the count belongs to the task. */
	task->cancel = task->scope = &scope->cancel;
	task->on_end = scope_task_ended;
	sn_lock(&scope->lock);
	sn_link_add(&scope->tasks, &task->scope_link);
	sn_unlock(&scope->lock);
	return task;
}

/* heritage: see task/local.h; on success it belongs to the task. */
static int scope_spawn(struct sn_thread *self, const sn_scope *handle, sn_fn *fn, void *arg,
		       const struct sn_task_attr *attr, const void *at,
		       struct sn_local_node *heritage)
{
	int err;
	struct sn_task *task = sn_scope_task_new(self, handle, fn, arg, attr, at, &err);

	if (!task)
		return err;
	if (heritage)
		task->locals = heritage;
	/* If the scope was cancelled in between, the task is started all the same, and sees the
	 * cancellation itself: an argument that was moved into it is not lost. */
	sn_task_launch(self, task);
	return 0;
}

/* For a task that has values of its own (task/local.h). The caller has entered the runtime; this
 * leaves it. */
static sn_noinline int scope_spawn_heir(struct sn_thread *self, sn_scope *scope, sn_fn *fn,
					void *arg, const struct sn_task_attr *attr, const void *at)
{
	struct sn_local_node *heritage;
	int err = sn_locals_inherit(&self, "sn_scope_spawn", &heritage);

	if (err < 0)
		return err;
	err = scope_spawn(self, scope, fn, arg, attr, at, heritage);
	sn_runtime_leave();
	if (err < 0)
		sn_locals_drop(heritage);
	return err;
}

/* at: the place of the program's call, for reports. */
static inline int scope_spawn_from(sn_scope *scope, sn_fn *fn, void *arg,
				   const struct sn_task_attr *attr, const void *at)
{
	struct sn_thread *self = sn_runtime_enter_for("sn_scope_spawn");
	int err;

	if (self && sn_unlikely(self->task->locals))
		return scope_spawn_heir(self, scope, fn, arg, attr, at);
	if (self) {
		err = scope_spawn(self, scope, fn, arg, attr, at, NULL);
		sn_runtime_leave();
		return err;
	}
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	err = scope_spawn(NULL, scope, fn, arg, attr, at, NULL);
	sn_foreign_leave();
	return err;
}

int sn_scope_spawn(sn_scope *scope, sn_fn *fn, void *arg, const struct sn_task_attr *attr)
{
	return scope_spawn_from(scope, fn, arg, attr, __builtin_return_address(0));
}

int sn_scope_go(sn_scope *scope, sn_fn *fn, void *arg)
{
	return scope_spawn_from(scope, fn, arg, NULL, __builtin_return_address(0));
}
