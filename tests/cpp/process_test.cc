// SPDX-License-Identifier: MIT
//
// The C++ interface of programs that tasks start.
#include <chrono>
#include <csignal>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include "support/runtime.h"

namespace
{

using namespace std::chrono_literals;

static_assert(std::is_nothrow_move_constructible_v<sn::process>);
static_assert(!std::is_copy_constructible_v<sn::process>);

TEST(CppProcess, TalksThroughPipes)
{
	EXPECT_EQ(0, sn::run([] {
			  sn::process cat = sn::process::start({"cat"}, {.in = sn::stdio::piped,
									 .out = sn::stdio::piped})
						    .value();
			  char buf[8];

			  EXPECT_LT(0, cat.pid());
			  EXPECT_EQ(nullptr, cat.stream(2));
			  EXPECT_EQ(3, sn_stream_write_all(cat.stream(0), "abc", 3, nullptr));
			  cat.close_input();
			  EXPECT_EQ(3,
				    sn_stream_read_full(cat.stream(1), buf, sizeof buf, nullptr));
			  EXPECT_EQ("abc", std::string(buf, 3));
			  const sn_process_status status = cat.wait(sn::after(30s)).value();
			  EXPECT_EQ(0, status.exit_code);
			  EXPECT_EQ(cat.kill(SIGTERM).error(), std::errc::no_such_process);
			  const sn::process taken = std::move(cat);
			  EXPECT_TRUE(taken);
			  // NOLINT: the test uses the moved-from object on purpose
			  EXPECT_FALSE(cat);
			  cat.close();
		  }));
}

TEST(CppProcess, ErrorsAreResults)
{
	EXPECT_EQ(
		0, sn::run([] {
			EXPECT_EQ(sn::process::start({"there-is-no-such"}).error(),
				  std::errc::no_such_file_or_directory);
			EXPECT_EQ(sn::process::start({}).error(), std::errc::invalid_argument);
			EXPECT_EQ(sn::run_program({"sleep", "1000"}, {}, {.until = sn::after(20ms)})
					  .error(),
				  std::errc::timed_out);
			sn::process sleeps = sn::process::start({"sleep", "1000"}).value();
			EXPECT_EQ(sleeps.wait(sn::after(1ms)).error(), std::errc::timed_out);
			EXPECT_EQ(sleeps.kill_group(SIGKILL).error(), std::errc::invalid_argument);
			EXPECT_TRUE(sleeps.kill(SIGKILL));
			EXPECT_EQ(SIGKILL, sleeps.wait(sn::after(30s)).value().signum);
		}));
}

TEST(CppProcess, RunsFromBeginningToEnd)
{
	EXPECT_EQ(0, sn::run([] {
			  const sn::deadline soon = sn::after(30s);
			  const auto both =
				  sn::run_program({"sh", "-c", "cat; echo err >&2; exit 3"}, {},
						  {.input = "in", .until = soon})
					  .value();
			  EXPECT_EQ("in", both.out);
			  EXPECT_EQ("err\n", both.err);
			  EXPECT_EQ(3, both.status.exit_code);
			  EXPECT_FALSE(both.succeeded());
			  sn::process_attr attr;
			  attr.program = "sh";
			  attr.directory = "/";
			  attr.environment = {{"A=1"}};
			  attr.changes = {"B=2"};
			  attr.err = sn::stdio::as_stdout;
			  attr.limits = {{RLIMIT_CORE, 0, 0}};
			  const auto second = sn::run_program({"x", "-c", "echo $0 $A $B; pwd >&2"},
							      attr, {.until = soon})
						      .value();
			  EXPECT_EQ("x 1 2\n/\n", second.out);
			  EXPECT_EQ("", second.err);
			  EXPECT_TRUE(second.succeeded());
			  EXPECT_EQ(sn::run_program({"cat", "/dev/zero"}, {},
						    {.limit = 1000, .until = soon})
					    .error(),
				    std::errc::message_size);
		  }));
}

TEST(CppProcess, RefusesStringsWithAZeroInside)
{
	using namespace std::string_literals;

	EXPECT_EQ(0, sn::run([] {
			  const auto refused = [](const std::vector<std::string> &arguments,
						  const sn::process_attr &attr) {
				  return sn::process::start(arguments, attr).error() ==
						 std::errc::invalid_argument &&
					 sn::run_program(arguments, attr).error() ==
						 std::errc::invalid_argument;
			  };

			  EXPECT_TRUE(refused({"true", "a\0b"s}, {}));
			  EXPECT_TRUE(refused({"true\0b"s}, {}));
			  EXPECT_TRUE(refused({"true"}, {.program = "true\0b"s}));
			  EXPECT_TRUE(refused({"true"}, {.directory = "/\0b"s}));
			  EXPECT_TRUE(refused({"true"}, {.environment = {{"A=1\0"s}}}));
			  EXPECT_TRUE(refused({"true"}, {.changes = {"A=1\0"s}}));
			  EXPECT_TRUE(sn::run_program({"true"}, {.changes = {"A=1"}})->succeeded());
		  }));
}

TEST(CppProcess, EndsWithItsScope)
{
	EXPECT_EQ(0, sn::run([] {
			  sn::process sleeps;
			  sn::scope all;

			  sleeps = sn::process::start({"sleep", "1000"},
						      {.flags = SN_PROCESS_IN_SCOPE, .grace = -1ns})
					   .value();
			  all.cancel();
			  EXPECT_EQ(all.join().error(), std::errc::operation_canceled);
			  EXPECT_EQ(SIGKILL, sleeps.wait(sn::after(30s)).value().signum);
		  }));
}

} // namespace
