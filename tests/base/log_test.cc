// SPDX-License-Identifier: MIT
// Labels: checked
//
// Writing lines to stderr blocks no thread, whatever stderr is: a full pipe, or one without a
// reader. A file gets every line. Each case runs in a child process, whose stderr it replaces.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "support/full_stderr.h"
#include "support/refused.h"
#include "support/runtime.h"

// arch/compiler.h is for C.
extern "C" void sn_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

namespace
{

class Log : public testing::Test
{
protected:
	Log() { testing::FLAGS_gtest_death_test_style = TEST_DEATH_STYLE; }
};

// Reads everything, and returns what is there besides the filling.
std::string take(int fd)
{
	const std::string all = test::read_now(fd);

	return all.substr(std::min(all.find_first_not_of('x'), all.size()));
}

[[noreturn]] void drops_and_counts(int (*make_full)())
{
	const int reader = make_full();

	sn_log("the first");
	sn_log("the second");
	CHILD_CHECK(take(reader).empty());
	sn_log("the %s", "third");
	CHILD_CHECK(take(reader) ==
		    "sennit: 2 lines before this one were dropped: stderr was full\n"
		    "sennit: the third\n");
	sn_log("the fourth");
	CHILD_CHECK(take(reader) == "sennit: the fourth\n");
	_exit(42);
}

TEST_F(Log, DropsAndCountsWhatAPipeHasNoRoomFor)
{
	EXPECT_EXIT(drops_and_counts(test::full_pipe), testing::ExitedWithCode(42), "^$");
}

TEST_F(Log, DropsAndCountsWhatASocketHasNoRoomFor)
{
	EXPECT_EXIT(drops_and_counts(test::full_socket), testing::ExitedWithCode(42), "^$");
}

[[noreturn]] void has_no_reader()
{
	int ends[2];

	CHILD_CHECK(pipe(ends) == 0);
	CHILD_CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	close(ends[0]);
	CHILD_CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	errno = 4711;
	sn_log("nobody reads this");
	CHILD_CHECK(errno == 4711);
	_exit(42);
}

TEST_F(Log, WithoutAReaderKillsNobody)
{
	EXPECT_EXIT(has_no_reader(), testing::ExitedWithCode(42), "^$");
}

// XFS and btrfs return EAGAIN for RWF_NOWAIT whenever the time of modification has to change.
[[noreturn]] void writes_to_a_file_that_may_wait()
{
	char name[] = "/tmp/sennit-log-XXXXXX", text[64] = "";
	const int file = mkstemp(name);

	CHILD_CHECK(file >= 0 && unlink(name) == 0);
	CHILD_CHECK(dup2(file, STDERR_FILENO) == STDERR_FILENO);
	CHILD_CHECK(test::refuse({{SYS_pwritev2, EAGAIN}}));
	sn_log("the first");
	sn_log("the second");
	CHILD_CHECK(pread(file, text, sizeof text - 1, 0) > 0);
	CHILD_CHECK(std::string(text) == "sennit: the first\nsennit: the second\n");
	_exit(42);
}

TEST_F(Log, LosesNothingInAFile)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator has no filters";
	EXPECT_EXIT(writes_to_a_file_that_may_wait(), testing::ExitedWithCode(42), "^$");
}

// The line about the limit of threads was written under the runtime's lock in an older version.
[[noreturn]] void reaches_the_limit_of_threads(int (*make_full)())
{
	test::Environment most("SENNIT_MAX_THREADS", "3");
	int gate[2];

	CHILD_CHECK(pipe(gate) == 0);
	make_full();
	test::run(2, [&] {
		std::atomic<int> beats{0};
		std::vector<test::Task> blocked;

		test::Task heart([&] {
			while (beats < 10 && sn_sleep(test::ms) == 0)
				beats++;
		});
		// More tasks than there may be threads, so that no thread is left for the heart.
		for (int i = 0; i < 4; i++)
			blocked.emplace_back([&] {
				char byte;
				CHILD_CHECK(read(gate[0], &byte, 1) == 1);
			});
		std::thread plain([&] {
			CHILD_CHECK(test::eventually_in_thread(
				[] { return test::stats().thread_limit_hits > 0; }));
			CHILD_CHECK(write(gate[1], "xxxx", 4) == 4);
		});
		heart.join();
		test::join_all(blocked);
		plain.join();
	});
	_exit(42);
}

TEST_F(Log, OfALimitHoldsUpNobody)
{
	EXPECT_EXIT(reaches_the_limit_of_threads(test::full_pipe), testing::ExitedWithCode(42),
		    "^$");
}

} // namespace
