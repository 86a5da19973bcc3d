/* SPDX-License-Identifier: MIT */
/* Unix sockets as addresses of listeners, backends and the admin server. */
#include "harness.hpp"

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace harness;
using namespace std::string_literals;

namespace
{

/* Passes bytes both ways, and a half-close. */
void serves(const std::string &address, listener &backend)
{
	auto client = peer::sending("ping", address);
	auto served = backend.accept();
	EXPECT_EQ(served.receive(4), "ping");
	client.shutdown_write();
	EXPECT_EQ(served.receive_end(), ending::fin);
	served.send("pong");
	served.close();
	EXPECT_EQ(client.receive_rest(), std::pair("pong"s, ending::fin));
}

std::string name_of(const std::string &what)
{
	return "unix:@sennit-relay-" + what + "-" + std::to_string(getpid());
}

std::string text(const std::string &of_listener, const std::string &backend,
		 const std::string &of_group = "")
{
	return "drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\ngroup = \"g\"\n" +
	       of_listener + "\n[groups.g]\neject_after = 0\nbackends = [\"" + backend + "\"]\n" +
	       of_group;
}

TEST(Unix, IsRelayedToTcp)
{
	const folder here;
	const std::string path = here / "a.sock", address = "unix:" + path;
	listener backend;
	relay_process relay({"--access-log", "stderr", address, backend.address()});
	EXPECT_EQ(relay.address(), address);
	serves(address, backend);
	relay.await_error("cause=client_end listener=" + address +
			  " client=unix: backend=" + backend.address() + " ");
	stop(relay);
	EXPECT_EQ(inode_of(path), 0U) << "it removes its file";
}

TEST(Unix, IsABackend)
{
	const folder here;
	listener by_path("unix:" + here / "b.sock");
	listener by_name(name_of("backend"));
	relay_process relay({"--access-log", "stderr", "127.0.0.1:0", by_path.address(),
			     "127.0.0.1:0", by_name.address()});
	serves(relay.address(0), by_path);
	serves(relay.address(1), by_name);
	relay.await_error(" backend=" + by_path.address() + " ");
	relay.await_error(" backend=" + by_name.address() + " ");
	stop(relay);
	EXPECT_NE(inode_of(here / "b.sock"), 0U) << "a backend's file is not the relay's";
}

TEST(Unix, IsRelayedToUnix)
{
	listener backend(name_of("inner"));
	relay_process relay({"unix:@", backend.address()});
	EXPECT_TRUE(relay.address().starts_with("unix:@")) << relay.address();
	EXPECT_GT(relay.address().size(), 6U);
	serves(relay.address(), backend);
	stop(relay);
}

/* More than the kernel's pipes hold, while the other direction is busy, too. */
TEST(Unix, CarriesManyBytes)
{
	std::mt19937_64 random(seed());
	const std::string up = random_bytes(random, scaled(32 << 20));
	const std::string down = random_bytes(random, scaled(32 << 20));
	const folder here;
	listener unix_backend("unix:" + here / "b.sock");
	listener tcp_backend;
	relay_process relay({"unix:" + here / "1", tcp_backend.address(), "127.0.0.1:0",
			     unix_backend.address(), "unix:" + here / "2", unix_backend.address()});
	for (std::size_t i = 0; i < 3; i++) {
		auto client = peer::connect(relay.address(i));
		auto served = (i == 0 ? tcp_backend : unix_backend).accept();
		std::jthread sending([&] {
			client.send(up);
			client.shutdown_write();
		});
		std::jthread answering([&] {
			served.send(down);
			served.shutdown_write();
		});
		std::pair<std::string, ending> arrived;
		std::jthread taking([&] { arrived = served.receive_rest(); });
		const auto [answer, how] = client.receive_rest();
		taking.join();
		EXPECT_EQ(how, ending::fin);
		EXPECT_EQ(arrived.second, ending::fin);
		EXPECT_TRUE(arrived.first == up) << i << ": " << arrived.first.size();
		EXPECT_TRUE(answer == down) << i << ": " << answer.size();
	}
	stop(relay);
}

/* A Unix socket has no reset: the client's side sees an end, and a close with unread bytes counts
 * as a reset. */
TEST(Unix, FailuresArePassedOn)
{
	const folder here;
	listener backend;
	relay_process relay({"unix:" + here / "a", backend.address()});
	auto client = peer::sending("x", relay.address());
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "x");
	served.reset();
	EXPECT_EQ(client.receive_end(), ending::fin);

