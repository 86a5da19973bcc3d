/* SPDX-License-Identifier: MIT */
/*
 * Writes the content of the flight recorder: sn_trace_write().
 *
 * The rings are copied first, each in a moment, while the program continues. Everything after that
 * works on the copies: each record gets a time and the task whose turn it was, and then all rings
 * are merged by time and replayed (trace_replay.h). The memory is mapped for the call: twice the
 * size of the rings, and room for the tasks, which is at most about ten times as much. It belongs
 * to the calling thread; under_way, which any thread sets atomically, allows one trace at a time.
 *
 * Times. A record without a time lies between two that have one. If nothing else is known, it gets
 * a time in proportion to its place: of ten records between two times, the fifth is in the middle.
 * A TIME may have come because the monitor's clock had moved. Then the records before it keep the
 * distance of earlier ones, because it was the last turn that took long. The record after a TIME
 * has that time. After the last known time, records keep the distance of the ones before it.
 */
#include <sennit/trace.h>

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include <sennit/clock.h>

#include "debug/dump.h"
#include "debug/perfetto.h"
#include "debug/trace.h"
#include "debug/trace_replay.h"
#include "debug/trace_tasks.h"
#include "sched/record.h"
#include "sched/scan_serve.h"
#include "wait/lock.h"

/* What is derived for a record of a copy. */
struct place {
	int64_t time;
	uint64_t owner;
};

struct ring {
	struct sn_record_copy *records;
	struct place *places;
	size_t count, next;
	bool has_lost;       /* records before the first were overwritten */
	int64_t known;       /* the last time before next that was read from the clock */
	uint64_t last_owner; /* whose turn follows the last record; 0 if that is unknown */
};

struct trace {
	struct sn_packets packets;
	struct sn_modules modules;
	struct sn_replay replay;
	struct ring *rings;
	int *heap; /* of rings that have records left; the one with the earliest is first */
	int heap_size;
	int count;
	size_t records; /* of all rings */
	int64_t now;
	int own_ring; /* that of the calling task's processor; -1 if there is none, or no longer */
	uint64_t own_id;
	sn_record_position own_head; /* the head of that ring, when own_ring was noted */
};

static enum sn_record_kind kind_of(const struct sn_record_copy *record)
{
	return (enum sn_record_kind)(record->what & 0xff);
}

/* ---- times ---- */

static bool has_time(const struct sn_record_copy *record)
{
	switch (kind_of(record)) {
	case SN_RECORD_TIME:
	case SN_RECORD_RUN:
	case SN_RECORD_REVOKE:
	case SN_RECORD_REGAIN:
	case SN_RECORD_STEAL:
	case SN_RECORD_IDLE:
	case SN_RECORD_POLL:
	case SN_RECORD_TIMERS:
		return true;
	default:
		return false;
	}
}

static bool is_late(const struct sn_record_copy *record)
{
	return kind_of(record) == SN_RECORD_TIME && (record->what >> 8 & 1);
}

/* Gives times to records: those between two that have one, before the first, or after the last. */
static void spread(struct ring *ring, size_t from, size_t to, int64_t first, int64_t step_ns,
		   int64_t most)
{
	for (size_t i = from; i < to; i++) {
		int64_t time = first + step_ns * (int64_t)(i - from);

		ring->places[i].time = time < most ? time : most;
	}
}

static void find_times(struct ring *ring, int64_t now)
{
	size_t known = 0; /* the record after the last with a time */
	int64_t last = 0, step = 0;

	for (size_t i = 0; i < ring->count; i++) {
		int64_t time = (int64_t)ring->records[i].detail;

		if (!has_time(&ring->records[i]))
			continue;
		/* The last turn took so long that the monitor's clock moved. */
		if (known &&
		    !(is_late(&ring->records[i]) && step * (int64_t)(i - known + 1) < time - last))
			step = (time - last) / (int64_t)(i - known + 1);
		/* Records before the first time are only known to be earlier. */
		spread(ring, known, i, known ? last : time, known ? step : 0, time);
		ring->places[i].time = time;
		known = i + 1;
		last = time;
	}
	/* `now` was read on another thread than `last`, so it may be a little earlier (clock.h). */
	if (now < last)
		now = last;
	if (known && (now - last) / (int64_t)(ring->count - known + 1) < step)
		step = (now - last) / (int64_t)(ring->count - known + 1);
	spread(ring, known, ring->count, known ? last : now, step, now);
}

