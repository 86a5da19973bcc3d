// SPDX-License-Identifier: MIT
//
// The limit of epoll (fs.epoll.max_user_watches) is reached, so no more descriptors can be watched.
// The limit is shared by all processes of a user, so here a filter for system calls stands for it.
// Open descriptors keep working.
#include <cstddef>
#include <cstring>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/fd.h>

#include "support/net.h"

namespace
{

using test::Listener;
using test::Pair;

// Makes epoll refuse further descriptors, for all threads. Returns false where that is impossible.
bool fill_epoll_sets()
{
	const unsigned number = offsetof(seccomp_data, nr);
	const unsigned operation = offsetof(seccomp_data, args) + sizeof(uint64_t);
	sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_ctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, operation),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const sock_fprog program = {sizeof steps / sizeof *steps, steps};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
		       0;
}

void exchange(Pair &pair)
{
	char c = 0;

	CHILD_CHECK(sn_tcp_write(pair.client, "x", 1) == 1);
	CHILD_CHECK(sn_tcp_read(pair.server, &c, 1) == 1);
	CHILD_CHECK(sn_tcp_write(pair.server, "y", 1) == 1);
	CHILD_CHECK(sn_tcp_read(pair.client, &c, 1) == 1 && c == 'y');
}

// A client that does not use the runtime.
int connect_to(const std::string &address)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in in = {};

	in.sin_family = AF_INET;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in.sin_port = htons(uint16_t(std::stoi(address.substr(address.rfind(':') + 1))));
	CHILD_CHECK(connect(fd, reinterpret_cast<sockaddr *>(&in), sizeof in) == 0);
	return fd;
}

int use_full(void *)
{
	Listener listener;
	Pair pair(listener);
	const std::string address = listener.address();
	const int event = eventfd(0, EFD_CLOEXEC);
	sn_tcp_listener *other = nullptr;
	sn_stream *stream = nullptr;
	sn_udp *udp = nullptr;
	sn_tcp *conn = nullptr;
	int ends[2];

	if (!fill_epoll_sets())
		return 77;
	exchange(pair);
	// The errors are those that the headers name. No descriptor stays open, and none is taken
	// from the caller.
	CHILD_CHECK(sn_tcp_listen(&other, "127.0.0.1:0") == -ENOSPC);
	CHILD_CHECK(sn_tcp_connect(&conn, address.c_str(), sn_now() + test::patience) == -ENOSPC);
	CHILD_CHECK(sn_udp_open(&udp, "127.0.0.1:0", nullptr) == -ENOSPC);
	CHILD_CHECK(sn_fd_wait(event, POLLIN, sn_now() + test::patience) == -ENOSPC);
	CHILD_CHECK(pipe(ends) == 0);
	CHILD_CHECK(sn_stream_adopt(&stream, ends[0]) == -ENOSPC);
	CHILD_CHECK(fcntl(ends[0], F_GETFD) >= 0);
	// Accepting pauses. An accepted client cannot be put back into the backlog, so it is
	// closed.
	const int client = connect_to(address);
	char c;

	CHILD_CHECK(sn_tcp_listener_set_deadline(listener.get(), sn_now() + 50 * test::ms) == 0);
	CHILD_CHECK(sn_tcp_accept(listener.get(), &conn) == -ETIMEDOUT);
	CHILD_CHECK(test::stats().accept_pauses > 0);
	CHILD_CHECK(recv(client, &c, 1, 0) <= 0);
	exchange(pair);
	return 8;
}

TEST(FullEpollSets, FailWhatNeedsOneAndLeaveTheRestAlone)
{
	if (TEST_TSAN || TEST_EMULATED)
		GTEST_SKIP() << "no threads after a fork, or no filters";
	const pid_t child = fork();

	if (child == 0)
		_exit(sn_run(use_full, nullptr));
	int status = -1;
	EXPECT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status)) << status;
	if (WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "no filters here";
	EXPECT_EQ(8, WEXITSTATUS(status));
}

} // namespace
