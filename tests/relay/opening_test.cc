/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * The first bytes of connections: PROXY headers, received and sent, and TLS that is routed by the
 * server name in the hello. Each error in these has a defined answer, a counter and a cause in the
 * log.
 */
#include "harness.hpp"

#include <gtest/gtest.h>
#include <optional>
#include <system_error>
#include <thread>

using namespace harness;
using namespace std::string_literals;

namespace
{

std::string text(const std::string &listener, const std::string &groups)
{
	return "drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\n" +
	       listener + groups;
}

std::string group(const std::string &name, const listener &backend, const std::string &more = "")
{
	return "[groups." + name + "]\n" + more + "backends = [\"" + backend.address() + "\"]\n";
}

std::uint64_t ended(relay_process &relay, const std::string &cause)
{
	return relay.metric("connections_ended_total{listener=\"web\",cause=\"" + cause + "\"}");
}

void send_slowly(peer &to, std::string_view bytes)
{
	for (const char c : bytes) {
		to.send(std::string(1, c));
		std::this_thread::sleep_for(1ms);
	}
}

std::string number(std::size_t value, int bytes)
{
	std::string made;
	for (int i = bytes - 1; i >= 0; i--)
		made += static_cast<char>(value >> (8 * i) & 0xff);
	return made;
}

/* Ends the stream. The relay may have reset the connection already, which is not an error here. */
void end(peer &client)
{
	try {
		client.shutdown_write();
	} catch (const std::system_error &error) {
		EXPECT_EQ(error.code(), std::errc::not_connected);
	}
}

/* A header with an address block of IPv4: 10.1.2.3:1000 to 10.9.8.7:443. */
std::string proxy_v2(const std::string &more = "")
{
	const std::string block = "\x0a\x01\x02\x03\x0a\x09\x08\x07\x03\xe8\x01\xbb"s + more;
	return "\r\n\r\n\0\r\nQUIT\n\x21\x11"s + number(block.size(), 2) + block;
}

const std::string proxy_v1 = "PROXY TCP4 10.1.2.3 10.9.8.7 1000 443\r\n";

/* A hello that asks for a name, in records of `record` bytes, with `padding` bytes of padding. */
std::string hello(const std::string &name, std::size_t record = 16384, std::size_t padding = 0)
{
	const auto sized = [](int bytes, const std::string &what) {
		return number(what.size(), bytes) + what;
	};
	std::string extensions = "\0\x15"s + sized(2, std::string(padding, '\0'));
	if (!name.empty())
		extensions += "\0\0"s + sized(2, sized(2, "\0"s + sized(2, name)));
	const std::string body = "\3\3"s + std::string(32, 'r') + "\0"s + "\0\2\x13\1"s + "\1\0"s +
				 sized(2, extensions);
	const std::string message = "\1"s + sized(3, body);
	std::string all;
	for (std::size_t at = 0; at < message.size(); at += record)
		all += "\x16\3\1"s + sized(2, message.substr(at, record));
	return all;
}

/* ---- PROXY headers received -------------------------------------------------------------- */

class Proxied : public testing::Test
{
protected:
	void start(const std::string &more = "", const std::string &of_group = "")
	{
		config_.emplace(text("group = \"g\"\nproxy_from = [\"127.0.0.1\"]\n" + more,
				     group("g", backend_, of_group)));
		relay_.emplace(std::vector<std::string>{"--config", config_->name()});
		address_ = relay_->address();
	}

	/* Sends the bytes and ends the stream. The relay must end the connection without an
	 * answer. */
	void expect_bad(const std::string &bytes, const std::string &why)
	{
		const auto before = ended(*relay_, "bad_proxy_header");
		auto client = peer::sending(bytes, address_);
		end(client);
		EXPECT_EQ(client.receive_rest().first, "");
		EXPECT_TRUE(eventually(
			[&] { return ended(*relay_, "bad_proxy_header") == before + 1; }));
		relay_->await_error("error=\"" + why);
	}

