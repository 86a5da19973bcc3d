/* SPDX-License-Identifier: MIT */
/*
 * Values that belong to tasks: what the runtime does for <sennit/local.h>.
 *
 * Contract. A task has a list of its values; the newest is first. Only the task itself uses the
 * list, so there is no lock. Its creator makes the first list from its own, before the task can
 * run. A party that keeps the task from running may look at the list (sn_local_peek()). The list is
 * empty when a task ends, so its block needs no preparation for the next task. The spawn and the
 * end of a task without values thus cost one load and one branch each.
 *
 * All functions of the program (destructors, copies) are called outside the runtime, as code of the
 * calling task. They may therefore do anything, even fork.
 *
 * Who may write what:
 *   task->locals         the task itself; its creator, before it can run
 *   task->locals_round   the task itself: how deep in destructors it is; 0 outside them
 *
 * Rejected: an array indexed by numbers of keys (as with pthread_key_create()), which needs
 * registration, a limit, and as many words in each task as the program has keys; destroying values
 * from the end hook (on_end in sched/task.h), which runs inside the runtime and belongs to scopes.
 */
#ifndef SENNIT_TASK_LOCAL_H
#define SENNIT_TASK_LOCAL_H

#include <stdbool.h>

#include <sennit/local.h>

struct sn_local_node;
struct sn_task;
struct sn_thread;

/*
 * Makes the list that a child of the calling task inherits: *heritage, which is NULL if it is
 * empty. The program's functions copy the values. This therefore leaves the runtime, and enters it
 * again in the name of the public call `call`, on the thread *self. Returns 0. On failure it stays
 * outside the runtime, leaves no list, and returns -ENOMEM, or -ESRCH in a child process that a
 * copy function has forked.
 */
int sn_locals_inherit(struct sn_thread **self, const char *call, struct sn_local_node **heritage);

/* Destroys the heritage of a child that could not be made. Called outside the runtime. */
void sn_locals_drop(struct sn_local_node *heritage);

/* Destroys the values of the calling task, whose function has returned. Called outside the runtime.
 * May park. */
void sn_locals_destroy(struct sn_task *me);

/*
 * A task's value for the key, or NULL if it has none. For a party that keeps the task from running:
 * the owner of its stack, or a signal handler on its thread.
 */
void *sn_local_peek(const struct sn_task *task, const sn_local *key);

/* Whether any task of this run may have had a value. */
bool sn_locals_used(void);

/* Called at the end of a run without orphans: frees the lists of abandoned tasks. */
void sn_locals_end(void);

#endif
