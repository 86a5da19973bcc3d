// SPDX-License-Identifier: MIT
// Labels: long
//
// Connecting to names with several addresses, which answer, refuse, are silent, or fail with errors
// of the kernel. The test replaces the name service, and connect() where it simulates errors.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <dirent.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sennit/unstable.h>

#include "support/names.h"
#include "support/net.h"

namespace
{

using test::Task;

// The attempts in their order: the last part of each IPv4 address, or "v6".
std::mutex tried_lock;
std::vector<std::string> tried;

using Connect = int (*)(int, const sockaddr *, socklen_t);

std::string attempt_at(const sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return "v6";
	const auto *v4 = reinterpret_cast<const sockaddr_in *>(address);

	return std::to_string(ntohl(v4->sin_addr.s_addr) & 255);
}

} // namespace

// For the leak sanitizer: a task that is abandoned at the end of its run does not free the list of
// addresses.
extern "C" const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions()
{
	return "leak:HappyEyeballs_EndsWithItsRun_Test\n";
}

// If set, a socket gets the port that it connects to as its own, as can happen by chance.
std::atomic<bool> meets_itself;

namespace
{

// Sockets that set this and do not listen may share a port.
void share_port(int fd)
{
	const int on = 1;

	EXPECT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
}

void bind_to(int fd, const sockaddr *address, socklen_t length)
{
	share_port(fd);
	EXPECT_EQ(0, bind(fd, address, length)) << strerror(errno);
}

} // namespace

// Notes the attempt. Those to 127.0.1.N fail with the error N.
extern "C" int connect(int fd, const sockaddr *address, socklen_t length)
{
	static const auto real = reinterpret_cast<Connect>(dlsym(RTLD_NEXT, "connect"));
	const auto *v4 = reinterpret_cast<const sockaddr_in *>(address);

	if (address->sa_family == AF_INET || address->sa_family == AF_INET6) {
		const std::lock_guard guard(tried_lock);

		tried.push_back(attempt_at(address));
	}
	if (address->sa_family == AF_INET && ntohl(v4->sin_addr.s_addr) >> 8 == 0x7f0001) {
		errno = int(ntohl(v4->sin_addr.s_addr) & 255);
		return -1;
	}
	if (meets_itself)
		bind_to(fd, address, length);
	return real(fd, address, length);
}

namespace
{

std::string attempts()
{
	const std::lock_guard guard(tried_lock);
	std::string all;

	for (const std::string &each : tried)
		all += (all.empty() ? "" : " ") + each;
	return all;
}

size_t attempt_count()
{
	const std::lock_guard guard(tried_lock);

	return tried.size();
}

// Counts only sockets, because the monitor opens a file for some microseconds when it looks at a
// thread.
int open_sockets()
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	while (const dirent *entry = folder ? readdir(folder) : nullptr) {
		char to[32] = "";

		if (readlinkat(dirfd(folder), entry->d_name, to, sizeof to - 1) > 0)
			count += strncmp(to, "socket:", 7) == 0;
	}
	if (folder)
		closedir(folder);
	return count;
}

sockaddr_in at_loopback(int last, int port)
{
	sockaddr_in at = {};

	at.sin_family = AF_INET;
	at.sin_port = htons(uint16_t(port));
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + unsigned(last));
	return at;
}

// Addresses of one name, at the same port of 127.0.0.N. Some answer; some are silent, because their
// backlog is full, so that Linux drops further SYNs. All others refuse.
class Addresses
{
public:
	Addresses(const std::vector<int> &answering, const std::vector<int> &silent)
	{
		reserve_port();
		for (const int last : answering)
			listen_at(last, 4096);
		for (const int last : silent) {
			silent_.push_back(listen_at(last, 0));
			fill(last);
		}
		const std::lock_guard guard(tried_lock);
		tried.clear();
	}
	~Addresses()
	{
		for (const int fd : fds_)
			close(fd);
	}
	Addresses(const Addresses &) = delete;
	Addresses &operator=(const Addresses &) = delete;

	// Makes the name stand for these addresses in this order; "v6" is ::1, where nothing
	// listens.
	std::string named(const std::vector<std::string> &order)
	{
		test::Answer answer;

		for (const std::string &each : order)
			answer.addresses.push_back(each == "v6" ? "::1"
						   : each.find('.') != std::string::npos
							   ? each
							   : "127.0.0." + each);
		test::set_answer("many.test", answer);
		return "many.test:" + std::to_string(port_);
	}
	// Accepts connections from the first silent address until the condition holds. The SYNs
	// that are sent again are then answered, first those of the connections that filled the
	// backlog.
	template <class F>
	void let_in_until(F condition)
	{
		EXPECT_TRUE(test::eventually([&] {
			const int fd = accept4(silent_[0], nullptr, nullptr, SOCK_CLOEXEC);

			close(fd);
			return condition();
		}));
	}

