/* SPDX-License-Identifier: MIT */
#include "debug/trace_replay.h"

#include <stdio.h>
#include <string.h>

/* The names that are always sent, numbered from 1. tools/trace/trace.cc relies on them, and on the
 * numbers of tracks. */
enum {
	NAME_RUNNING = 1,
	NAME_RUNNABLE,
	NAME_AWAY,
	NAME_PARKED,
	NAME_IDLE,
	NAME_WAKES,
	NAME_SPAWNS,
	NAME_STEALS,
	NAME_POLL,
	NAME_TIMERS,
	NAME_REVOKED,
	NAME_LENT,
	NAME_LOST,
	NAMES,
};
static const char *const names[NAMES - 1] = {
	[NAME_RUNNING - 1] = "running",
	[NAME_RUNNABLE - 1] = "waits for a processor",
	[NAME_AWAY - 1] = "in foreign code without a processor",
	[NAME_PARKED - 1] = "parked",
	[NAME_IDLE - 1] = "idle",
	[NAME_WAKES - 1] = "wakes",
	[NAME_SPAWNS - 1] = "spawns",
	[NAME_STEALS - 1] = "steals",
	[NAME_POLL - 1] = "network",
	[NAME_TIMERS - 1] = "timers",
	[NAME_REVOKED - 1] = "processor revoked",
	[NAME_LENT - 1] = "processor lent",
	[NAME_LOST - 1] = "earlier records were overwritten",
};

/* The first numbers of other names, and of tasks' names, to which their ids are added. */
#define STRING_NAMES NAMES
#define TASK_NAMES ((uint64_t)1 << 32)

/* The numbers of tracks. Ids of tasks have 48 bits. */
#define PROCESS_TRACK 1
#define TASKS_TRACK 2
#define PROCESSORS_TRACK 3
#define RUNNABLE_TRACK 4
#define PROCESSOR_TRACKS 16
#define TASK_TRACKS ((uint64_t)1 << 48)

/* The counter is sent at most twice in a microsecond: its first change, and its last value. */
#define COUNTER_NS 1000

/* ---- names ---- */

/* The name for a string of the program or of the library at that address. */
static struct sn_trace_name string_name(struct sn_replay *replay, uint64_t address)
{
	const char *text = (const char *)(uintptr_t)address;
	size_t at = (size_t)(address * 0x9e3779b97f4a7c15 >> 40) % SN_REPLAY_STRINGS;

	if (!address)
		return (struct sn_trace_name){NAME_PARKED, NULL};
	for (size_t i = 0; i < SN_REPLAY_STRINGS; i++, at = (at + 1) % SN_REPLAY_STRINGS) {
		if (replay->strings[at] == address)
			return (struct sn_trace_name){STRING_NAMES + at, NULL};
		if (replay->strings[at] == 0) {
			replay->strings[at] = address;
			return (struct sn_trace_name){STRING_NAMES + at, text};
		}
	}
	return (struct sn_trace_name){0, text};
}

static struct sn_trace_name task_name(struct sn_replay *replay, struct sn_traced *task, char *label,
				      size_t size)
{
	const uint64_t number = TASK_NAMES + task->id;

	if (task->name_known)
		return (struct sn_trace_name){number, NULL};
	task->name_known = true;
	sn_traced_label(&replay->sites, task, replay->modules, label, size);
	return (struct sn_trace_name){number, label};
}

/* ---- tracks ---- */

static uint64_t track_of(struct sn_replay *replay, struct sn_traced *task)
{
	const uint64_t track = TASK_TRACKS + task->id;
	char label[SN_TRACE_STRING_MAX + 1];

	if (!task->described) {
		task->described = true;
		sn_traced_label(&replay->sites, task, replay->modules, label, sizeof label);
		sn_packets_track(replay->packets, track, TASKS_TRACK, SN_TRACK_PLAIN, label);
	}
	return track;
}

static uint64_t track_of_ring(struct sn_replay *replay, int ring)
{
	struct sn_replay_processor *p = &replay->processors[ring];
	char label[48];

	if (!p->described) {
		p->described = true;
		p->track = PROCESSOR_TRACKS + (uint64_t)ring;
		if (ring == replay->rings - 1)
			snprintf(label, sizeof label, "threads without a processor");
		else
			snprintf(label, sizeof label, "processor %d", ring);
		sn_packets_track(replay->packets, p->track, PROCESSORS_TRACK, SN_TRACK_PLAIN,
				 label);
	}
	return p->track;
}

