// SPDX-License-Identifier: MIT
// Labels: checked
//
// Names and addresses: what the answers and errors are, deadlines and scopes, lookups that are
// shared, and names that hang beside others that do not. The name service is the test's own;
// dns_test.cc uses the system's.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/internals.h"
#include "support/names.h"

namespace
{

// If set, a task that starts a helper on this thread is held in the start, until its run admits no
// more helpers and the helper has ended.
thread_local bool hold_starter;
std::atomic<bool> holds_starter;

} // namespace

#if !TEST_TSAN // TSan calls this function on threads that it does not know yet
// The library calls this function after pthread_create(), which the sanitizers must see.
extern "C" int pthread_attr_destroy(pthread_attr_t *attr) noexcept
{
	using Destroy = int (*)(pthread_attr_t *);
	const auto real = reinterpret_cast<Destroy>(dlsym(RTLD_NEXT, "pthread_attr_destroy"));

	if (std::exchange(hold_starter, false)) {
		EXPECT_TRUE(test::eventually_in_thread([] { return test::inside == 1; }));
		holds_starter = true;
		EXPECT_TRUE(test::eventually_in_thread([] { return !probe_foreign_admitted(); }));
		test::hangs = false;
		EXPECT_TRUE(
			test::eventually_in_thread([] { return test::threads_that_hung == 0; }));
	}
	return real(attr);
}
#endif

namespace
{

using namespace test;

std::string text_of(const sn_resolved_address &at)
{
	char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";

	EXPECT_EQ(0, getnameinfo(reinterpret_cast<const sockaddr *>(&at.address), at.length, host,
				 sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV));
	return std::string(host) + " " + port;
}

// Returns the result of sn_resolve() as text: the addresses or the error.
std::string resolve(const char *host, const char *service, unsigned flags = 0,
		    int64_t deadline = SN_NO_DEADLINE)
{
	sn_resolved *resolved = nullptr;
	const int err = sn_resolve(&resolved, host, service, flags, deadline);
	std::string all;

	if (err != 0) {
		EXPECT_EQ(nullptr, resolved);
		return strerrorname_np(-err);
	}
	EXPECT_GT(resolved->count, 0u);
	for (size_t i = 0; i < resolved->count; i++)
		all += (i == 0 ? "" : ", ") + text_of(resolved->addresses[i]);
	sn_resolved_free(resolved);
	return all;
}

int resolve_error(const char *host, int64_t deadline = SN_NO_DEADLINE)
{
	sn_resolved *resolved = nullptr;
	const int err = sn_resolve(&resolved, host, "80", 0, deadline);

	sn_resolved_free(resolved);
	return err;
}

std::string numbered(const char *prefix, int i)
{
	return prefix + std::to_string(i) + ".test";
}

// Runs a body in a task of a new scope; the scope is cancelled when the condition holds.
int result_in_cancelled_scope(std::function<int()> body, const std::function<bool()> &when)
{
	struct Arg {
		std::function<int()> body;
		int result = 1;
	} arg{std::move(body)};
	sn_scope *scope = nullptr;

	EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_scope_go(
			     scope,
			     [](void *to) {
				     auto *its = static_cast<Arg *>(to);

				     its->result = its->body();
				     return 0;
			     },
			     &arg));
	EXPECT_TRUE(test::eventually(when));
	sn_scope_cancel(scope);
	sn_scope_close(scope);
	return arg.result;
}

// ---- answers ----

