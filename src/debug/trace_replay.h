/* SPDX-License-Identifier: MIT */
/*
 * Turns the scheduler's records into the slices that a trace shows.
 *
 * Contract. The caller passes the records of all rings in the order of their times, those of one
 * ring in their own order, each with its time and with the task whose turn it was. The replay keeps
 * the state of each task and each processor, and sends a slice for each state: a task runs, waits
 * for a processor, is parked for a reason, or is in foreign code; a processor runs a task or is
 * idle.
 *
 * Times of different rings that were not read from the clock may contradict each other by as much
 * as they are uncertain: a task may then seem to run before the record of its wake-up. That never
 * gives a slice a negative length. A record that comes too early waits for the end of the turn
 * (early in struct sn_traced), and one that comes too late is moved to the time of the record that
 * must have come before it. No turn is shown twice, or left out, except those that are open where
 * the records begin and end. All state is the caller's.
 */
#ifndef SENNIT_DEBUG_TRACE_REPLAY_H
#define SENNIT_DEBUG_TRACE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "debug/modules.h"
#include "debug/perfetto.h"
#include "debug/trace_tasks.h"
#include "sched/record.h"

/* Distinct strings that are sent once: reasons of waits, and the program's events. */
#define SN_REPLAY_STRINGS 128

struct sn_replay_processor {
	uint64_t track;
	uint64_t running; /* the running task's id, or 0 */
	uint64_t cut;     /* the task whose turn here was ended by its next turn, elsewhere */
	int64_t last;     /* when its state last changed */
	bool idle;        /* it is idle, since `last` */
	bool taken_over;  /* a turn of a task that is not known yet has begun, at `last` */
	bool described;
};

struct sn_replay {
	struct sn_packets *packets;
	struct sn_traced_table tasks;
	const struct sn_modules *modules;
	struct sn_traced_sites sites;
	struct sn_replay_processor *processors; /* one for each ring */
	int rings;
	uint64_t flows;   /* the number of the last arrow */
	int64_t runnable; /* how many tasks wait for a processor, as far as that is known */
	int64_t counted;  /* when runnable was last sent */
	int64_t changed;  /* when it last changed */
	bool uncounted;   /* the last change has not been sent */
	uint64_t strings[SN_REPLAY_STRINGS];
};

struct sn_replayed {
	int ring;
	int64_t time;
	int64_t earliest; /* the record was not made before this time */
	uint64_t what, detail;
	uint64_t owner; /* the task that had the processor; 0 for the scheduler */
	uint64_t next;  /* whose turn it is after this record; the owner's unless a turn changes */
};

void sn_replay_begin(struct sn_replay *replay, int fd);
void sn_replay_record(struct sn_replay *replay, const struct sn_replayed *record);
/* Called before the first record of a ring whose records from before this time were overwritten. */
void sn_replay_loss(struct sn_replay *replay, int ring, int64_t time);
/* The ring on which the task has its turn; -1 if it does not run. */
int sn_replay_runs_on(struct sn_replay *replay, uint64_t id);

/* Ends what is still open. */
int sn_replay_end(struct sn_replay *replay, int64_t now);

#endif