/* ---- owners ---- */

static bool ends_turn(enum sn_record_kind kind)
{
	return kind == SN_RECORD_LEAVE || kind == SN_RECORD_REVOKE;
}

/* Whether the record is made between two turns: if it follows the end of a turn, no other turn
 * began there. */
static bool is_between_turns(enum sn_record_kind kind)
{
	return kind == SN_RECORD_RUN || kind == SN_RECORD_REGAIN || kind == SN_RECORD_IDLE ||
	       kind == SN_RECORD_STEAL;
}

/* Finds whose turn it was at each record. Works backwards, because a turn is recorded at its end. A
 * turn that has not ended is known only if it began with a record, or if it is the caller's, which
 * is `last`. */
static void find_owners(struct ring *ring, uint64_t last)
{
	uint64_t owner = last;

	for (size_t i = ring->count; i-- > 0 && owner == 0;) {
		enum sn_record_kind kind = kind_of(&ring->records[i]);

		if (kind == SN_RECORD_RUN || kind == SN_RECORD_REGAIN)
			owner = ring->records[i].what >> 16;
		else if (ends_turn(kind) || is_between_turns(kind))
			break;
	}
	ring->last_owner = owner;
	for (size_t i = ring->count; i-- > 0;) {
		enum sn_record_kind kind = kind_of(&ring->records[i]);

		if (ends_turn(kind))
			owner = ring->records[i].what >> 16;
		ring->places[i].owner = owner;
		if (is_between_turns(kind))
			owner = 0;
	}
}

static bool names_task(enum sn_record_kind kind)
{
	switch (kind) {
	case SN_RECORD_LEAVE:
	case SN_RECORD_RUN:
	case SN_RECORD_SPAWN:
	case SN_RECORD_WAKE:
	case SN_RECORD_STAY:
	case SN_RECORD_REVOKE:
	case SN_RECORD_RETURN:
	case SN_RECORD_REGAIN:
	case SN_RECORD_NAME:
		return true;
	default:
		return false;
	}
}

/* Puts all tasks into the table, with their names and places of spawning as far as the records have
 * them. The runtime is asked only about tasks in the table. */
static void find_names(struct trace *trace, struct ring *ring)
{
	struct sn_traced_table *tasks = &trace->replay.tasks;

	for (size_t i = 0; i < ring->count; i++) {
		const struct sn_record_copy *record = &ring->records[i];
		const size_t at = (record->what >> 8 & 0xff) * sizeof record->detail;
		struct sn_traced *task;

		if (!names_task(kind_of(record)))
			continue;
		task = sn_traced_of(tasks, record->what >> 16);
		if (kind_of(record) == SN_RECORD_SPAWN)
			task->spawned_at = (const void *)(uintptr_t)record->detail;
		else if (kind_of(record) == SN_RECORD_WAKE && record->detail)
			sn_traced_of(tasks, record->detail);
		else if (kind_of(record) == SN_RECORD_NAME &&
			 at + sizeof record->detail <= sizeof task->name)
			memcpy(task->name + at, &record->detail, sizeof record->detail);
	}
	if (ring->last_owner)
		sn_traced_of(tasks, ring->last_owner);
}

/* ---- merging ---- */

static int64_t time_at(const struct trace *trace, int ring)
{
	const struct ring *r = &trace->rings[ring];

	return r->places[r->next].time;
}

static void sift_down(struct trace *trace, int at)
{
	int *heap = trace->heap, ring = heap[at];

	for (int child; (child = 2 * at + 1) < trace->heap_size; at = child) {
		if (child + 1 < trace->heap_size &&
		    time_at(trace, heap[child + 1]) < time_at(trace, heap[child]))
			child++;
		if (time_at(trace, ring) <= time_at(trace, heap[child]))
			break;
		heap[at] = heap[child];
	}
	heap[at] = ring;
}