TASK_TEST(Resolve, NumbersNeedNoQuestion)
{
	asked = test::called = 0;
	EXPECT_EQ("127.0.0.1 80", resolve("127.0.0.1", "80"));
	EXPECT_EQ("127.0.0.1 0", resolve("127.0.0.1", nullptr));
	EXPECT_EQ("::1 65535", resolve("::1", "65535"));
	EXPECT_EQ("::1 443", resolve("::1", "443", SN_RESOLVE_NUMERIC));
	EXPECT_EQ("127.0.0.1 80", resolve("127.0.0.1", "80", 0, sn_now() - 1))
		<< "even after the deadline";
	EXPECT_EQ("0.0.0.0 53",
		  resolve(nullptr, "53", SN_RESOLVE_PASSIVE | SN_RESOLVE_IPV4 | SN_RESOLVE_UDP));
	EXPECT_EQ(":: 53", resolve("", "53", SN_RESOLVE_PASSIVE | SN_RESOLVE_IPV6));
	EXPECT_EQ(":: 53, 0.0.0.0 53", resolve("", "53", SN_RESOLVE_PASSIVE));
	EXPECT_EQ("127.0.0.1 80", resolve("127.1", "80"));
	EXPECT_EQ("8.0.0.1 80", resolve("010.0.0.1", "80"));
	EXPECT_EQ("fe80::1%lo 80", resolve("fe80::1%lo", "80"));
	EXPECT_EQ("fe80::1%lo 80", resolve("fe80::1%1", "80"));
	EXPECT_EQ("EADDRNOTAVAIL", resolve("::1", "80", SN_RESOLVE_IPV4));
	EXPECT_EQ("EADDRNOTAVAIL", resolve("127.0.0.1", "80", SN_RESOLVE_IPV6));
	EXPECT_EQ("ENOENT", resolve("one.test", "80", SN_RESOLVE_NUMERIC));
	EXPECT_EQ("ENOENT", resolve("127.0.0.1", "http", SN_RESOLVE_NUMERIC));
	EXPECT_EQ("ENOENT", resolve("fe80::1%no-such", "80", SN_RESOLVE_NUMERIC));
	EXPECT_EQ("ENOENT", resolve("fe80::1%", "80", SN_RESOLVE_NUMERIC));
	EXPECT_EQ(0, test::called)
		<< "the name service is not asked, because its modules may block";
}

TASK_TEST(Resolve, NamesHaveAddressesInTheResolversOrder)
{
	test::set_answer("three.test", {0, {"127.0.0.3", "::1", "127.0.0.1"}});
	EXPECT_EQ("127.0.0.3 80, ::1 80, 127.0.0.1 80", resolve("three.test", "80"));
	EXPECT_EQ("127.0.0.1 0", resolve("one.test", nullptr));
}

TEST(Resolve, ErrorsSayWhatIsWrong)
{
	test::run([] {
		const std::string long_name(300, 'x');

		test::set_answer("unknown.test", {EAI_NONAME, {}});
		test::set_answer("empty.test", {EAI_NODATA, {}});
		test::set_answer("now.test", {EAI_AGAIN, {}});
		test::set_answer("broken.test", {EAI_FAIL, {}});
		test::set_answer("memory.test", {EAI_MEMORY, {}});
		EXPECT_EQ("ENOENT", resolve("unknown.test", "80"));
		EXPECT_EQ("EADDRNOTAVAIL", resolve("empty.test", "80"));
		EXPECT_EQ("EAGAIN", resolve("now.test", "80"));
		EXPECT_EQ("EIO", resolve("broken.test", "80"));
		EXPECT_EQ("ENOMEM", resolve("memory.test", "80"));
		EXPECT_EQ("EINVAL", resolve(nullptr, "80"));
		EXPECT_EQ("EINVAL", resolve("", "80"));
		EXPECT_EQ("EINVAL", resolve(long_name.c_str(), "80"));
		EXPECT_EQ("EINVAL", resolve("one.test", "65536"));
		EXPECT_EQ("EINVAL", resolve("one.test", "-1"));
		EXPECT_EQ("EINVAL", resolve("one.test", ""));
		for (const char *name : {"one .test", " one.test", "one.test\n", "one\x7f.test"})
			EXPECT_EQ("EINVAL", resolve(name, "80")) << name;
		EXPECT_EQ("EINVAL", resolve("one.test", "80", 1u << 30));
		EXPECT_EQ(-EINVAL, sn_resolve(nullptr, "one.test", "80", 0, SN_NO_DEADLINE));
	});
	sn_resolved *resolved = nullptr;
	EXPECT_EQ(-ENOTSUP, sn_resolve(&resolved, "127.0.0.1", "80", 0, 0)) << "outside a task";
	sn_resolved_free(nullptr);
}

// ---- the end of a wait ----

TASK_TEST(Resolve, EndsAtItsDeadline)
{
	Hanging names;

	// Repeats, because on a busy machine the lookup may not have begun before the
	// deadline.
	EXPECT_TRUE(test::eventually([] {
		EXPECT_EQ(-ETIMEDOUT, resolve_error("hangs.test", sn_now() + 20 * test::ms));
		return inside == 1;
	})) << "the lookup still hangs";
	EXPECT_EQ(-ETIMEDOUT, resolve_error("past.test", sn_now() - 1));
	EXPECT_EQ(1, asked) << "no lookup begins if no task would wait for its answer";
}

