/* SPDX-License-Identifier: MIT */
/*
 * Values that belong to a task: what a thread-local is to a thread.
 *
 * A key is a static variable; each task has its own value for it, NULL at first. When the task's
 * function has returned, the key's destructor gets the value.
 *
 *	static sn_local buffer = {.destroy = free};
 *
 *	char *get_buffer(void)
 *	{
 *		char *mine = sn_local_get(&buffer);
 *
 *		if (!mine && (mine = malloc(4096)) != NULL && sn_local_set(&buffer, mine) < 0) {
 *			free(mine);
 *			return NULL;
 *		}
 *		return mine;
 *	}
 *
 * There is nothing to register, and no limit to the number of keys. A task pays for the values that
 * it has: each takes some 50 bytes, and finding one takes time in proportion to their number. For
 * values that a group of tasks shares see sn_scope_set_value() in scope.h.
 *
 * Inheritance. A task that is started by another one gets the values that its parent has at that
 * moment for keys with SN_LOCAL_INHERITED. What the parent sets later does not concern the child.
 * Without a copy function the child borrows the same value: no destructor is called for it in the
 * child, and the value has to outlive the child, as it does when the parent starts the child in a
 * scope and closes that. With a copy function the child has a value of its own; for counted
 * references, the function takes one more and returns the same address. It is ordinary code of the
 * parent, called by sn_go(), sn_spawn(), sn_scope_go() and sn_scope_spawn(). When it returns NULL,
 * that call fails with -ENOMEM, and what was copied for the child is destroyed in the parent. It
 * may set other values of the parent, which the child then inherits in place of the earlier ones.
 * Alarms (timer.h), and tasks that threads of the program's own start, inherit nothing.
 *
 * Destructors. They run in the task, after its function has returned, in the reverse of the order
 * in which the task first got values for their keys; inherited ones come last. They may do all that
 * a task may, and may park. The task has not ended before they have returned: joining it, or
 * closing its scope, waits for them. If its scope is cancelled, so are their waits. During its
 * destructor a key has no value. A destructor may set values, whose destructors are then called in
 * another round, for SN_LOCAL_ROUNDS rounds at most. What is set after that is dropped without a
 * call, and debug builds abort.
 *
 * No destructor is called for the tasks that are abandoned when sn_run() returns, nor in the child
 * of fork(), where no value is found either. Those of the first task are called before its run
 * ends.
 *
 * Threads outside the runtime: all calls; they have no values. Signal handlers: none.
 */
#ifndef SENNIT_LOCAL_H
#define SENNIT_LOCAL_H

#include <sennit/base.h>

SN_BEGIN

/*
 * A key, known by its address. A static variable, or another that outlives the tasks with a value
 * for it. It is only read. All fields may be zero.
 */
typedef struct sn_local {
	void (*destroy)(void *value); /* NULL: nothing is done */
	void *(*copy)(void *value);   /* see above; only with SN_LOCAL_INHERITED */
	uint32_t flags;               /* 0 or SN_LOCAL_INHERITED */
} sn_local;

/* In flags: a task gets the value that its parent has when it starts the task. */
#define SN_LOCAL_INHERITED 1u

/* The most rounds of destructors, which may set values for the next round. */
#define SN_LOCAL_ROUNDS 4

/*
 * Gives the calling task a value for the key. The previous value is the caller's again: its
 * destructor is not called. NULL removes the value. Does not park. Returns 0; -ENOMEM, only when
 * the task had no value for the key; -EINVAL for a NULL key or unknown flags; -ENOTSUP outside a
 * task.
 */
SN_API int sn_local_set(const sn_local *key, void *value);

/* The calling task's value, or NULL. Does not park. Any thread: NULL outside a task. */
SN_API void *sn_local_get(const sn_local *key);

SN_END

#endif
