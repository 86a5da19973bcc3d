/* SPDX-License-Identifier: MIT */
/* The flight recorder's rings (sched/record.h), for tests in C++, outside of runs; the rings may be
 * those of the last run. */
#ifndef SENNIT_TESTS_SUPPORT_RECORDS_H
#define SENNIT_TESTS_SUPPORT_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct test_record {
	uint64_t what, detail;
};

#define TEST_RECORD_BYTES 16

/* Begins the rings as for a run with so many processors. */
int test_records_begin(int processors);
/* For how many records a ring has room; 0: nothing is recorded. */
size_t test_records_size(int *rings);
void test_record_put(int ring, uint64_t what, uint64_t detail);
/* kind: as in enum sn_record_kind, in lower case, or "park", "yield" or "end" of a turn. */
void test_record_kind(int ring, const char *kind, uint64_t number, uint64_t detail);
/* Whether a record is of this kind. */
int test_record_is(uint64_t what, const char *kind);
/* A turn ends at this time; returns whether it got a TIME. */
int test_record_turn(int ring, int64_t now);
void test_record_time(int ring, int64_t now);
/* Prevents traces from beginning. */
void test_records_hold(void);
void test_records_release(void);
size_t test_records_copy(int ring, struct test_record *to);

#ifdef __cplusplus
}
#endif

#endif
