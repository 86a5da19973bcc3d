// SPDX-License-Identifier: MIT
//
// Calls that move more than one message: sendmmsg(), recvmmsg() and sendfile(). Their results when
// they time out, end early, or are cancelled.
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/sendfile.h>

#include "hooks/hooks.h"

namespace
{

using namespace test;

// Messages of the same size, which contain their numbers.
class Messages
{
public:
	Messages(unsigned n, size_t size) : n(n), bytes_(n * size, 0), iov_(n), messages_(n)
	{
		for (unsigned i = 0; i < n; i++) {
			memset(&bytes_[i * size], int('a' + i % 26), size);
			iov_[i] = {&bytes_[i * size], size};
			messages_[i].msg_hdr.msg_iov = &iov_[i];
			messages_[i].msg_hdr.msg_iovlen = 1;
		}
	}

	struct mmsghdr *data() { return messages_.data(); }
	struct mmsghdr &operator[](size_t i) { return messages_[i]; }
	char first_byte(size_t i) const { return *(const char *)iov_[i].iov_base; }
	size_t length() const
	{
		size_t sum = 0;

		for (const auto &message : messages_)
			sum += message.msg_len;
		return sum;
	}
	const std::string &bytes() const { return bytes_; }

	const unsigned n;

private:
	std::string bytes_;
	std::vector<struct iovec> iov_;
	std::vector<struct mmsghdr> messages_;
};

void set_timeout(int fd, int option, int64_t ns)
{
	const struct timeval time = {0, suseconds_t(ns / 1000)};

	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, option, &time, sizeof time));
}

void wait_for_park(uint64_t before)
{
	EXPECT_TRUE(test::eventually([&] { return hooks().parked > before; }));
}

// Runs the body in a hooked task, and the end when the body waits.
template <class Body, class End>
void run_until_it_waits(Body body, End end)
{
	test::run(2, [&] {
		const uint64_t before = hooks().parked;
		Task task = hooked(body);

		wait_for_park(before);
		end();
		task.join();
	});
}

// Runs the body in a scope that is cancelled when the body waits.
template <class Body>
void run_until_cancelled(Body body)
{
	test::run(2, [&] {
		hooked([&] {
			sn_scope *scope;

			ASSERT_EQ(0, sn_scope_open(&scope, 0));
			Task canceller([scope, before = hooks().parked] {
				wait_for_park(before);
				sn_scope_cancel(scope);
			});
			body();
			sn_cancel_mask();
			canceller.join();
			sn_cancel_unmask();
			sn_scope_close(scope);
		}).join();
	});
}

// ---- sendmmsg ----

TEST(Sendmmsg, WaitsUntilAllAreSent)
{
	SocketPair pair(SOCK_DGRAM);
	Messages messages(300, 1000);

	run_until_it_waits(
		[&] {
			EXPECT_EQ(300,
				  outcome(sendmmsg(pair.fd[0], messages.data(), messages.n, 0)));
			EXPECT_EQ(300000u, messages.length());
		},
		[&] {
			char buf[2000];

			for (int i = 0; i < 300; i++) {
				ASSERT_EQ(1000, outcome(recv(pair.fd[1], buf, sizeof buf, 0)));
				ASSERT_EQ('a' + i % 26, buf[0]);
			}
		});
}

TEST(Sendmmsg, FinishesEachMessageOfAStream)
{
	if (TEST_EMULATED)
		GTEST_SKIP() << "the emulator sends further messages after a part of one";
	SocketPair pair;
	Messages messages(7, 300001);
	std::string got(7 * 300001, 0);

	run_until_it_waits(
		[&] {
			EXPECT_EQ(7, outcome(sendmmsg(pair.fd[0], messages.data(), messages.n, 0)));
			EXPECT_EQ(got.size(), messages.length());
		},
		[&] {
			EXPECT_EQ(ssize_t(got.size()),
				  outcome(recv(pair.fd[1], got.data(), got.size(), MSG_WAITALL)));
		});
	EXPECT_TRUE(got == messages.bytes());
}

