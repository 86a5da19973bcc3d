// SPDX-License-Identifier: MIT
//
// Helpers for the tests of streams: both ends of a pipe, of a Unix or a TCP connection, and files
// without a name, all as streams that close themselves.
#ifndef SENNIT_TESTS_SUPPORT_STREAMS_H
#define SENNIT_TESTS_SUPPORT_STREAMS_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/net.h"

namespace test
{

inline sn_stream *adopt(int fd)
{
	sn_stream *stream = nullptr;

	EXPECT_EQ(0, sn_stream_adopt(&stream, fd)) << fd;
	if (!stream)
		abort(); // without this, nothing else in the test would make sense
	return stream;
}

// Two ends of a stream: bytes that are written to one are read from the other.
class Ends
{
public:
	Ends(sn_stream *from, sn_stream *to) : from_(from), to_(to) {}
	~Ends()
	{
		close_from();
		close_to();
	}
	Ends(const Ends &) = delete;
	Ends &operator=(const Ends &) = delete;

	static std::unique_ptr<Ends> pipe(int capacity = 0)
	{
		int fds[2];

		EXPECT_EQ(0, pipe2(fds, O_CLOEXEC));
		if (capacity) {
			EXPECT_GT(fcntl(fds[1], F_SETPIPE_SZ, capacity), 0);
		}
		return std::make_unique<Ends>(adopt(fds[0]), adopt(fds[1]));
	}
	static std::unique_ptr<Ends> unix_sockets()
	{
		int fds[2];

		EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
		return std::make_unique<Ends>(adopt(fds[0]), adopt(fds[1]));
	}
	static std::unique_ptr<Ends> tcp()
	{
		Listener listener;
		Pair pair(listener);

		return std::make_unique<Ends>(sn_tcp_stream(pair.release_client()),
					      sn_tcp_stream(pair.release_server()));
	}

	// Atomic, because one task may use an end while another one closes it.
	sn_stream *from() const { return from_; }
	sn_stream *to() const { return to_; }
	void close_from() { sn_stream_close(from_.exchange(nullptr)); }
	void close_to() { sn_stream_close(to_.exchange(nullptr)); }

	// More bytes than a writer can write without waiting.
	size_t more_than_it_holds() const
	{
		int domain = 0;
		socklen_t length = sizeof domain;

		getsockopt(sn_stream_fd(to()), SOL_SOCKET, SO_DOMAIN, &domain, &length);
		return domain == AF_INET ? size_t(20) << 20 : size_t(1) << 20;
	}

	// Waits until the reading task has taken everything, and waits for more.
	bool reader_waits() const
	{
		return eventually([this] {
			return unread((sn_tcp *)from()) == 0 && probe_fd_waiting(from(), 0);
		});
	}

private:
	std::atomic<sn_stream *> from_, to_;
};

// A stream of each kind for which tasks wait.
inline const std::vector<std::pair<const char *, std::function<std::unique_ptr<Ends>()>>> kinds = {
	{"pipe", [] { return Ends::pipe(); }},
	{"small pipe", [] { return Ends::pipe(4096); }},
	{"Unix connection", [] { return Ends::unix_sockets(); }},
	{"TCP connection", [] { return Ends::tcp(); }},
};

// Runs the same body for each kind. Prints the kind if the test fails.
inline void with_each_kind(const std::function<void(Ends &)> &body)
{
	for (const auto &[name, make] : kinds) {
		const bool failed_before = testing::Test::HasFailure();
		const std::unique_ptr<Ends> ends = make();

		body(*ends);
		if (!failed_before && testing::Test::HasFailure())
			fprintf(stderr, "failed with a %s\n", name);
	}
}

// A file without a name, positioned at its beginning.
inline sn_stream *file_with(const std::string &contents)
{
	FILE *file = tmpfile();
	const int fd = dup(fileno(file));

	fclose(file);
	EXPECT_EQ(ssize_t(contents.size()), write(fd, contents.data(), contents.size()));
	EXPECT_EQ(0, lseek(fd, 0, SEEK_SET));
	return adopt(fd);
}

// Writes the bytes in pieces of random sizes, up to `most`; stops after an error.
inline void write_in_pieces(sn_stream *to, const std::string &bytes, Random &random, size_t most)
{
	for (size_t at = 0; at < bytes.size();) {
		const size_t n = std::min(bytes.size() - at, size_t(1 + random.below(most)));

		if (sn_stream_write_all(to, &bytes[at], n, nullptr) < 0)
			return;
		at += n;
		if (random.below(4) == 0)
			sn_yield();
	}
}

inline std::string read_to_end(sn_stream *stream)
{
	// a stream and its connection are the same object: see sn_tcp_stream()
	return read_to_end((sn_tcp *)stream);
}

} // namespace test

#endif
