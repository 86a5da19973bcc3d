/* SPDX-License-Identifier: MIT */
/*
 * sched/free_store.h for tests: a store of batches of four with room for eight objects in common,
 * whose objects are numbers below STORE_OBJECTS.
 */
#ifndef SENNIT_TESTS_SUPPORT_STORE_H
#define SENNIT_TESTS_SUPPORT_STORE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STORE_BATCH = 4, STORE_MOST = 8, STORE_OBJECTS = 64 };

/* Empties the store. */
void store_reset(void);
/* Returns -1 if the store has none for the calling thread. */
int store_take(void);
/* Returns how many objects the store had no room for. */
int store_put(int object);
/* Adds the objects from `first` to `first + n - 1` to the common list. */
void store_add(int first, int n);
/* How many objects the common list, and the lists of all homes, have. */
uint32_t store_common(void);
uint32_t store_homes(void);

#ifdef __cplusplus
}
#endif

#endif
