// SPDX-License-Identifier: MIT
//
// Adopting listening descriptors: what can be adopted and how it is changed. A refused descriptor
// still belongs to the caller, and is unchanged.
#include <cerrno>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <sennit/scan.h>

#include "support/net.h"

namespace
{

using test::Task;

// A plain, blocking descriptor, as a service manager creates it.
int plain(int family, int type, bool bound, bool listening)
{
	const int fd = socket(family, type, 0);
	sockaddr_storage address = {};
	socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);

	EXPECT_GE(fd, 0);
	address.ss_family = sa_family_t(family);
	if (family == AF_INET)
		reinterpret_cast<sockaddr_in *>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (family == AF_INET6)
		reinterpret_cast<sockaddr_in6 *>(&address)->sin6_addr = in6addr_loopback;
	else
		length = sizeof(sa_family_t); // the kernel chooses an abstract name
	if (bound) {
		EXPECT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&address), length));
	}
	if (listening) {
		EXPECT_EQ(0, listen(fd, 10));
	}
	return fd;
}

std::string address_of(sn_tcp_listener *listener)
{
	char text[SN_ADDRESS_MAX];

	EXPECT_GT(sn_tcp_listener_address(listener, text, sizeof text), 0);
	return text;
}

void expect_connection(sn_tcp_listener *listener)
{
	sn_tcp *near = nullptr, *far = nullptr;
	// The accept begins first, so that it waits and has to be woken.
	Task accepting([&] { EXPECT_EQ(0, sn_tcp_accept(listener, &far)); });
	sn_yield();
	EXPECT_EQ(0, sn_tcp_connect(&near, address_of(listener).c_str(), SN_NO_DEADLINE));
	accepting.join();
	char byte = 'x';
	EXPECT_EQ(1, sn_tcp_write(near, &byte, 1));
	EXPECT_EQ(1, sn_tcp_read(far, &byte, 1));
	sn_tcp_close(near);
	sn_tcp_close(far);
}

TASK_TEST(Adopt, TakesOverListeningSockets)
{
	for (const int family : {AF_INET, AF_INET6}) {
		const int fd = plain(family, SOCK_STREAM, true, true);
		sn_tcp_listener *listener = nullptr;

		ASSERT_EQ(0, sn_tcp_listener_adopt(&listener, fd));
		EXPECT_EQ(fd, sn_tcp_listener_fd(listener));
		EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
		EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		expect_connection(listener);
		expect_connection(listener);
		EXPECT_EQ(0, sn_tcp_listener_close(listener));
		EXPECT_EQ(-1, fcntl(fd, F_GETFD));
	}
}

// Connections from before the adoption are accepted. A deadline and a close end the wait.
TASK_TEST(Adopt, ServesTheBacklogAndIsAListenerLikeOthers)
{
	const int fd = plain(AF_INET, SOCK_STREAM, true, true);
	const int client = socket(AF_INET, SOCK_STREAM, 0);
	sockaddr_in address = {};
	socklen_t length = sizeof address;
	sn_tcp_listener *listener = nullptr;
	sn_tcp *far = nullptr;

	ASSERT_EQ(0, getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length));
	ASSERT_EQ(0, connect(client, reinterpret_cast<sockaddr *>(&address), length));
	ASSERT_EQ(0, sn_tcp_listener_adopt(&listener, fd));
	EXPECT_EQ(0, sn_tcp_accept(listener, &far));
	int no_delay = 0;
	length = sizeof no_delay;
	ASSERT_EQ(0, getsockopt(sn_tcp_fd(far), IPPROTO_TCP, TCP_NODELAY, &no_delay, &length));
	EXPECT_NE(0, no_delay);
	sn_tcp_close(far);
	close(client);
	sn_tcp_listener_set_deadline(listener, sn_now() + 1000000);
	EXPECT_EQ(-ETIMEDOUT, sn_tcp_accept(listener, &far));
	sn_tcp_listener_set_deadline(listener, SN_NO_DEADLINE);
	Task accepting([&] { EXPECT_EQ(-EBADF, sn_tcp_accept(listener, &far)); });
	// Close only once the task waits: after the close it would have no listener to call
	// with.
	EXPECT_TRUE(test::eventually([] {
		return sn_tasks_each(
			       [](const struct sn_task_info *info, void *) {
				       return int(info->state == SN_STATE_PARKED &&
						  info->waits_for);
			       },
			       nullptr) == 1;
	}));
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
	accepting.join();
}