TASK_TEST(Resolve, EndsWithItsScope)
{
	Hanging names;

	EXPECT_EQ(-ECANCELED, result_in_cancelled_scope([] { return resolve_error("hangs.test"); },
							[] { return inside == 1; }));
	EXPECT_EQ(1, inside) << "the lookup still hangs";
}

// The scope's reason is the same error that ends a wait in order to start one more helper.
TASK_TEST(Resolve, EndsAtTheDeadlineOfItsScope)
{
	Hanging names;
	sn_scope *scope = nullptr;
	std::atomic<int> result{1};

	ASSERT_EQ(0, sn_scope_open(&scope, sn_now() + 20 * test::ms));
	ASSERT_EQ(0, sn_scope_go(
			     scope,
			     [](void *to) {
				     *static_cast<std::atomic<int> *>(to) =
					     resolve_error("hangs.test");
				     return 0;
			     },
			     &result));
	sn_scope_close(scope);
	EXPECT_EQ(-ETIMEDOUT, result);
	EXPECT_GE(1, inside) << "it still hangs, or was not begun on a busy machine";
}

TASK_TEST(ResolveName, SaysTheNameAndWaitsAsOthersDo)
{
	sockaddr_in at = {};
	const auto *address = reinterpret_cast<sockaddr *>(&at);
	char name[SN_NAME_MAX];

	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 98);
	at.sin_port = htons(80);
	EXPECT_EQ(16, sn_resolve_name(name, sizeof name, address, sizeof at, 0));
	EXPECT_STREQ("ninety-nine.test", name);
	EXPECT_EQ(-ENOSPC, sn_resolve_name(name, 16, address, sizeof at, 0));
	EXPECT_EQ(16, sn_resolve_name(name, 17, address, sizeof at, 0));
	{
		Hanging names;

		EXPECT_EQ(-ETIMEDOUT, sn_resolve_name(name, sizeof name, address, sizeof at,
						      sn_now() + 20 * test::ms));
	}
	EXPECT_EQ(-EINVAL, sn_resolve_name(name, sizeof name, address, 2, 0));
	EXPECT_EQ(-EINVAL, sn_resolve_name(name, sizeof name, nullptr, sizeof at, 0));
	EXPECT_EQ(-EINVAL, sn_resolve_name(nullptr, 0, address, sizeof at, 0));
	at.sin_family = AF_UNIX;
	EXPECT_EQ(-EINVAL, sn_resolve_name(name, sizeof name, address, sizeof at, 0));
	at.sin_family = AF_INET6;
	EXPECT_EQ(-EINVAL, sn_resolve_name(name, sizeof name, address, sizeof at, 0));
}

// ---- sharing ----

TASK_TEST(SharedLookup, IsOneQuestionForManyTasks)
{
	Hanging names;
	std::vector<Task> tasks;
	std::atomic<int> waiting{0};

	for (int i = 0; i < test::scaled(1000); i++)
		tasks.emplace_back([&waiting] {
			waiting++;
			return resolve_error("hangs.test", sn_now() + test::patience);
		});
	EXPECT_TRUE(test::eventually([&] { return waiting == test::scaled(1000) && inside == 1; }));
	sn_yield();
	names.end();
	for (Task &task : tasks)
		EXPECT_EQ(0, task.join());
	// The last tasks may have asked after the answer had come.
	EXPECT_LE(asked, 16);
	EXPECT_EQ(1, most_inside);
}

TASK_TEST(SharedLookup, HasADeadlineForEachTask)
{
	Hanging names;
	Task patient([] { return resolve_error("hangs.test"); });

	EXPECT_TRUE(test::eventually([] { return inside == 1; }));
	EXPECT_EQ(-ETIMEDOUT, resolve_error("hangs.test", sn_now() + 20 * test::ms));
	EXPECT_EQ(-ECANCELED, result_in_cancelled_scope([] { return resolve_error("hangs.test"); },
							[] { return true; }));
	EXPECT_EQ(1, asked);
	names.end();
	EXPECT_EQ(0, patient.join());
}

