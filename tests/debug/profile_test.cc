// SPDX-License-Identifier: MIT
//
// Profiles: what they say about tasks, CPU time and waits, that they can be made repeatedly while
// tasks begin and end, and that pprof reads them.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/profile.h>
#include <sennit/scan.h>

#include "support/files.h"
#include "support/internals.h"
#include "support/profiles.h"
#include "support/runtime.h"

// Exported and not inlined, so that stacks contain their names.
#define NAMED extern "C" __attribute__((visibility("default"), noinline))
NAMED int profile_test_sleeps(void *arg);
NAMED int profile_test_receives(void *chan);
NAMED int profile_test_contends(void *arg);
NAMED int profile_test_burns(void *stop);
NAMED int profile_test_simmers(void *stop);
NAMED int profile_test_yields(void *stop);
NAMED void profile_test_works(std::atomic<bool> *stop, int64_t until);
NAMED int profile_test_spawns(sn_task **task, sn_fn *fn, void *arg, const char *name);

extern "C" int profile_test_sleeps(void *)
{
	int err = sn_sleep(INT64_MAX);

	return err < 0 ? err : 1;
}

extern "C" int profile_test_receives(void *chan)
{
	int item, err = sn_chan_recv(static_cast<sn_chan *>(chan), &item);

	return err < 0 ? err : item;
}

// Mostly in its own code, because the vDSO of 32-bit x86, which reads the time, cannot be unwound.
static void work(std::atomic<bool> *stop, int64_t until)
{
	while (!*stop && sn_now() < until) {
		for (int i = 0; i < 10000; i++)
			asm volatile("");
		if (TEST_TSAN) // TSan delivers signals only in calls of the C library
			usleep(1);
	}
}

extern "C" void profile_test_works(std::atomic<bool> *stop, int64_t until)
{
	work(stop, until);
	asm volatile("" ::: "memory");
}

extern "C" int profile_test_burns(void *stop)
{
	profile_test_works(static_cast<std::atomic<bool> *>(stop), INT64_MAX);
	return 0;
}

// Works for a tenth of the time.
extern "C" int profile_test_simmers(void *stop)
{
	while (!*static_cast<std::atomic<bool> *>(stop)) {
		work(static_cast<std::atomic<bool> *>(stop), sn_now() + test::ms / 10);
		sn_sleep(test::ms * 9 / 10);
	}
	return 0;
}

extern "C" int profile_test_yields(void *stop)
{
	while (!*static_cast<std::atomic<bool> *>(stop))
		sn_yield();
	return 0;
}

namespace
{

struct Contended {
	std::atomic<bool> stop{false};
	std::atomic<int> taken{0};
	sn_mutex hot = SN_MUTEX_INIT;
	sn_mutex cool = SN_MUTEX_INIT;
};

} // namespace

extern "C" int profile_test_contends(void *arg)
{
	auto *contended = static_cast<Contended *>(arg);

	while (!contended->stop) {
		if (sn_mutex_lock(&contended->hot) < 0)
			return 1;
		contended->taken++;
		sn_sleep(test::ms);
		sn_mutex_unlock(&contended->hot);
		if (sn_mutex_lock(&contended->cool) < 0)
			return 1;
		sn_mutex_unlock(&contended->cool);
	}
	return 0;
}

extern "C" int profile_test_spawns(sn_task **task, sn_fn *fn, void *arg, const char *name)
{
	struct sn_task_attr attr = {};

	attr.name = name;
	int err = sn_spawn(task, fn, arg, &attr);

	return err;
}

// The linker calls the first one in place of dlopen().
extern "C" void *__wrap_dlopen(const char *name, int mode);
extern "C" void *__real_dlopen(const char *name, int mode);
static std::atomic<bool> no_library_opens{false};

extern "C" void *__wrap_dlopen(const char *name, int mode)
{
	return no_library_opens ? nullptr : __real_dlopen(name, mode);
}

namespace
{

using test::Profile;
using Sample = Profile::Sample;

enum { COUNT, TIME };

// Returns what the call writes to a descriptor.
template <class Call>
Profile profile_of(Call call)
{
	return Profile(test::written_by(call));
}

Profile tasks()
{
	return profile_of([](int fd) { return sn_profile_tasks(fd); });
}

Profile waits(int64_t ns, int64_t period)
{
	return profile_of([=](int fd) { return sn_profile_waits(fd, ns, period); });
}

// Whether the timers of a CPU profile are missing, as under emulators.
bool cpu_is_missing()
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC), err = sn_profile_cpu(fd, 0, 0);

	close(fd);
	EXPECT_TRUE(err == 0 || (TEST_EMULATED && err == -ENOTSUP)) << err;
	return err == -ENOTSUP;
}

