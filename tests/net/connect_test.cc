// SPDX-License-Identifier: MIT
//
// Connecting by name: deadline and scope while the name resolves, and names with several addresses.
// The test has a resolver of its own, which hangs and answers as each case wants.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/net.h"

namespace
{

using test::Listener;
using test::Task;

std::atomic<bool> hangs;        // whether looking up "hangs.test" hangs
std::atomic<int> asked, inside; // how many look-ups began, and how many are under way
std::atomic<int> most_inside;

using Resolve = int (*)(const char *, const char *, const addrinfo *, addrinfo **);

int hang()
{
	const int now = ++inside;

	asked++;
	for (int most = most_inside; now > most && !most_inside.compare_exchange_weak(most, now);)
		continue;
	// Not for ever, so that a test that waits for it fails instead of hanging.
	test::eventually_in_thread([] { return !hangs; }, 2 * test::patience);
	inside--;
	return 0;
}

} // namespace

// Replaces the C library's, also for the library under test.
extern "C" int getaddrinfo(const char *host, const char *service, const addrinfo *hints,
			   addrinfo **list)
{
	static const auto real = reinterpret_cast<Resolve>(dlsym(RTLD_NEXT, "getaddrinfo"));
	addrinfo more = *hints;
	int err;

	if (!host || (hints->ai_flags & AI_NUMERICHOST) || !strstr(host, ".test"))
		return real(host, service, hints, list);
	more.ai_family = AF_INET;
	if (strcmp(host, "hangs.test") == 0)
		hang();
	err = real("127.0.0.1", service, &more, list);
	if (err == 0 && strcmp(host, "two.test") == 0)
		err = real("127.0.0.2", service, &more, &(*list)->ai_next);
	return err;
}

// As many detached threads as this are refused, once all of them are being started.
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

// Makes the name hang, but not beyond the end of the test.
class Hanging
{
public:
	Hanging()
	{
		asked = most_inside = 0;
		hangs = true;
	}
	~Hanging() { end(); }
	void end()
	{
		hangs = false;
		EXPECT_TRUE(test::eventually_in_thread([] { return inside == 0; }));
	}
};

std::string port_of(const std::string &address)
{
	return address.substr(address.rfind(':'));
}

TEST(ConnectByName, WorksWithADeadline)
{
	test::run([] {
		Listener listener;
		sn_tcp *conn = nullptr;

		for (int i = 0; i < 50; i++) {
			const std::string name = "one.test" + port_of(listener.address());

			ASSERT_EQ(0,
				  sn_tcp_connect(&conn, name.c_str(), sn_now() + test::patience));
			sn_tcp_close(conn);
			sn_tcp_close(listener.accept());
		}
	});
}

TEST(ConnectByName, EndsAtItsDeadlineWhileTheNameResolves)
{
	test::run([] {
		Hanging name;
		sn_tcp *conn = nullptr;

		EXPECT_EQ(-ETIMEDOUT,
			  sn_tcp_connect(&conn, "hangs.test:80", sn_now() + 20 * test::ms));
		EXPECT_EQ(nullptr, conn);
		EXPECT_TRUE(test::eventually([] { return inside == 1; })) << "it still hangs";
	});
}

TEST(ConnectByName, EndsWithItsScope)
{
	test::run([] {
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

					     static_cast<Arg *>(to)->result = sn_tcp_connect(
						     &conn, "hangs.test:80", SN_NO_DEADLINE);
					     return 0;
				     },
				     &arg));
		EXPECT_TRUE(test::eventually([] { return inside == 1; }));
		sn_scope_cancel(scope);
		sn_scope_close(scope);
		EXPECT_EQ(-ECANCELED, arg.result);
		EXPECT_EQ(1, inside) << "it still hangs";
	});
}

