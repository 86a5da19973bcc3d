// SPDX-License-Identifier: MIT
// Labels: checked
//
// An oracle for descriptors: random programs that open, wait, read, write, close, dup, pass, fork
// and cancel, over every kind of descriptor that tasks can wait for, checked against models.
//
// A program is made from its seed alone. It consists of some plays (io/descriptors/play.h), which
// run at the same time and reuse each other's descriptor numbers:
//
//   streams.cc    TCP and Unix connections, pipes, socketpairs, terminals
//   listeners.cc  TCP and Unix listeners
//   messages.cc   Unix packets and datagrams, with descriptors; UDP
//   owned.cc      what the program waits for by sennit/fd.h: eventfds, timers, pipes, processes,
//                 and numbers that are used again
//
// After each program the process has the same descriptors as before, of the same numbers, and no
// task is left.
//
//   SENNIT_TEST_OPERATIONS  how many calls are made and checked in all, instead of some
//                           seconds' worth
//   SENNIT_TEST_SEED        repeats from that program on, as far as the machine's timing allows
#include <cinttypes>
#include <map>
#include <thread>

#include <dirent.h>

#include "io/descriptors/play.h"

namespace
{

using oracle::Play;
using test::Random;

uint64_t wanted_operations()
{
	const char *wish = getenv("SENNIT_TEST_OPERATIONS");

	return wish ? strtoull(wish, nullptr, 10) : uint64_t(test::scaled(150000));
}

std::unique_ptr<Play> make_play(Random &random)
{
	const uint64_t seed = random.next();

	switch (random.below(16)) {
	case 0:
	case 1:
		return oracle::make_listener_play(seed);
	case 2:
	case 3:
	case 4:
		return oracle::make_message_play(seed);
	case 5:
	case 6:
		return oracle::make_datagram_play(seed);
	case 7:
	case 8:
		return oracle::make_event_play(seed);
	case 9:
		return oracle::make_timer_play(seed);
	case 10:
		return oracle::make_pipe_play(seed);
	case 11:
		return oracle::make_child_play(seed);
	case 12:
		return oracle::make_number_play(seed);
	default:
		return oracle::make_stream_play(seed);
	}
}

// Returns the open descriptors by number. Files of /proc are left out: the monitor opens them for
// some microseconds when it looks at a thread, and so does this function.
std::map<int, std::string> open_descriptors()
{
	std::map<int, std::string> all;
	DIR *dir = opendir("/proc/self/fd");

	while (const dirent *entry = dir ? readdir(dir) : nullptr) {
		const std::string path = std::string("/proc/self/fd/") + entry->d_name;
		char name[256];
		const ssize_t n = readlink(path.c_str(), name, sizeof name);

		if (n > 0 && strncmp(name, "/proc/", 6) != 0)
			all[atoi(entry->d_name)] = std::string(name, size_t(n));
	}
	if (dir)
		closedir(dir);
	return all;
}

std::string difference(const std::map<int, std::string> &before,
		       const std::map<int, std::string> &after)
{
	std::string text;

	for (const auto &[fd, name] : after) {
		const auto found = before.find(fd);

		if (found == before.end() || found->second != name)
			text += " +" + std::to_string(fd) + " " + name;
	}
	for (const auto &[fd, name] : before)
		if (after.find(fd) == after.end())
			text += " -" + std::to_string(fd) + " " + name;
	return text;
}

// The last user of a descriptor closes it, which may be a thread that reports an event. This
// function therefore repeats until nothing changes any more.
void expect_nothing_left(const std::map<int, std::string> &before)
{
	std::map<int, std::string> now;

	EXPECT_TRUE(test::eventually([&] { return (now = open_descriptors()) == before; }))
		<< "descriptors have leaked, or are gone:" << difference(before, now);
	EXPECT_TRUE(test::all_ended()) << "tasks are left";
	for (int fd = 0; fd < 1024; fd++)
		EXPECT_EQ(0, probe_watch_waits(fd)) << "waits are left for " << fd;
}

void run_program(uint64_t seed)
{
	Random random(seed);
	std::vector<std::unique_ptr<Play>> plays;
	std::vector<test::Task> running;

	for (uint64_t i = 4 + random.below(12); i > 0; i--)
		plays.push_back(make_play(random));
	for (const auto &play : plays)
		running.emplace_back([&play] { play->run(); });
	test::join_all(running);
}

// Ends the process with a dump of its tasks if no call returns for longer than any call may take.
// It is a thread of the test's own, because it must not depend on the runtime under test.
class Watchdog
{
public:
	Watchdog() : thread_([this] { watch(); }) {}
	~Watchdog()
	{
		over_ = true;
		thread_.join();
	}
	Watchdog(const Watchdog &) = delete;
	Watchdog &operator=(const Watchdog &) = delete;

	void begins(uint64_t seed) { seed_ = seed; }

private:
	void watch()
	{
		uint64_t last = 0;
		int64_t changed = sn_now();

		while (!over_) {
			const uint64_t now = oracle::operations;

			usleep(20000);
			if (now != last)
				changed = sn_now();
			last = now;
			if (sn_now() - changed > 3 * test::patience) {
				fprintf(stderr, "nothing happens in SENNIT_TEST_SEED=%" PRIu64 "\n",
					seed_.load());
				sn_dump(STDERR_FILENO);
				abort();
			}
		}
	}

	std::atomic<bool> over_{false};
	std::atomic<uint64_t> seed_{0};
	std::thread thread_;
};

void run_programs(uint64_t operations)
{
	Random seeds;
	Watchdog watchdog;
	uint64_t programs = 0;
	const uint64_t before = oracle::operations;

	Play::silent();
	for (const int processors : {1, 2, 4}) {
		test::run(processors, [&] {
			const std::map<int, std::string> descriptors = open_descriptors();
			const uint64_t most = operations * uint64_t(processors == 4 ? 2 : 1) / 4;
			const uint64_t first = oracle::operations;

			while (oracle::operations - first < most) {
				const uint64_t seed = seeds.seed() + programs++;

				watchdog.begins(seed);
				run_program(seed);
				expect_nothing_left(descriptors);
				ASSERT_FALSE(testing::Test::HasFailure())
					<< "SENNIT_TEST_SEED=" << seed;
			}
		});
		if (testing::Test::HasFailure())
			return;
	}
	printf("%" PRIu64 " operations in %" PRIu64
	       " programs; ended early by their scope: %" PRIu64,
	       oracle::operations - before, programs, oracle::failures[EAGAIN].exchange(0));
	for (size_t i = 0; i < oracle::failures.size(); i++)
		if (const uint64_t times = oracle::failures[i].exchange(0))
			printf(", %s: %" PRIu64, strerrorname_np(int(i)), times);
	printf("\n");
}

TEST(Descriptors, ProgramsKeepToTheModel)
{
	run_programs(wanted_operations() / 2);
}

// Debug builds pause in the windows between two steps of the runtime.
TEST(Descriptors, ProgramsKeepToTheModelInWideWindows)
{
	test::Environment race("SENNIT_RACE", "1");

	run_programs(wanted_operations() / 2);
}

} // namespace