void sn_replay_begin(struct sn_replay *replay, int fd)
{
	sn_packets_begin(replay->packets, fd, names, NAMES - 1);
	sn_packets_track(replay->packets, PROCESS_TRACK, 0, SN_TRACK_PROCESS, NULL);
	sn_packets_track(replay->packets, PROCESSORS_TRACK, PROCESS_TRACK, SN_TRACK_PLAIN,
			 "processors");
	sn_packets_track(replay->packets, TASKS_TRACK, PROCESS_TRACK, SN_TRACK_PLAIN, "tasks");
	sn_packets_track(replay->packets, RUNNABLE_TRACK, PROCESS_TRACK, SN_TRACK_COUNTER,
			 "tasks that wait for a processor");
}

/* ---- slices ---- */

static void begin_slice(struct sn_replay *replay, uint64_t track, int64_t time,
			enum sn_event_category category, struct sn_trace_name name)
{
	sn_packets_event(replay->packets, &(struct sn_event){.time = time,
							     .track = track,
							     .type = SN_EVENT_BEGIN,
							     .category = category,
							     .name = name});
}

static void end_slice(struct sn_replay *replay, uint64_t track, int64_t time)
{
	sn_packets_event(replay->packets,
			 &(struct sn_event){.time = time, .track = track, .type = SN_EVENT_END});
}

static void send_runnable(struct sn_replay *replay, int64_t time)
{
	replay->counted = time;
	replay->uncounted = false;
	sn_packets_event(replay->packets, &(struct sn_event){.time = time,
							     .track = RUNNABLE_TRACK,
							     .type = SN_EVENT_COUNTER,
							     .value = replay->runnable});
}

static void count_runnable(struct sn_replay *replay, int by, int64_t time)
{
	/* Sends the last value, because the counter may have had it for long. */
	if (replay->uncounted && time - replay->counted >= COUNTER_NS)
		send_runnable(replay, replay->changed);
	replay->runnable += by;
	if (replay->changed < time)
		replay->changed = time;
	if (time - replay->counted < COUNTER_NS)
		replay->uncounted = true;
	else
		send_runnable(replay, time);
}

static bool is_shown(const struct sn_traced *task)
{
	return task->state != SN_TRACED_UNKNOWN && task->state != SN_TRACED_ENDED;
}

/* Ends the task's state at a time, which may have to be moved. Returns the moved time. */
static int64_t leave_state(struct sn_replay *replay, struct sn_traced *task, int64_t time)
{
	if (time < task->since)
		time = task->since;
	if (task->state == SN_TRACED_RUNNABLE)
		count_runnable(replay, -1, time);
	if (is_shown(task))
		end_slice(replay, track_of(replay, task), time);
	return time;
}

static void enter_state(struct sn_replay *replay, struct sn_traced *task, int64_t time,
			enum sn_traced_state state, struct sn_trace_name name)
{
	struct sn_event event = {.time = time,
				 .track = track_of(replay, task),
				 .type = SN_EVENT_BEGIN,
				 .category = SN_CATEGORY_TASK,
				 .name = name};

	task->state = state;
	task->since = time;
	if (state == SN_TRACED_RUNNABLE) {
		count_runnable(replay, 1, time);
		if (task->woken_by) {
			event.details[0].kind = SN_DETAIL_WOKEN_BY;
			event.details[0].value = task->woken_by;
		}
	} else if (state == SN_TRACED_RUNNING) {
		event.details[0].kind = SN_DETAIL_PROCESSOR;
		event.details[0].value = task->processor;
		event.flow_to = task->flow;
		task->flow = 0;
	}
	sn_packets_event(replay->packets, &event);
}

static void become_runnable(struct sn_replay *replay, struct sn_traced *task, int64_t time)
{
	time = leave_state(replay, task, time);
	enter_state(replay, task, time, SN_TRACED_RUNNABLE,
		    (struct sn_trace_name){NAME_RUNNABLE, NULL});
}

/* ---- turns ---- */