// Makes a profile as soon as no other one is being made.
template <class Call>
int in_turn(Call call)
{
	int err;

	while ((err = call()) == -EBUSY)
		usleep(100);
	return err;
}

// Whether a call that asks for a profile of no length has failed because another one is being
// made.
bool is_busy(int err)
{
	return err == -EBUSY || (TEST_EMULATED && err == -ENOTSUP);
}

auto named(const std::string &name)
{
	return [=](const Sample &sample) { return sample.label("task") == name; };
}

auto in(const std::string &function)
{
	return [=](const Sample &sample) { return sample.calls(function); };
}

sn_chan *make_chan(ssize_t capacity)
{
	sn_chan *chan = nullptr;

	EXPECT_EQ(0, sn_chan_new(&chan, sizeof(int), capacity));
	return chan;
}

// Tasks that wait in the channel, and how many tasks have parked.
struct Waiting {
	sn_chan *chan = make_chan(0);
	std::vector<sn_task *> handles;

	void spawn(sn_fn *fn, void *arg, const char *name)
	{
		handles.emplace_back();
		EXPECT_EQ(0, profile_test_spawns(&handles.back(), fn, arg, name));
	}
	void end()
	{
		sn_chan_close(chan);
		for (auto *handle : handles)
			EXPECT_EQ(0, sn_join(handle, nullptr));
		sn_chan_unref(chan);
	}
};

// Waits until that many tasks are parked.
void until_parked(int64_t n)
{
	EXPECT_TRUE(test::eventually([=] {
		int64_t parked = 0;

		sn_tasks_each(
			[](const struct sn_task_info *info, void *arg) {
				*static_cast<int64_t *>(arg) += info->state == SN_STATE_PARKED;
				return 0;
			},
			&parked);
		return parked >= n;
	}));
}

// ---- tasks ----

TASK_TEST(ProfileTasks, CountTasksByStackAndSpawn, 1, 2)
{
	Waiting waiting;

	for (int i = 0; i < 7; i++)
		waiting.spawn(profile_test_receives, waiting.chan, "receiver");
	for (int i = 0; i < 3; i++)
		waiting.spawn(profile_test_receives, waiting.chan, nullptr);
	until_parked(10);
	Profile profile = tasks();

	ASSERT_EQ(4u, profile.types.size());
	EXPECT_EQ("tasks/count", profile.types[0]);
	EXPECT_EQ("tasks", profile.main_type);
	EXPECT_EQ(11, profile.sum(COUNT));
	EXPECT_EQ(10, profile.sum(COUNT, in("profile_test_receives")));
	EXPECT_EQ(7, profile.sum(COUNT, named("receiver")));
	EXPECT_EQ(1, profile.sum(COUNT, named("main")));
	EXPECT_EQ(10, profile.sum(COUNT, [&](const Sample &sample) {
		return sample.label("spawned_at").rfind("profile_test_spawns+0x", 0) == 0 &&
		       sample.label("state") == "parked" &&
		       sample.label("waits_for") == "a channel";
	}));
	for (const auto &sample : profile.samples) {
		EXPECT_LT(0, sample.values[1]) << "in use";
		EXPECT_LE(sample.values[1], sample.values[2]) << "resident";
		EXPECT_LE(sample.values[2], sample.values[3]) << "reserved";
	}
	waiting.end();
}

TEST(ProfileTasks, AreTakenFromAnyThreadAndOfEveryState)
{
	std::atomic<bool> stop{false};

	test::run({2}, [&] {
		Waiting waiting;

		stop = false;
		waiting.spawn(profile_test_burns, &stop, "burns");
		// The task begins when there is a thread for it.
		EXPECT_TRUE(test::eventually(
			[&] { return tasks().sum(COUNT, in("profile_test_burns")) == 1; }));
		std::thread([&] {
			Profile profile = tasks();

			EXPECT_EQ(2, profile.sum(COUNT));
			EXPECT_EQ(1, profile.sum(COUNT, named("burns")));
		}).join();
		stop = true;
		waiting.end();
	});
}

