// SPDX-License-Identifier: MIT
//
// Public structures that may grow, as they are in programs that were compiled with an older or a
// newer header. The older structure is a copy in the test, without the last fields. The newer one
// has one more field.
#ifndef SENNIT_TESTS_SUPPORT_SIZED_H
#define SENNIT_TESTS_SUPPORT_SIZED_H

#include <cstring>

#include "support/runtime.h"

namespace test
{

template <class Now>
struct Newer {
	Now now = {};
	uint64_t later = 0; // a field that the library does not know
};

/*
 * Attributes and options: call(const Now *) uses them, and returns a negative value when it refuses
 * them. Old is the beginning of Now, with values that call() accepts.
 */
template <class Now, class Old, class Call>
void expect_takes(Old values, Call call)
{
	static_assert(sizeof(Old) < sizeof(Now));
	const size_t old_size = sizeof(Old);
	// Other data of the program follows the structure.
	struct {
		Old attr;
		unsigned char other[sizeof(Now)];
	} old;

	memset(&old, 0xff, sizeof old);
	memcpy(&old.attr, &values, sizeof values);
	memcpy(&old.attr, &old_size, sizeof old_size);
	EXPECT_LE(0, call(reinterpret_cast<const Now *>(&old))) << "of an older header";

	Newer<Now> newer;

	memcpy(static_cast<void *>(&newer.now), &values, sizeof values);
	newer.now.size = sizeof newer;
	EXPECT_LE(0, call(&newer.now)) << "of a newer header";
	newer.later = 1;
	EXPECT_EQ(-E2BIG, call(&newer.now)) << "wants what the library does not know";

	Now wrong = newer.now;

	wrong.size = sizeof wrong;
	EXPECT_LE(0, call(&wrong));
	for (const size_t forgotten : {size_t(0), sizeof(size_t) - 1}) {
		wrong.size = forgotten;
		EXPECT_EQ(-EINVAL, call(&wrong)) << forgotten;
	}
	for (const size_t garbage : {size_t(4097), SIZE_MAX}) {
		wrong.size = garbage;
		EXPECT_EQ(-E2BIG, call(&wrong)) << garbage;
	}
}

/* Statistics: call(Now *) fills them in. check(const Old &) checks the fields of an older
 * program. */
template <class Now, class Old, class Call, class Check>
void expect_gives(Call call, Check check)
{
	static_assert(sizeof(Old) < sizeof(Now));
	const size_t old_size = sizeof(Old);
	struct {
		Old stats;
		unsigned char other[sizeof(Now)];
	} old;

	memset(&old, 0xa5, sizeof old);
	memcpy(&old.stats, &old_size, sizeof old_size);
	EXPECT_LE(0, call(reinterpret_cast<Now *>(&old))) << "of an older header";
	for (const unsigned char byte : old.other)
		ASSERT_EQ(0xa5, byte) << "what comes after it is the program's";
	EXPECT_EQ(sizeof(Old), old.stats.size);
	check(old.stats);

	Newer<Now> newer;

	memset(reinterpret_cast<char *>(&newer) + sizeof(size_t), 0xa5,
	       sizeof newer - sizeof(size_t));
	newer.now.size = sizeof newer;
	EXPECT_LE(0, call(&newer.now)) << "of a newer header";
	EXPECT_EQ(0u, newer.later);
	EXPECT_EQ(sizeof newer, newer.now.size);
	memcpy(&old.stats, &newer.now, sizeof(Old));
	check(old.stats);

	Now wrong = {};

	EXPECT_EQ(sizeof wrong, wrong.size) << "C++ sets it";
	for (const size_t forgotten : {size_t(0), sizeof(size_t) - 1}) {
		wrong.size = forgotten;
		EXPECT_EQ(-EINVAL, call(&wrong)) << forgotten;
	}
	wrong.size = SIZE_MAX;
	EXPECT_EQ(-E2BIG, call(&wrong));
}

} // namespace test

#endif
