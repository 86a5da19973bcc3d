// SPDX-License-Identifier: MIT
//
// Traces that no call asks for: at a signal, and when a task keeps its processor, or waits for one,
// for too long.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <dirent.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/trace.h>

#include "support/runtime.h"

namespace
{

// A folder, and the name of a trace in it.
class Place
{
public:
	Place() { EXPECT_NE(nullptr, mkdtemp(name_)); }
	~Place()
	{
		for (const auto &entry : entries())
			unlink((std::string(name_) + "/" + entry).c_str());
		rmdir(name_);
	}
	std::set<std::string> entries() const
	{
		std::set<std::string> names;
		DIR *folder = opendir(name_);

		while (struct dirent *entry = readdir(folder))
			if (entry->d_name[0] != '.')
				names.insert(entry->d_name);
		closedir(folder);
		return names;
	}
	std::string in(const std::string &name) const { return std::string(name_) + "/" + name; }
	std::string pattern() const { return std::string(name_) + "/trace-%p"; }
	std::string trace() const
	{
		return std::string(name_) + "/trace-" + std::to_string(getpid());
	}

private:
	char name_[64] = "/tmp/sennit-trace-XXXXXX";
};

std::string contents(const std::string &file)
{
	std::ostringstream text;

	text << std::ifstream(file, std::ios::binary).rdbuf();
	return text.str();
}

// Captures what is written to stderr while the object lives.
class Said
{
public:
	Said() : former_(dup(STDERR_FILENO)), to_(mkstemp(name_))
	{
		EXPECT_LE(0, dup2(to_, STDERR_FILENO));
	}
	~Said()
	{
		dup2(former_, STDERR_FILENO);
		close(former_);
		close(to_);
		unlink(name_);
	}
	bool has(const char *text) const { return contents(name_).find(text) != std::string::npos; }
	std::string all() const { return contents(name_); }

private:
	char name_[64] = "/tmp/sennit-said-XXXXXX";
	int former_, to_;
};

bool exists(const std::string &file)
{
	struct stat there;

	return lstat(file.c_str(), &there) == 0;
}

void expect_whole(const Place &place)
{
	const std::string text = contents(place.trace());
	struct stat there = {};

	EXPECT_GT(text.size(), 100u);
	EXPECT_EQ('\n', text[0]) << "begins with a packet of Perfetto";
	EXPECT_EQ(0, stat(place.trace().c_str(), &there));
	EXPECT_EQ(0600u, there.st_mode & 0777);
	EXPECT_EQ(1u, place.entries().size()) << "there is only the trace";
}

TEST(TraceFile, IsWrittenAtTheSignalForADump)
{
	Place place;
	test::Environment file("SENNIT_TRACE_FILE", place.pattern());
	test::Environment signal("SENNIT_DUMP_SIGNAL", std::to_string(SIGUSR1));

	test::run({1, 2}, [&] {
		struct stat there;

		// A link at the path is replaced, and its target is not touched.
		unlink(place.trace().c_str());
		ASSERT_EQ(0, symlink("/dev/null", place.trace().c_str()));
		kill(getpid(), SIGUSR1);
		EXPECT_TRUE(test::eventually([&] {
			return lstat(place.trace().c_str(), &there) == 0 && S_ISREG(there.st_mode);
		}));
		expect_whole(place);
	});
	expect_whole(place);
}

TEST(TraceFile, IsWrittenWhenATaskKeepsItsProcessor)
{
	Place place;
	test::Environment file("SENNIT_TRACE_FILE", place.pattern());
	test::Environment stall("SENNIT_STALL_MS", "5");

	test::run({1, 2}, [&] {
		const int64_t until = sn_now() + test::patience;

		unlink(place.trace().c_str());
		while (!exists(place.trace()) && sn_now() < until)
			;
		EXPECT_TRUE(exists(place.trace()));
	});
	expect_whole(place);
}

TEST(TraceFile, IsWrittenWhenATaskWaitsForAProcessor)
{
	Place place;
	test::Environment file("SENNIT_TRACE_FILE", place.pattern());
	test::Environment late("SENNIT_LATE_MS", "5");
	// Otherwise this task's processor would be revoked, and the other task would run.
	test::Environment leases("SENNIT_LEASES", "0");

	test::run(1, [&] {
		const int64_t until = sn_now() + test::patience;
		test::Task other([] {});

		while (!exists(place.trace()) && sn_now() < until)
			;
		EXPECT_TRUE(exists(place.trace()));
		EXPECT_EQ(0, other.join());
	});
	expect_whole(place);
}

// When many tasks take turns, some are in the global queue.
TEST(TraceFile, IsWrittenWhenTasksWaitInTheSharedQueue)
{
	Place place;
	test::Environment file("SENNIT_TRACE_FILE", place.pattern());
	test::Environment late("SENNIT_LATE_MS", "5");

	for (const int processors : {1, 2}) {
		// Before the run, because that writes one trace only, perhaps as soon as it begins
		// on a busy machine.
		unlink(place.trace().c_str());
		test::run(processors, [&] {
			const int64_t until = sn_now() + test::patience;
			std::vector<test::Task> tasks;

			for (int i = 0; i < 600; i++)
				tasks.emplace_back([&] {
					while (!exists(place.trace()) && sn_now() < until) {
						const int64_t end = sn_now() + 100 * test::us;
						while (sn_now() < end)
							;
						EXPECT_EQ(0, sn_yield());
					}
				});
			for (auto &each : tasks)
				EXPECT_EQ(0, each.join());
			EXPECT_TRUE(exists(place.trace()));
		});
	}
	expect_whole(place);
}

TEST(TraceFile, IsNotWrittenWhileNoTaskWaitsForLong)
{
	Place place;
	test::Environment file("SENNIT_TRACE_FILE", place.pattern());
	test::Environment late("SENNIT_LATE_MS", "60000");

	test::run({1, 2}, [&] {
		// The second sleep ends a time in which the monitor sleeps, so that its clock has
		// stood still.
		for (int64_t ns : {test::ms, 300 * test::ms})
			EXPECT_EQ(0, sn_sleep(ns));
		for (int i = 0; i < 1000; i++)
			EXPECT_EQ(0, sn_yield());
	});
	EXPECT_TRUE(place.entries().empty());
	test::Environment wrong("SENNIT_LATE_MS", "soon");
	EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr));
}

