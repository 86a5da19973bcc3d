// SPDX-License-Identifier: MIT
//
// Names resolved by the system's own resolver, which asks a name server: a thread of this test, at
// 127.0.0.1:53 in a network namespace of its own. The server answers, denies, fails, is silent, or
// waits.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/own_network.h"

#include "support/net.h"

namespace
{

using test::Listener;
using test::Task;

// The types of questions (RFC 1035, 2782, 3596).
enum Type : unsigned {
	A = 1,
	PTR = 12,
	AAAA = 28,
	SRV = 33,
};

std::string bytes_of_16(unsigned value)
{
	return {char(value >> 8), char(value)};
}

// The name "a.b" in the form of the protocol, as labels.
std::string labels(const std::string &name)
{
	std::string all;

	for (size_t at = 0; at < name.size();) {
		size_t end = name.find('.', at);

		if (end == std::string::npos)
			end = name.size();
		all += char(end - at) + name.substr(at, end - at);
		at = end + 1;
	}
	return all + '\0';
}

std::string srv(unsigned priority, unsigned weight, unsigned port, const std::string &target)
{
	return bytes_of_16(priority) + bytes_of_16(weight) + bytes_of_16(port) +
	       (target == "." ? std::string(1, '\0') : labels(target));
}

/*
 * The first letters of a name say how it is answered:
 *
 *   never      not at all
 *   slow       when release() was called
 *   gone       there is no such name
 *   fails      the server failed
 *   four, six  with an address of that family only
 *   both       with one of each
 *
 * All other names have the address 127.0.0.1.
 */
class NameServer
{
public:
	NameServer()
	{
		sockaddr_in at{};

		at.sin_family = AF_INET;
		at.sin_port = htons(53);
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		EXPECT_EQ(0, bind(fd_, reinterpret_cast<sockaddr *>(&at), sizeof at));
		thread_ = std::thread([this] { run(); });
	}
	~NameServer()
	{
		over_ = true;
		thread_.join();
		close(fd_);
	}

	void release() { released_ = true; }
	// Sets the data of the records that answer questions of other types.
	void set(Type type, const std::string &name, const std::vector<std::string> &data)
	{
		const std::lock_guard guard(lock_);

		records_[{type, name}] = data;
	}
	// Returns the names that were asked for.
	std::set<std::string> asked()
	{
		const std::lock_guard guard(lock_);

		return asked_;
	}

private:
	struct Question {
		sockaddr_in from;
		std::string bytes;
	};

	void run()
	{
		std::vector<Question> waiting;

		while (!over_) {
			pollfd ready{fd_, POLLIN, 0};

			if (poll(&ready, 1, 1) == 1)
				take(waiting);
			if (!released_)
				continue;
			for (const Question &each : waiting)
				reply(each);
			waiting.clear();
		}
	}

	void take(std::vector<Question> &waiting)
	{
		char bytes[512];
		Question question{};
		socklen_t length = sizeof question.from;
		const ssize_t n = recvfrom(fd_, bytes, sizeof bytes, 0,
					   reinterpret_cast<sockaddr *>(&question.from), &length);

		if (n < 12 + 5)
			return;
		question.bytes.assign(bytes, size_t(n));
		const std::string name = name_of(question.bytes);
		{
			const std::lock_guard guard(lock_);
			asked_.insert(name);
		}
		if (name.starts_with("slow"))
			waiting.push_back(question);
		else if (!name.starts_with("never"))
			reply(question);
	}

	static std::string name_of(const std::string &question)
	{
		std::string name;

		for (size_t at = 12; at < question.size() && question[at];) {
			name += (name.empty() ? "" : ".") + question.substr(at + 1, question[at]);
			at += 1 + size_t(question[at]);
		}
		return name;
	}

