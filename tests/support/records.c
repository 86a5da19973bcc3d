/* SPDX-License-Identifier: MIT */
#include "support/records.h"

#include <stdlib.h>
#include <string.h>

#include "sched/record.h"

_Static_assert(sizeof(struct sn_record_copy) == TEST_RECORD_BYTES, "");
_Static_assert(sizeof(struct sn_record) == TEST_RECORD_BYTES, "");

int test_records_begin(int processors)
{
	return sn_record_begin(processors);
}

size_t test_records_size(int *rings)
{
	size_t size = 0;

	*rings = sn_record_hold(&size);
	if (*rings)
		sn_record_release();
	return size;
}

void test_record_put(int ring, uint64_t what, uint64_t detail)
{
	sn_record_put(sn_record_ring(ring), what, detail);
}

static uint64_t what_of(const char *kind)
{
	static const struct {
		const char *name;
		uint64_t what;
	} kinds[] = {
		{"time", SN_RECORD_TIME},     {"park", SN_LEAVE_PARK},
		{"yield", SN_LEAVE_YIELD},    {"end", SN_LEAVE_END},
		{"run", SN_RECORD_RUN},       {"spawn", SN_RECORD_SPAWN},
		{"wake", SN_RECORD_WAKE},     {"revoke", SN_RECORD_REVOKE},
		{"regain", SN_RECORD_REGAIN}, {"idle", SN_RECORD_IDLE},
		{"user", SN_RECORD_USER},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].name, kind) == 0)
			return kinds[i].what;
	abort();
}

void test_record_kind(int ring, const char *kind, uint64_t number, uint64_t detail)
{
	test_record_put(ring, number << 16 | what_of(kind), detail);
}

int test_record_is(uint64_t what, const char *kind)
{
	return (what & 0xffff) == what_of(kind);
}

int test_record_turn(int number, int64_t now)
{
	struct sn_record_ring *ring = sn_record_ring(number);
	int due = sn_record_is_due(ring);

	if (due)
		sn_record_time_at(ring, now);
	sn_record_put(ring, SN_LEAVE_YIELD, 0);
	return due;
}

void test_record_time(int ring, int64_t now)
{
	sn_record_time_at(sn_record_ring(ring), now);
}

void test_records_hold(void)
{
	size_t size;

	if (sn_record_hold(&size) == 0)
		abort();
}

void test_records_release(void)
{
	sn_record_release();
}

size_t test_records_copy(int ring, struct test_record *to)
{
	size_t size = 0, count = 0;

	if (sn_record_hold(&size) > ring) {
		count = sn_record_copy(ring, (struct sn_record_copy *)to);
		sn_record_release();
	}
	return count;
}
