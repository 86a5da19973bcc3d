/* SPDX-License-Identifier: MIT */
/*
 * runqueue.c, compiled a second time with a ring of four: so small that a test often reaches its
 * limits. The functions are those of sched/runqueue.h, on tasks that have only an id.
 */
#ifndef SENNIT_TESTS_SUPPORT_SMALL_RUNQUEUE_H
#define SENNIT_TESTS_SUPPORT_SMALL_RUNQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SMALL_CAPACITY = 4 };

struct small_queue;
struct small_task;

struct small_queue *small_queue_new(void);
void small_queue_free(struct small_queue *queue);
struct small_task *small_task_new(uint64_t id);
void small_task_free(struct small_task *task);
uint64_t small_task_id(const struct small_task *task);

/* The overflow goes to an array with room for SMALL_CAPACITY tasks. Returns how many it has. */
uint32_t small_put(struct small_queue *queue, struct small_task *task,
		   struct small_task **overflow);
struct small_task *small_get(struct small_queue *queue);
struct small_task *small_take_next(struct small_queue *queue);
struct small_task *small_set_next(struct small_queue *queue, struct small_task *task);
struct small_task *small_steal(struct small_queue *mine, struct small_queue *victim,
			       bool steal_next);
bool small_empty(struct small_queue *queue);

#ifdef __cplusplus
}
#endif

#endif