	// Closes the first silent address for connections, so that the next SYN is refused.
	void refuse_at_first() { shutdown(silent_[0], SHUT_RD); }

private:
	// Takes a port that no other process uses at any address, so that those that should refuse
	// do. A port that the kernel chooses is never one that sockets share.
	void reserve_port()
	{
		const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		sockaddr_in any = {};
		socklen_t length = sizeof any;

		fds_.push_back(fd);
		any.sin_family = AF_INET;
		bind_to(fd, reinterpret_cast<sockaddr *>(&any), sizeof any);
		EXPECT_EQ(0, getsockname(fd, reinterpret_cast<sockaddr *>(&any), &length));
		port_ = ntohs(any.sin_port);
	}
	int listen_at(int last, int backlog)
	{
		const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		sockaddr_in at = at_loopback(last, port_);

		fds_.push_back(fd);
		bind_to(fd, reinterpret_cast<sockaddr *>(&at), sizeof at);
		EXPECT_EQ(0, listen(fd, backlog)) << strerror(errno);
		return fd;
	}
	// A backlog of 0 is full after one connection. Further SYNs are dropped.
	void fill(int last)
	{
		sockaddr_in at = at_loopback(last, port_);

		for (int i = 0; i < 4; i++) {
			const int fd =
				socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

			connect(fd, reinterpret_cast<sockaddr *>(&at), sizeof at);
			fds_.push_back(fd);
		}
	}

	std::vector<int> fds_, silent_;
	int port_ = 0;
};

int connect_to(const std::string &name, int64_t deadline, std::string *reached = nullptr)
{
	sn_tcp *conn = nullptr;
	const int err = sn_tcp_connect(&conn, name.c_str(), deadline);
	char text[SN_ADDRESS_MAX] = "";

	if (err < 0) {
		EXPECT_EQ(nullptr, conn);
		return err;
	}
	EXPECT_GT(sn_tcp_peer_address(conn, text, sizeof text), 0);
	if (reached)
		*reached = std::string(text).substr(0, std::string(text).find(':'));
	sn_tcp_close(conn);
	return 0;
}

// Checks that no descriptor that a race has opened is open after it.
class NothingLeft
{
public:
	NothingLeft() : before_(open_sockets()) {}
	~NothingLeft() { EXPECT_EQ(before_, open_sockets()); }

private:
	int before_;
};

// Without a deadline the silent address alone would take two minutes.
TASK_TEST(HappyEyeballs, ASilentAddressDoesNotKeepTheOthersWaiting)
{
	Addresses addresses({2}, {1});
	NothingLeft check;
	const int64_t start = sn_now();
	std::string reached;

	EXPECT_EQ(0, connect_to(addresses.named({"1", "2"}), SN_NO_DEADLINE, &reached));
	EXPECT_EQ("127.0.0.2", reached);
	EXPECT_EQ("1 2", attempts());
	EXPECT_GE(sn_now() - start, 250 * test::ms) << "the first address had its 250 ms";
	EXPECT_LT(sn_now() - start, test::patience);
}

// A hundred pauses of 250 ms would be 25 s.
TASK_TEST(HappyEyeballs, ARefusalLetsTheNextBeginAtOnce, 2)
{
	Addresses addresses({150}, {});
	NothingLeft check;
	std::vector<std::string> order;
	std::string reached;

	for (int i = 1; i <= 100; i++)
		order.push_back(std::to_string(i));
	order.push_back("150");
	const int64_t start = sn_now();
	EXPECT_EQ(0, connect_to(addresses.named(order), SN_NO_DEADLINE, &reached));
	EXPECT_EQ("127.0.0.150", reached);
	EXPECT_LT(sn_now() - start, 25 * test::second);
	EXPECT_EQ(101u, attempt_count());
}

TEST(HappyEyeballs, AlternatesBetweenTheFamilies)
{
	test::run({2}, [] {
		Addresses addresses({9}, {});
		NothingLeft check;

		EXPECT_EQ(0, connect_to(addresses.named({"1", "2", "3", "v6", "v6", "9"}),
					SN_NO_DEADLINE));
		EXPECT_EQ("1 v6 2 v6 3 9", attempts());
	});
	test::run({2}, [] {
		Addresses addresses({9}, {});

		EXPECT_EQ(0, connect_to(addresses.named({"v6", "v6", "1", "9"}), SN_NO_DEADLINE));
		EXPECT_EQ("v6 1 v6 9", attempts());
	});
}