	listener backend_;
	std::optional<file> config_;
	std::optional<relay_process> relay_;
	std::string address_;
};

TEST_F(Proxied, HeadersGiveTheClientsAddress)
{
	start();
	for (const auto &header : {proxy_v1, proxy_v2()}) {
		for (const bool slowly : {false, true}) {
			auto client = peer::connect(address_);
			if (slowly)
				send_slowly(client, header);
			client.send((slowly ? "" : header) + "hello");
			auto backend = backend_.accept();
			EXPECT_EQ(backend.receive(5), "hello");
			backend.close();
			EXPECT_EQ(client.receive_end(), ending::fin);
		}
	}
	EXPECT_TRUE(eventually([&] { return ended(*relay_, "server_end") == 4; }));
	relay_->await_error("client=10.1.2.3:1000 peer=127.0.0.1:");
	EXPECT_EQ(relay_->counter("bad_openings"), 0U);
	stop(*relay_);
}

/* For a connection of the proxy itself, such as a check. */
const auto proxy_v2_local = "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"s;

/* For a relayed client without an IP address: version 1, version 2 without a family, and version 2
 * with a Unix socket. */
const std::vector<std::string> without_ip = {"PROXY UNKNOWN\r\n", "\r\n\r\n\0\r\nQUIT\n\x21\0\0\0"s,
					     "\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8"s +
						     std::string(216, '\0')};

TEST_F(Proxied, HeadersMayHaveNoAddress)
{
	start();
	auto all = without_ip;
	all.push_back(proxy_v2_local);
	for (const auto &header : all) {
		auto client = peer::sending(header + "x", address_);
		EXPECT_EQ(backend_.accept().receive(1), "x");
	}
	relay_->await_error("client=127.0.0.1:");
	stop(*relay_);
}

/* Where the client's address matters, a client without one is refused. */
TEST_F(Proxied, ListsAndLimitsRefuseClientsWithoutAnAddress)
{
	for (const std::string &setting :
	     {"allow = [\"0.0.0.0/0\", \"::/0\"]\n"s, "deny = [\"10.0.0.0/8\"]\n"s,
	      "max_connections_per_source = 1000\n"s, "bandwidth_per_source = '1GiB'\n"s}) {
		start(setting);
		for (const auto &header : without_ip) {
			auto client = peer::sending(header, address_);
			EXPECT_EQ(client.receive_rest().first, "");
		}
		EXPECT_TRUE(eventually([&] { return ended(*relay_, "refused_list") == 3; }));
		EXPECT_EQ(relay_->counter("denied"), 3U);
		relay_->await_error("error=\"the PROXY header has no IP address\"");
		auto own = peer::sending(proxy_v2_local + "x", address_);
		EXPECT_EQ(backend_.accept().receive(1), "x");
		own.close();
		stop(*relay_);
	}
}

TEST_F(Proxied, BadHeadersEndTheConnection)
{
	start();
	expect_bad("GET / HTTP/1.1\r\n\r\n", "");
	expect_bad(proxy_v1.substr(0, 20), "cut off after 20 bytes");
	expect_bad(proxy_v2().substr(0, 20), "cut off after 20 bytes");
	expect_bad("PROXY TCP4 " + std::string(200, '1'), "");
	expect_bad("PROXY TCP4 10.1.2.3 10.9.8.7 1000 443000\r\n", "");
	/* A header that claims to be 65,535 bytes long. */
	expect_bad("\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"s, "");
	expect_bad("\r\n\r\n\0\r\nQUIT\n\x21\x12"s + proxy_v2().substr(14),
		   "it describes datagrams");
	EXPECT_EQ(relay_->counter("bad_openings"), 7U);
	stop(*relay_);
}

TEST_F(Proxied, OnlyTrustedProxiesMayConnect)
{
	start();
	auto client = peer::connect(address_, "127.0.0.2");
	EXPECT_EQ(client.receive_end(), ending::fin);
	relay_->await_error("cause=refused_list listener=web client=127.0.0.2:");
	EXPECT_EQ(relay_->counter("denied"), 1U);
	EXPECT_EQ(ended(*relay_, "refused_list"), 1U);
	stop(*relay_);
}

TEST_F(Proxied, ListsAndLimitsApplyToTheClient)
{
	start("deny = [\"10.1.0.0/16\"]\nmax_connections_per_source = 1\n");
	auto denied = peer::sending(proxy_v2(), address_);
	EXPECT_EQ(denied.receive_rest().first, "");
	relay_->await_error("cause=refused_list listener=web client=10.1.2.3:1000 peer=127.0.0.1:");
	const std::string other = "PROXY TCP4 10.2.0.1 10.9.8.7 1000 443\r\nx";
	auto first = peer::sending(other, address_);
	auto backend = backend_.accept();
	EXPECT_EQ(backend.receive(1), "x");
	auto second = peer::sending(other, address_);
	EXPECT_EQ(second.receive_rest().first, "");
	relay_->await_error("cause=refused_limit listener=web client=10.2.0.1:1000 ");
	EXPECT_EQ(relay_->counter("denied"), 1U);
	EXPECT_EQ(relay_->counter("refused"), 1U);
	first.close();
	backend.close();
	stop(*relay_);
}

TEST_F(Proxied, SlowClientsAreDisconnected)
{
	start("hello_timeout = \"200ms\"\n");
	auto silent = peer::connect(address_);
	auto slow = peer::sending("P", address_);
	EXPECT_EQ(silent.receive_end(), ending::fin);
	EXPECT_EQ(slow.receive_end(), ending::fin);
	EXPECT_TRUE(eventually([&] { return ended(*relay_, "hello_timeout") == 2; }));
	EXPECT_EQ(relay_->counter("bad_openings"), 2U);
	stop(*relay_);
}

TEST_F(Proxied, AClientThatSendsNothingHasLeft)
{
	start();
	peer::connect(address_).close();
	peer::connect(address_).reset();
	EXPECT_TRUE(eventually([&] { return ended(*relay_, "client_left") == 2; }));
	EXPECT_EQ(relay_->counter("bad_openings"), 0U);
	stop(*relay_);
}

TEST_F(Proxied, HeadersArePassedOn)
{
	start("", "send_proxy = \"v1\"\n");
	auto client = peer::sending(proxy_v2() + "x", address_);
	EXPECT_EQ(backend_.accept().receive(proxy_v1.size() + 1), proxy_v1 + "x");
	client.close();
	stop(*relay_);
}

/* IPv4 addresses in IPv6's form are passed on as IPv4, because many programs refuse the mapped
 * form. If only one of the two addresses is mapped, there is no IPv4 form. */
TEST_F(Proxied, MappedAddressesArePassedOnAsThoseOfIpv4)
{
	start("", "send_proxy = \"v1\"\n");
	const std::string mixed = "PROXY TCP6 ::ffff:10.1.2.3 2001:db8::1 1000 443\r\n";
	for (const auto &[came, goes] :
	     {std::pair("PROXY TCP6 ::ffff:10.1.2.3 ::ffff:10.9.8.7 1000 443\r\n"s, proxy_v1),
	      std::pair(mixed, mixed)}) {
		auto client = peer::sending(came + "x", address_);
		EXPECT_EQ(backend_.accept().receive(goes.size() + 1), goes + "x");
	}
	EXPECT_TRUE(eventually([&] { return relay_->counter("active") == 0; }));
	relay_->await_error("client=10.1.2.3:1000 ");
	EXPECT_EQ(relay_->errors().find("client=[::ffff"), std::string::npos);
	stop(*relay_);
}

/* A client that has not sent its header yet does not delay the shutdown. */
TEST_F(Proxied, ShutdownCutsClientsWithoutAHeader)
{
	start("hello_timeout = 0\n");
	auto client = peer::connect(address_);
	EXPECT_TRUE(eventually([&] { return relay_->counter("active") == 1; }));
	EXPECT_EQ(relay_->stop().status, 0);
	EXPECT_EQ(client.receive_rest().second, ending::reset);
}

/* ---- PROXY headers sent ------------------------------------------------------------------ */

TEST(SendProxy, SendsTheClientsAddress)
{
	listener one;
	listener two;
	configured_relay relay(
		text("group = \"one\"\n[listeners.second]\naddress = \"127.0.0.1:0\"\n"
		     "group = \"two\"\n",
		     group("one", one, "send_proxy = \"v1\"\n") +
			     group("two", two, "send_proxy = \"v2\"\n")));
	const auto port_of = [](const std::string &address) {
		return address.substr(address.rfind(':') + 1);
	};
	auto client = peer::sending("x", relay.address(0), "127.0.0.3");
	auto backend = one.accept();
	std::string line;
	while (!line.ends_with("\r\n"))
		line += backend.receive(1);
	EXPECT_TRUE(line.starts_with("PROXY TCP4 127.0.0.3 127.0.0.1 ")) << line;
	EXPECT_TRUE(line.ends_with(" " + port_of(relay.address(0)) + "\r\n")) << line;
	EXPECT_EQ(backend.receive(1), "x");

	auto other = peer::connect(relay.address(1), "127.0.0.3");
	auto second = two.accept();
	const std::string header = second.receive(28);
	EXPECT_EQ(header.substr(0, 24), "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\3\x7f\0\0\1"s);
	EXPECT_EQ(header.substr(26, 2), number(std::stoul(port_of(relay.address(1))), 2));
	second.send("first");
	EXPECT_EQ(other.receive(5), "first");
	client.close();
	backend.close();
	other.close();
	second.close();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(relay.counter("bytes_to_backend"), 1U)
		<< "the header does not count as the client's bytes";
	stop(relay);
}

/* A backend that expects a header gets one from checks, too. */
TEST(SendProxy, AppliesToChecksToo)
{
	for (const auto &[version, header] :
	     {std::pair("v1"s, "PROXY UNKNOWN\r\n"s), std::pair("v2"s, proxy_v2_local)}) {
		listener backend;
		configured_relay relay(
			text("group = \"g\"\n",
			     group("g", backend, "send_proxy = \"" + version + "\"\n") +
				     "[groups.g.check]\n"
				     "send = \"ok?\"\nexpect = \"yes\"\n"));
		auto check = backend.accept();
		EXPECT_EQ(check.receive(header.size() + 3), header + "ok?");
		check.send("yes");
		EXPECT_EQ(check.receive_rest().first, "");
		stop(relay);
	}
}

/* ---- TLS --------------------------------------------------------------------------------- */

class Named : public testing::Test
{
protected:
	void start(const std::string &more = "group = \"others\"\n")
	{
		config_.emplace(text(more + "hello_timeout = \"" + timeout_ +
					     "\"\n[listeners.web.sni]\n"
					     "\"a.example\" = \"a\"\n\"*.example\" = \"any\"\n"
					     "\"*.b.example\" = \"b\"\n",
				     group("a", a_) + group("any", any_) + group("b", b_) +
					     group("others", others_)));
		relay_.emplace(std::vector<std::string>{"--config", config_->name()});
		address_ = relay_->address();
	}