// The task that asked first has left, and the answer reaches a task that came later.
TASK_TEST(SharedLookup, CanBeJoinedWhenAllOthersHaveLeft)
{
	Hanging names;

	// Repeats, because on a busy machine the lookup may not have begun before the
	// deadline.
	EXPECT_TRUE(test::eventually([] {
		EXPECT_EQ(-ETIMEDOUT, resolve_error("hangs.test", sn_now() + 20 * test::ms));
		return inside == 1;
	}));
	std::atomic<bool> begun{false};
	Task late([&begun] {
		begun = true;
		return resolve_error("hangs.test", sn_now() + test::patience);
	});
	EXPECT_TRUE(test::eventually([&] { return begun.load(); }));
	sn_sleep(test::ms); // usually the task has joined the lookup by now
	names.end();
	EXPECT_EQ(0, late.join());
}

// Other lookups would wait while the memory is given back.
TASK_TEST(SharedLookup, FreesAnAnswerThatNobodyWantsOutsideItsLock)
{
	Hanging names;

	// The answer is a mapping of its own, so the checked build sees when it is freed.
	mallopt(M_MMAP_THRESHOLD, 1 << 16);
	test::set_answer("hangs-large.test", {0, std::vector<std::string>(1000, "::1")});
	EXPECT_EQ(-ETIMEDOUT, resolve_error("hangs-large.test", sn_now() + test::ms));
	names.end();
	EXPECT_TRUE(test::eventually([] { return test::threads_that_hung == 0; }));
}

TASK_TEST(SharedLookup, IsForEqualQuestionsOnly)
{
	Hanging names;
	std::vector<Task> tasks;

	for (const char *service : {"80", "81"})
		for (unsigned flags : {0u, SN_RESOLVE_IPV4, SN_RESOLVE_UDP})
			tasks.emplace_back([service, flags] {
				return resolve("hangs.test", service, flags) ==
						       "127.0.0.1 " + std::string(service)
					       ? 0
					       : 1;
			});
	EXPECT_TRUE(test::eventually([] { return inside == 6; }));
	names.end();
	for (Task &task : tasks)
		EXPECT_EQ(0, task.join());
}

// A shared lookup is not a cache.
TASK_TEST(SharedLookup, EndsWithTheAnswer)
{
	test::set_answer("moves.test", {0, {"127.0.0.1"}});
	EXPECT_EQ("127.0.0.1 80", resolve("moves.test", "80"));
	test::set_answer("moves.test", {0, {"127.0.0.2"}});
	EXPECT_EQ("127.0.0.2 80", resolve("moves.test", "80"));
}

// ---- threads that look up ----

// The helpers serve all tasks, so they inherit nothing that a pinned task has changed on its
// thread, such as the network namespace.
TASK_TEST(Helpers, HaveNothingOfAPinnedTask)
{
	const int usual = getpriority(PRIO_PROCESS, 0);
	Task pinned([&] {
		EXPECT_EQ(0, sn_pin());
		ASSERT_EQ(0, setpriority(PRIO_PROCESS, 0, usual + 3));
		EXPECT_EQ(0, resolve_error("fine.test"));
		EXPECT_EQ(usual, test::niceness);
	});

	pinned.join();
}

// A run ends before the helper that it has asked for is started; the next run has one.
TEST(Helpers, MayBeWantedWhenTheRunEnds)
{
	for (int i = 0; i < test::scaled(300); i++)
		test::run(1 + i % 2, [i] {
			ASSERT_EQ(0, sn_go(
					     [](void *) {
						     (void)!sn_pin();
						     return resolve_error("fine.test");
					     },
					     nullptr));
			if (i % 3)
				sn_yield();
			EXPECT_EQ(0, i % 10 == 0 ? resolve_error("fine.test") : 0);
		});
}

// ---- many names ----

// There are more names that hang than threads at first. All of them still hang when the others have
// been answered.
TEST(HangingNames, DoNotDelayOthers)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "so many threads take an emulator minutes";
	test::run([] {
		Hanging names;
		std::vector<Task> hanging, others;

		for (int i = 0; i < 40; i++)
			hanging.emplace_back(
				[i] { return resolve_error(numbered("hangs", i).c_str()); });
		for (int i = 0; i < test::scaled(1000); i++)
			others.emplace_back([i] {
				return resolve_error(numbered("fine", i).c_str(),
						     sn_now() + test::patience);
			});
		for (Task &task : others)
			EXPECT_EQ(0, task.join());
		EXPECT_TRUE(test::eventually([] { return inside == 40; }));
		names.end();
		for (Task &task : hanging)
			EXPECT_EQ(0, task.join());
	});
}