// All addresses are tried before the deadline, although it leaves less than 250 ms to each.
TASK_TEST(HappyEyeballs, EndsAtItsDeadline)
{
	Addresses addresses({}, {1, 2, 3});
	NothingLeft check;
	const int64_t deadline = sn_now() + 600 * test::ms;

	EXPECT_EQ(-ETIMEDOUT, connect_to(addresses.named({"1", "2", "3"}), deadline));
	EXPECT_GE(sn_now(), deadline);
	EXPECT_EQ("1 2 3", attempts());
	EXPECT_EQ(-ETIMEDOUT, connect_to(addresses.named({"1", "2", "3"}), sn_now() - 1));
	EXPECT_EQ(3u, attempt_count());
}

TASK_TEST(HappyEyeballs, EndsWithItsScope)
{
	Addresses addresses({}, {1, 2});
	NothingLeft check;
	struct Arg {
		std::string name;
		int result = 1;
	} arg{addresses.named({"1", "2"})};
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	ASSERT_EQ(0, sn_scope_go(
			     scope,
			     [](void *to) {
				     auto *its = static_cast<Arg *>(to);

				     its->result = connect_to(its->name, SN_NO_DEADLINE);
				     return 0;
			     },
			     &arg));
	EXPECT_TRUE(test::eventually([] { return attempt_count() == 2; }));
	sn_scope_cancel(scope);
	sn_scope_close(scope);
	EXPECT_EQ(-ECANCELED, arg.result);
}

TEST(HappyEyeballs, EndsWithItsRun)
{
	Addresses addresses({}, {1, 2});
	NothingLeft check;
	static std::string name;

	name = addresses.named({"1", "2"});
	test::run([] {
		const size_t before = attempt_count();

		ASSERT_EQ(0,
			  sn_go([](void *) { return connect_to(name, SN_NO_DEADLINE); }, nullptr));
		EXPECT_TRUE(test::eventually([=] { return attempt_count() == before + 2; }));
	});
}

// This holds for a name with one address, too, and repeatedly, because the port is free again
// immediately.
TASK_TEST(HappyEyeballs, AnAttemptThatMeetsItselfIsRefused, 2)
{
	Addresses addresses({}, {});
	NothingLeft check;
	const std::string name = addresses.named({"1", "2"});
	const std::string port = name.substr(name.find(':'));

	meets_itself = true;
	for (const std::string &each : {name, "127.0.0.1" + port, "127.0.0.1" + port})
		EXPECT_EQ(-ECONNREFUSED, connect_to(each, sn_now() + test::patience)) << each;
	meets_itself = false;
}

// An attempt that was overtaken continues, and wins if it is the first to succeed.
TASK_TEST(HappyEyeballs, AnEarlierAttemptMayWin, 2)
{
	Addresses addresses({}, {1, 2});
	std::atomic<bool> over{false};
	std::string reached;
	Task task([&] {
		const int err = connect_to(addresses.named({"1", "2"}), sn_now() + test::patience,
					   &reached);

		over = true;
		return err;
	});

	EXPECT_TRUE(test::eventually([] { return attempt_count() == 2; }));
	addresses.let_in_until([&] { return over.load(); });
	EXPECT_EQ(0, task.join());
	EXPECT_EQ("127.0.0.1", reached);
}

// There is a descriptor for one attempt only. The second address is tried when that attempt has
// failed.
TASK_TEST(HappyEyeballs, WaitsForADescriptor, 2)
{
	Addresses addresses({2}, {1});
	const std::string name = addresses.named({"1", "2"});
	std::atomic<bool> over{false};
	std::string reached;
	rlimit former = {};

	sn_sleep(test::ms); // until the runtime has opened what it needs
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &former));
	const int next = dup(0);
	close(next);
	rlimit tight = {rlim_t(next) + 1, former.rlim_max};
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &tight));
	Task task([&] {
		const int err = connect_to(name, sn_now() + test::patience, &reached);

		over = true;
		return err;
	});
	EXPECT_TRUE(test::eventually([] { return attempt_count() == 1; }));
	// without the shortage, the second attempt would have begun by now
	sn_sleep(300 * test::ms);
	EXPECT_EQ("1", attempts());
	addresses.refuse_at_first();
	EXPECT_TRUE(test::eventually([&] { return over.load(); }));
	EXPECT_EQ(0, task.join());
	EXPECT_EQ("127.0.0.2", reached)
		<< "when the first attempt had failed, there was a descriptor again";
	tight.rlim_cur = rlim_t(next);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &tight));
	EXPECT_EQ(-EMFILE, connect_to(name, SN_NO_DEADLINE)) << "none at all";
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &former));
}