// The call sends what fits; the next one sends nothing.
TEST(Sendmmsg, TellsHowManyItSentInTime)
{
	SocketPair pair(SOCK_DGRAM);
	Messages messages(1024, 1000);

	set_timeout(pair.fd[0], SO_SNDTIMEO, 20 * ms);
	test::run(2, [&] {
		hooked([&] {
			const int n = sendmmsg(pair.fd[0], messages.data(), messages.n, 0);

			EXPECT_GT(n, 0);
			EXPECT_LT(n, 1024);
			EXPECT_EQ(size_t(n) * 1000, messages.length());
			EXPECT_EQ(-EAGAIN,
				  outcome(sendmmsg(pair.fd[0], messages.data(), messages.n, 0)));
			EXPECT_EQ(-EAGAIN, outcome(sendmmsg(pair.fd[0], messages.data(), messages.n,
							    MSG_DONTWAIT)));
		}).join();
	});
}

TEST(Sendmmsg, TellsHowManyItSentBeforeItWasCancelled)
{
	SocketPair pair(SOCK_DGRAM);
	Messages messages(1024, 1000);

	run_until_cancelled([&] {
		const int n = sendmmsg(pair.fd[0], messages.data(), messages.n, 0);

		EXPECT_GT(n, 0);
		EXPECT_LT(n, 1024);
		EXPECT_EQ(-ECANCELED,
			  outcome(sendmmsg(pair.fd[0], messages.data(), messages.n, 0)));
	});
}

TEST(Sendmmsg, FailsAsWithoutHooks)
{
	SocketPair pair;
	Messages messages(3, 10);

	test::run(2, [&] {
		hooked([&] {
			EXPECT_EQ(-EBADF, outcome(sendmmsg(-1, messages.data(), 3, 0)));
			EXPECT_EQ(0, outcome(sendmmsg(pair.fd[0], messages.data(), 0, 0)));
			pair.close_end(1);
			EXPECT_EQ(-EPIPE,
				  outcome(sendmmsg(pair.fd[0], messages.data(), 3, MSG_NOSIGNAL)));
		}).join();
	});
}

// ---- recvmmsg ----

TEST(Recvmmsg, WaitsUntilAllHaveCome)
{
	SocketPair pair(SOCK_DGRAM);
	Messages messages(3, 100);

	run_until_it_waits(
		[&] {
			EXPECT_EQ(3, outcome(recvmmsg(pair.fd[0], messages.data(), 3, 0, nullptr)));
			EXPECT_EQ(6u, messages.length());
			EXPECT_EQ('z', messages.first_byte(2));
		},
		[&] {
			for (const char *text : {"x", "yy", "zzz"}) {
				const uint64_t before = hooks().parked;

				EXPECT_EQ(ssize_t(strlen(text)),
					  write(pair.fd[1], text, strlen(text)));
				if (*text != 'z')
					wait_for_park(before);
			}
		});
}

TEST(Recvmmsg, WaitsForOneIfAsked)
{
	SocketPair pair(SOCK_DGRAM);
	Messages messages(5, 100);

	run_until_it_waits(
		[&] {
			EXPECT_EQ(1, outcome(recvmmsg(pair.fd[0], messages.data(), 5,
						      MSG_WAITFORONE, nullptr)));
			EXPECT_EQ(1, write(pair.fd[1], "y", 1));
			EXPECT_EQ(1, write(pair.fd[1], "z", 1));
			EXPECT_EQ(2, outcome(recvmmsg(pair.fd[0], messages.data(), 5,
						      MSG_WAITFORONE, nullptr)));
		},
		[&] { EXPECT_EQ(1, write(pair.fd[1], "x", 1)); });
}