	auto rude = peer::sending("x", relay.address());
	served = backend.accept();
	EXPECT_EQ(served.receive(1), "x");
	served.send("unread");
	EXPECT_TRUE(eventually([&] { /* wait until the bytes have arrived */
				     char c;
				     return recv(rude.fd(), &c, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
	}));
	rude.close();
	served.await_reset();
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(relay.counter("resets"), 2U);
	stop(relay);
}

TEST(Unix, AStaleFileIsReplacedAndOneInUseRefused)
{
	const folder here;
	const std::string path = here / "a.sock", address = "unix:" + path;
	listener backend;
	{
		const listener dead(address);
	}
	const auto stale = inode_of(path);
	EXPECT_NE(stale, 0U);
	relay_process relay({address, backend.address()});
	serves(relay.address(), backend);
	const auto inode = inode_of(path);
	EXPECT_NE(inode, 0U);

	relay_process second({address, backend.address()});
	const ended end = second.wait();
	EXPECT_EQ(end.status, 1);
	EXPECT_NE(end.errors.find("cannot listen on " + address + ": the path is in use; expected"),
		  std::string::npos)
		<< end.errors;
	EXPECT_EQ(inode_of(path), inode) << "the file is unchanged";
	serves(relay.address(), backend);
	stop(relay);
}

TEST(Unix, APathThatCannotBeUsedIsExplained)
{
	const folder here;
	const std::string file = here / "file";
	std::ofstream(file) << "precious\n";
	const auto inode = inode_of(file);
	mkdir((here / "folder").c_str(), 0700);
	for (const auto &[path, why] :
	     {std::pair(file, "a file that is no socket is there; expected a free path"),
	      std::pair(here / "folder", "a folder that is no socket is there; expected"),
	      std::pair(here / "file/socket", "a part of the path is not a folder; expected one"),
	      std::pair(here / "no/socket", "there is no such folder; expected one")})
		for (const bool is_admin : {false, true}) {
			const std::string address = "unix:" + path;
			std::vector<std::string> arguments{is_admin ? "127.0.0.1:0" : address,
							   "127.0.0.1:1"};
			if (is_admin)
				arguments.insert(arguments.begin(), {"--admin", address});
			relay_process relay(arguments);
			const ended end = relay.wait();
			EXPECT_EQ(end.status, 1);
			EXPECT_NE(end.errors.find("cannot listen on " + address +
						  (is_admin ? " for administration: " : ": ") +
						  why),
				  std::string::npos)
				<< end.errors;
		}
	EXPECT_EQ(inode_of(file), inode);
}

/* The file of a relay that was killed is still there. */
TEST(Unix, TheNextRelayReplacesTheFileOfOneThatWasKilled)
{
	const folder here;
	const std::string path = here / "a.sock", address = "unix:" + path;
	listener backend;
	{
		relay_process killed({address, backend.address()});
		serves(killed.address(), backend);
		killed.signal(SIGKILL);
		EXPECT_EQ(killed.wait().status, 128 + SIGKILL);
	}
	EXPECT_NE(inode_of(path), 0U);
	relay_process relay({address, backend.address()});
	serves(relay.address(), backend);
	stop(relay);
	EXPECT_EQ(inode_of(path), 0U);
}

TEST(Unix, TheFileHasTheMode)
{
	const folder here;
	const std::string path = here / "a.sock";
	listener backend;
	const mode_t former = umask(027);
	const auto mode_of = [&](const std::string &more) {
		configured_relay relay(
			text("address = \"unix:" + path + "\"\n" + more, backend.address()));
		serves(relay.address(), backend);
		struct stat found {
		};
		EXPECT_EQ(lstat(path.c_str(), &found), 0);
		stop(relay);
		return found.st_mode & 07777;
	};
	EXPECT_EQ(mode_of(""), 0750U);
	EXPECT_EQ(mode_of("mode = \"0660\""), 0660U);
	EXPECT_EQ(mode_of("mode = \"666\""), 0666U);
	umask(former);
}

TEST(Unix, AReloadKeepsThePath)
{
	const folder here;
	const std::string path = here / "a.sock", other = here / "b.sock";
	listener backend;
	const auto listening_at = [&](const std::string &at) {
		return text("address = \"unix:" + at + "\"", backend.address());
	};
	configured_relay relay(listening_at(path));
	serves(relay.address(), backend);
	const auto inode = inode_of(path);
	auto open = peer::connect(relay.address());
	auto served = backend.accept();
	EXPECT_TRUE(relay.reload(listening_at(path) + "slow_return = 0\n"));
	EXPECT_EQ(inode_of(path), inode);
	serves("unix:" + path, backend);

	/* A refused configuration neither leaves a file nor removes one. */
	EXPECT_FALSE(relay.reload(
		listening_at(other) +
		"[listeners.no]\ngroup = \"g\"\naddress = \"unix:" + here / "no/folder" + "\"\n"));
	EXPECT_EQ(inode_of(other), 0U);
	EXPECT_EQ(inode_of(path), inode);

	EXPECT_TRUE(relay.reload(listening_at(other)));
	EXPECT_TRUE(eventually([&] { return inode_of(path) == 0; })) << "the file is gone";
	serves("unix:" + other, backend);
	open.send("still");
	EXPECT_EQ(served.receive(5), "still");
	open.close();
	served.close();
	stop(relay);
	EXPECT_EQ(inode_of(other), 0U);
}

/* The file belongs to systemd. */
TEST(Unix, ASocketFromSystemdIsServedAndKeepsItsFile)
{
	const folder here;
	const std::string path = here / "a.sock", address = "unix:" + path;
	listener backend;
	listener handed(address);
	listener named(name_of("handed"));
	auto early = peer::sending("y", address);
	relay_process relay({named.address(), backend.address(), address, backend.address()}, 0,
			    {handed.fd(), named.fd()});
	EXPECT_EQ(relay.address(1), address);
	EXPECT_EQ(backend.accept().receive(1), "y");
	early.close();
	serves(address, backend);
	serves(named.address(), backend);
	stop(relay);
	EXPECT_NE(inode_of(path), 0U);
	EXPECT_NO_THROW(peer::connect(address));
}

TEST(Unix, BackendsAreChecked)
{
	const folder here;
	const std::string address = "unix:" + here / "b.sock";
	configured_relay relay(text("address = \"127.0.0.1:0\"", address,
				    "slow_return = 0\n[groups.g.check]\ninterval = \"20ms\"\n"
				    "timeout = \"10s\"\nfall = 2\nrise = 2\n"));
	const std::string backend = "backend " + address + " of g";
	relay.await_error(backend + " is down: No such file or directory");
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	relay.await_error("cause=no_backend");
	{
		const listener bound(address, -1);
		EXPECT_EQ(relay.metric("backend_up{group=\"g\",backend=\"" + address + "\"}"), 0U);
	}
	unlink((here / "b.sock").c_str());
	{
		const listener up(address);
		relay.await_error(backend + " is up again");
		EXPECT_TRUE(eventually([&] {
			return relay.metric("backend_up{group=\"g\",backend=\"" + address +
					    "\"}") == 1;
		}));
	}
	relay.await_error(backend + " is down: Connection refused");
	stop(relay);
}

/* Version 1 has no form for Unix sockets. Version 2 has their names, but a client's socket usually
 * has none. */
TEST(Unix, HeadersForItsClientsHaveTheNames)
{
	const folder here;
	std::string path = here / "a.sock";
	path.resize(108, '\0');
	for (const auto &[version, header] :
	     {std::pair("v1"s, "PROXY UNKNOWN\r\n"s),
	      std::pair("v2"s,
			"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8"s + std::string(108, '\0') + path)}) {
		listener backend;
		configured_relay relay(text("address = \"unix:" + here / "a.sock" + "\"",
					    backend.address(),
					    "send_proxy = \"" + version + "\"\n"));
		auto client = peer::sending("x", relay.address());
		auto served = backend.accept();
		EXPECT_EQ(served.receive(header.size() + 1), header + "x");
		served.close();
		client.close();
		stop(relay);
	}
}

/* A backend at a Unix socket gets the header of a TCP client, too. */
TEST(Unix, BackendsGetHeaders)
{
	const folder here;
	listener backend("unix:" + here / "b.sock");
	configured_relay relay(
		text("address = \"127.0.0.1:0\"", backend.address(), "send_proxy = \"v1\"\n"));
	auto client = peer::connect(relay.address());
	auto served = backend.accept();
	EXPECT_EQ(served.receive(29), "PROXY TCP4 127.0.0.1 127.0.0.");
	client.close();
	served.close();
	stop(relay);
}

TEST(Unix, ProxiesConnectThroughIt)
{
	const folder here;
	listener backend;
	configured_relay relay(
		text("address = \"unix:" + here / "a.sock" +
			     "\"\nproxy_from = [\"unix\"]\nallow = [\"10.0.0.0/8\"]\n",
		     backend.address()));
	auto client = peer::sending("PROXY TCP4 10.1.2.3 10.9.8.7 1000 443\r\nx", relay.address());
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "x");
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();
	relay.await_error("client=10.1.2.3:1000 peer=unix: ");