// All threads that hang are counted before any of them ends, and their tasks end in time.
TEST(HangingNames, OccupyABoundedNumberOfThreads)
{
	if (TEST_EMULATED || TEST_TSAN)
		GTEST_SKIP() << "so many threads take too long";
	test::run({2}, [] {
		Hanging names;
		std::vector<Task> tasks;
		sn_scope *scope = nullptr;
		std::atomic<int> wrong{0};

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		struct Arg {
			int i;
			std::atomic<int> *wrong;
		};
		std::vector<Arg> args;
		for (int i = 0; i < 400; i++)
			args.push_back({i, &wrong});
		for (Arg &arg : args)
			ASSERT_EQ(0, sn_scope_go(
					     scope,
					     [](void *to) {
						     auto *its = static_cast<Arg *>(to);
						     const std::string name =
							     numbered("hangs", its->i);

						     *its->wrong += resolve_error(name.c_str()) !=
								    -ECANCELED;
						     return 0;
					     },
					     &arg));
		EXPECT_TRUE(test::eventually([] { return inside == 256; }));
		EXPECT_EQ(-ETIMEDOUT, resolve_error("fine.test", sn_now() + 100 * test::ms))
			<< "there is no thread for this name";
		sn_scope_cancel(scope);
		sn_scope_close(scope);
		EXPECT_EQ(0, wrong);
		EXPECT_EQ(256, most_inside);
		names.end();
		EXPECT_EQ(256, asked) << "no task waits for the names that were in the queue";
		EXPECT_EQ(0, resolve_error("fine.test", sn_now() + test::patience));
	});
}

// A lookup that was in the queue when its run ended is dropped, and the next run is served.
TEST(HangingNames, ReachNoOtherRun)
{
	Hanging names;

	for (int round = 0; round < 3; round++)
		test::run({2}, [round] {
			for (int i = 0; i < 40; i++)
				ASSERT_EQ(0, sn_go(
						     [](void *name) {
							     return resolve_error(
								     numbered("hangs",
									      int(intptr_t(name)))
									     .c_str(),
								     sn_now() + test::patience);
						     },
						     reinterpret_cast<void *>(
							     intptr_t(round * 100 + i))));
			EXPECT_TRUE(test::eventually([&] { return inside > round * 16; }));
			EXPECT_EQ(0, resolve_error("fine.test", sn_now() + test::patience));
		});
}

// The answer comes while the run ends, when a task that uses the lookup has not been stopped yet.
TEST(HangingNames, MayBeAnsweredWhileTheirRunEnds)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "the test cannot hold a call of the library there";
	// While helpers of the test before are about to end, the lookup may need no other one, and
	// then no task is held.
	ASSERT_TRUE(test::eventually_in_thread([] { return test::threads_that_hung == 0; }));
	holds_starter = false;
	Hanging names;

	test::run(2, [] {
		ASSERT_EQ(0, sn_go(
				     [](void *) {
					     hold_starter = true;
					     return resolve_error("hangs.test");
				     },
				     nullptr));
		EXPECT_TRUE(test::eventually([] { return holds_starter.load(); }));
	});
	EXPECT_TRUE(holds_starter);
	test::run(2, [] { EXPECT_EQ(0, resolve_error("hangs.test")); });
}

// The helpers of the parent, which hang, do not exist in the child, and the child starts its own.
TEST(HangingNames, StayBehindInAFork)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "a child of a threaded process can start no threads";
	test::run({2}, [] {
		Hanging names;
		std::vector<Task> tasks;

		for (int i = 0; i < 20; i++)
			tasks.emplace_back(
				[i] { return resolve_error(numbered("hangs", i).c_str()); });
		EXPECT_TRUE(test::eventually([] { return inside >= 16; }));
		const pid_t child = fork();
		if (child == 0) {
			const int result = sn_run(
				[](void *) {
					return resolve_error("hangs-not.test",
							     sn_now() + 20 * test::ms) ==
								       -ETIMEDOUT &&
							       resolve_error(
								       "fine.test",
								       sn_now() + test::patience) ==
								       0
						       ? 42
						       : 1;
				},
				nullptr);

			_exit(result);
		}
		int status = 0;
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
		names.end();
		for (Task &task : tasks)
			EXPECT_EQ(0, task.join());
	});
}

} // namespace