/* Whose turn it is after the record; 0 if it is no task's, or not known. */
static uint64_t next_owner(const struct ring *ring, size_t i)
{
	enum sn_record_kind kind = kind_of(&ring->records[i]);

	if (kind == SN_RECORD_RUN || kind == SN_RECORD_REGAIN)
		return ring->records[i].what >> 16;
	if (ends_turn(kind) && i + 1 == ring->count)
		return ring->last_owner;
	return ends_turn(kind) && i + 1 < ring->count &&
			       !is_between_turns(kind_of(&ring->records[i + 1]))
		       ? ring->places[i + 1].owner
		       : 0;
}

/* Moves a ring to the top of the heap, with a time just before that of the present first. */
static void advance(struct trace *trace, int ring)
{
	int *heap = trace->heap, at = 0;

	while (heap[at] != ring)
		at++;
	trace->rings[ring].places[trace->rings[ring].next].time = time_at(trace, heap[0]) - 1;
	for (; at > 0; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[0] = ring;
}

/*
 * Finds a ring whose next record has to come before that of the first ring, although its time is
 * later: the first ring's record begins a turn of a task, whose previous turn, on the other
 * processor, has not ended yet. Returns -1 if there is none. If rings have lost records, two may
 * wait for each other, so this returns a ring at most as many times in a row as there are rings.
 */
static int must_come_before(struct trace *trace, int *in_a_row)
{
	struct ring *ring = &trace->rings[trace->heap[0]];
	uint64_t id = next_owner(ring, ring->next);
	int other = id ? sn_replay_runs_on(&trace->replay, id) : -1;

	if (other < 0 || other == trace->heap[0] ||
	    trace->rings[other].next == trace->rings[other].count || ++*in_a_row > trace->count)
		return -1;
	return other;
}

static void replay_all(struct trace *trace)
{
	int in_a_row = 0, other;

	for (int i = 0; i < trace->count; i++)
		if (trace->rings[i].count > 0)
			trace->heap[trace->heap_size++] = i;
	for (int i = trace->heap_size / 2; i-- > 0;)
		sift_down(trace, i);
	while (trace->heap_size > 0) {
		while ((other = must_come_before(trace, &in_a_row)) >= 0)
			advance(trace, other);
		in_a_row = 0;

		struct ring *ring = &trace->rings[trace->heap[0]];
		size_t i = ring->next++;

		if (has_time(&ring->records[i]))
			ring->known = (int64_t)ring->records[i].detail;
		if (i == 0 && ring->has_lost)
			sn_replay_loss(&trace->replay, trace->heap[0], ring->places[i].time);
		sn_replay_record(&trace->replay,
				 &(struct sn_replayed){.ring = trace->heap[0],
						       .time = ring->places[i].time,
						       .earliest = ring->known,
						       .what = ring->records[i].what,
						       .detail = ring->records[i].detail,
						       .owner = ring->places[i].owner,
						       .next = next_owner(ring, i)});
		if (ring->next == ring->count)
			trace->heap[0] = trace->heap[--trace->heap_size];
		if (trace->heap_size > 0)
			sift_down(trace, 0);
	}
}

/* ---- memory ---- */

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Cuts the next piece, aligned, from memory. If memory is NULL, it only counts. */
static void *cut(char *memory, size_t *used, size_t bytes)
{
	size_t at = *used;

	*used += (bytes + 63) & ~(size_t)63;
	return memory ? memory + at : NULL;
}

/* Lays out the memory of the copies. Called with NULL to count, and then to cut. */
static size_t lay_out(struct trace *trace, char *memory, size_t size)
{
	size_t used = 0, n = (size_t)trace->count;
	struct ring *rings = cut(memory, &used, n * sizeof *rings);
	int *heap = cut(memory, &used, n * sizeof *heap);
	struct sn_replay_processor *processors = cut(memory, &used, n * sizeof *processors);
	struct sn_record_copy *records = cut(memory, &used, n * size * sizeof *records);
	struct place *places = cut(memory, &used, n * size * sizeof *places);

	if (memory) {
		trace->rings = rings;
		trace->heap = heap;
		trace->replay.processors = processors;
		for (size_t i = 0; i < n; i++)
			rings[i] = (struct ring){.records = records + i * size,
						 .places = places + i * size};
	}
	return used;
}

/* ---- the call ---- */

static void copy_rings(struct trace *trace)
{
	for (int i = 0; i < trace->count; i++) {
		trace->rings[i].count = sn_record_copy(i, trace->rings[i].records);
		trace->rings[i].has_lost = sn_record_has_lost(i);
		trace->records += trace->rings[i].count;
	}
	/* The caller records nothing during this, so if there is a new record it has lost the
	 * processor. */
	if (trace->own_ring >= 0 && atomic_load_explicit(&sn_record_ring(trace->own_ring)->head,
							 memory_order_relaxed) != trace->own_head)
		trace->own_ring = -1;
	trace->now = sn_ticks_now();
}

static int write_copies(struct trace *trace, int fd)
{
	/* A record may name two tasks. */
	size_t most = 2 * trace->records + 1, bytes = sn_traced_bytes(most);
	void *table = bytes ? map(bytes) : NULL;
	int err;

	if (!table)
		return -ENOMEM;
	trace->replay.packets = &trace->packets;
	trace->replay.modules = &trace->modules;
	trace->replay.rings = trace->count;
	sn_traced_begin(&trace->replay.tasks, table, most);
	for (int i = 0; i < trace->count; i++) {
		find_times(&trace->rings[i], trace->now);
		find_owners(&trace->rings[i], i == trace->own_ring ? trace->own_id : 0);
		find_names(trace, &trace->rings[i]);
	}
	sn_traced_ask(&trace->replay.tasks);
	sn_dump_find_modules(&trace->modules);
	sn_replay_begin(&trace->replay, fd);
	replay_all(trace);
	err = sn_replay_end(&trace->replay, trace->now);
	munmap(table, bytes);
	return err;
}

static int write_trace(struct trace *trace, int fd)
{
	size_t size = 0, bytes;
	char *memory;

	trace->count = sn_record_hold(&size);
	if (trace->count == 0)
		return -ENODATA;
	bytes = lay_out(trace, NULL, size);
	memory = map(bytes);
	if (memory) {
		lay_out(trace, memory, size);
		copy_rings(trace);
	}
	sn_record_release();
	if (!memory)
		return -ENOMEM;
	int err = write_copies(trace, fd);

	munmap(memory, bytes);
	return err;
}

/* Notes the ring of the calling thread's processor, and that the turn there is the caller's. */
static void note_own(struct trace *trace)
{
	struct sn_thread *self = sn_runtime_enter_for("sn_trace_write");

	trace->own_ring = -1;
	if (!self)
		return;
	if (self->processor->record) {
		trace->own_ring = (int)self->processor->id;
		trace->own_id = sn_record_id(self->task);
		trace->own_head =
			atomic_load_explicit(&self->processor->record->head, memory_order_relaxed);
	}
	sn_runtime_leave();
}

static _Atomic bool under_way;

int sn_trace_write(int fd)
{
	struct sn_private_lease *lease;
	struct trace *trace;
	int err = -ENOMEM;

	if (atomic_exchange(&under_way, true))
		return -EBUSY;
	trace = map(sizeof *trace);
	if (trace) {
		note_own(trace);
		/* With hooks, write() would park the task, and if the run ended before it is
		 * resumed, the call would never return. */
		lease = sn_scan_hide();
		err = write_trace(trace, fd);
		sn_scan_unhide(lease);
		munmap(trace, sizeof *trace);
	}
	atomic_store(&under_way, false);
	return err;
}

void sn_trace_fork(enum sn_fork_phase phase)
{
	if (phase == SN_FORK_CHILD)
		atomic_store(&under_way, false);
}
