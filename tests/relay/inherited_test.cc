/* SPDX-License-Identifier: MIT */
/*
 * Listening sockets that a service manager passes on, and the list of those that an old process
 * passes on. The linker redirects calls of memfd_create() to this file (--wrap).
 */
#include "handover/inherited.hpp"

#include "base/unnamed_file.hpp"
#include "harness.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

using namespace harness;

namespace
{

enum class memory {
	usual,
	refused,
	without_seals,
	without_room, /* nothing can be written */
};
std::atomic<memory> mode{memory::usual};

} // namespace

extern "C" {

/* Names of the linker. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

int __wrap_memfd_create(const char *name, unsigned flags)
{
	switch (mode) {
	case memory::usual:
		break;
	case memory::refused:
		errno = EPERM;
		return -1;
	case memory::without_seals:
		return __real_memfd_create(name, flags & ~unsigned{MFD_ALLOW_SEALING});
	case memory::without_room:
		return open("/dev/full", O_WRONLY | O_CLOEXEC);
	}
	return __real_memfd_create(name, flags);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
}

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

/* The name of the file that the descriptor has open. */
std::string file_of(int fd)
{
	return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
}

TEST(Inherited, AnUnnamedFileHasTheText)
{
	const std::string text(300'000, 'x');
	for (const auto each : {memory::refused, memory::without_room}) {
		mode = each;
		const int fd = relay::make_unnamed_file(text);
		mode = memory::usual;
		EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
		EXPECT_EQ(file_of(fd).substr(0, 5), "/tmp/");
		EXPECT_TRUE(file_of(fd).ends_with(" (deleted)")) << file_of(fd);
		EXPECT_EQ(relay::take_unnamed_file(fd), text);
		EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "it is closed";
	}
	EXPECT_THROW(relay::take_unnamed_file(-1), std::system_error);
}

TEST(Inherited, AnUnnamedFileIsInMemoryIfThatIsAllowed)
{
	const int plain = memfd_create("plain", MFD_CLOEXEC);
	if (plain < 0)
		GTEST_SKIP() << "no file in memory can be made";
	close(plain);
	const std::string text(300'000, 'x');
	for (const auto each : {memory::usual, memory::without_seals}) {
		mode = each;
		const int fd = relay::make_unnamed_file(text);
		mode = memory::usual;
		EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
		EXPECT_EQ(file_of(fd).substr(0, 7), "/memfd:");
		const bool is_changed = ftruncate(fd, static_cast<off_t>(text.size())) == 0 &&
					pwrite(fd, "x", 1, 0) == 1;
		EXPECT_EQ(is_changed, each == memory::without_seals);
		EXPECT_EQ(relay::take_unnamed_file(fd), text);
	}
}

/* Every version of the relay takes over what is in the variable, so a list is passed in another way
 * only if it does not fit. */
TEST(Inherited, TheListIsInTheVariableIfItFits)
{
	relay::owned_fd list;
	EXPECT_EQ(relay::to_handover_value("7;8,61,127.0.0.1:1", list), "7;8,61,127.0.0.1:1");
	EXPECT_EQ(list.get(), -1);
	for (std::string text(130'000, 'x');; text += 'x') {
		const auto value = relay::to_handover_value(text, list);
		if (list.get() >= 0) {
			EXPECT_EQ(value, std::to_string(list.get()));
			EXPECT_EQ(relay::take_unnamed_file(list.release()), text);
			break;
		}
		EXPECT_EQ(value, text);
		/* The size of the string, with its end, which the kernel limits. */
		ASSERT_LE(sizeof "SENNIT_RELAY_HANDOVER=" + text.size(), 128U * 1024);
	}
}

/* A version that does not know of the file must not serve: it takes the file for the socket of each
 * listener. */
TEST(Inherited, TheVariableOfALongListHasNoSockets)
{
	const std::string name(2000, 'a'), rest = ',' + name + ",127.0.0.1:0";
	std::string text = "7";
	for (int i = 0; i < 100; i++)
		text += ";8" + rest;
	relay::owned_fd list;
	const auto value = relay::to_handover_value(text, list);
	const std::string number = std::to_string(list.get()), entry = ';' + number + rest;
	const std::size_t fit = (value.size() - number.size()) / entry.size();
	EXPECT_GT(fit, 12U);
	EXPECT_LE(sizeof "SENNIT_RELAY_HANDOVER=" + value.size(), 32U * 1024);
	std::string expected = number;
	for (std::size_t i = 0; i < fit; i++)
		expected += entry;
	EXPECT_EQ(value, expected);
	EXPECT_EQ(relay::take_unnamed_file(list.release()), text);
}

TEST(Inherited, AListInAFileIsTakenOver)
{
	int report[2];
	ASSERT_EQ(pipe2(report, O_CLOEXEC), 0);
	const int list = relay::make_unnamed_file(std::to_string(report[1]));
	setenv(relay::handover_variable, (std::to_string(list) + ";3,61,127.0.0.1:0").c_str(), 1);
	relay::inherited from_former;
	from_former.take_over();
	EXPECT_EQ(std::getenv(relay::handover_variable), nullptr);
	EXPECT_EQ(fcntl(list, F_GETFD), -1);
	EXPECT_TRUE(from_former.has_former());
	close(report[0]);
	EXPECT_FALSE(from_former.has_former());
	close(report[1]);
}

} // namespace