TEST(ProfileTasks, ThatCannotBeMadeSayWhy)
{
	EXPECT_EQ(-ESRCH, sn_profile_tasks(1));
	EXPECT_EQ(-ESRCH, sn_profile_cpu(1, 0, 0));
	EXPECT_EQ(-ESRCH, sn_profile_waits(1, 0, 0));
	test::run({1}, [] {
		int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

		EXPECT_EQ(-EBADF, sn_profile_tasks(-1));
		EXPECT_EQ(-ENOSPC, sn_profile_tasks(full));
		EXPECT_EQ(-ENOSPC, sn_profile_waits(full, 0, 0));
		EXPECT_EQ(-EINVAL, sn_profile_waits(full, -1, 0));
		EXPECT_EQ(-EINVAL, sn_profile_waits(full, 0, -1));
		EXPECT_EQ(-EINVAL, sn_profile_cpu(full, -1, 0));
		EXPECT_EQ(-EINVAL, sn_profile_cpu(full, 0, -1));
		EXPECT_EQ(-EINVAL, sn_profile_cpu(full, 0, 1001));
		close(full);
	});
	EXPECT_EQ(-ESRCH, sn_profile_tasks(1));
}

// ---- labels ----

TASK_TEST(Labels, AreInheritedReplacedAndRemoved, 1, 2)
{
	Waiting waiting;

	EXPECT_EQ(0, sn_label("route", "/a"));
	EXPECT_EQ(0, sn_label("user", "17"));
	waiting.spawn(profile_test_receives, waiting.chan, "both");
	EXPECT_EQ(0, sn_label("user", nullptr));
	EXPECT_EQ(0, sn_label("route", "/b"));
	waiting.spawn(profile_test_receives, waiting.chan, "one");
	EXPECT_EQ(0, sn_label("route", nullptr));
	EXPECT_EQ(0, sn_label("route", nullptr));
	waiting.spawn(profile_test_receives, waiting.chan, "none");
	EXPECT_EQ(0, sn_label("state of mind", "gr\xc3\xbcn"));
	until_parked(3);
	Profile profile = tasks();

	for (const auto &sample : profile.samples) {
		const auto task = sample.label("task");

		EXPECT_EQ(task == "both" ? "17" : "", sample.label("user"));
		EXPECT_EQ(task == "both" ? "/a" : task == "one" ? "/b" : "", sample.label("route"));
		EXPECT_EQ(task == "main" ? "gr\xc3\xbcn" : "", sample.label("state of mind"));
	}
	waiting.end();
}

TASK_TEST(Labels, AreInDumps, 1, 2)
{
	Waiting waiting;
	int fd = test::temporary();

	EXPECT_EQ(0, sn_label("route", "/a"));
	EXPECT_EQ(0, sn_label("user", "17"));
	waiting.spawn(profile_test_receives, waiting.chan, "receiver");
	EXPECT_EQ(0, sn_label("user", nullptr));
	until_parked(1);
	EXPECT_EQ(0, sn_dump(fd));
	std::string text = test::contents(fd);

	close(fd);
	for (const char *line :
	     {"\"receiver\" for [^\n]*, route=/a, user=17\n", "\"main\" for [^\n]*, route=/a\n"})
		EXPECT_TRUE(std::regex_search(text, std::regex(line))) << text;
	waiting.end();
}

TEST(Labels, HaveLimits)
{
	EXPECT_EQ(-ENOTSUP, sn_label("key", "value"));
	test::run({1}, [] {
		EXPECT_EQ(-EINVAL, sn_label(nullptr, "value"));
		EXPECT_EQ(-EINVAL, sn_label("", "value"));
		EXPECT_EQ(-EINVAL, sn_label(std::string(64, 'k').c_str(), "value"));
		EXPECT_EQ(0,
			  sn_label(std::string(63, 'k').c_str(), std::string(1000, 'v').c_str()));
		for (int i = 1; i < SN_LABELS_MAX; i++)
			EXPECT_EQ(0, sn_label(std::to_string(i).c_str(), "value"));
		EXPECT_EQ(-ENOSPC, sn_label("one more", "value"));
		EXPECT_EQ(0, sn_label("1", "another"));
		Profile profile = tasks();

		ASSERT_EQ(1u, profile.samples.size());
		EXPECT_EQ("another", profile.samples[0].label("1"));
		EXPECT_EQ(std::string(255, 'v'), profile.samples[0].label(std::string(63, 'k')));
	});
}

// ---- CPU time ----