static void begin_turn(struct sn_replay *replay, int ring, uint64_t id, int64_t time)
{
	struct sn_replay_processor *p = &replay->processors[ring];
	struct sn_traced *task = sn_traced_of(&replay->tasks, id);
	char label[SN_TRACE_STRING_MAX + 1];

	if (time < p->last)
		time = p->last;
	/* If the task's last turn, on another processor, seems to end later, it is cut here,
	 * because that time is just as uncertain. */
	if (task->state == SN_TRACED_RUNNING) {
		struct sn_replay_processor *other = &replay->processors[task->processor];

		if (other->running == id) {
			end_slice(replay, other->track, time < other->last ? other->last : time);
			other->running = 0;
			other->cut = id;
		}
		/* The record of the wake-up for this turn has come early, too. */
		if (task->early) {
			task->flow = task->early_flow;
			task->early = 0;
		}
	}
	if (p->running)
		end_slice(replay, p->track, time);
	task->unwoken = task->state == SN_TRACED_PARKED;
	time = leave_state(replay, task, time);
	task->processor = (uint32_t)ring;
	enter_state(replay, task, time, SN_TRACED_RUNNING,
		    (struct sn_trace_name){NAME_RUNNING, NULL});
	task->began = time;
	if (p->idle)
		end_slice(replay, p->track, time);
	p->idle = p->taken_over = false;
	p->running = id;
	p->cut = 0;
	p->last = time;
	begin_slice(replay, track_of_ring(replay, ring), time, SN_CATEGORY_PROCESSOR,
		    task_name(replay, task, label, sizeof label));
}

/* Ends the turn, and returns its time. The caller sets the task's next state. */
static int64_t end_turn(struct sn_replay *replay, int ring, struct sn_traced *task, int64_t time)
{
	struct sn_replay_processor *p = &replay->processors[ring];

	/* If the replay does not know the turn, it began before the first record. */
	if (p->running != task->id || task->state != SN_TRACED_RUNNING ||
	    task->processor != (uint32_t)ring)
		begin_turn(replay, ring, task->id, p->last ? p->last : time);
	if (time < p->last)
		time = p->last;
	time = leave_state(replay, task, time);
	end_slice(replay, p->track, time);
	p->running = 0;
	p->last = time;
	return time;
}

static void wake(struct sn_replay *replay, struct sn_traced *task, int64_t time, uint64_t by,
		 uint64_t flow)
{
	task->woken_by = by;
	task->flow = flow;
	become_runnable(replay, task, time);
}

/* Whether the turn was ended already, because the task's next turn, elsewhere, came too early. */
static bool was_cut(struct sn_replay *replay, const struct sn_replayed *record)
{
	struct sn_replay_processor *p = &replay->processors[record->ring];
	bool cut = p->cut == record->what >> 16;

	p->cut = 0;
	return cut;
}

static void leave(struct sn_replay *replay, const struct sn_replayed *record)
{
	struct sn_traced *task = sn_traced_of(&replay->tasks, record->what >> 16);
	int64_t time;

	replay->processors[record->ring].taken_over = true;
	if (was_cut(replay, record))
		return;
	time = end_turn(replay, record->ring, task, record->time);
	replay->processors[record->ring].taken_over = true;
	switch (record->what & 0xffff) {
	case SN_LEAVE_YIELD:
		task->woken_by = 0;
		enter_state(replay, task, time, SN_TRACED_RUNNABLE,
			    (struct sn_trace_name){NAME_RUNNABLE, NULL});
		break;
	case SN_LEAVE_END:
		task->state = SN_TRACED_ENDED;
		task->since = time;
		break;
	default:
		task->reason = record->detail;
		enter_state(replay, task, time, SN_TRACED_PARKED,
			    string_name(replay, record->detail));
		if (task->early) {
			task->early = 0;
			wake(replay, task, time, task->early_by, task->early_flow);
		}
	}
}

/* ---- single records ---- */

/* Something that happens in a task's turn, or on a processor. */
static void instant(struct sn_replay *replay, const struct sn_replayed *record, uint64_t by,
		    struct sn_trace_name name, enum sn_event_category category,
		    enum sn_event_detail kind, uint64_t value, uint64_t flow)
{
	struct sn_event event = {.time = record->time,
				 .type = SN_EVENT_INSTANT,
				 .category = category,
				 .name = name,
				 .flow_from = flow,
				 .details[0] = {kind, value}};

	if (by) {
		struct sn_traced *task = sn_traced_of(&replay->tasks, by);

		if (event.time < task->since)
			event.time = task->since;
		event.track = track_of(replay, task);
	} else {
		struct sn_replay_processor *p = &replay->processors[record->ring];

		event.track = track_of_ring(replay, record->ring);
		if (event.time < p->last)
			event.time = p->last;
	}
	sn_packets_event(replay->packets, &event);
}

