/* SPDX-License-Identifier: MIT */
/*
 * The tasks of a trace, by their ids: their names, where they were spawned, and their states in the
 * replay.
 *
 * Contract. One thread uses a table. Nothing is allocated: the caller provides zeroed memory.
 */
#ifndef SENNIT_DEBUG_TRACE_TASKS_H
#define SENNIT_DEBUG_TRACE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/task.h>

#include "debug/modules.h"

/* The state of a task in the replay. */
enum sn_traced_state {
	SN_TRACED_UNKNOWN, /* before its first record */
	SN_TRACED_RUNNABLE,
	SN_TRACED_RUNNING,
	SN_TRACED_PARKED,
	SN_TRACED_AWAY, /* in foreign code, without a processor */
	SN_TRACED_ENDED,
};

struct sn_traced {
	uint64_t id;
	uint64_t spawned_by;
	const void *spawned_at;
	int64_t since;   /* when its state last changed */
	int64_t began;   /* when its last turn began */
	uint64_t reason; /* the address of a text: what the parked task waits for */
	uint64_t flow;   /* the arrow from the wake-up to the next turn */
	uint64_t woken_by, early_by, early_flow;
	int64_t early; /* the time of a wake-up that came before the end of the turn, or 0 */
	uint32_t processor;
	uint8_t state;   /* enum sn_traced_state */
	bool unwoken;    /* the record of the wake-up for its last turn is yet to come */
	bool runs_now;   /* as the runtime said after the copies were made: a hint */
	bool described;  /* its track was sent */
	bool name_known; /* its name was sent */
	char name[SN_TASK_NAME_MAX + 1];
};

/* The tasks come one after another, so that no more memory is touched than they need. */
struct sn_traced_table {
	struct sn_traced *tasks; /* an array of `count` */
	uint32_t *places;        /* by a hash of the id: a task's index plus 1, or 0 if free */
	size_t mask;             /* a power of two less one */
	uint32_t count;
};

/* How many bytes a table of `most` tasks needs; 0 if that is too much. */
size_t sn_traced_bytes(size_t most);
void sn_traced_begin(struct sn_traced_table *table, void *memory, size_t most);

/* Finds the task, or adds it. Its address does not change later. */
struct sn_traced *sn_traced_of(struct sn_traced_table *table, uint64_t id);

/* Asks the runtime, if it runs, for the names of tasks that are alive. */
void sn_traced_ask(struct sn_traced_table *table);

/* A cache of functions that have spawned tasks: most tasks are spawned at few places, and finding a
 * function in the symbols takes 0.1 ms. All zeros at first. */
#define SN_TRACED_SITES 64
struct sn_traced_sites {
	struct {
		const void *spawned_at;
		char function[91];
	} sites[SN_TRACED_SITES];
};

/* Writes the task's label in the trace: "name 17", or "task 17 of FUNCTION" if it has no name. */
void sn_traced_label(struct sn_traced_sites *sites, const struct sn_traced *task,
		     const struct sn_modules *modules, char *label, size_t size);

#endif
