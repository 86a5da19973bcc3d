/* SPDX-License-Identifier: MIT */
/* The operations that bench-shared counts. */
#ifndef SENNIT_BENCH_SHARED_OPERATIONS_H
#define SENNIT_BENCH_SHARED_OPERATIONS_H

struct operation {
	const char *name;
	void *(*begin)(void);   /* in a task: makes what `once` needs */
	void (*once)(void *on); /* in the same task */
};

/* Ends with a name that is NULL. */
extern const struct operation operations[];

#endif