	auto denied = peer::sending("PROXY TCP4 11.1.2.3 10.9.8.7 1000 443\r\n", relay.address());
	EXPECT_EQ(denied.receive_rest().first, "");
	relay.await_error("cause=refused_list");
	auto bad = peer::sending("GET / HTTP/1.0\r\n\r\n", relay.address());
	EXPECT_EQ(bad.receive_rest().first, "");
	relay.await_error("cause=bad_proxy_header");
	auto own = peer::sending("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0x"s, relay.address());
	EXPECT_EQ(backend.accept().receive(1), "x");
	own.close();
	relay.await_error("client=unix: backend=");
	stop(relay);
}

TEST(Unix, TheAdminServerIsReachedThroughIt)
{
	const folder here;
	const std::string path = here / "admin.sock", address = "unix:" + here / "a.sock";
	listener backend;
	relay_process relay({"--admin", "unix:" + path, address, backend.address()});
	EXPECT_EQ(relay.admin_address(), "unix:" + path);
	serves(relay.address(), backend);
	EXPECT_EQ(relay.metric("connections_accepted_total{listener=\"" + address + "\"}"), 1U);
	auto admin = peer::sending("GET /json HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n",
				   "unix:" + path);
	const std::string page = admin.receive_rest().first;
	EXPECT_NE(page.find("\"name\":\"" + address + "\",\"address\":\"" + address + "\""),
		  std::string::npos)
		<< page;
	stop(relay);
	EXPECT_EQ(inode_of(path), 0U);
}

