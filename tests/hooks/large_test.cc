// SPDX-License-Identifier: MIT
//
// Calls of more bytes than the kernel takes in one call transfer as many as on a thread, and no
// more.
#include <functional>
#include <thread>

#include <sys/mman.h>
#include <sys/uio.h>

#include "hooks/hooks.h"

namespace
{

using namespace test;

constexpr size_t size = size_t(sizeof(void *) == 8 ? 2 : 0) << 30 | 1 << 20;

// A TCP connection whose other end discards what comes.
class Discarded
{
public:
	Discarded() : fd(tcp_socket())
	{
		const TcpListener listener;

		EXPECT_EQ(0, listener.connect_to(fd));
		const int end = accept(listener.fd, nullptr, nullptr);
		reader_ = std::thread([end] {
			while (recv(end, nullptr, 1 << 22, MSG_TRUNC) > 0)
				;
			close(end);
		});
	}
	~Discarded()
	{
		close(fd);
		reader_.join();
	}
	Discarded(const Discarded &) = delete;
	Discarded &operator=(const Discarded &) = delete;

	const int fd;

private:
	std::thread reader_;
};

// What the call returns on a thread, and in a task with hooks.
void expect_same(const std::function<ssize_t(int fd)> &call)
{
	const ssize_t expected = [&] { return call(Discarded().fd); }();

	EXPECT_LT(0, expected);
	EXPECT_GE(ssize_t(size), expected);
	test::run(2, [&] {
		const Discarded to;

		hooked([&] { EXPECT_EQ(expected, outcome(call(to.fd))); }).join();
	});
}

class Large : public testing::Test
{
protected:
	void SetUp() override
	{
		// A sanitizer looks at all of the bytes.
		if (sizeof(void *) < 8 || TEST_EMULATED || TEST_ASAN || TEST_TSAN)
			GTEST_SKIP() << "there is no buffer of this size, or it takes too long";
		if (test::is_short())
			GTEST_SKIP() << "left out of the short form";
		// The same page of zeros again and again.
		void *const mapped = mmap(nullptr, size, PROT_READ,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		ASSERT_NE(MAP_FAILED, mapped);
		zeros_ = static_cast<char *>(mapped);
	}
	void TearDown() override
	{
		if (zeros_)
			munmap(zeros_, size);
	}

	char *zeros_ = nullptr;
};

TEST_F(Large, Send)
{
	expect_same([&](int fd) { return send(fd, zeros_, size, 0); });
}

TEST_F(Large, WritevInPieces)
{
	struct iovec pieces[] = {{zeros_, 1 << 20}, {zeros_, 0}, {zeros_, size}};

	expect_same([&](int fd) { return writev(fd, pieces, 3); });
}

TEST_F(Large, Sendmmsg)
{
	struct iovec piece = {zeros_, size};
	struct mmsghdr message = {};

	message.msg_hdr.msg_iov = &piece;
	message.msg_hdr.msg_iovlen = 1;
	expect_same([&](int fd) {
		return sendmmsg(fd, &message, 1, 0) == 1 ? ssize_t(message.msg_len) : -1;
	});
}

} // namespace
