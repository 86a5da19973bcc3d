/* SPDX-License-Identifier: MIT */
/*
 * The labels of tasks: what the runtime does for sn_label() in <sennit/profile.h>.
 *
 * Contract. A set of labels is never changed. Tasks with the same labels share it, and count their
 * references; changing a label makes another set. A task has its set as a value of its own
 * (local.h), under a key that children inherit. So a task without labels pays nothing for them, at
 * its spawn, at its end or in between.
 *
 * sn_labels_of() reads that value in another party's stead: the owner of a task's stack
 * (sched/scan.h), the thread that has taken the task out of a queue, or a handler on the task's own
 * thread, which finds the list of values whole between any two instructions (local.c). None of
 * these lets the task run on, so the set that they find has the task's reference, and they may take
 * one of their own.
 *
 * Who may write what:
 *   refs       any thread, by atomic additions
 *   the rest   the task that makes the set, before any other thread knows it
 */
#ifndef SENNIT_TASK_LABEL_H
#define SENNIT_TASK_LABEL_H

#include <stdatomic.h>
#include <stdint.h>

#include <sennit/profile.h>

struct sn_task;

struct sn_label_pair {
	const char *key, *value;
};

struct sn_labels {
	_Atomic uint32_t refs;
	uint32_t count;
	uint64_t hash;                /* equal sets have the same */
	struct sn_label_pair pairs[]; /* by the order of their keys; then their texts */
};

/* NULL: none. */
struct sn_labels *sn_labels_of(const struct sn_task *task);

/* Takes a reference; async-signal-safe. NULL is allowed, in both. */
struct sn_labels *sn_labels_hold(struct sn_labels *labels);
/* Gives it back, which may free the set. */
void sn_labels_drop(struct sn_labels *labels);

/* The end of a run without orphans, before sn_locals_end(): drops those of the tasks that it has
 * abandoned. */
void sn_labels_end(void);

#endif