	// Sends the question back as it came, with the records.
	void reply(const Question &question)
	{
		const size_t name_end = question.bytes.find('\0', 12);

		if (name_end == std::string::npos || name_end + 5 > question.bytes.size())
			return;
		const std::string name = name_of(question.bytes);
		const auto type = Type(question.bytes[name_end + 2]);
		const std::vector<std::string> data = data_for(type, name);
		std::string bytes = question.bytes.substr(0, name_end + 5);

		bytes[2] = '\x81'; // an answer, recursion desired
		bytes[3] = char(name.starts_with("fails")  ? 0x82
				: name.starts_with("gone") ? 0x83
							   : 0x80);
		bytes.replace(4, 8,
			      bytes_of_16(1) + bytes_of_16(unsigned(data.size())) +
				      std::string(4, '\0'));
		for (const std::string &each : data) {
			// The name at 12, the type, IN, TTL 0.
			bytes += std::string("\xc0\x0c", 2) + bytes_of_16(type) +
				 std::string("\0\1\0\0\0\0", 6);
			bytes += bytes_of_16(unsigned(each.size())) + each;
		}
		sendto(fd_, bytes.data(), bytes.size(), 0,
		       reinterpret_cast<const sockaddr *>(&question.from), sizeof question.from);
	}

	std::vector<std::string> data_for(Type type, const std::string &name)
	{
		const std::lock_guard guard(lock_);
		const auto found = records_.find({type, name});
		const bool has_six = name.starts_with("six") || name.starts_with("both");

		if (found != records_.end())
			return found->second;
		if (name.starts_with("gone") || name.starts_with("fails"))
			return {};
		if (type == AAAA && has_six)
			return {std::string(15, '\0') + '\1'};
		if (type == A && !name.starts_with("six"))
			return {std::string("\x7f\0\0\1", 4)};
		return {};
	}

	int fd_ = -1;
	std::atomic<bool> over_{false}, released_{false};
	std::mutex lock_;
	std::set<std::string> asked_;
	std::map<std::pair<unsigned, std::string>, std::vector<std::string>> records_;
	std::thread thread_;
};

class Dns : public testing::Test
{
protected:
	void SetUp() override
	{
		if (!test::OwnNetwork::exists())
			GTEST_SKIP() << "this machine allows no user, network and mount namespaces";
		server = std::make_unique<NameServer>();
	}

	std::unique_ptr<NameServer> server;
};

std::string resolve(const char *host, unsigned flags = 0, int64_t deadline = SN_NO_DEADLINE)
{
	sn_resolved *resolved = nullptr;
	const int err = sn_resolve(&resolved, host, "80", flags, deadline);
	std::string all;

	if (err < 0)
		return strerrorname_np(-err);
	for (size_t i = 0; i < resolved->count; i++) {
		char text[NI_MAXHOST] = "";

		getnameinfo(reinterpret_cast<const sockaddr *>(&resolved->addresses[i].address),
			    resolved->addresses[i].length, text, sizeof text, nullptr, 0,
			    NI_NUMERICHOST);
		all += (all.empty() ? "" : " ") + std::string(text);
	}
	sn_resolved_free(resolved);
	return all;
}

int connect_to(const std::string &name, int64_t deadline)
{
	sn_tcp *conn = nullptr;
	const int err = sn_tcp_connect(&conn, name.c_str(), deadline);

	if (err == 0)
		sn_tcp_close(conn);
	return err;
}

TEST_F(Dns, AnswersAndErrors)
{
	test::run([this] {
		server->set(PTR, "3.0.0.127.in-addr.arpa", {labels("one.example.test")});
		EXPECT_EQ("127.0.0.1", resolve("one.example.test"));
		EXPECT_EQ("::1 127.0.0.1", resolve("both.example.test"));
		EXPECT_EQ("127.0.0.1", resolve("both.example.test", SN_RESOLVE_IPV4));
		EXPECT_EQ("::1", resolve("both.example.test", SN_RESOLVE_IPV6));
		EXPECT_EQ("::1", resolve("six.example.test"));
		EXPECT_EQ("EADDRNOTAVAIL", resolve("six.example.test", SN_RESOLVE_IPV4));
		EXPECT_EQ("EADDRNOTAVAIL", resolve("four.example.test", SN_RESOLVE_IPV6));
		EXPECT_EQ("ENOENT", resolve("gone.example.test"));
		EXPECT_EQ("EAGAIN", resolve("fails.example.test"));
		EXPECT_EQ("ETIMEDOUT", resolve("never.example.test", 0, sn_now() + 20 * test::ms));
		sockaddr_in at{};
		char name[SN_NAME_MAX] = "";
		at.sin_family = AF_INET;
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 2);
		EXPECT_EQ(16, sn_resolve_name(name, sizeof name, reinterpret_cast<sockaddr *>(&at),
					      sizeof at, SN_NO_DEADLINE));
		EXPECT_STREQ("one.example.test", name);
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
		EXPECT_EQ(-ENOENT,
			  sn_resolve_name(name, sizeof name, reinterpret_cast<sockaddr *>(&at),
					  sizeof at, SN_NO_DEADLINE));
	});
}

