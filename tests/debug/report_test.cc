// SPDX-License-Identifier: MIT
//
// A report that stderr has no room for: what is lost is counted, and said when there is room. Each
// case runs in a child process, whose stderr it replaces.
#include <cstdio>
#include <string>

#include <unistd.h>

#include "support/full_stderr.h"
#include "support/internals.h"
#include "support/runtime.h"

namespace
{

class Report : public testing::Test
{
protected:
	Report() { testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE; }
};

// More than the pipe has room for, also where pages are large. The length of a line is prime, so
// that the room ends inside of a line.
constexpr int lines = 6000;

void put_lines()
{
	for (int i = 0; i < lines; i++) {
		char line[64];

		snprintf(line, sizeof line, "line %05d %s\n", i, std::string(35, '.').c_str());
		probe_report_put(line);
	}
}

TEST_F(Report, ThatWasCutKeepsTheCountOfThoseThatMetIt)
{
	EXPECT_EXIT(
		{
			const int reader = test::small_pipe();

			CHILD_CHECK(probe_report_begin_briefly());
			probe_report_miss();
			put_lines();
			probe_report_end();
			test::read_now(reader);
			CHILD_CHECK(probe_report_begin_briefly());
			probe_report_end();
			CHILD_CHECK(test::read_now(reader).find(
					    "sennit: stall: 1 more could not be reported") !=
				    std::string::npos);
			_exit(42);
		},
		testing::ExitedWithCode(42), "^$");
}

} // namespace