static void fixed_instant(struct sn_replay *replay, const struct sn_replayed *record, uint64_t by,
			  uint64_t name, enum sn_event_detail kind, uint64_t value, uint64_t flow)
{
	instant(replay, record, by, (struct sn_trace_name){name, NULL},
		by ? SN_CATEGORY_TASK : SN_CATEGORY_PROCESSOR, kind, value, flow);
}

/* Only shows the loss: tasks that still count as waiting or parked may have run on that
 * processor. */
void sn_replay_loss(struct sn_replay *replay, int ring, int64_t time)
{
	sn_packets_event(replay->packets, &(struct sn_event){.time = time,
							     .type = SN_EVENT_INSTANT,
							     .category = SN_CATEGORY_PROCESSOR,
							     .name = {NAME_LOST, NULL},
							     .track = track_of_ring(replay, ring)});
}

/* Whether this is the wake-up for a turn of the task that has already begun. */
static bool woke_before(const struct sn_traced *task, const struct sn_replayed *record)
{
	return task->unwoken &&
	       (task->state == SN_TRACED_RUNNING || record->earliest <= task->began);
}

static void note_wake(struct sn_replay *replay, const struct sn_replayed *record)
{
	struct sn_traced *task = sn_traced_of(&replay->tasks, record->what >> 16);
	uint64_t flow = ++replay->flows, by = record->detail;
	bool before = woke_before(task, record);

	fixed_instant(replay, record, by, NAME_WAKES, SN_DETAIL_TASK, task->id, flow);
	task->unwoken = false;
	if (before || task->state == SN_TRACED_ENDED)
		return;
	if (task->state == SN_TRACED_RUNNING) {
		task->early = record->time;
		task->early_by = by;
		task->early_flow = flow;
	} else if (task->state != SN_TRACED_RUNNABLE) {
		wake(replay, task, record->time, by, flow);
	}
}

static void note_spawn(struct sn_replay *replay, const struct sn_replayed *record)
{
	struct sn_traced *task = sn_traced_of(&replay->tasks, record->what >> 16);
	uint64_t flow = ++replay->flows;

	fixed_instant(replay, record, record->owner, NAME_SPAWNS, SN_DETAIL_TASK, task->id, flow);
	/* If the state is known, the task seems to have run before it was spawned. */
	if (task->state == SN_TRACED_UNKNOWN)
		wake(replay, task, record->time, record->owner, flow);
}

/* Notes the spawn of a task that begins when an event comes, for example when its stream can be
 * read. */
static void note_parked_spawn(struct sn_replay *replay, const struct sn_replayed *record)
{
	struct sn_traced *task = sn_traced_of(&replay->tasks, record->what >> 16);

	fixed_instant(replay, record, record->owner, NAME_SPAWNS, SN_DETAIL_TASK, task->id, 0);
	if (task->state == SN_TRACED_UNKNOWN)
		enter_state(replay, task, record->time, SN_TRACED_PARKED,
			    (struct sn_trace_name){NAME_PARKED, NULL});
}

static void revoke(struct sn_replay *replay, const struct sn_replayed *record)
{
	struct sn_traced *task = sn_traced_of(&replay->tasks, record->what >> 16);
	bool lent = record->what >> 8 & 1;
	int64_t time;

	fixed_instant(replay, record, 0, lent ? NAME_LENT : NAME_REVOKED, SN_DETAIL_TASK, task->id,
		      0);
	if (was_cut(replay, record))
		return;
	time = end_turn(replay, record->ring, task, record->time);
	if (lent) {
		task->woken_by = 0;
		enter_state(replay, task, time, SN_TRACED_RUNNABLE,
			    (struct sn_trace_name){NAME_RUNNABLE, NULL});
	} else {
		enter_state(replay, task, time, SN_TRACED_AWAY,
			    (struct sn_trace_name){NAME_AWAY, NULL});
	}
}

static void become_idle(struct sn_replay *replay, const struct sn_replayed *record)
{
	struct sn_replay_processor *p = &replay->processors[record->ring];

	if (p->idle || p->running)
		return;
	if (p->last < record->time)
		p->last = record->time;
	p->idle = true;
	p->taken_over = false;
	begin_slice(replay, track_of_ring(replay, record->ring), p->last, SN_CATEGORY_PROCESSOR,
		    (struct sn_trace_name){NAME_IDLE, NULL});
}

/* The processor's thread looks for work again. */
static void end_idleness(struct sn_replay *replay, const struct sn_replayed *record)
{
	struct sn_replay_processor *p = &replay->processors[record->ring];

	if (!p->idle)
		return;
	if (p->last < record->time)
		p->last = record->time;
	p->idle = false;
	end_slice(replay, p->track, p->last);
}

