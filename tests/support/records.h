/* SPDX-License-Identifier: MIT */
/* The flight recorder's rings (sched/record.h), for tests in C++, outside of any run, also
 * as the last one has left them. */
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

/* As for a run with so many processors. */
int test_records_begin(int processors);
/* How many a ring has room for; 0: nothing is recorded. */
size_t test_records_size(int *rings);
void test_record_put(int ring, uint64_t what, uint64_t detail);
/* kind: as in enum sn_record_kind, in lower case, or "park", "yield" or "end" of a turn. */
void test_record_kind(int ring, const char *kind, uint64_t number, uint64_t detail);
/* Whether a record is of the kind. */
int test_record_is(uint64_t what, const char *kind);
/* A turn ends at a time: whether it got a TIME. */
int test_record_turn(int ring, int64_t now);
void test_record_time(int ring, int64_t now);
/* Keeps a trace from being begun. */
void test_records_hold(void);
void test_records_release(void);
size_t test_records_copy(int ring, struct test_record *to);

#ifdef __cplusplus
}
#endif

#endif
