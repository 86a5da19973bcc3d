/* SPDX-License-Identifier: MIT */
#include "debug/trace_tasks.h"

#include <stdio.h>
#include <string.h>

#include <sennit/scan.h>

static size_t places(size_t most)
{
	size_t n = 64;

	/* At most half full. */
	while (n < 2 * most)
		n *= 2;
	return n;
}

size_t sn_traced_bytes(size_t most)
{
	size_t tasks, indices;

	/* So few that neither places() nor a task's index overflows. */
	if (most > UINT32_MAX / 8 ||
	    __builtin_mul_overflow(most, sizeof(struct sn_traced), &tasks) ||
	    __builtin_mul_overflow(places(most), sizeof(uint32_t), &indices) ||
	    __builtin_add_overflow(tasks, indices, &tasks))
		return 0;
	return tasks;
}

void sn_traced_begin(struct sn_traced_table *table, void *memory, size_t most)
{
	*table = (struct sn_traced_table){.tasks = memory,
					  .places = (uint32_t *)((struct sn_traced *)memory + most),
					  .mask = places(most) - 1};
}

/* Ids are given in order, so neighbours would fill neighbouring places: hence the
 * multiplication. */
static uint32_t *place_of(const struct sn_traced_table *table, uint64_t id)
{
	size_t at = (size_t)(id * 0x9e3779b97f4a7c15 >> 20) & table->mask;

	while (table->places[at] != 0 && table->tasks[table->places[at] - 1].id != id)
		at = (at + 1) & table->mask;
	return &table->places[at];
}

struct sn_traced *sn_traced_of(struct sn_traced_table *table, uint64_t id)
{
	uint32_t *place = place_of(table, id);

	if (*place == 0) {
		table->tasks[table->count].id = id;
		*place = ++table->count;
	}
	return &table->tasks[*place - 1];
}

static int take_name(const struct sn_task_info *info, void *arg)
{
	const struct sn_traced_table *table = arg;
	const uint32_t *place = place_of(table, info->id);
	struct sn_traced *task;

	if (*place == 0)
		return 0;
	task = &table->tasks[*place - 1];
	memcpy(task->name, info->name, sizeof task->name);
	if (info->spawned_at)
		task->spawned_at = info->spawned_at;
	task->spawned_by = info->spawned_by;
	task->runs_now = info->state == SN_STATE_RUNNING;
	return 0;
}

void sn_traced_ask(struct sn_traced_table *table)
{
	sn_tasks_each(take_name, table);
}

/* The function that has spawned a task; "" if it is not known. */
static const char *function_of(struct sn_traced_sites *sites, const struct sn_modules *modules,
			       const void *spawned_at)
{
	size_t at = (uintptr_t)spawned_at * (uint64_t)0x9e3779b97f4a7c15 >> 32;

	at %= SN_TRACED_SITES;
	if (sites->sites[at].spawned_at != spawned_at) {
		struct sn_symbol symbol = {0};

		sn_symbol_of(modules, (uintptr_t)spawned_at, true, &symbol);
		snprintf(sites->sites[at].function, sizeof sites->sites[at].function, "%.90s",
			 symbol.name);
		sites->sites[at].spawned_at = spawned_at;
	}
	return sites->sites[at].function;
}

void sn_traced_label(struct sn_traced_sites *sites, const struct sn_traced *task,
		     const struct sn_modules *modules, char *label, size_t size)
{
	const char *function = "";

	if (!task->name[0] && task->spawned_at)
		function = function_of(sites, modules, task->spawned_at);
	if (function[0])
		snprintf(label, size, "task %llu of %s", (unsigned long long)task->id, function);
	else
		snprintf(label, size, "%s %llu", task->name[0] ? task->name : "task",
			 (unsigned long long)task->id);
}
