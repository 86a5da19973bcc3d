// SPDX-License-Identifier: MIT
//
// What two parties of the oracle's scripts have between them: a connection, and the messages that
// are sent over it.
//
// Neither messages nor buffers are in private memory, and a child that a script forks does not get
// the buffers. Otherwise most of the test's time would be spent copying them and their page tables.
#ifndef SENNIT_TESTS_HOOKS_ORACLE_H
#define SENNIT_TESTS_HOOKS_ORACLE_H

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/runtime.h"

namespace oracle
{

using test::Random;

constexpr size_t LargestMessage = 300000;

enum class Kind { unix_stream, tcp, pipes, unix_datagrams, packets };

inline const char *name_of(Kind kind)
{
	static const char *const names[] = {"unix stream", "tcp", "pipes", "unix datagrams",
					    "packets"};
	return names[int(kind)];
}

inline bool is_stream(Kind kind)
{
	return kind == Kind::unix_stream || kind == Kind::tcp || kind == Kind::pipes;
}

// The descriptors of one party; for a socket, both are the same.
struct Ends {
	int in = -1, out = -1;
};

inline void connect_tcp(Ends ends[2])
{
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = {};
	socklen_t length = sizeof address;
	const int on = 1;

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(0, bind(listener, (struct sockaddr *)&address, length));
	ASSERT_EQ(0, listen(listener, 1));
	ASSERT_EQ(0, getsockname(listener, (struct sockaddr *)&address, &length));
	ends[0].in = ends[0].out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, connect(ends[0].in, (struct sockaddr *)&address, length));
	ends[1].in = ends[1].out = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
	ASSERT_GE(ends[1].in, 0);
	close(listener);
	// Otherwise a message that follows another waits for a delayed acknowledgement.
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, setsockopt(ends[i].out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

inline void connect(Kind kind, Ends ends[2])
{
	int fd[2], back[2];

	switch (kind) {
	case Kind::tcp:
		connect_tcp(ends);
		return;
	case Kind::pipes:
		ASSERT_EQ(0, pipe2(fd, O_CLOEXEC));
		ASSERT_EQ(0, pipe2(back, O_CLOEXEC));
		ends[0] = {fd[0], back[1]};
		ends[1] = {back[0], fd[1]};
		return;
	default:
		ASSERT_EQ(0, socketpair(AF_UNIX,
					(kind == Kind::unix_stream      ? SOCK_STREAM
					 : kind == Kind::unix_datagrams ? SOCK_DGRAM
									: SOCK_SEQPACKET) |
						SOCK_CLOEXEC,
					0, fd));
		ends[0] = {fd[0], fd[0]};
		ends[1] = {fd[1], fd[1]};
	}
}

inline void close_ends(const Ends &ends)
{
	close(ends.in);
	if (ends.out != ends.in)
		close(ends.out);
}

// A part of the same random bytes for all messages: no two that begin at different places are alike
// anywhere. The bytes cannot be written to, so a call that does so does not go unnoticed.
inline std::string_view message_of(uint64_t seed, size_t size)
{
	constexpr size_t Places = 1 << 20, Size = Places + LargestMessage;
	static const char *const bytes = [] {
		void *place = mmap(nullptr, Size, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		Random random(1);

		EXPECT_NE(MAP_FAILED, place);
		for (size_t i = 0; i + sizeof(uint64_t) <= Size; i += sizeof(uint64_t)) {
			const uint64_t word = random.next();

			memcpy(static_cast<char *>(place) + i, &word, sizeof word);
		}
		mprotect(place, Size, PROT_READ);
		return static_cast<const char *>(place);
	}();

	return {bytes + seed % Places, size};
}

// Memory for one message. Each ends where a page begins that cannot be written to, so that a call
// which writes more than it was asked for fails.
class Buffer
{
public:
	Buffer()
	    : page_(size_t(sysconf(_SC_PAGESIZE))),
	      size_((LargestMessage + page_ - 1) / page_ * page_),
	      place_(mmap(nullptr, size_ + page_, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0))
	{
		EXPECT_NE(MAP_FAILED, place_);
		mprotect(static_cast<char *>(place_) + size_, page_, PROT_NONE);
		madvise(place_, size_ + page_, MADV_DONTFORK);
	}
	~Buffer() { munmap(place_, size_ + page_); }
	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;

	// SIZE zeros.
	char *clean(size_t size)
	{
		char *data = static_cast<char *>(place_) + size_ - size;

		memset(data, 0, size);
		return data;
	}

private:
	const size_t page_, size_;
	void *const place_;
};

// Whether a script forks a child. That costs more than all the rest of a script, above all under
// AddressSanitizer, which takes every lock of its own and copies the tables of its shadow memory.
// Therefore only the first of those that are played at the same time does.
inline bool forks(uint64_t seed)
{
	return seed % 2 == 0;
}

__attribute__((noinline)) inline bool is_interrupted()
{
	return errno == EINTR;
}

// Reads a byte of a duplicate in a child of fork(), and returns it. The child tells over a pipe
// that it has read: waitpid() alone would block the thread, and with it the task that has to write
// the byte, if that is tied to the same thread, until it moves after a second.
inline int read_in_child(int fd)
{
	int status = 0, told[2];
	char byte = 0;

	if (pipe2(told, O_CLOEXEC) < 0)
		return -errno;
	const pid_t child = fork();
	if (child == 0) {
		const ssize_t n = read(dup(fd), &byte, 1);
		(void)!write(told[1], "r", 1);
		_exit(n == 1 ? byte : 1);
	}
	close(told[1]); // so that the end of the child, if it dies before, ends the wait
	while (read(told[0], &byte, 1) < 0 && is_interrupted())
		;
	while (waitpid(child, &status, 0) < 0 && is_interrupted())
		;
	close(told[0]);
	return WEXITSTATUS(status);
}

// What GOT is in a log: whether it is what was sent, and if not, from which byte on.
inline std::string described(std::string_view got, std::string_view sent)
{
	size_t same = 0;

	if (got == sent)
		return "as sent";
	while (same < got.size() && same < sent.size() && got[same] == sent[same])
		same++;
	return "other than sent from " + std::to_string(same);
}

} // namespace oracle

#endif
