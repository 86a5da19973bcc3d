// SPDX-License-Identifier: MIT
//
// A report that stderr has no room for: what is lost is counted, and said when there is room. Each
// case runs in a child process, whose stderr it replaces.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <thread>

#include <unistd.h>

#include "support/full_stderr.h"
#include "support/internals.h"
#include "support/refused.h"
#include "support/runtime.h"

// arch/compiler.h is for C.
extern "C" void sn_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

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

long lines_of(const std::string &text)
{
	return std::count(text.begin(), text.end(), '\n');
}

// Returns what the reader gets of a report that it begins to read too late.
std::string cut_report(int reader)
{
	CHILD_CHECK(probe_report_begin_briefly());
	put_lines();
	probe_report_end();
	const std::string got = test::read_now(reader);
	CHILD_CHECK(!got.empty() && got.back() != '\n' && lines_of(got) < lines);
	return got;
}

std::string said_of_the_rest(const std::string &got)
{
	return "\nsennit: " + std::to_string(lines - lines_of(got)) +
	       " lines before this one were dropped: stderr was full\n";
}

[[noreturn]] void says_the_next_line()
{
	const int reader = test::small_pipe();
	const std::string got = cut_report(reader);

	sn_log("the next");
	CHILD_CHECK(test::read_now(reader) == said_of_the_rest(got) + "sennit: the next\n");
	_exit(42);
}

TEST_F(Report, TheLineAfterOneThatWasCutSaysHowManyWereDropped)
{
	EXPECT_EXIT(says_the_next_line(), testing::ExitedWithCode(42), "^$");
}

// Kernels before 6.4, and the emulator.
[[noreturn]] void asks_poll_for_room()
{
	CHILD_CHECK(test::refuse({{SYS_pwritev2, EOPNOTSUPP}}));
	says_the_next_line();
}

TEST_F(Report, ThatWasCutIsCountedWhereOnlyPollKnowsTheRoom)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator has no filters";
	EXPECT_EXIT(asks_poll_for_room(), testing::ExitedWithCode(42), "^$");
}

TEST_F(Report, AfterOneThatWasCutSaysHowManyLinesWereDropped)
{
	EXPECT_EXIT(
		{
			const int reader = test::small_pipe();
			const std::string got = cut_report(reader);

			CHILD_CHECK(probe_report_begin_briefly());
			probe_report_put("the next\n");
			probe_report_end();
			CHILD_CHECK(test::read_now(reader) == said_of_the_rest(got) + "the next\n");
			_exit(42);
		},
		testing::ExitedWithCode(42), "^$");
}

// The next report, once stderr has room again.
[[noreturn]] void says_that_one_was_missed(int reader)
{
	test::read_now(reader);
	CHILD_CHECK(probe_report_begin_briefly());
	probe_report_end();
	CHILD_CHECK(test::read_now(reader).find("sennit: stall: 1 more could not be reported") !=
		    std::string::npos);
	_exit(42);
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
			says_that_one_was_missed(reader);
		},
		testing::ExitedWithCode(42), "^$");
}

// No room is left even for the line that would say it.
TEST_F(Report, WithoutRoomKeepsTheCountOfThoseThatMetIt)
{
	EXPECT_EXIT(
		{
			const int reader = test::full_pipe();

			CHILD_CHECK(probe_report_begin_briefly());
			probe_report_miss();
			probe_report_end();
			says_that_one_was_missed(reader);
		},
		testing::ExitedWithCode(42), "^$");
}

// The reader takes a little at a time, each time before the patience ends.
TEST_F(Report, WaitsForASlowReaderNoLongerInTotal)
{
	EXPECT_EXIT(
		{
			const int reader = test::small_pipe();
			std::string got;
			std::thread slow([&] {
				char part[4096];
				ssize_t n;

				while ((n = read(reader, part, sizeof part)) > 0) {
					got.append(part, size_t(n));
					usleep(20000);
				}
			});

			CHILD_CHECK(probe_report_begin_briefly());
			put_lines();
			probe_report_end();
			close(STDERR_FILENO); // the last writer, so the reader ends
			slow.join();
			CHILD_CHECK(lines_of(got) < lines);
			_exit(42);
		},
		testing::ExitedWithCode(42), "^$");
}

} // namespace
