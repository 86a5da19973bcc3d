// SPDX-License-Identifier: MIT
//
// Malformed addresses, one list for every call that takes an address: each call returns -EINVAL (or
// -ENAMETOOLONG for a path) immediately and without asking the name service, creates nothing, and
// leaves no descriptor open.
#include <functional>
#include <string>
#include <vector>

#include <netinet/in.h>

#include "support/descriptors.h"
#include "support/names.h"
#include "support/udp.h"
#include "support/unix.h"

namespace
{

using test::Directory;

// A call that takes an address, and closes what it created when it should have failed.
struct Call {
	const char *name;
	std::function<int(const char *)> call;
	bool listens = false; // for a listener ":80" is an address
};

template <class T>
int made(int err, T *object, int (*close)(T *))
{
	EXPECT_EQ(err == 0, object != nullptr);
	if (object)
		close(object);
	return err;
}

int resolve(const char *host, const char *service)
{
	sn_resolved *list = nullptr;
	const int err = sn_resolve(&list, host, service, 0, SN_NO_DEADLINE);

	EXPECT_EQ(err == 0, list != nullptr);
	sn_resolved_free(list);
	return err;
}

// The calls that take "host:port".
std::vector<Call> calls_with_ports()
{
	const auto tcp_listen = [](const char *at) {
		sn_tcp_listener *listener = nullptr;
		const int err = sn_tcp_listen(&listener, at);

		return made(err, listener, sn_tcp_listener_close);
	};
	const auto tcp_connect = [](const char *to) {
		sn_tcp *conn = nullptr;
		const int err = sn_tcp_connect(&conn, to, SN_NO_DEADLINE);

		return made(err, conn, sn_tcp_close);
	};
	const auto udp_open = [](const char *at) {
		sn_udp *udp = nullptr;
		const int err = sn_udp_open(&udp, at, nullptr);

		return made(err, udp, sn_udp_close);
	};
	const auto udp_connect = [](const char *to) {
		sn_udp *udp = nullptr;
		const int err = sn_udp_connect(&udp, to, nullptr, SN_NO_DEADLINE);

		return made(err, udp, sn_udp_close);
	};
	const auto parse = [](const char *text) {
		sn_address address = {};
		const int err = sn_address_parse(&address, text);

		EXPECT_EQ(err == 0, address.family != 0);
		return err;
	};

	return {{"sn_tcp_listen", tcp_listen, true},
		{"sn_tcp_connect", tcp_connect},
		{"sn_udp_open", udp_open, true},
		{"sn_udp_connect", udp_connect},
		{"sn_address_parse", parse, true}};
}

// Without a port, with a bad one, with brackets that do not match, with control bytes, too long.
std::vector<std::string> malformed()
{
	std::vector<std::string> all = {
		"",
		":",
		"::",
		":::",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:65536",
		"127.0.0.1:4294967376", // 80, if cut to 16 bits
		"127.0.0.1:18446744073709551696",
		"127.0.0.1:-1",
		"127.0.0.1:+80",
		"127.0.0.1:.80",
		"127.0.0.1: 80",
		"127.0.0.1:\t80",
		"127.0.0.1:80:80",
		"[::1]",
		"[::1]80",
		"[::1]:",
		"[::1]:65536",
		"[::1",
		"[::1:80",
		"::1]:80",
		"::1:80",
		"[]:80",
		"[[::1]]:80",
		"[::1]]:80",
		"[::1]x:80",
		"a\nb.test:80",
		"a b.test:80",
		" a.test:80",
		"a.test\r:80",
		"\x01:80",
		"\x7f.test:80",
		"unix:",
		"/run/x",
		"@x",
		std::string(255, 'h') + "x:80",
		std::string(100000, 'h') + ":80",
		"[" + std::string(300, ':') + "]:80",
		"host:" + std::string(33, 's'),
		"host:" + std::string(100000, '8'),
	};

	return all;
}

std::string shown(const std::string &text)
{
	return text.substr(0, 60) + (text.size() > 60 ? "..." : "");
}

TASK_TEST(Addresses, MalformedOnesAreRefusedByEveryCall, 2)
{
	const int before = test::open_descriptors();

	test::called = 0;
	for (const Call &each : calls_with_ports()) {
		for (const std::string &text : malformed())
			EXPECT_EQ(-EINVAL, each.call(text.c_str()))
				<< each.name << " \"" << shown(text) << '"';
		EXPECT_EQ(-EINVAL, each.call(nullptr)) << each.name;
		if (!each.listens) {
			EXPECT_EQ(-EINVAL, each.call(":80")) << each.name;
		}
		// A host with the name unix can only have a port. Other addresses that
		// begin with "unix:" are those of Unix sockets, which not all of these
		// calls take.
		EXPECT_EQ(-EINVAL, each.call("unix:65536")) << each.name;
	}
	EXPECT_EQ(0, test::called) << "the name service was asked";
	EXPECT_EQ(before, test::open_descriptors());
}

TASK_TEST(Addresses, HostsAndServicesAreCheckedOneByOne, 1)
{
	test::called = 0;
	for (const std::string &host :
	     {std::string(), std::string("a\nb.test"), std::string("a b.test"), std::string("\x7f"),
	      std::string(256, 'h')})
		EXPECT_EQ(-EINVAL, resolve(host.c_str(), "80")) << shown(host);
	for (const std::string &service :
	     {std::string(), std::string("65536"), std::string("-1"), std::string("+80"),
	      std::string(" 80"), std::string("\n"), std::string(33, 's')})
		EXPECT_EQ(-EINVAL, resolve("127.0.0.1", service.c_str())) << shown(service);
	EXPECT_EQ(-EINVAL, resolve(nullptr, "80"));
	sn_srv_list *list = nullptr;
	for (const std::string &name :
	     {std::string(), std::string(256, 's'), std::string("_x._tcp.a b.test"),
	      std::string("_x._tcp.a\n.test")})
		EXPECT_EQ(-EINVAL, sn_resolve_srv(&list, name.c_str(), SN_NO_DEADLINE))
			<< shown(name);
	EXPECT_EQ(-EINVAL, sn_resolve_srv(&list, nullptr, SN_NO_DEADLINE));
	EXPECT_EQ(nullptr, list);
	sockaddr_in6 half = {};
	char name[SN_NAME_MAX];
	half.sin6_family = AF_INET6;
	for (socklen_t length : {socklen_t(0), socklen_t(1), socklen_t(sizeof half - 1)})
		EXPECT_EQ(-EINVAL,
			  sn_resolve_name(name, sizeof name, reinterpret_cast<sockaddr *>(&half),
					  length, SN_NO_DEADLINE));
	half.sin6_family = AF_UNIX;
	EXPECT_EQ(-EINVAL, sn_resolve_name(name, sizeof name, reinterpret_cast<sockaddr *>(&half),
					   sizeof half, SN_NO_DEADLINE));
	EXPECT_EQ(0, test::called);
}

// ---- paths and abstract names ----

std::vector<Call> calls_with_paths(bool with_prefix)
{
	std::vector<Call> all;

	if (!with_prefix) {
		all.push_back({"sn_unix_listen",
			       [](const char *at) {
				       sn_unix_listener *listener = nullptr;
				       const int err = sn_unix_listen(&listener, at, nullptr);

				       return made(err, listener, sn_unix_listener_close);
			       },
			       true});
		all.push_back({"sn_unix_bind",
			       [](const char *at) {
				       sn_unix *socket = nullptr;
				       const int err = sn_unix_bind(&socket, at, nullptr);

				       return made(err, socket, sn_unix_close);
			       },
			       true});
		for (sn_unix_type type : {SN_UNIX_STREAM, SN_UNIX_DATAGRAM, SN_UNIX_SEQPACKET})
			all.push_back({"sn_unix_connect", [type](const char *to) {
					       sn_unix *conn = nullptr;
					       const int err = sn_unix_connect(&conn, to, type,
									       SN_NO_DEADLINE);

					       return made(err, conn, sn_unix_close);
				       }});
		all.push_back({"sn_unix_send", [](const char *to) {
				       test::UnixPair pair(SN_UNIX_DATAGRAM);
				       sn_unix_message message = {};
				       char text[] = "x";

				       message.data = text;
				       message.size = 1;
				       message.to = to;
				       return int(sn_unix_send(pair.a, &message));
			       }});
	} else {
		all = calls_with_ports();
		all.resize(2); // the first two, which are those of TCP
	}
	return all;
}

TASK_TEST(Addresses, PathsAndAbstractNamesHaveALimit, 2)
{
	Directory directory;
	const int before = test::open_descriptors();
	const std::string longest(107, 'n');

	for (bool with_prefix : {false, true})
		for (const Call &each : calls_with_paths(with_prefix)) {
			const std::string prefix = with_prefix ? "unix:" : "";
			const auto call = [&](const std::string &text) {
				return each.call((prefix + text).c_str());
			};

			for (const std::string &text :
			     {"/" + longest, "./" + longest, "@" + longest,
			      directory / longest.c_str(), "/" + std::string(100000, 'n')})
				EXPECT_EQ(-ENAMETOOLONG, call(text))
					<< each.name << ' ' << shown(text);
			EXPECT_EQ(-EINVAL, call("")) << each.name;
			EXPECT_EQ(-ENOENT, call(directory / "no/where")) << each.name;
			if (!each.listens) {
				EXPECT_EQ(-EINVAL, call("@")) << each.name;
				EXPECT_EQ(-ENOENT, call(directory / "nothing")) << each.name;
				EXPECT_EQ(-ECONNREFUSED, call("@sennit-nobody-is-here"))
					<< each.name;
			}
			if (!with_prefix) {
				EXPECT_EQ(-EINVAL, call("unix:")) << each.name;
			}
		}
	EXPECT_TRUE(directory.names().empty());
	EXPECT_EQ(before, test::open_descriptors());
}

// ---- addresses as values ----

TASK_TEST(Addresses, ValuesOfNoFamilyAreRefused, 1)
{
	test::Socket socket;
	sn_udp *udp = nullptr;
	sockaddr_storage storage = {};
	char text[SN_ADDRESS_MAX];

	for (int family : {0, AF_UNIX, 77, 0xffff}) {
		sn_address address = {};

		address.family = uint16_t(family);
		address.port = 9;
		EXPECT_EQ(-EINVAL, sn_udp_open_at(&udp, &address, nullptr)) << family;
		EXPECT_EQ(-EINVAL, sn_address_text(&address, text, sizeof text)) << family;
		EXPECT_EQ(-EINVAL, sn_address_to_sockaddr(&address, &storage)) << family;
		EXPECT_GT(0, sn_udp_send(socket.get(), "x", 1, &address)) << family;
		EXPECT_GT(0, sn_udp_set_peer(socket.get(), &address)) << family;
		EXPECT_EQ(-EINVAL, sn_udp_join(socket.get(), &address, 0)) << family;
		EXPECT_EQ(-EINVAL, sn_udp_leave(socket.get(), &address, 0)) << family;
	}
	EXPECT_EQ(nullptr, udp);
	EXPECT_EQ(-EINVAL, sn_udp_open_at(&udp, nullptr, nullptr));
	EXPECT_TRUE(socket.is_empty());
	EXPECT_EQ(1, socket.send("x", socket.address())) << "it works as before";
}

} // namespace