// Each caller relies on a thread that another is starting, until all of them have failed.
TEST(ConnectByName, IsNotStrandedWhenNoThreadCanBeStarted)
{
	if (TEST_TSAN)
		GTEST_SKIP() << "the sanitizer replaces pthread_create()";
	// Starting a thread occupies the caller's processor, so there are enough of them.
	for (int callers : {1, 2, 3})
		test::run(8, [callers] {
			Listener listener;
			const std::string name = "one.test" + port_of(listener.address());
			std::vector<Task> tasks;

			refused = 0;
			to_refuse = callers;
			for (int i = 0; i < callers; i++)
				tasks.emplace_back([&name] {
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

// The callers return in time, whether a thread was looking their name up or none was left to.
TEST(ConnectByName, AHangingNameServiceOccupiesAFewThreads)
{
	test::run([] {
		Hanging name;
		std::vector<Task> tasks;

		for (int i = 0; i < 100; i++)
			tasks.emplace_back([i] {
				sn_tcp *conn;

				return sn_tcp_connect(&conn, "hangs.test:80",
						      sn_now() + (20 + i % 10) * test::ms);
			});
		for (Task &task : tasks)
			EXPECT_EQ(-ETIMEDOUT, task.join());
		EXPECT_LE(most_inside, 16);
		// Callers that gave up while they waited for a thread are not looked up any more.
		const int before = asked;
		name.end();
		EXPECT_LE(asked, before + 16);
		Listener listener;
		sn_tcp *conn = nullptr;
		const std::string good = "one.test" + port_of(listener.address());
		ASSERT_EQ(0, sn_tcp_connect(&conn, good.c_str(), sn_now() + test::patience));
		sn_tcp_close(conn);
	});
}

// The answer comes at about the time of the caller's deadline.
TEST(ConnectByName, LateAnswersAreDiscarded)
{
	test::run([] {
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
		for (Task &task : tasks)
			task.join();
	});
}

// Look-ups that outlive their run write nothing into the next one, nor into the memory of their
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
			EXPECT_TRUE(
				test::eventually([&] { return asked > before || asked == 16; }));
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

// Sockets at both addresses, with the same port. The first takes no connection, and reports no
// error.
class TwoAddresses
{
public:
	TwoAddresses()
	{
		for (int attempt = 0; attempt < 100 && !good_; attempt++)
			try_once();
		EXPECT_NE(nullptr, good_);
	}
	~TwoAddresses()
	{
		for (const int fd : fds_)
			close(fd);
		sn_tcp_listener_close(good_);
	}
	std::string name() const { return "two.test:" + std::to_string(port_); }

private:
	// A backlog of 0 is full after one connection. From then on SYNs are dropped.
	void try_once()
	{
		sockaddr_in at = {};
		socklen_t length = sizeof at;
		const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		at.sin_family = AF_INET;
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		EXPECT_EQ(0, bind(silent, reinterpret_cast<sockaddr *>(&at), sizeof at));
		EXPECT_EQ(0, listen(silent, 0));
		getsockname(silent, reinterpret_cast<sockaddr *>(&at), &length);
		port_ = ntohs(at.sin_port);
		fds_.push_back(silent);
		const std::string second = "127.0.0.2:" + std::to_string(port_);
		if (sn_tcp_listen(&good_, second.c_str()) < 0)
			return;
		for (int i = 0; i < 4; i++) {
			const int filler =
				socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

			connect(filler, reinterpret_cast<sockaddr *>(&at), sizeof at);
			fds_.push_back(filler);
		}
	}

	std::vector<int> fds_;
	sn_tcp_listener *good_ = nullptr;
	int port_ = 0;
};

// The first address does not keep the second from being tried.
TEST(ConnectByName, AddressesShareTheDeadline)
{
	test::run({2}, [] {
		TwoAddresses addresses;
		sn_tcp *conn = nullptr;
		char text[SN_ADDRESS_MAX];

		// Even if this machine is late, the second address has as long as the first had.
		ASSERT_EQ(0, sn_tcp_connect(&conn, addresses.name().c_str(),
					    sn_now() + 4 * test::second));
		EXPECT_GT(sn_tcp_peer_address(conn, text, sizeof text), 0);
		EXPECT_EQ(0u, std::string(text).find("127.0.0.2:")) << text;
		sn_tcp_close(conn);
	});
}

} // namespace
