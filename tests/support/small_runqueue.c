/* SPDX-License-Identifier: MIT */
#include "support/small_runqueue.h"

/* Gives the functions other names than in the library's copy. */
#define sn_queue_put small_list_put
#define sn_queue_get small_list_get
#define sn_queue_append small_list_append
#define sn_runqueue_put small_runqueue_put
#define sn_runqueue_first small_runqueue_first
#define sn_runqueue_get small_runqueue_get
#define sn_runqueue_steal small_runqueue_steal
#define sn_runqueue_empty small_runqueue_empty
#define SN_RUNQUEUE_CAPACITY 4u
#include "sched/runqueue.c"

#include <stdlib.h>
#include <string.h>

_Static_assert(SN_RUNQUEUE_CAPACITY == SMALL_CAPACITY, "the header has another capacity");

static void *zeroed(size_t size)
{
	size_t rounded = (size + SN_CACHE_LINE - 1) / SN_CACHE_LINE * SN_CACHE_LINE;
	void *memory = aligned_alloc(SN_CACHE_LINE, rounded);

	if (!memory)
		sn_fatal("the test is out of memory");
	return memset(memory, 0, rounded);
}

struct small_queue *small_queue_new(void)
{
	return zeroed(sizeof(struct sn_runqueue));
}

void small_queue_free(struct small_queue *queue)
{
	free(queue);
}

struct small_task *small_task_new(uint64_t id)
{
	struct sn_task *task = zeroed(sizeof *task);

	task->id = id;
	return (struct small_task *)task;
}

void small_task_free(struct small_task *task)
{
	free(task);
}

uint64_t small_task_id(const struct small_task *task)
{
	return ((const struct sn_task *)task)->id;
}

uint32_t small_put(struct small_queue *queue, struct small_task *task, struct small_task **overflow)
{
	struct sn_queue list = {0};
	uint32_t n = sn_runqueue_put((struct sn_runqueue *)queue, (struct sn_task *)task, &list);
	struct sn_task *each;
	uint32_t i = 0;

	while ((each = sn_queue_get(&list)) != NULL)
		overflow[i++] = (struct small_task *)each;
	if (i != n)
		sn_fatal("sn_runqueue_put() returned %u, the list has %u tasks", n, i);
	return n;
}

struct small_task *small_get(struct small_queue *queue)
{
	return (struct small_task *)sn_runqueue_get((struct sn_runqueue *)queue);
}

struct small_task *small_take_next(struct small_queue *queue)
{
	return (struct small_task *)sn_runqueue_take_next((struct sn_runqueue *)queue);
}

struct small_task *small_set_next(struct small_queue *queue, struct small_task *task)
{
	return (struct small_task *)sn_runqueue_set_next((struct sn_runqueue *)queue,
							 (struct sn_task *)task);
}

struct small_task *small_steal(struct small_queue *mine, struct small_queue *victim,
			       bool steal_next)
{
	return (struct small_task *)sn_runqueue_steal((struct sn_runqueue *)mine,
						      (struct sn_runqueue *)victim, steal_next);
}

bool small_empty(struct small_queue *queue)
{
	return sn_runqueue_empty((struct sn_runqueue *)queue);
}