void sn_replay_record(struct sn_replay *replay, const struct sn_replayed *record)
{
	const uint64_t number = record->what >> 16;
	struct sn_traced *task;

	switch ((enum sn_record_kind)(record->what & 0xff)) {
	case SN_RECORD_LEAVE:
		leave(replay, record);
		break;
	case SN_RECORD_WAKE:
		note_wake(replay, record);
		break;
	case SN_RECORD_SPAWN:
		if (record->what >> 8 & 1)
			note_parked_spawn(replay, record);
		else
			note_spawn(replay, record);
		break;
	case SN_RECORD_STAY:
		task = sn_traced_of(&replay->tasks, number);
		if (task->state == SN_TRACED_PARKED)
			wake(replay, task, record->time, 0, 0);
		break;
	case SN_RECORD_REVOKE:
		revoke(replay, record);
		break;
	case SN_RECORD_RETURN:
		task = sn_traced_of(&replay->tasks, number);
		task->woken_by = 0;
		if (task->state == SN_TRACED_AWAY || task->state == SN_TRACED_UNKNOWN)
			become_runnable(replay, task, record->time);
		break;
	case SN_RECORD_STEAL:
		replay->processors[record->ring].taken_over = false;
		end_idleness(replay, record);
		fixed_instant(replay, record, 0, NAME_STEALS, SN_DETAIL_PROCESSOR, number, 0);
		break;
	case SN_RECORD_POLL:
		end_idleness(replay, record);
		fixed_instant(replay, record, 0, NAME_POLL, SN_DETAIL_COUNT, number, 0);
		break;
	case SN_RECORD_TIMERS:
		end_idleness(replay, record);
		fixed_instant(replay, record, 0, NAME_TIMERS, SN_DETAIL_COUNT, number, 0);
		break;
	case SN_RECORD_IDLE:
		become_idle(replay, record);
		break;
	case SN_RECORD_USER:
		instant(replay, record, record->owner, string_name(replay, number),
			SN_CATEGORY_USER, SN_DETAIL_VALUE, record->detail, 0);
		break;
	default: /* RUN and REGAIN are handled below, by record->next */
		break;
	}
	if (record->next && replay->processors[record->ring].running != record->next)
		begin_turn(replay, record->ring, record->next, record->time);
}

int sn_replay_runs_on(struct sn_replay *replay, uint64_t id)
{
	const struct sn_traced *task = sn_traced_of(&replay->tasks, id);

	return task->state == SN_TRACED_RUNNING && replay->processors[task->processor].running == id
		       ? (int)task->processor
		       : -1;
}

/*
 * A turn that directly follows another is recorded only when it ends. If only one processor has
 * such a turn that has not ended, and the runtime says that only one unknown task runs, it is the
 * turn of that task.
 */
static void find_last_turn(struct sn_replay *replay, int64_t now)
{
	struct sn_traced *running = NULL;
	int ring = -1;

	for (int i = 0; i < replay->rings - 1; i++) {
		if (!replay->processors[i].taken_over)
			continue;
		if (ring >= 0)
			return;
		ring = i;
	}
	for (uint32_t i = 0; i < replay->tasks.count && ring >= 0; i++) {
		struct sn_traced *task = &replay->tasks.tasks[i];

		if (!task->runs_now || task->state == SN_TRACED_RUNNING ||
		    task->state == SN_TRACED_ENDED)
			continue;
		if (running)
			return;
		running = task;
	}
	if (running && running->since <= now)
		begin_turn(replay, ring, running->id, replay->processors[ring].last);
}

int sn_replay_end(struct sn_replay *replay, int64_t now)
{
	find_last_turn(replay, now);
	if (replay->uncounted)
		send_runnable(replay, replay->changed);
	for (int i = 0; i < replay->rings; i++) {
		struct sn_replay_processor *p = &replay->processors[i];

		if (p->idle || p->running)
			end_slice(replay, p->track, now < p->last ? p->last : now);
	}
	for (uint32_t i = 0; i < replay->tasks.count; i++) {
		struct sn_traced *task = &replay->tasks.tasks[i];

		/* Ends what is shown of the task, but not its state, which would be counted. */
		if (is_shown(task))
			end_slice(replay, track_of(replay, task),
				  now < task->since ? task->since : now);
	}
	return sn_packets_end(replay->packets);
}