	void expect_at(listener &backend, const std::string &bytes, bool slowly = false)
	{
		auto client = peer::connect(address_);
		if (slowly)
			send_slowly(client, bytes);
		else
			client.send(bytes);
		client.send("more");
		auto served = backend.accept();
		EXPECT_EQ(served.receive(bytes.size() + 4), bytes + "more");
		served.send("answer");
		EXPECT_EQ(client.receive(6), "answer");
		served.close();
		EXPECT_EQ(client.receive_end(), ending::fin);
	}

	void expect_bad(const std::string &bytes)
	{
		const auto before = ended(*relay_, "bad_tls_hello");
		auto client = peer::sending(bytes, address_);
		end(client);
		EXPECT_EQ(client.receive_rest().first, "");
		EXPECT_TRUE(
			eventually([&] { return ended(*relay_, "bad_tls_hello") == before + 1; }));
	}

	std::string timeout_ = "40s";
	listener a_;
	listener b_;
	listener any_;
	listener others_;
	std::optional<file> config_;
	std::optional<relay_process> relay_;
	std::string address_;
};

TEST_F(Named, AreRoutedByName)
{
	start();
	expect_at(a_, hello("a.example"));
	expect_at(a_, hello("A.Example."));
	expect_at(any_, hello("x.example"));
	expect_at(any_, hello("x.a.example"));
	expect_at(b_, hello("y.x.b.example"));
	expect_at(any_, hello("b.example"));
	expect_at(others_, hello("example"));
	expect_at(others_, hello("aexample"));
	expect_at(others_, hello(""));
	relay_->await_error(" sni=x.a.example ");
	EXPECT_EQ(relay_->counter("bad_openings"), 0U);
	stop(*relay_);
}

TEST_F(Named, MayComeInPieces)
{
	start();
	expect_at(a_, hello("a.example"), true);
	expect_at(a_, hello("a.example", 7));
	expect_at(b_, hello("c.b.example", 1, 20), true);
	expect_at(a_, hello("a.example", 16384, 12000));
	const auto size = hello("a.example").size() + hello("a.example", 7).size() +
			  hello("c.b.example", 1, 20).size() +
			  hello("a.example", 16384, 12000).size();
	EXPECT_TRUE(eventually([&] { return relay_->counter("active") == 0; }));
	EXPECT_EQ(relay_->counter("bytes_to_backend"), size + 4 * 4);
	stop(*relay_);
}

TEST_F(Named, BadHellosEndTheConnection)
{
	start();
	expect_bad("GET / HTTP/1.1\r\n\r\n");
	expect_bad("SSH-2.0-OpenSSH\r\n");
	expect_bad(hello("a.example").substr(0, 30));
	expect_bad(hello("a.example", 16384, 17000));
	expect_bad(hello("a.example", 1, 6000));
	expect_bad("\x16\3\1\xff\xff"s + std::string(100, '\1'));
	EXPECT_EQ(relay_->counter("bad_openings"), 6U);
	stop(*relay_);
}

TEST_F(Named, HaveNoRouteWithoutADefault)
{
	start("");
	expect_at(a_, hello("a.example"));
	for (const char *name : {"other.test", ""}) {
		auto client = peer::sending(hello(name), address_);
		EXPECT_EQ(client.receive_rest(), std::pair("\x15\3\1\0\2\2\x70"s, ending::fin));
	}
	relay_->await_error(" sni=other.test");
	EXPECT_TRUE(eventually([&] { return ended(*relay_, "no_route") == 2; }));
	EXPECT_EQ(relay_->counter("no_route"), 2U);
	stop(*relay_);
}

TEST_F(Named, MustNotBeSlow)
{
	timeout_ = "300ms";
	start();
	auto silent = peer::connect(address_);
	auto slow = peer::connect(address_);
	const auto bytes = hello("a.example");
	slow.send(bytes.substr(0, 10));
	std::this_thread::sleep_for(100ms);
	try {
		slow.send(bytes.substr(10, 1)); /* more bytes do not extend the client's time */
	} catch (const std::system_error &) {
		/* The machine stalled the test until the time was over. */
	}
	EXPECT_EQ(silent.receive_end(), ending::fin);
	EXPECT_EQ(slow.receive_rest().first, "");
	EXPECT_TRUE(eventually([&] { return ended(*relay_, "hello_timeout") == 2; }));
	stop(*relay_);
}

TEST_F(Named, MayComeThroughAProxy)
{
	start("group = \"others\"\nproxy_from = [\"127.0.0.0/8\"]\n");
	auto client = peer::sending(proxy_v2() + hello("a.example") + "rest", address_);
	auto served = a_.accept();
	const auto bytes = hello("a.example") + "rest";
	EXPECT_EQ(served.receive(bytes.size()), bytes);
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();
	relay_->await_error("client=10.1.2.3:1000 peer=127.0.0.1:");
	stop(*relay_);
}

} // namespace
