// SPDX-License-Identifier: MIT
//
// Helpers for the tests of the runtime: running a body as the first task, with each of several
// numbers of processors; tasks made of lambdas; seeds that are printed; waiting for a condition
// with a deadline instead of a fixed sleep; and checks for child processes.
#ifndef SENNIT_TESTS_SUPPORT_RUNTIME_H
#define SENNIT_TESTS_SUPPORT_RUNTIME_H

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>

#include <unistd.h>

#include <gtest/gtest.h>

#include <sennit/sennit.h>

#if defined(__SANITIZE_THREAD__)
#	define TEST_TSAN 1
#elif defined(__has_feature)
#	if __has_feature(thread_sanitizer)
#		define TEST_TSAN 1
#	endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#	define TEST_ASAN 1
#elif defined(__has_feature)
#	if __has_feature(address_sanitizer)
#		define TEST_ASAN 1
#	endif
#endif
#ifndef TEST_TSAN
#	define TEST_TSAN 0
#endif
#ifndef TEST_ASAN
#	define TEST_ASAN 0
#endif
#ifndef TEST_EMULATED // an emulated program can exec itself only if the kernel knows the emulator
#	define TEST_EMULATED 0
#endif

// Whether the kernel has the other byte order. qemu-user then converts numbers and the structures
// that it knows. It passes the others on as they are, such as most ancillary data.
#define TEST_SWAPPED (TEST_EMULATED && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)

// How death tests start their child: by exec, which works whatever threads the test has. Under an
// emulator by fork alone, which works only before the test has threads.
#define TEST_DEATH_STYLE (TEST_EMULATED ? "fast" : "threadsafe")

namespace test
{

constexpr int64_t us = 1000, ms = 1000 * us, second = 1000 * ms;

// For how long to wait for a condition that should soon be true: long enough for a loaded machine
// under a sanitizer, short enough to end before the test's timeout.
constexpr int64_t patience = 30 * second;

// The deadline of a wait for such a condition.
inline int64_t soon()
{
	return sn_now() + patience;
}

// Whether this is `make test` or the gate, which set SENNIT_TEST_SHORT.
inline bool is_short()
{
	static const bool is_set = getenv("SENNIT_TEST_SHORT") != nullptr;

	return is_set;
}

// A number of repetitions, divided by how much more one costs than in a release build: 10 under
// TSan, 5 under ASan or an emulator, 2 with 32 bits (address space and the cost of 64-bit atomics).
// The short form halves it where it is not divided.
inline int scaled(int n)
{
	const int divisor = TEST_TSAN                           ? 10
			    : TEST_ASAN || TEST_EMULATED        ? 5
			    : sizeof(void *) == 4 || is_short() ? 2
								: 1;

	return n / divisor > 0 ? n / divisor : 1;
}

// A source of random numbers whose seed is printed, so that a failure can be repeated with
// SENNIT_TEST_SEED=<seed>.
class Random
{
public:
	Random() : Random(choose()) {}
	explicit Random(uint64_t seed) : seed_(seed), engine_(seed) {}

	uint64_t seed() const { return seed_; }
	// From 0 to n - 1.
	uint64_t below(uint64_t n) { return engine_() % n; }
	uint64_t next() { return engine_(); }

private:
	static uint64_t choose()
	{
		const char *wish = getenv("SENNIT_TEST_SEED");
		uint64_t seed = wish ? strtoull(wish, nullptr, 10) : std::random_device{}();

		printf("seed %llu (repeat with SENNIT_TEST_SEED)\n", (unsigned long long)seed);
		fflush(stdout);
		return seed;
	}

	uint64_t seed_;
	std::mt19937_64 engine_;
};

// Sets an environment variable for as long as the object lives.
class Environment
{
public:
	Environment(const char *name, const std::string &value) : name_(name)
	{
		const char *former = getenv(name);

		had_ = former != nullptr;
		former_ = had_ ? former : "";
		setenv(name, value.c_str(), 1);
	}
	~Environment()
	{
		if (had_)
			setenv(name_, former_.c_str(), 1);
		else
			unsetenv(name_);
	}
	Environment(const Environment &) = delete;
	Environment &operator=(const Environment &) = delete;

private:
	const char *name_;
	std::string former_;
	bool had_;
};

// A joinable task that runs a callable returning int or void.
class Task
{
public:
	Task() = default;
	template <class F>
	explicit Task(F body, const sn_task_attr *attr = nullptr)
	{
		auto *closure = new Closure{wrap(std::move(body))};

		error_ = sn_spawn(&task_, main, closure, attr);
		if (error_ < 0)
			delete closure;
		EXPECT_EQ(0, error_) << "sn_spawn";
	}
	Task(Task &&other) noexcept
	    : task_(std::exchange(other.task_, nullptr)), error_(other.error_)
	{
	}
	Task &operator=(Task &&other) noexcept
	{
		std::swap(task_, other.task_);
		std::swap(error_, other.error_);
		return *this;
	}
	Task(const Task &) = delete;
	Task &operator=(const Task &) = delete;
	~Task() { EXPECT_EQ(nullptr, task_) << "a task was neither joined nor detached"; }

	int error() const { return error_; }
	sn_task *get() const { return task_; }