/* When the relay ends, it does not wait for a session that is still connecting. */
TEST(Unix, TheAdminServersFileIsRemovedWhileAClientWaits)
{
	const folder here;
	const std::string path = here / "admin.sock";
	const silent_backend backend;
	relay_process relay({"--drain", "0", "--connect-timeout", "1m", "--admin", "unix:" + path,
			     "127.0.0.1:0", backend.address()});
	const auto client = peer::connect(relay.address());
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 1; }));
	EXPECT_NE(inode_of(path), 0U);
	EXPECT_EQ(relay.stop().status, 0);
	EXPECT_EQ(inode_of(path), 0U);
}

TEST(Unix, AnInheritedDescriptorThatIsWrongForTheAdminServerIsExplained)
{
	const folder here;
	const listener bound("unix:" + here / "admin.sock", -1);
	relay_process relay({"--admin", bound.address(), "127.0.0.1:0", "127.0.0.1:1"}, 0,
			    {bound.fd()});
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 1);
	EXPECT_NE(end.errors.find("cannot listen on " + bound.address() +
				  " for administration with inherited descriptor 3: "),
		  std::string::npos)
		<< end.errors;
}

/* A Unix socket on one side does not disturb keepalive on the other. */
TEST(Unix, KeepaliveIsForTheOtherSideOnly)
{
	const folder here;
	listener backend("unix:" + here / "b.sock");
	configured_relay relay(text("keepalive = {idle = \"1s\", interval = \"1s\", count = 1}\n"
				    "user_timeout = \"1s\"\naddress = \"unix:" +
					    here / "a.sock" + "\"",
				    backend.address(),
				    "keepalive = \"1s\"\nuser_timeout = \"1s\"\n"));
	serves(relay.address(), backend);
	auto silent = peer::connect(relay.address());
	auto served = backend.accept();
	std::this_thread::sleep_for(2500ms); /* long enough to see a wrong probe */
	silent.send("awake");
	EXPECT_EQ(served.receive(5), "awake");
	silent.close();
	served.close();
	stop(relay);
}

} // namespace