// The first address stays silent, so the second attempt begins only because time passes.
TASK_TEST(HappyEyeballs, GoesOnWhenThereIsADescriptorAgain, 2)
{
	Addresses addresses({2}, {1});
	const std::string name = addresses.named({"1", "2"});
	rlimit former = {};
	std::string reached;

	sn_sleep(test::ms); // until the runtime has opened what it needs
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &former));
	const int next = dup(0);
	close(next);
	const rlimit tight = {rlim_t(next) + 1, former.rlim_max};
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &tight));
	Task task([&] { return connect_to(name, sn_now() + test::patience, &reached); });
	EXPECT_TRUE(test::eventually([] { return attempt_count() == 1; }));
	// without the shortage, the second attempt would have begun by now
	sn_sleep(300 * test::ms);
	EXPECT_EQ("1", attempts());
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &former));
	EXPECT_EQ(0, task.join());
	EXPECT_EQ("127.0.0.2", reached);
}

// The attempt at the ninth address takes over the descriptor of the first attempt.
TASK_TEST(HappyEyeballs, HoldsAFewDescriptorsOnly, 2)
{
	Addresses addresses({12}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
	std::vector<std::string> order;
	std::atomic<bool> over{false};
	int most = 0;

	for (int i = 1; i <= 10; i++)
		order.push_back(std::to_string(i));
	order.push_back("12");
	const std::string name = addresses.named(order);
	const int before = open_sockets();
	Task task([&] {
		const int err = connect_to(name, sn_now() + test::patience);

		over = true;
		return err;
	});
	while (!over) {
		most = std::max(most, open_sockets() - before);
		sn_sleep(test::ms);
	}
	EXPECT_EQ(0, task.join());
	EXPECT_EQ(11u, attempt_count());
	EXPECT_EQ(8, most);
	EXPECT_EQ(before, open_sockets());
}

// 101: no network; 111: refused; 113: no way to the host; 99: no local address.
TASK_TEST(HappyEyeballs, ReportsTheErrorThatSaysMost, 2)
{
	Addresses addresses({2}, {});
	NothingLeft check;
	const struct {
		std::vector<std::string> order;
		int error;
	} cases[] = {
		{{"127.0.1.101", "127.0.1.111", "127.0.1.113"}, -ECONNREFUSED},
		{{"127.0.1.111", "127.0.1.101"}, -ECONNREFUSED},
		{{"127.0.1.101", "127.0.1.113"}, -EHOSTUNREACH},
		{{"127.0.1.113", "127.0.1.101"}, -EHOSTUNREACH},
		{{"127.0.1.99", "127.0.1.101"}, -EADDRNOTAVAIL},
		{{"127.0.1.101", "127.0.1.99"}, -ENETUNREACH},
		{{"127.0.1.101", "1"}, -ECONNREFUSED},
		{{"127.0.1.101", "v6", "127.0.1.113"}, -ECONNREFUSED},
	};

	for (const auto &each : cases)
		EXPECT_EQ(each.error, connect_to(addresses.named(each.order), SN_NO_DEADLINE))
			<< each.order[0] << " " << each.order[1];
	EXPECT_EQ(0,
		  connect_to(addresses.named({"127.0.1.101", "127.0.1.111", "2"}), SN_NO_DEADLINE));
}

TASK_TEST(HappyEyeballs, WorksForConnectionsThatWriteAtOnce, 2)
{
	Addresses addresses({2}, {1});
	const std::string name = addresses.named({"1", "2"});
	sn_tcp *conn = nullptr;

	ASSERT_EQ(0, sn_tcp_connect_to_write(&conn, name.c_str(), sn_now() + test::patience));
	EXPECT_EQ(1, sn_tcp_write_all(conn, "x", 1, nullptr));
	sn_tcp_close(conn);
}

// Every other task is cancelled by its deadline at some moment of its race.
TASK_TEST(HappyEyeballs, LeavesNothingBehindWhereverItEnds)
{
	Addresses addresses({2}, {1});
	NothingLeft check;
	const std::string name = addresses.named({"127.0.1.101", "3", "1", "2"});
	std::vector<Task> tasks;

	for (int i = 0; i < test::scaled(200); i++)
		tasks.emplace_back([&name, i] {
			const int err = connect_to(name, sn_now() + i % 2 * test::patience +
								 i * 2 * test::ms);

			EXPECT_TRUE(err == 0 || (i % 2 == 0 && err == -ETIMEDOUT)) << err;
		});
	test::join_all(tasks);
}

} // namespace
