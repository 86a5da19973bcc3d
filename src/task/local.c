/* SPDX-License-Identifier: MIT */
#include "task/local.h"

#include <errno.h>
#include <stdatomic.h>

#include <sennit/collector.h>
#include <sennit/local.h>

#include "arch/compiler.h"
#include "sched/control_block.h"
#include "sched/runtime.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "wait/checked.h"

struct sn_local_node {
	struct sn_local_node *next;
	const sn_local *key;
	void *value;   /* NULL: none, in a list that was inherited */
	bool borrowed; /* the value is the parent's, and is not destroyed with this task */
	uint8_t round; /* how deeply nested in destructors it was set; 0 if outside them */
};

/* Whether any task may have a list. Any task sets it; the end of a run clears it. Relaxed, because
 * the end of the run has joined the threads before it reads this. */
static _Atomic bool used;

static struct sn_task *running_task(void)
{
	struct sn_thread *self = sn_thread_self();

	return self ? self->task : NULL;
}

/* Allocated where a collector sees it, because the list may have the only reference to the
 * value. */
static struct sn_local_node *new_node(const sn_local *key, void *value)
{
	struct sn_local_node *node =
		sn_collector_alloc(_Alignof(struct sn_local_node), sizeof *node);

	if (node)
		*node = (struct sn_local_node){.key = key, .value = value};
	return node;
}

/* ---- the calls ---- */

/* The link that points to the key's node; the last link, which is NULL, if there is none. */
static struct sn_local_node **find(struct sn_task *task, const sn_local *key)
{
	struct sn_local_node **link = &task->locals;

	while (*link && (*link)->key != key)
		link = &(*link)->next;
	return link;
}

/* The key's value; NULL if there is none. */
static void *value_of(struct sn_task *task, const sn_local *key)
{
	const struct sn_local_node *node = *find(task, key);

	return node ? node->value : NULL;
}

static int add(struct sn_task *me, const sn_local *key, void *value)
{
	struct sn_local_node *node = new_node(key, value);

	if (!node)
		return -ENOMEM;
	atomic_store_explicit(&used, true, memory_order_relaxed);
	node->round = me->locals_round;
	node->next = me->locals;
	/* A signal handler on this thread may read the list at any time (sn_local_peek()). */
	sn_compiler_barrier();
	me->locals = node;
	return 0;
}

int sn_local_set(const sn_local *key, void *value)
{
	struct sn_task *me = running_task();
	struct sn_local_node **link, *node;

	if (!key || (key->flags & ~SN_LOCAL_INHERITED))
		return -EINVAL;
	if (!me)
		return -ENOTSUP;
	link = find(me, key);
	node = *link;
	if (!node)
		return value ? add(me, key, value) : 0;
	if (value) {
		node->value = value;
		node->borrowed = false;
	} else {
		*link = node->next;
		sn_compiler_barrier();
		sn_collector_free(node);
	}
	return 0;
}

void *sn_local_get(const sn_local *key)
{
	struct sn_task *me = running_task();

	return me ? value_of(me, key) : NULL;
}

void *sn_local_peek(const struct sn_task *task, const sn_local *key)
{
	for (const struct sn_local_node *node = task->locals; node; node = node->next)
		if (node->key == key)
			return node->value;
	return NULL;
}

/* ---- inheriting ---- */

/* Makes a list of the values that a child inherits, all of them borrowed. Returns false if there is
 * no memory. */
static bool borrow(struct sn_task *parent, struct sn_local_node **heritage)
{
	struct sn_local_node **last = heritage;

	*last = NULL;
	for (struct sn_local_node *from = parent->locals; from; from = from->next) {
		if (!(from->key->flags & SN_LOCAL_INHERITED))
			continue;
		*last = new_node(from->key, from->value);
		if (!*last)
			return false;
		(*last)->borrowed = true;
		last = &(*last)->next;
	}
	return true;
}

/*
 * Copies the values that have a copy function. Such a function may change other values of the
 * parent, and destroy those that it replaces, so each is looked up when it is needed. One that the
 * parent no longer has becomes NULL, which stands for none. Returns false if a copy failed.
 */
static bool copy(struct sn_task *parent, struct sn_local_node *heritage)
{
	for (struct sn_local_node *node = heritage; node; node = node->next) {
		void *value;

		if (!node->key->copy)
			continue;
		node->value = value_of(parent, node->key);
		if (!node->value)
			continue;
		sn_checked_callback("copy function");
		value = node->key->copy(node->value);
		if (!value)
			return false;
		node->value = value;
		node->borrowed = false;
	}
	for (struct sn_local_node *node = heritage; node; node = node->next)
		if (!node->key->copy)
			node->value = value_of(parent, node->key);
	return true;
}

int sn_locals_inherit(struct sn_thread **self, const char *call, struct sn_local_node **heritage)
{
	struct sn_task *parent = (*self)->task;
	int err = -ENOMEM;

	sn_runtime_leave();
	if (borrow(parent, heritage) && copy(parent, *heritage)) {
		*self = sn_runtime_enter_for(call);
		if (*self)
			return 0;
		err = -ESRCH;
	}
	sn_locals_drop(*heritage);
	return err;
}

static void call_destroy(const sn_local *key, void *value)
{
	sn_checked_callback("destroy function");
	key->destroy(value);
}

void sn_locals_drop(struct sn_local_node *heritage)
{
	while (heritage) {
		struct sn_local_node own = *heritage;

		sn_collector_free(heritage);
		heritage = own.next;
		if (!own.borrowed && own.key->destroy)
			call_destroy(own.key, own.value);
	}
}

/* ---- the end of a task ---- */

static void destroy(struct sn_task *me, const struct sn_local_node *node)
{
	if (node->borrowed || !node->key->destroy)
		return;
	if (node->round > SN_LOCAL_ROUNDS) {
		if (SENNIT_DEBUG)
			sn_fatal("task %llu \"%s\": destructors of its values set values forever",
				 (unsigned long long)sn_task_id(me), sn_task_name(me));
		return;
	}
	me->locals_round = (uint8_t)(node->round + 1);
	call_destroy(node->key, node->value);
}

sn_noinline void sn_locals_destroy(struct sn_task *me)
{
	struct sn_local_node *node;

	/* Checks for the thread's block each time: a destructor may fork, and the child has no
	 * task. */
	while (sn_thread_self() && (node = me->locals) != NULL) {
		struct sn_local_node own = *node;

		me->locals = own.next;
		sn_compiler_barrier(); /* as in sn_local_set() */
		sn_collector_free(node);
		destroy(me, &own);
	}
	me->locals_round = 0;
}

/* ---- the end of a run ---- */

static int free_list(struct sn_task *task, void *arg)
{
	(void)arg;
	while (task->locals) {
		struct sn_local_node *node = task->locals;

		task->locals = node->next;
		sn_collector_free(node);
	}
	return 0;
}

bool sn_locals_used(void)
{
	return atomic_load_explicit(&used, memory_order_relaxed);
}

void sn_locals_end(void)
{
	if (atomic_exchange_explicit(&used, false, memory_order_relaxed))
		sn_block_each(free_list, NULL);
}
