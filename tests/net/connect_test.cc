// SPDX-License-Identifier: MIT
//
// Connecting by name: deadline and scope while the name resolves, and names with several addresses.
// The test has a resolver of its own, which hangs and answers as each case needs.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/names.h"
#include "support/net.h"

// How many starts of detached threads fail, once all of them are in progress.
static std::atomic<int> to_refuse, refused;

using Start = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

#if !TEST_TSAN // TSan has a replacement of its own
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
			      void *arg)
{
	static const auto real = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "pthread_create"));
	int state = PTHREAD_CREATE_JOINABLE;

	if (attr)
		pthread_attr_getdetachstate(attr, &state);
	if (to_refuse == 0 || state != PTHREAD_CREATE_DETACHED)
		return real(thread, attr, body, arg);
	refused++;
	test::eventually_in_thread([] { return refused >= to_refuse; });
	return EAGAIN;
}
#endif

namespace
{

using namespace test;

std::string port_of(const std::string &address)
{
	return address.substr(address.rfind(':'));
}

TASK_TEST(ConnectByName, WorksWithADeadline)
{
	Listener listener;
	sn_tcp *conn = nullptr;

	for (int i = 0; i < 50; i++) {
		const std::string name = "one.test" + port_of(listener.address());

		ASSERT_EQ(0, sn_tcp_connect(&conn, name.c_str(), sn_now() + test::patience));
		sn_tcp_close(conn);
		sn_tcp_close(listener.accept());
	}
}

TASK_TEST(ConnectByName, EndsAtItsDeadlineWhileTheNameResolves)
{
	Hanging name;
	sn_tcp *conn = nullptr;

	EXPECT_EQ(-ETIMEDOUT, sn_tcp_connect(&conn, "hangs.test:80", sn_now() + 20 * test::ms));
	EXPECT_EQ(nullptr, conn);
	EXPECT_TRUE(test::eventually([] { return inside == 1; })) << "the lookup still hangs";
}

TASK_TEST(ConnectByName, EndsWithItsScope)
{
	Hanging name;
	struct Arg {
		int result = 0;
	} arg;
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	ASSERT_EQ(0, sn_scope_go(
			     scope,
			     [](void *to) {
				     sn_tcp *conn;

				     static_cast<Arg *>(to)->result =
					     sn_tcp_connect(&conn, "hangs.test:80", SN_NO_DEADLINE);
				     return 0;
			     },
			     &arg));
	EXPECT_TRUE(test::eventually([] { return inside == 1; }));
	sn_scope_cancel(scope);
	sn_scope_close(scope);
	EXPECT_EQ(-ECANCELED, arg.result);
	EXPECT_EQ(1, inside) << "the lookup still hangs";
}

// Each caller relies on a thread that another caller is starting, until all starts have failed.
TEST(ConnectByName, IsNotStrandedWhenNoThreadCanBeStarted)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "the sanitizer replaces pthread_create()";
	// A caller that starts a thread occupies its processor, so there are enough processors for
	// all.
	for (int callers : {1, 2, 3})
		test::run(8, [callers] {
			Listener listener;
			const std::string port = port_of(listener.address());
			std::vector<Task> tasks;

			refused = 0;
			to_refuse = callers;
			for (int i = 0; i < callers; i++)
				tasks.emplace_back([&port, i] {
					const std::string name =
						"no" + std::to_string(i) + ".test" + port;
					sn_tcp *conn = nullptr;
					const int err = sn_tcp_connect(&conn, name.c_str(),
								       sn_now() + test::patience);

					if (err == 0)
						sn_tcp_close(conn);
					return err;
				});
			for (Task &task : tasks)
				EXPECT_EQ(0, task.join());
			EXPECT_EQ(callers, refused);
			to_refuse = 0;
		});
}

// The answer comes at about the time of the caller's deadline.
TASK_TEST(ConnectByName, LateAnswersAreDiscarded)
{
	Listener listener;
	const std::string name = "one.test" + port_of(listener.address());
	std::vector<Task> tasks;

	for (int i = 0; i < test::scaled(500); i++)
		tasks.emplace_back([&name, i] {
			sn_tcp *conn = nullptr;
			const int err = sn_tcp_connect(&conn, name.c_str(),
						       sn_now() + i % 100 * 5 * test::us);

			if (err == 0)
				sn_tcp_close(conn);
			else
				EXPECT_TRUE(err == -ETIMEDOUT) << err;
		});
	join_all(tasks);
}

// Lookups that outlive their run write nothing into the next one, nor into the memory of their
// tasks.
TEST(ConnectByName, TheEndOfARunDoesNotWaitForTheNameService)
{
	Hanging name;

	for (int round = 0; round < 3; round++) {
		test::run(2, [] {
			const int before = asked;

			for (int i = 0; i < 20; i++)
				ASSERT_EQ(0, sn_go(
						     [](void *) {
							     sn_tcp *conn;

							     return sn_tcp_connect(
								     &conn, "hangs.test:80",
								     sn_now() + test::patience);
						     },
						     nullptr));
			EXPECT_TRUE(test::eventually([&] { return asked > before; }));
		});
	}
	test::run(2, [&] {
		Listener listener;
		sn_tcp *conn = nullptr;
		Task task([&] {
			const std::string good = "one.test" + port_of(listener.address());

			return sn_tcp_connect(&conn, good.c_str(), sn_now() + test::patience);
		});
		sn_yield();
		name.end();
		EXPECT_EQ(0, task.join());
		sn_tcp_close(conn);
	});
}

} // namespace