TEST(TraceFile, ThatCannotBeWrittenIsSaid)
{
	test::Environment file("SENNIT_TRACE_FILE", "/nonexistent/trace");
	test::Environment signal("SENNIT_DUMP_SIGNAL", std::to_string(SIGUSR1));
	Said said;

	test::run({2}, [&] {
		kill(getpid(), SIGUSR1);
		EXPECT_TRUE(test::eventually([&] { return said.has("end of the dump"); }));
	});
	EXPECT_TRUE(said.has("sennit: cannot write a trace to SENNIT_TRACE_FILE: No such file or "
			     "directory\n"))
		<< said.all();
}

TEST(TraceFile, ThatOthersAreWritingIsLeftAlone)
{
	Place place;
	test::Environment file("SENNIT_TRACE_FILE", place.pattern());
	test::Environment signal("SENNIT_DUMP_SIGNAL", std::to_string(SIGUSR1));
	const std::string part = place.trace() + ".part";
	Said said;

	std::ofstream(part) << "of another process";
	test::run({2}, [&] {
		// Some signals come while the trace for an earlier one is being written.
		for (int i = 0; i < 50; i++) {
			kill(getpid(), SIGUSR1);
			EXPECT_EQ(0, sn_sleep(test::ms / 2));
		}
		EXPECT_TRUE(test::eventually([&] { return said.has("end of the dump"); }));
		EXPECT_TRUE(test::eventually([&] { return place.entries().size() == 2; }));
	});
	EXPECT_FALSE(said.has("cannot write")) << said.all();
	EXPECT_TRUE(exists(place.trace()));
	EXPECT_EQ("of another process", contents(part));
}

// The next test executes this as another program, with another group.
void be_setgid()
{
	if (!getauxval(AT_SECURE))
		_exit(77);
	test::Environment signal("SENNIT_DUMP_SIGNAL", std::to_string(SIGUSR1));
	Said said;

	test::run({1}, [&] {
		kill(getpid(), SIGUSR1);
		EXPECT_TRUE(test::eventually([&] { return said.has("end of the dump"); }));
	});
	EXPECT_FALSE(said.has("a trace")) << said.all();
}

TEST(TraceFile, IsIgnoredInSetgidPrograms)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "an emulated program cannot execute itself";
	if (getenv("SENNIT_TEST_SETGID"))
		return be_setgid();
	test::Environment again("SENNIT_TEST_SETGID", "1");
	Place place;
	test::Environment file("SENNIT_TRACE_FILE", place.in("trace"));
	const std::string program = place.in("program");
	std::vector<gid_t> groups(64);
	int count = getgroups(static_cast<int>(groups.size()), groups.data());
	gid_t other = geteuid() == 0 ? 65534 : getegid();
	int status = 0;

	for (int i = 0; i < count && other == getegid(); i++)
		other = groups[static_cast<size_t>(i)];
	std::ofstream(program, std::ios::binary)
		<< std::ifstream("/proc/self/exe", std::ios::binary).rdbuf();
	if (other == getegid() || chown(program.c_str(), static_cast<uid_t>(-1), other) < 0)
		GTEST_SKIP() << "there is no other group";
	ASSERT_EQ(0, chmod(program.c_str(), 02755));

	pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		execl(program.c_str(), program.c_str(),
		      "--gtest_filter=TraceFile.IsIgnoredInSetgidPrograms", nullptr);
		_exit(127);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status)) << status;
	if (WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "the kernel ignores setgid there";
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_FALSE(exists(place.in("trace")));
}

TEST(TraceFile, HasANameOfLimitedLength)
{
	test::Environment file("SENNIT_TRACE_FILE", std::string(4001, 'x'));

	EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr));
}

TEST(TraceFile, IsNotWrittenWithoutRecords)
{
	Place place;
	test::Environment file("SENNIT_TRACE_FILE", place.pattern());
	test::Environment none("SENNIT_RECORD", "0");
	test::Environment stall("SENNIT_STALL_MS", "5");
	Said said;

	test::run({2}, [&] {
		const int64_t until = sn_now() + test::patience;

		while (!said.has("cannot write a trace") && sn_now() < until)
			;
	});
	EXPECT_TRUE(said.has("cannot write a trace to SENNIT_TRACE_FILE: No data")) << said.all();
	EXPECT_FALSE(exists(place.trace()));
}

} // namespace
