/* SPDX-License-Identifier: MIT */
/* Listening sockets that a service manager passes on. */
#include "harness.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

using namespace harness;

namespace
{

void serves(const std::string &address, listener &backend)
{
	auto client = peer::sending("x", address);
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "x");
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
}

/* The sockets come in any order, and clients may have connected before the relay started. */
TEST(Inherited, SocketsAreServed)
{
	listener backend;
	const listener one;
	const listener two;
	auto early = peer::sending("y", one.address());
	relay_process relay({two.address(), backend.address(), one.address(), backend.address()}, 0,
			    {one.fd(), two.fd()});
	EXPECT_EQ(relay.address(0), two.address());
	EXPECT_EQ(relay.address(1), one.address());
	EXPECT_EQ(backend.accept().receive(1), "y");
	early.close();
	serves(one.address(), backend);
	serves(two.address(), backend);
	stop(relay);
	/* The manager still holds the sockets, so no client is refused while the relay is down. */
	EXPECT_NO_THROW(peer::connect(one.address()));
}

/* ":PORT" asks for every address. */
TEST(Inherited, SocketsOfEveryAddressAreServed)
{
	listener backend;
	const listener any("0.0.0.0");
	const std::string port = any.address().substr(any.address().rfind(':'));
	relay_process relay({port, backend.address()}, 0, {any.fd()});
	EXPECT_EQ(relay.address(), "0.0.0.0" + port);
	serves("127.0.0.1" + port, backend);
	stop(relay);
}

TEST(Inherited, AnUnclaimedSocketIsClosedAndReported)
{
	listener backend;
	const listener other;
	relay_process relay({"127.0.0.1:0", backend.address()}, 0, {other.fd()});
	relay.await_error("closing inherited descriptor 3, which no listener uses");
	serves(relay.address(), backend);
	stop(relay);
}

TEST(Inherited, ASocketThatDoesNotListenIsAnError)
{
	const listener bound("127.0.0.1", -1);
	relay_process relay({bound.address(), "127.0.0.1:1"}, 0, {bound.fd()});
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 1);
	EXPECT_NE(end.errors.find("cannot listen on " + bound.address() +
				  " with inherited descriptor 3: "),
		  std::string::npos)
		<< end.errors;
}

} // namespace
