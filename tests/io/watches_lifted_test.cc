// SPDX-License-Identifier: MIT
//
// Epoll has no more places (fs.epoll.max_user_watches), and then has some again. The limit is
// shared by all processes of a user, so here this program's own epoll_ctl() stands for it. Under
// the thread sanitizer that would hide the synchronization that the kernel's provides.
#include <atomic>
#include <cerrno>
#include <string>

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/net.h"

#if !TEST_TSAN

namespace
{

std::atomic<bool> full{false};
std::atomic<int> refused{0};

} // namespace

extern "C" int epoll_ctl(int set, int operation, int fd, struct epoll_event *event) noexcept
{
	if (operation == EPOLL_CTL_ADD && full) {
		refused++;
		errno = ENOSPC;
		return -1;
	}
	return int(syscall(SYS_epoll_ctl, set, operation, fd, event));
}

namespace
{

using namespace test;

// A client that does not use the runtime.
int connect_to(const std::string &address)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in in = {};

	in.sin_family = AF_INET;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in.sin_port = htons(uint16_t(std::stoi(address.substr(address.rfind(':') + 1))));
	EXPECT_EQ(0, connect(fd, reinterpret_cast<sockaddr *>(&in), sizeof in));
	return fd;
}

// A client that has been accepted is lost, and no other one is. Each costs one attempt to get a
// place. Nothing has to be done when there is room again: the task that accepts continues by
// itself.
TASK_TEST(FullEpollSets, AreNoHindranceOnceThereIsRoom, 1, 2)
{
	constexpr int n = 3;
	Listener listener, other;
	Pair open(listener);
	const std::string address = listener.address();
	sn_tcp *conn = nullptr;
	char c = 'x';
	Task accepting([&] {
		sn_tcp *accepted = nullptr;
		const int err = sn_tcp_accept(listener.get(), &accepted);

		EXPECT_EQ(1, sn_tcp_write(accepted, "y", 1));
		return err == 0 ? sn_tcp_close(accepted) : err;
	});

	refused = 0;
	full = true;
	EXPECT_EQ(-ENOSPC,
		  sn_tcp_connect(&conn, other.address().c_str(), sn_now() + test::patience));
	EXPECT_EQ(1, refused) << "an attempt to connect is not repeated";
	for (int i = 0; i < n; i++) {
		const int lost = connect_to(address);

		EXPECT_TRUE(test::eventually([&] {
			const ssize_t got = recv(lost, &c, 1, MSG_DONTWAIT);
			return got == 0 || (got < 0 && errno != EAGAIN);
		}));
		close(lost);
	}
	EXPECT_EQ(1 + n, refused);
	// The last one is closed before its pause is counted.
	EXPECT_TRUE(test::eventually([] { return test::stats().accept_pauses >= n; }));
	EXPECT_EQ(uint64_t(n), test::stats().accept_pauses);
	// What is open continues.
	EXPECT_EQ(1, sn_tcp_write(open.client, "z", 1));
	EXPECT_EQ(1, sn_tcp_read(open.server, &c, 1));
	full = false;
	const int client = connect_to(address);
	EXPECT_TRUE(test::eventually([&] { return recv(client, &c, 1, MSG_DONTWAIT) == 1; }));
	EXPECT_EQ('y', c);
	EXPECT_EQ(0, accepting.join());
	close(client);
}

} // namespace

#else

TEST(FullEpollSets, AreNoHindranceOnceThereIsRoom)
{
	GTEST_SKIP() << "the thread sanitizer needs its own epoll_ctl()";
}

#endif