TEST(ProfileCpu, FindsWhoBurnsIt)
{
	std::atomic<bool> stop{false};

	test::run({1, 2}, [&] {
		if (cpu_is_missing())
			return;
		Waiting waiting;

		stop = false;
		EXPECT_EQ(0, sn_label("kind", "hot"));
		waiting.spawn(profile_test_burns, &stop, "burns");
		EXPECT_EQ(0, sn_label("kind", nullptr));
		waiting.spawn(profile_test_simmers, &stop, "simmers");
		// On a loaded machine the task may get little CPU time; then the test tries again.
		bool found = false;
		for (int tries = 0; tries < 20 && !found; tries++) {
			Profile profile = profile_of(
				[](int fd) { return sn_profile_cpu(fd, 500 * test::ms, 500); });

			EXPECT_EQ("cpu", profile.main_type);
			EXPECT_EQ(2000000, profile.period);
			EXPECT_LE(490 * test::ms, profile.duration);
			EXPECT_EQ(profile.sum(TIME), profile.sum(COUNT) * profile.period);
			// At most as much as the CPUs have.
			if (!TEST_TSAN && !TEST_EMULATED) {
				EXPECT_LT(profile.sum(TIME), 4 * profile.duration);
			}
			const int64_t burns = profile.sum(COUNT, named("burns"));

			if (burns < 10 || burns <= profile.sum(COUNT) - burns)
				continue;
			found = true;
			EXPECT_EQ(burns, profile.sum(COUNT, [](const Sample &sample) {
				return sample.label("kind") == "hot";
			}));
			if (!TEST_TSAN) { // TSan delivers signals late, on another stack
				EXPECT_GE(profile.sum(COUNT, in("profile_test_works")),
					  burns * 8 / 10);
				EXPECT_EQ(0, profile.sum(COUNT, [](const Sample &sample) {
					return sample.calls("profile_test_works") &&
					       !sample.calls("profile_test_burns");
				}));
			}
		}
		EXPECT_TRUE(found) << "it never used more CPU time than all others";
		stop = true;
		waiting.end();
	});
}

// A signal that comes late stands for all periods that have passed: those between two of the
// kernel's ticks, and those during which the signal was blocked, as here.
TASK_TEST(ProfileCpu, CountsThePeriodsThatPassBeforeASignal, 1)
{
	const auto used = [] {
		timespec time = {};

		EXPECT_EQ(0, clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time));
		return int64_t(time.tv_sec) * test::second + time.tv_nsec;
	};
	const auto is_pending = [] {
		sigset_t pending;

		EXPECT_EQ(0, sigpending(&pending));
		return sigismember(&pending, SIGPROF) == 1;
	};
	sigset_t set, former;

	if (cpu_is_missing())
		return;
	sigemptyset(&set);
	sigaddset(&set, SIGPROF);
	Profile profile = profile_of([&](int fd) {
		EXPECT_EQ(0, probe_cpu_profile_start(1000));
		EXPECT_EQ(0, pthread_sigmask(SIG_BLOCK, &set, &former));
		for (const int64_t until = test::soon(); !is_pending() && sn_now() < until;)
			continue;
		for (const int64_t end = used() + 50 * test::ms; used() < end;)
			continue;
		EXPECT_EQ(0, pthread_sigmask(SIG_SETMASK, &former, nullptr));
		usleep(1); // TSan delivers signals only in calls of the C library
		return probe_cpu_profile_stop(fd);
	});

	EXPECT_GE(profile.sum(TIME), 50 * test::ms);
}

TEST(ProfileCpu, SeesThreadsThatBeginMeanwhile)
{
	std::atomic<bool> stop{false};
	std::atomic<int> result{1};
	int fd = test::temporary();

	test::run({2}, [&] {
		if (cpu_is_missing())
			return;
		test::Task burner;

		stop = false;
		result = 1;
		std::thread profiler(
			[&] { result = sn_profile_cpu(fd, 3 * test::second / 2, 200); });
		burner = test::Task([&] {
			int pinned = sn_pin();

			profile_test_burns(&stop);
			EXPECT_EQ(0, pinned);
		});
		// Each blocks its thread, so that others have to be started.
		std::vector<test::Task> blocked;
		for (int i = 0; i < 8; i++)
			blocked.emplace_back([] { usleep(300000); });
		test::join_all(blocked);
		EXPECT_TRUE(test::eventually([&] { return result != 1; }));
		stop = true;
		burner.join();
		profiler.join();
		EXPECT_EQ(0, result);
		EXPECT_LT(0, Profile(test::contents(fd)).sum(COUNT, in("profile_test_burns")) +
				     TEST_TSAN);
	});
	close(fd);
}

TEST(ProfileCpu, LeavesTheSignalToAProgramThatCatchesIt)
{
	auto *former = signal(SIGPROF, [](int) {});

	test::run({1}, [] { EXPECT_EQ(-EBUSY, sn_profile_cpu(1, 0, 0)); });
	signal(SIGPROF, former);
	test::run({1}, [] { cpu_is_missing(); });
	// A late signal does no harm.
	EXPECT_EQ(0, raise(SIGPROF));
	former = signal(SIGPROF, SIG_IGN);
	test::run({1}, [] { cpu_is_missing(); });
	EXPECT_EQ(SIG_IGN, signal(SIGPROF, former));
}

