/* SPDX-License-Identifier: MIT */
/*
 * Values that belong to tasks: what the runtime does for <sennit/local.h>.
 *
 * Contract. A task has a list of its values, the one that it got last first. Only the task itself
 * uses the list, so there is no lock. Its creator makes the list before the task can run, from its
 * own. A party that keeps the task from running may look at it (sn_local_peek()). The list is empty
 * when a task ends, so that a block needs no preparation for its next task, and spawning and ending
 * cost a task without values one load and one branch each.
 *
 * All functions of the program (destructors, copies) are called outside the runtime, as code of the
 * task that calls: so they may do anything, even fork.
 *
 * Who may write what:
 *   task->locals         the task itself; its creator, before it can run
 *   task->locals_round   the task itself: how deep in destructors it is; 0 outside them
 *
 * Rejected: an array indexed by numbers that keys are given (pthread_key_create()): it needs a
 * registration, a limit, and as many words in each task as there are keys in the program. A field
 * of the end hook (on_end in sched/task.h): it runs inside the runtime, and scopes have it.
 */
#ifndef SENNIT_TASK_LOCAL_H
#define SENNIT_TASK_LOCAL_H

#include <stdbool.h>

#include <sennit/local.h>

struct sn_local_node;
struct sn_task;
struct sn_thread;

/*
 * What a child of the calling task inherits, in *heritage, NULL for nothing. The program's
 * functions copy it, so this leaves the runtime, and enters it again for the public call of that
 * name, on the thread *self. 0; or with nothing left over, and outside the runtime, -ENOMEM, or
 * -ESRCH in a child that a copy function has forked.
 */
int sn_locals_inherit(struct sn_thread **self, const char *call, struct sn_local_node **heritage);

/* The child was not made: destroys its heritage. Outside the runtime. */
void sn_locals_drop(struct sn_local_node *heritage);

/* The function of the calling task has returned. Outside the runtime. May park. */
void sn_locals_destroy(struct sn_task *me);

/*
 * A task's value for the key, NULL for none, for a party that keeps the task from running: the
 * owner of its stack, or a signal handler on its thread.
 */
void *sn_local_peek(const struct sn_task *task, const sn_local *key);

/* Whether any task of this run may have had a value. */
bool sn_locals_used(void);

/* The end of a run without orphans: frees the lists of the tasks that it has abandoned. */
void sn_locals_end(void);

#endif