// The server answers some names later than all others, and some never. The resolver gives up after
// 60 s.
TEST_F(Dns, SilentAndSlowNamesDelayNoOther)
{
	test::run({2}, [this] {
		Listener listener;
		const std::string address = listener.address(),
				  port = address.substr(address.rfind(':'));
		std::vector<Task> slow, fine;
		std::atomic<int> ended{0};
		sn_scope *scope = nullptr;
		Task door([&listener] {
			sn_tcp *conn = nullptr;

			while (sn_tcp_accept(listener.get(), &conn) == 0)
				sn_tcp_close(conn);
		});
		struct Arg {
			std::string name;
			std::atomic<int> *ended;
		};
		std::vector<Arg> args;

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		for (int i = 0; i < 20; i++)
			args.push_back({"never" + std::to_string(i) + ".test" + port, &ended});
		for (Arg &arg : args)
			ASSERT_EQ(0,
				  sn_scope_go(
					  scope,
					  [](void *to) {
						  auto *its = static_cast<Arg *>(to);

						  EXPECT_EQ(-ECANCELED,
							    connect_to(its->name, SN_NO_DEADLINE));
						  ++*its->ended;
						  return 0;
					  },
					  &arg));
		for (int i = 0; i < 20; i++)
			slow.emplace_back([&ended, &port, i] {
				const int err =
					connect_to("slow" + std::to_string(i) + ".test" + port,
						   SN_NO_DEADLINE);

				ended++;
				return err;
			});
		for (int i = 0; i < test::scaled(1000); i++)
			fine.emplace_back([&port, i] {
				return connect_to("fine" + std::to_string(i) + ".test" + port,
						  sn_now() + test::patience);
			});
		for (Task &task : fine)
			EXPECT_EQ(0, task.join());
		EXPECT_EQ(0, ended) << "the call did not wait for the others";
		server->release();
		for (Task &task : slow)
			EXPECT_EQ(0, task.join());
		EXPECT_EQ(20, ended);
		sn_scope_cancel(scope);
		sn_scope_close(scope);
		EXPECT_EQ(40, ended);
		listener.close();
		door.join();
	});
}

// ---- SRV ----

// Returns the targets as "target:port" in the order of the list, or the error.
std::string resolve_srv(const char *name)
{
	sn_srv_list *list = nullptr;
	const int err = sn_resolve_srv(&list, name, sn_now() + test::patience);
	std::string all;

	if (err < 0) {
		EXPECT_EQ(nullptr, list);
		return strerrorname_np(-err);
	}
	for (size_t i = 0; i < list->count; i++)
		all += (i == 0 ? "" : " ") + std::string(list->records[i].target) + ":" +
		       std::to_string(list->records[i].port);
	sn_srv_list_free(list);
	return all;
}

TEST_F(Dns, ServicesAreOrderedByPriority)
{
	test::run([this] {
		server->set(SRV, "_x._tcp.test",
			    {srv(30, 0, 3, "c.test"), srv(10, 65535, 1, "a.test"),
			     srv(20, 1, 65535, "b.test")});
		server->set(SRV, "_one._tcp.test", {srv(0, 0, 80, "one.test")});
		server->set(SRV, "_none._tcp.test", {srv(0, 0, 0, ".")});
		EXPECT_EQ("a.test:1 b.test:65535 c.test:3", resolve_srv("_x._tcp.test"));
		EXPECT_EQ("one.test:80", resolve_srv("_one._tcp.test"));
		EXPECT_EQ("EADDRNOTAVAIL", resolve_srv("_none._tcp.test"));
		EXPECT_EQ("ENOENT", resolve_srv("_empty._tcp.test"));
		EXPECT_EQ("ENOENT", resolve_srv("gone._tcp.test"));
		EXPECT_EQ("EAGAIN", resolve_srv("fails._tcp.test"));
		EXPECT_EQ("EINVAL", resolve_srv(""));
		EXPECT_EQ("EINVAL", resolve_srv(std::string(256, 'x').c_str()));
		sn_srv_list *list = nullptr;
		EXPECT_EQ(-ETIMEDOUT,
			  sn_resolve_srv(&list, "never._tcp.test", sn_now() + 20 * test::ms));
		EXPECT_EQ(-EINVAL, sn_resolve_srv(nullptr, "_x._tcp.test", SN_NO_DEADLINE));
		EXPECT_EQ(-EINVAL, sn_resolve_srv(&list, nullptr, SN_NO_DEADLINE));
	});
	sn_srv_list *list = nullptr;
	EXPECT_EQ(-ENOTSUP, sn_resolve_srv(&list, "_x._tcp.test", SN_NO_DEADLINE));
	sn_srv_list_free(nullptr);
}