// Closing one of two descriptors leaves the socket listening, and its backlog as it was.
TASK_TEST(Adopt, ClosesItsOwnDescriptorOnly)
{
	const int fd = plain(AF_INET, SOCK_STREAM, true, true);
	const int other = dup(fd);
	sn_tcp_listener *first = nullptr, *second = nullptr;
	sn_tcp *near = nullptr, *far = nullptr;

	ASSERT_EQ(0, sn_tcp_listener_adopt(&first, fd));
	ASSERT_EQ(0, sn_tcp_connect(&near, address_of(first).c_str(), SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_tcp_listener_close(first));
	ASSERT_EQ(0, sn_tcp_listener_adopt(&second, other));
	EXPECT_EQ(0, sn_tcp_accept(second, &far));
	sn_tcp_close(near);
	sn_tcp_close(far);
	expect_connection(second);
	sn_tcp_listener_close(second);
}

// Descriptors that a call must not adopt, and the errors of that call.
struct Refused {
	int fd, error;
};

template <class Handle>
void expect_refused(int (*adopt)(Handle **, int), const std::vector<Refused> &all)
{
	Handle *made = nullptr;

	for (const auto &[fd, error] : all) {
		EXPECT_EQ(error, adopt(&made, fd));
		EXPECT_EQ(nullptr, made);
		EXPECT_FALSE(fcntl(fd, F_GETFL) & O_NONBLOCK);
		EXPECT_FALSE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		EXPECT_EQ(0, close(fd));
	}
	EXPECT_EQ(-EBADF, adopt(&made, -1));
	EXPECT_EQ(-EBADF, adopt(&made, all[0].fd));
}

TASK_TEST(Adopt, RefusesOtherDescriptorsAndLeavesThemUnchanged)
{
	int ends[2];

	ASSERT_EQ(0, pipe(ends));
	expect_refused(sn_tcp_listener_adopt,
		       {
			       {plain(AF_INET, SOCK_STREAM, false, false), -EINVAL},
			       {plain(AF_INET, SOCK_STREAM, true, false), -EINVAL},
			       {plain(AF_INET, SOCK_DGRAM, true, false), -EPROTOTYPE},
			       {plain(AF_UNIX, SOCK_STREAM, true, false), -EINVAL},
			       {plain(AF_UNIX, SOCK_SEQPACKET, true, true), -EPROTOTYPE},
			       {plain(AF_UNIX, SOCK_DGRAM, true, false), -EPROTOTYPE},
			       {ends[0], -ENOTSOCK},
			       {ends[1], -ENOTSOCK},
		       });
}

// A connection by plain calls to a listener of the family: its descriptor, and that of the other
// end.
std::pair<int, int> plain_connection(int family)
{
	const int listener = plain(family, SOCK_STREAM, true, true);
	const int near = socket(family, SOCK_STREAM, 0);
	sockaddr_storage address = {};
	socklen_t length = sizeof address;

	EXPECT_EQ(0, getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length));
	EXPECT_EQ(0, connect(near, reinterpret_cast<sockaddr *>(&address), length));
	const int far = accept(listener, nullptr, nullptr);
	EXPECT_GE(far, 0);
	close(listener);
	return {near, far};
}