// ---- waits ----

TASK_TEST(ProfileWaits, FindTheContendedMutexFirst, 1, 2)
{
	auto contended = std::make_unique<Contended>();
	Waiting waiting;

	for (int i = 0; i < 6; i++)
		waiting.spawn(profile_test_contends, contended.get(), "contends");
	EXPECT_TRUE(test::eventually([&] { return contended->taken > 2; }));
	Profile profile = waits(300 * test::ms, 0);

	EXPECT_EQ("wait", profile.main_type);
	EXPECT_EQ(10000, profile.period);
	EXPECT_LE(290 * test::ms, profile.duration);
	auto at = [&](const sn_mutex &mutex) {
		return [&](const Sample &sample) {
			auto object = sample.numbers.find("object");

			return object != sample.numbers.end() &&
			       object->second >= uintptr_t(&mutex) &&
			       object->second < uintptr_t(&mutex + 1);
		};
	};
	int64_t hot = profile.sum(TIME, at(contended->hot));

	EXPECT_LT(0, profile.sum(COUNT, at(contended->hot)));
	// Of the six tasks, five wait for the mutex at any time.
	EXPECT_GT(hot, profile.sum(TIME, named("contends")) / 2);
	EXPECT_GT(hot, 10 * profile.sum(TIME, at(contended->cool)));
	for (const auto &sample : profile.samples)
		if (at(contended->hot)(sample)) {
			EXPECT_EQ("a mutex", sample.label("waits_for"));
			EXPECT_TRUE(sample.calls("profile_test_contends"));
		}
	// A task either waits or runs.
	EXPECT_LE(profile.sum(TIME, named("contends")), 6 * profile.duration);
	EXPECT_GE(profile.sum(TIME, named("contends")), 3 * profile.duration);
	contended->stop = true;
	waiting.end();
}

TASK_TEST(ProfileWaits, CountWhatLastsFromBeforeToAfter, 1, 2)
{
	Waiting waiting;

	for (int i = 0; i < 5; i++)
		waiting.spawn(profile_test_receives, waiting.chan, "receiver");
	until_parked(5);
	Profile profile = waits(50 * test::ms, 0);

	EXPECT_EQ(5, profile.sum(COUNT, named("receiver")));
	EXPECT_EQ(5 * profile.duration, profile.sum(TIME, named("receiver")));
	for (const auto &sample : profile.samples)
		if (sample.label("task") == "receiver") {
			EXPECT_EQ("a channel", sample.label("waits_for"));
			EXPECT_TRUE(sample.calls("profile_test_receives"));
			EXPECT_EQ(uintptr_t(waiting.chan), sample.numbers.at("object"));
		}
	waiting.end();
}

TEST(ProfileWaits, ForAProcessorAreWaitsToo)
{
	std::atomic<bool> stop{false};

	test::run({1}, [&] {
		Waiting waiting;

		stop = false;
		for (int i = 0; i < 4; i++)
			waiting.spawn(profile_test_yields, &stop, "yields");
		Profile profile = waits(100 * test::ms, 0);
		auto mine = [](const Sample &sample) {
			return sample.label("task") == "yields" &&
			       sample.label("waits_for") == "a processor";
		};
		int64_t waited = profile.sum(TIME, mine);

		stop = true;
		EXPECT_EQ(waited, profile.sum(TIME, named("yields")));
		// One of the four tasks runs at a time, so each waits three quarters of the time.
		EXPECT_GT(waited, 2 * profile.duration);
		EXPECT_LE(waited, 5 * profile.duration);
		EXPECT_LT(0, profile.sum(COUNT, mine));
		waiting.end();
	});
}

// Sampling does not change the sums: short waits are sampled rarely and count more.
TASK_TEST(ProfileWaits, AreScaledWithoutBias, 1)
{
	sn_chan *pings = make_chan(0), *pongs = make_chan(0);
	std::atomic<bool> stop{false};
	struct sn_task_attr attr = {};
	int item = 0;

	attr.name = "player";
	test::Task ponger(
		[&] {
			while (sn_chan_recv(pings, &item) == 0)
				(void)!sn_chan_send(pongs, &item);
		},
		&attr);
	test::Task pinger(
		[&] {
			while (!stop) {
				(void)!sn_chan_send(pings, &item);
				(void)!sn_chan_recv(pongs, &item);
			}
			sn_chan_close(pings);
		},
		&attr);
	const int64_t period = 100 * test::us;
	Profile profile = waits(300 * test::ms, period);
	int64_t time = profile.sum(TIME, named("player"));

	stop = true;
	pinger.join();
	ponger.join();
	// At most one of the two tasks runs at a time, so together they wait for one to two
	// times the duration. With some thousand samples, the error is a few percent.
	EXPECT_GT(time, profile.duration * 8 / 10);
	EXPECT_LT(time, profile.duration * 22 / 10);
	// Most waits of the two tasks are much shorter than the period.
	if (!TEST_TSAN && !TEST_EMULATED) {
		EXPECT_GT(profile.sum(COUNT, named("player")), time / period);
	}
	sn_chan_unref(pings);
	sn_chan_unref(pongs);
}

