// SPDX-License-Identifier: MIT
//
// What is given up when descriptors have run out: everything in the list, in its order, each time.
// net/shortage tests what happens to the calls that meet the shortage.
#include <string>

extern "C" {
#include "io/shortage.h"
}
#include "support/runtime.h"

namespace
{

std::string called;

sn_give_up *const list[] = {
	[] { called += 'a'; },
	[] { called += 'b'; },
	[] { called += 'c'; },
};

TEST(Shortage, EveryLayerGivesUpWhatItKeeps)
{
	called.clear();
	sn_shortage_begin(list, 3);
	sn_shortage_met();
	EXPECT_EQ("abc", called);
	sn_shortage_met();
	EXPECT_EQ("abcabc", called);
	// Another run has another list.
	called.clear();
	sn_shortage_begin(list + 1, 1);
	sn_shortage_met();
	EXPECT_EQ("b", called);
	sn_shortage_begin(list, 0);
	sn_shortage_met();
	EXPECT_EQ("b", called);
}

} // namespace