	int join()
	{
		int result = 0;

		if (!task_)
			return error_;
		int err = sn_join(task_, &result);
		EXPECT_EQ(0, err) << "sn_join";
		if (err == 0)
			task_ = nullptr;
		return result;
	}
	// Gives the handle away. Also used after other code has consumed the handle.
	sn_task *release() { return std::exchange(task_, nullptr); }
	void detach()
	{
		if (task_) {
			EXPECT_EQ(0, sn_detach(task_));
			task_ = nullptr;
		}
	}

private:
	using Closure = std::function<int()>;

	template <class F>
	static Closure wrap(F body)
	{
		if constexpr (std::is_void_v<std::invoke_result_t<F &>>)
			return [body = std::move(body)]() mutable {
				body();
				return 0;
			};
		else
			return body;
	}
	static int main(void *arg)
	{
		auto *closure = static_cast<Closure *>(arg);
		int result = (*closure)();

		delete closure;
		return result;
	}

	sn_task *task_ = nullptr;
	int error_ = 0;
};

// Joins all tasks, or threads, of a container.
template <class Many>
void join_all(Many &many)
{
	for (auto &each : many)
		each.join();
}

// Runs the body as the first task on a number of processors. Prints the number if the test fails.
inline void run(int processors, const std::function<void()> &body)
{
	Environment procs("SENNIT_PROCS", std::to_string(processors));
	const bool failed_before = testing::Test::HasFailure();
	int result = sn_run(
		[](void *arg) {
			(*static_cast<const std::function<void()> *>(arg))();
			return 4711;
		},
		const_cast<std::function<void()> *>(&body));

	EXPECT_EQ(4711, result) << "sn_run";
	if (!failed_before && testing::Test::HasFailure())
		fprintf(stderr, "failed with SENNIT_PROCS=%d\n", processors);
}

// Runs the body with one, with some, and with more processors than this machine is likely to have.
inline void run(std::initializer_list<int> each, const std::function<void()> &body)
{
	for (int processors : each) {
		run(processors, body);
		if (testing::Test::HasFatalFailure())
			return;
	}
}
// Under an emulator, in the short form, with one and with several: there the tests are about system
// calls and the code that the compiler makes, not about rare interleavings.
inline void run(const std::function<void()> &body)
{
	if (TEST_EMULATED && is_short())
		run({1, 4}, body);
	else
		run({1, 2, 4}, body);
}

inline void run_each(std::initializer_list<int> each, const std::function<void()> &body)
{
	if (each.size() > 0)
		run(each, body);
	else
		run(body);
}

// A case whose body is the first task of a run, for these numbers of processors in turn. Without
// numbers, those of run(body).
#define TASK_TEST(suite, name, ...)                                   \
	static void suite##_##name##_body();                          \
	TEST(suite, name)                                             \
	{                                                             \
		test::run_each({__VA_ARGS__}, suite##_##name##_body); \
	}                                                             \
	static void suite##_##name##_body()

// Waits in a task until the condition holds. Returns false if it does not in time. A task whose
// scope is cancelled does not sleep; it lets the others of its thread run, and wastes no CPU time.
template <class F>
bool eventually(F condition, int64_t within = patience)
{
	const int64_t end = sn_now() + within;

	while (!condition()) {
		if (sn_now() > end)
			return false;
		if (sn_sleep(200 * us) != 0) {
			sn_yield();
			usleep(200);
		}
	}
	return true;
}

// The same for a foreign thread.
template <class F>
bool eventually_in_thread(F condition, int64_t within = patience)
{
	const int64_t end = sn_now() + within;

	while (!condition()) {
		if (sn_now() > end)
			return false;
		usleep(200);
	}
	return true;
}

/*
 * Returns whether the end of a run waits for a task in foreign code. begin() starts that code and
 * returns once the task is in it; the code lasts until the run is ending, and sets `out` when it is
 * done. The end waits for one second. If the machine delays the task for longer, the run rightly
 * leaves it behind, and this tries again.
 */
template <class F>
bool end_waits_for(int processors, std::atomic<bool> &out, F begin)
{
	for (int i = 0; i < 10; i++) {
		int64_t ends = 0;

		out = false;
		run(processors, [&] {
			begin();
			ends = sn_now();
		});
		if (out)
			return true;
		const bool late = sn_now() - ends >= second;
		if (!eventually_in_thread([&] { return out.load(); }) || !late)
			return false;
	}
	return false;
}

inline struct sn_run_stats stats()
{
	struct sn_run_stats s = {};

	EXPECT_EQ(0, sn_run_stats(&s));
	return s;
}

// The CPU time of the process.
inline int64_t cpu_ns()
{
	timespec time = {};

	EXPECT_EQ(0, clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
	return time.tv_sec * second + time.tv_nsec;
}

// Every task except the caller has ended.
inline bool all_ended()
{
	return eventually([] { return stats().tasks_alive == 1; });
}

// A value in /proc/self/status, such as "VmRSS", in KiB.
inline long process_status(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long value = -1;
	const std::string head = std::string(name) + ":";

	while (file && fgets(line, sizeof line, file))
		if (std::string(line).rfind(head, 0) == 0)
			value = strtol(line + head.size(), nullptr, 10);
	if (file)
		fclose(file);
	return value;
}

} // namespace test

// For child processes, in which failures of GoogleTest's macros would go unnoticed: prints the
// condition that does not hold, and exits with 1.
#define CHILD_CHECK(condition)                                                            \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "%s:%d: %s does not hold (errno %d)\n", __FILE__, \
				__LINE__, #condition, errno);                             \
			_exit(1);                                                         \
		}                                                                         \
	} while (0)

#endif