TEST(ProfileWaits, NeedRecords)
{
	test::Environment none("SENNIT_RECORD", "0");

	test::run({1}, [] { EXPECT_EQ(-ENODATA, sn_profile_waits(1, 0, 0)); });
}

// ---- one at a time; the end; fork() ----

TASK_TEST(Profiles, AreMadeOneAtATimeOfEachKind, 2)
{
	int fd = test::temporary(), other = test::temporary();
	test::Task profiler(
		[&] { return in_turn([&] { return sn_profile_waits(fd, 200 * test::ms, 0); }); });

	EXPECT_TRUE(test::eventually([&] { return is_busy(sn_profile_waits(other, 0, 0)); }));
	EXPECT_EQ(0, sn_profile_tasks(other));
	EXPECT_EQ(0, profiler.join());
	EXPECT_EQ(0, sn_profile_waits(other, 0, 0));
	close(fd);
	close(other);
}

int null_device()
{
	static const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	return fd;
}

TEST(Profiles, EndWithTheRunThatAbandonsTheirTask)
{
	for (int i = 0; i < 3; i++) {
		test::run({2}, [] {
			const int fd = null_device();

			EXPECT_EQ(0, sn_go(
					     [](void *) {
						     return in_turn([] {
							     return sn_profile_waits(null_device(),
										     INT64_MAX / 2,
										     0);
						     });
					     },
					     nullptr));
			EXPECT_EQ(0, sn_go(
					     [](void *) {
						     return in_turn([] {
							     return sn_profile_cpu(null_device(),
										   INT64_MAX / 2,
										   0);
						     });
					     },
					     nullptr));
			EXPECT_TRUE(test::eventually(
				[&] { return is_busy(sn_profile_waits(fd, 0, 0)); }));
			EXPECT_TRUE(test::eventually(
				[&] { return is_busy(sn_profile_cpu(fd, 0, 0)); }));
		});
	}
}