TASK_TEST(Adopt, MakesAConnectionOfAConnectedDescriptor)
{
	for (const int family : {AF_INET, AF_INET6, AF_UNIX}) {
		const auto [fd, other] = plain_connection(family);
		sn_tcp *near = nullptr, *again = nullptr, *far = nullptr;
		char byte;

		ASSERT_EQ(0, sn_tcp_adopt(&near, fd));
		EXPECT_EQ(fd, sn_tcp_fd(near));
		EXPECT_EQ(-EEXIST, sn_tcp_adopt(&again, fd));
		EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
		EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		ASSERT_EQ(0, sn_tcp_adopt(&far, other));
		// The reader begins first, so that it waits and has to be woken.
		Task reader([&] { EXPECT_EQ(1, sn_tcp_read(far, &byte, 1)); });
		EXPECT_TRUE(test::eventually([&] { return probe_fd_waiting(far, 0); }));
		EXPECT_EQ(1, sn_tcp_write(near, "x", 1));
		reader.join();
		EXPECT_EQ(0, sn_tcp_close(near));
		EXPECT_EQ(0, sn_tcp_read(far, &byte, 1));
		EXPECT_EQ(0, sn_tcp_close(far));
	}
}

TASK_TEST(Adopt, RefusesWhatIsNoConnectionAndLeavesItUnchanged)
{
	int ends[2];

	ASSERT_EQ(0, pipe(ends));
	expect_refused(sn_tcp_adopt, {
					     {plain(AF_INET, SOCK_STREAM, false, false), -ENOTCONN},
					     {plain(AF_INET, SOCK_STREAM, true, true), -EINVAL},
					     {plain(AF_INET, SOCK_DGRAM, true, false), -EPROTOTYPE},
					     {plain(AF_UNIX, SOCK_STREAM, true, true), -EINVAL},
					     {plain(AF_UNIX, SOCK_DGRAM, true, false), -EPROTOTYPE},
					     {ends[0], -ENOTSOCK},
					     {ends[1], -ENOTSOCK},
				     });
}

TASK_TEST(Adopt, RefusesADescriptorThatItHasAlready)
{
	const int fd = plain(AF_INET, SOCK_STREAM, true, true);
	sn_tcp_listener *listener = nullptr, *again = nullptr;

	ASSERT_EQ(0, sn_tcp_listener_adopt(&listener, fd));
	EXPECT_EQ(-EEXIST, sn_tcp_listener_adopt(&again, fd));
	expect_connection(listener);
	sn_tcp_listener_close(listener);
}

// The number of a stream is closed, while the open file stays open under another number. Then the
// file gets the number again, as happens to a descriptor that is passed over a Unix socket.
TASK_TEST(Adopt, TakesOverANumberThatHasComeBack)
{
	sn_stream *stream = nullptr, *again = nullptr;
	int fds[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	const int kept = dup(fds[0]);
	ASSERT_EQ(0, sn_stream_adopt(&stream, fds[0]));
	EXPECT_EQ(0, sn_stream_close(stream));
	ASSERT_EQ(fds[0], dup2(kept, fds[0]));
	ASSERT_EQ(0, sn_stream_adopt(&stream, fds[0]));
	EXPECT_EQ(-EEXIST, sn_stream_adopt(&again, fds[0])) << "the number belongs to a stream now";
	// epoll reports the descriptor.
	Task reading([&] {
		char byte;

		EXPECT_EQ(1, sn_stream_read(stream, &byte, 1));
	});
	EXPECT_TRUE(test::eventually([&] { return probe_fd_waiting(stream, 0); }));
	EXPECT_EQ(1, write(fds[1], "x", 1));
	reading.join();
	EXPECT_EQ(0, sn_stream_close(stream));
	close(kept);
	close(fds[1]);
}

TEST(Adopt, IsRefusedOutsideATask)
{
	const int fd = plain(AF_INET, SOCK_STREAM, true, true);
	sn_tcp_listener *listener = nullptr;

	EXPECT_EQ(-ENOTSUP, sn_tcp_listener_adopt(&listener, fd));
	sn_tcp *conn = nullptr;

	EXPECT_EQ(-ENOTSUP, sn_tcp_adopt(&conn, fd));
	EXPECT_EQ(0, close(fd));
}

} // namespace
