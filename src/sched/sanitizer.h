/* SPDX-License-Identifier: MIT */
/*
 * Telling ASan and TSan of stacks and switches. Empty in other builds.
 *
 * sanitizer.c is compiled without TSan's instrumentation, because TSan keeps a shadow call stack
 * per fiber and a function that switches must not push on one and pop from another.
 */
#ifndef SENNIT_SCHED_SANITIZER_H
#define SENNIT_SCHED_SANITIZER_H

#include <stdbool.h>

#include "sched/context.h"

#if SN_ASAN || SN_TSAN
/* A task's stack is about to be used, or is given back. */
void sn_sanitizer_create(struct sn_context *context, const char *name);
void sn_sanitizer_destroy(struct sn_context *context);
/* The thread's own context adopts the stack and the fiber that it runs on. */
void sn_sanitizer_adopt(struct sn_context *context);
/* sn_arch_switch() with the sanitizers told before and after; exiting: from is never resumed. */
void sn_sanitizer_switch(struct sn_context *from, struct sn_context *to, bool exiting);
/* First thing that runs on a new stack. */
void sn_sanitizer_entered(struct sn_context *context);
#else
static inline void sn_sanitizer_create(struct sn_context *context, const char *name)
{
	(void)context, (void)name;
}
static inline void sn_sanitizer_destroy(struct sn_context *context)
{
	(void)context;
}
static inline void sn_sanitizer_adopt(struct sn_context *context)
{
	(void)context;
}
static inline void sn_sanitizer_entered(struct sn_context *context)
{
	(void)context;
}
#endif

#endif