// The table of samples has room for 32,768, in 23 MB. Only what is used of it is touched.
TEST(Profiles, OfNothingTakeNoTimeForTheirRoom)
{
	if (TEST_ASAN || TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "they touch memory themselves";
	test::run({1}, [] {
		const auto faults = [] {
			rusage used = {};

			EXPECT_EQ(0, getrusage(RUSAGE_SELF, &used));
			return used.ru_minflt;
		};

		EXPECT_EQ(0, sn_profile_waits(null_device(), 0, 0));
		EXPECT_EQ(0, sn_profile_cpu(null_device(), 0, 0));
		const long before = faults();

		for (int i = 0; i < 5; i++) {
			EXPECT_EQ(0, sn_profile_waits(null_device(), 0, 0));
			EXPECT_EQ(0, sn_profile_cpu(null_device(), 0, 0));
		}
		EXPECT_LT(faults() - before, 10 * 1000);
	});
}

// Modules are kept by opening them by name. The program, the loader and the vDSO, which stay mapped
// anyway, may have no name.
TEST(Profiles, ReadWhatStaysMappedEvenIfItHasNoName)
{
	const auto program = reinterpret_cast<uintptr_t>(&profile_test_sleeps);
	const auto library =
		reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
	const uintptr_t loader = getauxval(AT_BASE), vdso = getauxval(AT_SYSINFO_EHDR);

	for (bool nameless : {false, true}) {
		no_library_opens = nameless;
		EXPECT_TRUE(probe_profile_reads(program));
		// Emulators may have neither. 0 is in no module.
		EXPECT_EQ(loader != 0, probe_profile_reads(loader));
		EXPECT_EQ(vdso != 0, probe_profile_reads(vdso));
		EXPECT_EQ(!nameless, probe_profile_reads(library));
	}
	no_library_opens = false;
}

TEST(Profiles, OfAThreadOutlastTheRun)
{
	std::thread profiler;
	std::atomic<int> result{1};

	test::run({2}, [&] {
		profiler = std::thread([&] {
			result = in_turn(
				[] { return sn_profile_waits(null_device(), test::second, 0); });
		});
		EXPECT_TRUE(test::eventually(
			[&] { return is_busy(sn_profile_waits(null_device(), 0, 0)); }));
		sn_sleep(test::ms);
	});
	// Another run begins while the profile is being made.
	test::run({1, 2}, [] { sn_sleep(test::ms); });
	profiler.join();
	EXPECT_EQ(0, result);
}

// In a child of fork() no runtime runs, but a new one can be profiled.
int profile_again()
{
	if (sn_profile_waits(null_device(), 0, 0) != -ESRCH)
		return 1;
	if (TEST_TSAN || TEST_EMULATED) // the tools allow no threads there
		return 0;
	return sn_run(
		[](void *) {
			int err = sn_profile_waits(null_device(), 0, 0);

			sn_sleep(test::ms);
			if (err == 0)
				err = sn_profile_cpu(null_device(), 0, 0);
			if (TEST_EMULATED && err == -ENOTSUP)
				err = 0;
			return err ? err : sn_profile_tasks(null_device());
		},
		nullptr);
}

TASK_TEST(Profiles, DoNotGoOnInAChildOfFork, 2)
{
	int status = 0;
	std::atomic<bool> stop{false};
	/* Again and again, because this task may find out late that one has begun. */
	auto repeat = [&stop](auto call) {
		int err;

		do
			err = in_turn([=] { return call(null_device(), 300 * test::ms, 0); });
		while (err == 0 && !stop);
		return err;
	};
	test::Task waits([&] { return repeat(sn_profile_waits); });
	test::Task cpu([&] { return repeat(sn_profile_cpu); });
	test::Task burner([&] { profile_test_simmers(&stop); });

	EXPECT_TRUE(
		test::eventually([&] { return is_busy(sn_profile_waits(null_device(), 0, 0)); }));
	EXPECT_TRUE(test::eventually([&] { return is_busy(sn_profile_cpu(null_device(), 0, 0)); }));
	pid_t child = fork();
	ASSERT_LE(0, child);
	if (child == 0)
		_exit(profile_again() == 0 ? 0 : 1);
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
	stop = true;
	EXPECT_EQ(0, waits.join());
	cpu.join();
	burner.join();
}

// ---- while tasks come and go ----

TEST(Profiles, CanBeMadeWhileTasksComeAndGo)
{
	const int rounds = test::scaled(30);
	test::Random random;

	test::run({1, 2, 4}, [&] {
		std::atomic<bool> stop{false};
		sn_mutex mutex = SN_MUTEX_INIT;
		sn_chan *chan = make_chan(3);
		std::atomic<int> alive{0};
		uint64_t seed = random.next();

		auto child = [&](uint64_t what) {
			int item = 1;

			if (what & 1)
				sn_label("what", std::to_string(what % 7).c_str());
			if (what & 2)
				sn_yield();
			EXPECT_EQ(0, sn_mutex_lock(&mutex));
			if (what & 4)
				sn_sleep(int64_t(what % 50) * test::us);
			sn_mutex_unlock(&mutex);
			if (sn_chan_try_send(chan, &item) < 0)
				(void)!sn_chan_try_recv(chan, &item);
			alive--;
		};
		test::Task parent([&] {
			test::Random mine(seed);

			while (!stop) {
				if (alive > 200) {
					sn_yield();
					continue;
				}
				alive++;
				uint64_t what = mine.next();
				test::Task([&child, what] { child(what); }).detach();
			}
			while (alive > 0)
				sn_sleep(test::ms);
		});
		test::Task waits([&] {
			int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

			for (int i = 0; i < rounds; i++)
				EXPECT_EQ(0, sn_profile_waits(fd, int64_t(i % 5) * test::ms,
							      i % 2 ? 1 : 0));
			close(fd);
		});
		test::Task cpu([&] {
			int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

			for (int i = 0; i < rounds; i++) {
				int err = sn_profile_cpu(fd, int64_t(i % 5) * test::ms, 1000);

				EXPECT_TRUE(err == 0 || (TEST_EMULATED && err == -ENOTSUP)) << err;
			}
			close(fd);
		});
		for (int i = 0; i < rounds; i++) {
			int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

			EXPECT_EQ(0, sn_profile_tasks(fd));
			close(fd);
			sn_sleep(test::ms);
		}
		cpu.join();
		waits.join();
		stop = true;
		parent.join();
		sn_chan_unref(chan);
	});
}

// ---- the environment ----

std::string profiled_run(const std::string &kind)
{
	char folder[] = "/tmp/sennit-profile-XXXXXX";

	EXPECT_NE(nullptr, mkdtemp(folder));
	const std::string file = std::string(folder) + "/" + std::to_string(getpid()) + ".pb";
	test::Environment wish("SENNIT_PROFILE", kind + folder + "/%p.pb");

	test::run({2}, [] { sn_sleep(20 * test::ms); });
	std::ostringstream text;
	text << std::ifstream(file, std::ios::binary).rdbuf();
	unlink(file.c_str());
	EXPECT_EQ(0, rmdir(folder));
	return text.str();
}

TEST(Profiles, OfAWholeRunAreAskedForByTheEnvironment)
{
	Profile profile(profiled_run("waits:"));

	EXPECT_LT(0, profile.sum(TIME, [](const Sample &sample) {
		return sample.label("task") == "main" && sample.label("waits_for") == "a time";
	}));
	if (!TEST_EMULATED) {
		EXPECT_EQ("cpu", Profile(profiled_run("cpu:")).main_type);
	}
	for (const char *bad : {"cpu", "cpu:", "tasks:/tmp/x", "/tmp/x"}) {
		test::Environment wish("SENNIT_PROFILE", bad);

		EXPECT_EQ(-EINVAL, sn_run([](void *) { return 0; }, nullptr)) << bad;
	}
}

// A profile that begins when that of the run has ended, but before sn_run() has returned: it meets
// either the other profile (-EBUSY), or no run.
TEST(Profiles, OfAWholeRunLeaveTheNextOneAlone)
{
	char folder[] = "/tmp/sennit-profile-XXXXXX";

	ASSERT_NE(nullptr, mkdtemp(folder));
	const std::string file = std::string(folder) + "/waits.pb";
	test::Environment wish("SENNIT_PROFILE", "waits:" + file);

	for (int i = 0; i < 20; i++) {
		std::thread profiler;
		std::atomic<int> result{1};
		std::atomic<bool> asks{false};

		test::run({2}, [&] {
			profiler = std::thread([&] {
				result = in_turn([&] {
					asks = true;
					return sn_profile_waits(null_device(), 20 * test::ms, 0);
				});
			});
			EXPECT_TRUE(test::eventually([&] { return asks.load(); }));
		});
		profiler.join();
		EXPECT_TRUE(result == 0 || result == -ESRCH) << result;
		EXPECT_EQ(0, unlink(file.c_str()));
	}
	EXPECT_EQ(0, rmdir(folder));
}

// ---- pprof ----

std::string output_of(const std::string &command)
{
	std::string text;
	char buffer[4096];
	size_t n;
	FILE *pipe = popen(command.c_str(), "r");

	while (pipe && (n = fread(buffer, 1, sizeof buffer, pipe)) > 0)
		text.append(buffer, n);
	EXPECT_EQ(0, pipe ? pclose(pipe) : -1) << command << "\n" << text;
	return text;
}

TEST(Profiles, AreReadByPprof)
{
	if (test::is_short())
		GTEST_SKIP() << "compiles pprof, which takes 40 s; the nightly does it";
	if (system("go tool pprof -h >/dev/null 2>&1") == 127 ||
	    system("go version >/dev/null 2>&1"))
		GTEST_SKIP() << "needs go";
	char name[] = "/tmp/sennit-profile-XXXXXX";
	int fd = mkstemp(name);
	std::string tasks, top;

	ASSERT_LE(0, fd);
	test::run({2}, [&] {
		auto contended = std::make_unique<Contended>();
		Waiting waiting;

		sn_label("route", "/index");
		for (int i = 0; i < 4; i++)
			waiting.spawn(profile_test_contends, contended.get(), "contends");
		EXPECT_TRUE(test::eventually([&] { return contended->taken > 2; }));
		ASSERT_EQ(0, ftruncate(fd, 0));
		lseek(fd, 0, SEEK_SET);
		EXPECT_EQ(0, sn_profile_waits(fd, 100 * test::ms, 0));
		contended->stop = true;
		waiting.end();
	});
	const std::string pprof = "go tool pprof -symbolize=none ",
			  file = std::string(name) + " 2>&1";
	std::string raw = output_of(pprof + "-raw " + file);

	EXPECT_NE(std::string::npos, raw.find("waits/count wait/nanoseconds[dflt]")) << raw;
	EXPECT_NE(std::string::npos, raw.find("route:[/index]")) << raw;
	EXPECT_NE(std::string::npos, raw.find("profile_test_contends")) << raw;
	std::string tags = output_of(pprof + "-tags " + file);
	EXPECT_NE(std::string::npos, tags.find("a mutex")) << tags;
	top = output_of(pprof + "-top -cum -tagfocus=task=contends " + file);
	EXPECT_NE(std::string::npos, top.find("profile_test_contends")) << top;
	close(fd);
	unlink(name);
}

} // namespace