// 3 of 4 lists have to begin with the target that has a weight of 30 of 40. A wrong rule would miss
// that by more than ten times the deviation of 400 tries, which is 8.7.
TEST_F(Dns, ServicesAreChosenByWeight)
{
	test::run({1}, [this] {
		int heavy_first = 0, weightless_first = 0;

		server->set(SRV, "_w._tcp.test",
			    {srv(1, 10, 1, "light.test"), srv(1, 30, 2, "heavy.test"),
			     srv(2, 0, 3, "last.test")});
		server->set(SRV, "_z._tcp.test",
			    {srv(1, 0, 1, "zero.test"), srv(1, 65535, 2, "all.test")});
		for (int i = 0; i < 400; i++) {
			const std::string order = resolve_srv("_w._tcp.test");

			EXPECT_TRUE(order == "heavy.test:2 light.test:1 last.test:3" ||
				    order == "light.test:1 heavy.test:2 last.test:3")
				<< order;
			heavy_first += order.starts_with("heavy");
			weightless_first += resolve_srv("_z._tcp.test").starts_with("zero");
		}
		EXPECT_GT(heavy_first, 300 - 70);
		EXPECT_LT(heavy_first, 300 + 70);
		EXPECT_LT(weightless_first, 5) << "about one in 65536";
	});
}

TEST_F(Dns, TargetsAreNamesOfHosts)
{
	test::run({1}, [this] {
		int i = 0;

		for (const char *target :
		     {"a b", "a\nb", "$(reboot)", "<b>", "a/b", "a\\b", "-rf"}) {
			const std::string name = "_bad" + std::to_string(i++) + "._tcp.test";

			server->set(SRV, name, {srv(1, 1, 1, "good.test"), srv(1, 1, 1, target)});
			EXPECT_EQ("EIO", resolve_srv(name.c_str())) << target;
		}
		server->set(SRV, "_good._tcp.test", {srv(1, 1, 1, "_A-1.xn--bcher-kva.test")});
		EXPECT_EQ("_A-1.xn--bcher-kva.test:1", resolve_srv("_good._tcp.test"));
	});
}

// Whatever a server sends, the call returns. AddressSanitizer watches the memory.
TEST_F(Dns, MalformedRecordsAreRefused)
{
	test::run({1}, [this] {
		test::Random random;

		server->set(SRV, "_short._tcp.test", {std::string(6, '\1')});
		server->set(SRV, "_empty-data._tcp.test", {""});
		server->set(SRV, "_cut._tcp.test", {std::string("\0\1\0\1\0\1\5ab", 9)});
		server->set(SRV, "_loop._tcp.test", {std::string("\0\1\0\1\0\1\xc0\x2c", 8)});
		for (const char *name : {"_short._tcp.test", "_empty-data._tcp.test",
					 "_cut._tcp.test", "_loop._tcp.test"})
			EXPECT_EQ("EIO", resolve_srv(name)) << name;
		for (int i = 0; i < test::scaled(1000); i++) {
			std::vector<std::string> data;

			for (uint64_t n = random.below(4); n > 0; n--)
				data.push_back(srv(1, 1, 1, "host.test"));
			for (std::string &each : data)
				for (uint64_t n = random.below(4); n > 0; n--)
					each[random.below(each.size())] = char(random.next());
			if (!data.empty() && random.below(4) == 0)
				data.back().resize(random.below(data.back().size()));
			server->set(SRV, "_random._tcp.test", data);
			resolve_srv("_random._tcp.test");
		}
	});
}

} // namespace

int main(int argc, char **argv)
{
	test::OwnNetwork::enter(
		argc, argv,
		{{"/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:2\n"},
		 {"/etc/nsswitch.conf", "hosts: files dns\nservices: files\n"},
		 {"/etc/hosts", "127.0.0.1 localhost\n"}});
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