// The timeout does not end a wait: it is checked only when a message has come.
TEST(Recvmmsg, LooksAtItsTimeoutAfterEachMessage)
{
	SocketPair pair(SOCK_DGRAM);
	Messages messages(5, 100);
	const auto with_timeout = [&](int64_t ns, int64_t *left) {
		struct timespec time = {time_t(ns / second), long(ns % second)};
		const int64_t n = outcome(recvmmsg(pair.fd[0], messages.data(), 5, 0, &time));

		*left = time.tv_sec * second + time.tv_nsec;
		return n;
	};
	int64_t left;

	for (int i = 0; i < 2; i++)
		ASSERT_EQ(1, write(pair.fd[1], "x", 1));
	run_until_it_waits(
		[&] {
			if (!TEST_EMULATED) { // an emulator may not check it
				EXPECT_EQ(-EINVAL, with_timeout(-second, &left));
			}
			EXPECT_EQ(1, with_timeout(0, &left)) << "of two";
			EXPECT_EQ(0, left);
			char byte;

			EXPECT_EQ(1, outcome(recv(pair.fd[0], &byte, 1, 0)));
			EXPECT_EQ(1, with_timeout(1, &left)) << "waits, and then has one message";
			EXPECT_EQ(0, left);
			for (int i = 0; i < 5; i++)
				EXPECT_EQ(1, write(pair.fd[1], "x", 1));
			EXPECT_EQ(5, with_timeout(1000 * second, &left));
			EXPECT_LT(left, 1000 * second);
			EXPECT_GT(left, 1000 * second - test::patience);
		},
		[&] { EXPECT_EQ(1, write(pair.fd[1], "x", 1)); });
}

TEST(Recvmmsg, TellsHowManyCameInTime)
{
	SocketPair pair(SOCK_DGRAM);
	Messages messages(5, 100);

	set_timeout(pair.fd[0], SO_RCVTIMEO, 20 * ms);
	test::run(2, [&] {
		hooked([&] {
			const int64_t begun = sn_now();

			EXPECT_EQ(-EAGAIN,
				  outcome(recvmmsg(pair.fd[0], messages.data(), 5, 0, nullptr)));
			EXPECT_GE(sn_now() - begun, 20 * ms);
			EXPECT_EQ(1, write(pair.fd[1], "x", 1));
			EXPECT_EQ(1, outcome(recvmmsg(pair.fd[0], messages.data(), 5, 0, nullptr)));
			EXPECT_GE(sn_now() - begun, 40 * ms);
			EXPECT_EQ(-EAGAIN, outcome(recvmmsg(pair.fd[0], messages.data(), 5,
							    MSG_DONTWAIT, nullptr)));
		}).join();
	});
}

TEST(Recvmmsg, TellsHowManyCameBeforeItWasCancelled)
{
	SocketPair pair(SOCK_DGRAM);
	Messages messages(5, 100);

	for (int i = 0; i < 2; i++)
		ASSERT_EQ(1, write(pair.fd[1], "x", 1));
	run_until_cancelled([&] {
		EXPECT_EQ(2, outcome(recvmmsg(pair.fd[0], messages.data(), 5, 0, nullptr)));
		EXPECT_EQ(-ECANCELED,
			  outcome(recvmmsg(pair.fd[0], messages.data(), 5, 0, nullptr)));
	});
}

// No socket listens there, which the next call reports.
TEST(Recvmmsg, LeavesAnErrorToTheNextCall)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const int peer = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address[2] = {};
	socklen_t length = sizeof address[0];
	Messages messages(5, 100);

	for (int i = 0; i < 2; i++) {
		address[i].sin_family = AF_INET;
		address[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		ASSERT_EQ(0, bind(i ? peer : fd, (struct sockaddr *)&address[i], length));
		ASSERT_EQ(0, getsockname(i ? peer : fd, (struct sockaddr *)&address[i], &length));
	}
	ASSERT_EQ(0, connect(fd, (struct sockaddr *)&address[1], length));
	run_until_it_waits(
		[&] {
			EXPECT_EQ(1, outcome(recvmmsg(fd, messages.data(), 5, 0, nullptr)));
			EXPECT_EQ(-ECONNREFUSED,
				  outcome(recvmmsg(fd, messages.data(), 5, 0, nullptr)));
		},
		[&] {
			const uint64_t before = hooks().parked;

			EXPECT_EQ(1,
				  sendto(peer, "x", 1, 0, (struct sockaddr *)&address[0], length));
			wait_for_park(before);
			close(peer);
			EXPECT_EQ(1, send(fd, "x", 1, 0));
		});
	close(fd);
}

