/* SPDX-License-Identifier: MIT */
/*
 * The labels of tasks: what the runtime does for sn_label() in <sennit/profile.h>.
 *
 * Contract. A set of labels is never changed. A task and its children share one, and each has a
 * reference; changing a label makes another set. A task has its set as a task-local value
 * (local.h), under a key that children inherit. A task without labels therefore pays nothing for
 * them, at its spawn, at its end or in between.
 *
 * Other parties read that value by sn_labels_of(): the owner of a task's stack (sched/scan.h), the
 * thread that has taken the task out of a queue, or a signal handler on the task's own thread. The
 * handler may do so because the list of values is consistent between any two instructions
 * (local.c). None of these lets the task run during the read. The task therefore keeps its
 * reference, and they may take one of their own.
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
	uint64_t hash;                /* the same for equal sets */
	struct sn_label_pair pairs[]; /* sorted by key; the texts follow the array */
};

/* The labels of the task, or NULL if it has none. */
struct sn_labels *sn_labels_of(const struct sn_task *task);

/* Takes a reference. Async-signal-safe. labels may be NULL in this and the next. */
struct sn_labels *sn_labels_hold(struct sn_labels *labels);
/* Drops a reference, which may free the set. */
void sn_labels_drop(struct sn_labels *labels);

/* Called at the end of a run without orphans, before sn_locals_end(): drops the references of
 * abandoned tasks. */
void sn_labels_end(void);

#endif
