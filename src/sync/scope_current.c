/* SPDX-License-Identifier: MIT */
/*
 * What a task can do inside a scope: ask which scope it works in and whether that is cancelled,
 * look up values by key, and mask cancellation for a while.
 *
 * Contract. None of these parks. Values are found from the innermost scope outwards. A node is
 * never changed once it is in the list, and is freed when its scope is closed; a scope is closed
 * only when the tasks in it have ended, so a task may walk the lists of its scopes without a lock.
 *
 * Who may write what:
 *   a task's masks   the task itself
 *   values           the opener of the scope
 */
#include "sync/scope.h"

#include <sennit/collector.h>

#include "sched/thread.h"

struct sn_scope_value_node {
	struct sn_scope_value_node *next;
	const void *key;
	void *value;
};

static struct sn_task *running_task(void)
{
	struct sn_thread *self = sn_thread_self();

	return self ? self->task : NULL;
}

sn_scope *sn_scope_current(void)
{
	struct sn_task *me = running_task();

	struct sn_scope *scope = me ? sn_scope_of(me) : NULL;

	return scope ? sn_scope_handle(scope) : NULL;
}

int sn_cancelled(void)
{
	struct sn_task *me = running_task();

	return me ? sn_cancel_reason(me) : 0;
}

int sn_cancel_mask(void)
{
	struct sn_task *me = running_task();

	if (!me)
		return -ENOTSUP;
	me->cancel_masks++;
	return 0;
}

int sn_cancel_unmask(void)
{
	struct sn_task *me = running_task();

	if (!me)
		return -ENOTSUP;
	if (me->cancel_masks == 0)
		return -EINVAL;
	me->cancel_masks--;
	return 0;
}

int sn_scope_set_value(sn_scope *handle, const void *key, void *value)
{
	struct sn_scope *scope = sn_handle_object(handle);
	struct sn_scope_value_node *node;

	if (!scope)
		return -EINVAL;
	if (!sn_scope_fits(scope, handle))
		return -ESRCH;
	if (scope->opener != running_task())
		return running_task() ? -EPERM : -ENOTSUP;
	/* From the collector's memory, because this list may have the only reference to the
	 * value. */
	node = sn_collector_alloc(_Alignof(struct sn_scope_value_node), sizeof *node);
	if (!node)
		return -ENOMEM;
	*node = (struct sn_scope_value_node){
		atomic_load_explicit(&scope->values, memory_order_relaxed), key, value};
	atomic_store_explicit(&scope->values, node, memory_order_release);
	return 0;
}

void *sn_scope_value(const void *key)
{
	struct sn_task *me = running_task();

	for (struct sn_scope *scope = me ? sn_scope_of(me) : NULL; scope; scope = scope->outer) {
		struct sn_scope_value_node *value =
			atomic_load_explicit(&scope->values, memory_order_acquire);

		for (; value; value = value->next)
			if (value->key == key)
				return value->value;
	}
	return NULL;
}

void sn_scope_free_values(struct sn_scope *scope)
{
	struct sn_scope_value_node *value =
		atomic_load_explicit(&scope->values, memory_order_relaxed);

	while (value) {
		struct sn_scope_value_node *next = value->next;

		sn_collector_free(value);
		value = next;
	}
}