// ---- sendfile ----

class File
{
public:
	explicit File(size_t size) : fd(memfd_create("hooks", MFD_CLOEXEC)), bytes(size, 0)
	{
		test::Random random;

		for (char &byte : bytes)
			byte = char(random.next());
		EXPECT_EQ(ssize_t(size), pwrite(fd, bytes.data(), size, 0));
	}
	~File() { close(fd); }
	File(const File &) = delete;
	File &operator=(const File &) = delete;

	const int fd;
	std::string bytes;
};

void expect_all_of(File &file, int from, int to)
{
	constexpr size_t Skipped = 1001;
	const size_t size = file.bytes.size() - Skipped;
	std::string got(size, 0);

	run_until_it_waits(
		[&] {
			off_t offset = Skipped;

			EXPECT_EQ(ssize_t(size),
				  outcome(sendfile(from, file.fd, &offset, size + 5)));
			EXPECT_EQ(off_t(Skipped + size), offset);
			EXPECT_EQ(0, outcome(sendfile(from, file.fd, &offset, 5)));
			EXPECT_EQ(0, lseek(file.fd, 0, SEEK_CUR));
			EXPECT_EQ(5, outcome(sendfile(from, file.fd, nullptr, 5)));
			EXPECT_EQ(5, lseek(file.fd, 0, SEEK_CUR));
		},
		[&] {
			EXPECT_EQ(ssize_t(size), outcome(recv(to, got.data(), size, MSG_WAITALL)));
		});
	EXPECT_TRUE(got == file.bytes.substr(Skipped));
}

TEST(Sendfile, WaitsUntilAllIsSent)
{
	File file(5000000);
	SocketPair pair;

	expect_all_of(file, pair.fd[0], pair.fd[1]);
}

TEST(Sendfile, WaitsUntilAllIsSentByTcp)
{
	File file(20000000);
	test::TcpListener listener;
	const int client = test::tcp_socket();

	ASSERT_EQ(0, listener.connect_to(client));
	const int server = accept(listener.fd, nullptr, nullptr);
	expect_all_of(file, client, server);
	close(client);
	close(server);
}

TEST(Sendfile, TellsHowMuchItSentInTime)
{
	File file(5000000);
	SocketPair pair;

	set_timeout(pair.fd[0], SO_SNDTIMEO, 20 * ms);
	test::run(2, [&] {
		hooked([&] {
			off_t offset = 0;
			const ssize_t n = sendfile(pair.fd[0], file.fd, &offset, 5000000);

			EXPECT_GT(n, 0);
			EXPECT_LT(n, 5000000);
			EXPECT_EQ(n, offset);
			EXPECT_EQ(-EAGAIN,
				  outcome(sendfile(pair.fd[0], file.fd, &offset, 5000000)));
			EXPECT_EQ(n, offset);
		}).join();
	});
}

TEST(Sendfile, TellsHowMuchItSentBeforeItWasCancelled)
{
	File file(5000000);
	SocketPair pair;

	run_until_cancelled([&] {
		const ssize_t n = sendfile(pair.fd[0], file.fd, nullptr, 5000000);

		EXPECT_GT(n, 0);
		EXPECT_LT(n, 5000000);
		EXPECT_EQ(-ECANCELED, outcome(sendfile(pair.fd[0], file.fd, nullptr, 5000000)));
	});
}

TEST(Sendfile, EndsWhenThePeerDoes)
{
	File file(5000000);
	SocketPair pair;

	signal(SIGPIPE, SIG_IGN);
	run_until_it_waits(
		[&] {
			const ssize_t n = sendfile(pair.fd[0], file.fd, nullptr, 5000000);

			EXPECT_GT(n, 0);
			EXPECT_LT(n, 5000000);
			EXPECT_EQ(-EPIPE, outcome(sendfile(pair.fd[0], file.fd, nullptr, 5)));
		},
		[&] { pair.close_end(1); });
}

} // namespace
