// SPDX-License-Identifier: MIT
// Labels: machine
//
// Messages of Unix sockets: their boundaries, messages that do not fit, addresses of datagrams,
// full queues; and descriptors that are passed, none of which may be left open by accident.
#include <string>
#include <vector>

#include "support/descriptors.h"
#include "support/streams.h"
#include "support/unix.h"

namespace
{

using namespace test;

ssize_t send_text(sn_unix *to, const std::string &text, const char *address = nullptr,
		  std::vector<int> fds = {})
{
	sn_unix_message message = {};

	message.data = const_cast<char *>(text.data());
	message.size = text.size();
	message.to = address;
	message.fds = fds.data();
	message.fd_count = int(fds.size());
	return sn_unix_send(to, &message);
}

struct Received {
	ssize_t result;
	std::string text;
	size_t length;
	std::string from;
	std::vector<int> fds;
};

Received receive(sn_unix *from, size_t size = 4096, int room = 0)
{
	Received got;
	char address[SN_UNIX_ADDRESS_MAX] = "?";
	sn_unix_message message = {};

	got.text.resize(size);
	got.fds.resize(size_t(room));
	message.data = got.text.data();
	message.size = size;
	message.fds = got.fds.data();
	message.fd_count = room;
	message.from = address;
	message.from_size = sizeof address;
	got.result = sn_unix_recv(from, &message);
	got.length = message.length;
	if (got.result >= 0)
		got.text.resize(size_t(got.result));
	got.from = address;
	got.fds.resize(got.result < 0 ? 0 : size_t(message.fd_count));
	return got;
}

// A file that can be recognized by its contents.
int file_of(const std::string &contents)
{
	FILE *file = tmpfile();
	const int fd = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);

	fclose(file);
	EXPECT_EQ(ssize_t(contents.size()), pwrite(fd, contents.data(), contents.size(), 0));
	return fd;
}

std::string contents_of(int fd)
{
	char buf[64];
	const ssize_t n = pread(fd, buf, sizeof buf, 0);

	return n < 0 ? "?" : std::string(buf, size_t(n));
}

// ---- messages ----

TASK_TEST(UnixMessage, KeepsItsBoundaries)
{
	for (const sn_unix_type type : {SN_UNIX_SEQPACKET, SN_UNIX_DATAGRAM}) {
		UnixPair pair(type);

		for (const char *text : {"one", "twenty", "x"})
			EXPECT_EQ(ssize_t(strlen(text)), send_text(pair.a, text));
		for (const char *text : {"one", "twenty", "x"})
			EXPECT_EQ(text, receive(pair.b).text);
		// A task that waits for the message.
		Task receiving([&] { EXPECT_EQ("late", receive(pair.a).text); });
		EXPECT_TRUE(test::someone_reads(pair.a));
		EXPECT_EQ(4, send_text(pair.b, "late"));
		receiving.join();
	}
}

TASK_TEST(UnixMessage, IsNeverCutSilently, 1)
{
	for (const sn_unix_type type : {SN_UNIX_SEQPACKET, SN_UNIX_DATAGRAM}) {
		UnixPair pair(type);

		send_text(pair.a, "a long message");
		send_text(pair.a, "fits");
		const Received cut = receive(pair.b, 6);
		EXPECT_EQ(-EMSGSIZE, cut.result);
		EXPECT_EQ(14u, cut.length);
		EXPECT_EQ("a long", cut.text);
		EXPECT_EQ("fits", receive(pair.b, 4).text);
		const std::string huge(64 << 20, 'h');
		EXPECT_EQ(-EMSGSIZE, send_text(pair.a, huge));
	}
	// For a stream, the rest of the bytes stays for the next read.
	UnixPair stream;
	send_text(stream.a, "a long message");
	EXPECT_EQ("a long", receive(stream.b, 6).text);
	EXPECT_EQ(" message", receive(stream.b).text);
}

TASK_TEST(UnixMessage, EmptyOnesAndTheEnd, 1)
{
	UnixPair datagrams(SN_UNIX_DATAGRAM), messages(SN_UNIX_SEQPACKET), stream;
	sn_unix_message none = {};

	EXPECT_EQ(0, send_text(datagrams.a, ""));
	EXPECT_EQ(1, send_text(datagrams.a, "x"));
	EXPECT_EQ(0, receive(datagrams.b).result);
	EXPECT_EQ("x", receive(datagrams.b).text);
	EXPECT_EQ(-EINVAL, send_text(messages.a, ""));
	EXPECT_EQ(-EINVAL, send_text(stream.a, ""));
	EXPECT_EQ(-EINVAL, sn_unix_recv(stream.a, &none));
	EXPECT_EQ(-EINVAL, sn_unix_recv(stream.a, nullptr));
	EXPECT_EQ(-EINVAL, sn_unix_send(stream.a, nullptr));
	EXPECT_EQ(4, send_text(messages.a, "last"));
	messages.close_a();
	EXPECT_EQ("last", receive(messages.b).text);
	EXPECT_EQ(0, receive(messages.b).result);
	EXPECT_EQ(-EPIPE, send_text(messages.b, "x"));
	EXPECT_EQ(-EISCONN, send_text(messages.b, "x", "@x"));
	EXPECT_EQ(-EISCONN, send_text(stream.b, "x", "@x"));
}

TASK_TEST(UnixMessage, IsNoStream, 1)
{
	for (const sn_unix_type type : {SN_UNIX_SEQPACKET, SN_UNIX_DATAGRAM}) {
		UnixPair pair(type), stream;
		char buf[4] = "abc";
		struct iovec piece = {buf, 3};

		send_text(pair.a, "whole");
		EXPECT_EQ(-EPROTOTYPE, sn_unix_read(pair.b, buf, 3));
		EXPECT_EQ(-EPROTOTYPE, sn_unix_readv(pair.b, &piece, 1));
		EXPECT_EQ(-EPROTOTYPE, sn_unix_write(pair.b, buf, 3));
		EXPECT_EQ(-EPROTOTYPE, sn_unix_writev(pair.b, &piece, 1));
		EXPECT_EQ(-EPROTOTYPE, sn_copy(sn_unix_stream(stream.a), sn_unix_stream(pair.b), -1,
					       nullptr, nullptr, nullptr));
		EXPECT_EQ(-EPROTOTYPE, sn_copy(sn_unix_stream(pair.b), sn_unix_stream(stream.a), -1,
					       nullptr, nullptr, nullptr));
		EXPECT_EQ(-EPROTOTYPE, sn_relay(sn_unix_stream(stream.a), sn_unix_stream(pair.b),
						nullptr, nullptr));
		EXPECT_EQ("whole", receive(pair.b).text);
	}
}

TASK_TEST(UnixMessage, ConnectionsOfMessages)
{
	Directory dir;
	UnixListener listener(dir / "socket", SN_UNIX_SEQPACKET);
	sn_unix *far = nullptr;
	Task accepting([&] { far = listener.accept(); });
	sn_unix *near = test::unix_connect(listener.address(), SN_UNIX_SEQPACKET);

	accepting.join();
	EXPECT_EQ(3, send_text(near, "one"));
	EXPECT_EQ(3, send_text(near, "two"));
	EXPECT_EQ("one", receive(far).text);
	EXPECT_EQ("two", receive(far).text);
	EXPECT_EQ(-EPROTOTYPE, sn_unix_write(far, "x", 1));
	// The end is read after a wait.
	Task receiving([&] { EXPECT_EQ(0, receive(far).result); });
	EXPECT_TRUE(test::someone_reads(far));
	EXPECT_EQ(0, sn_unix_close(near));
	receiving.join();
	EXPECT_EQ(0, sn_unix_close(far));
}

// ---- datagrams ----

sn_unix *bound(const std::string &address)
{
	sn_unix *made = nullptr;

	EXPECT_EQ(0, sn_unix_bind(&made, address.c_str(), nullptr));
	return made;
}

TASK_TEST(UnixDatagram, GoesToAnAddress, 1)
{
	Directory dir;
	const std::string path = dir / "server", mine = dir / "client";
	sn_unix *server = bound(path), *client = bound(mine), *nobody = nullptr;
	sn_unix *taken = nullptr;

	ASSERT_EQ(0, sn_unix_bind(&nobody, nullptr, nullptr));
	EXPECT_EQ(-EADDRINUSE, sn_unix_bind(&taken, path.c_str(), nullptr));
	EXPECT_EQ(5, send_text(client, "hello", path.c_str()));
	Received got = receive(server);
	EXPECT_EQ("hello", got.text);
	EXPECT_EQ(mine, got.from);
	EXPECT_EQ(6, send_text(server, "answer", got.from.c_str()));
	got = receive(client);
	EXPECT_EQ("answer", got.text);
	EXPECT_EQ(path, got.from);
	EXPECT_EQ(1, send_text(nobody, "x", ("unix:" + path).c_str()));
	EXPECT_EQ("", receive(server).from);
	EXPECT_EQ(-ENOTCONN, send_text(nobody, "x"));
	EXPECT_EQ(-EINVAL, send_text(nobody, "x", ""));
	EXPECT_EQ(-ENOENT, send_text(nobody, "x", (dir / "nothing").c_str()));
	sn_unix *abstract = bound("@");
	char name[SN_UNIX_ADDRESS_MAX];
	EXPECT_GT(sn_unix_local_address(abstract, name, sizeof name), 1);
	EXPECT_EQ(1, send_text(client, "y", name));
	EXPECT_EQ("y", receive(abstract).text);
	sn_unix *connected = test::unix_connect(path, SN_UNIX_DATAGRAM);
	EXPECT_EQ(1, send_text(connected, "z"));
	EXPECT_EQ("z", receive(server).text);
	EXPECT_EQ(0, sn_unix_close(server));
	EXPECT_FALSE(test::exists(path));
	EXPECT_EQ(-ECONNREFUSED, send_text(connected, "z"));
	for (sn_unix *each : {client, nobody, abstract, connected})
		EXPECT_EQ(0, sn_unix_close(each));
	EXPECT_FALSE(test::exists(mine));
}

// Tests sending to the connected peer, and sending to an address, for which the kernel reports no
// room.
TASK_TEST(UnixDatagram, WaitsWhileTheQueueIsFull)
{
	for (const bool connected : {true, false}) {
		Directory dir;
		const std::string path = dir / "server";
		sn_unix *server = bound(path);
		sn_unix *client =
			connected ? test::unix_connect(path, SN_UNIX_DATAGRAM) : bound("@");
		const char *const to = connected ? nullptr : path.c_str();
		const int n = 2000;
		Task sending([&] {
			for (int i = 0; i < n; i++)
				ASSERT_GT(send_text(client, std::to_string(i), to), 0);
		});

		EXPECT_TRUE(test::someone_writes(client));
		EXPECT_EQ(-EBUSY, send_text(client, "x", to));
		for (int i = 0; i < n; i++)
			ASSERT_EQ(std::to_string(i), receive(server).text);
		sending.join();
		// First the deadline ends the wait, then the close.
		sn_unix_set_write_deadline(client, sn_now() + 20 * test::ms);
		ssize_t err;
		while ((err = send_text(client, "x", to)) > 0)
			continue;
		EXPECT_EQ(-ETIMEDOUT, err);
		sn_unix_set_write_deadline(client, SN_NO_DEADLINE);
		Task closed([&] { EXPECT_EQ(-EBADF, send_text(client, "x", to)); });
		EXPECT_TRUE(test::someone_writes(client));
		EXPECT_EQ(0, sn_unix_close(client));
		closed.join();
		EXPECT_EQ(0, sn_unix_close(server));
	}
}

TASK_TEST(UnixDatagram, WaitingReceiversAreWoken)
{
	sn_unix *socket = bound("@");

	sn_unix_set_read_deadline(socket, sn_now() + test::ms);
	EXPECT_EQ(-ETIMEDOUT, receive(socket).result);
	sn_unix_set_read_deadline(socket, SN_NO_DEADLINE);
	Task canceled([&] { EXPECT_EQ(-ECANCELED, receive(socket).result); });
	EXPECT_TRUE(test::someone_reads(socket));
	EXPECT_EQ(-EBUSY, receive(socket).result);
	EXPECT_EQ(0, sn_unix_cancel(socket));
	canceled.join();
	EXPECT_EQ(0, sn_unix_close(socket));
	EXPECT_EQ(-EBADF, receive(socket).result);
	EXPECT_EQ(-EBADF, send_text(socket, "x", "@x"));
}

// ---- descriptors ----

TASK_TEST(UnixFds, ArePassedSeveralAtOnce, 1)
{
	const int before = test::open_descriptors();

	for (const sn_unix_type type : {SN_UNIX_STREAM, SN_UNIX_SEQPACKET, SN_UNIX_DATAGRAM}) {
		UnixPair pair(type);
		const std::vector<int> files = {file_of("one"), file_of("two"), file_of("three")};

		EXPECT_EQ(5, send_text(pair.a, "files", nullptr, files));
		EXPECT_EQ(4, send_text(pair.a, "bare"));
		for (const int fd : files)
			close(fd);
		Received got = receive(pair.b, 5, 8);
		EXPECT_EQ("files", got.text);
		ASSERT_EQ(3u, got.fds.size());
		const char *const expected[] = {"one", "two", "three"};
		for (size_t i = 0; i < 3; i++) {
			EXPECT_EQ(expected[i], contents_of(got.fds[i]));
			EXPECT_TRUE(fcntl(got.fds[i], F_GETFD) & FD_CLOEXEC);
			close(got.fds[i]);
		}
		got = receive(pair.b, 4096, 8);
		EXPECT_EQ("bare", got.text);
		EXPECT_EQ(0u, got.fds.size());
	}
	EXPECT_EQ(before, test::open_descriptors());
}

// There is too little room for descriptors, none at all, a reader that does not expect any, or more
// than the process may open.
TASK_TEST(UnixFds, AreNotLeaked, 1)
{
	const int before = test::open_descriptors();

	for (const sn_unix_type type : {SN_UNIX_STREAM, SN_UNIX_SEQPACKET, SN_UNIX_DATAGRAM}) {
		UnixPair pair(type);
		const int file = file_of("x");

		for (const int room : {0, 1, 2}) {
			send_text(pair.a, "three", nullptr, {file, file, file});
			const Received got = receive(pair.b, 64, room);
			EXPECT_EQ(-EMSGSIZE, got.result);
			EXPECT_EQ(5u, got.length);
			EXPECT_EQ("three", got.text.substr(0, 5));
			EXPECT_EQ(before + 3, test::open_descriptors());
		}
		// Both the bytes and the descriptors are cut.
		if (type != SN_UNIX_STREAM) {
			send_text(pair.a, "three", nullptr, {file, file, file});
			EXPECT_EQ(-EMSGSIZE, receive(pair.b, 2, 3).result);
		}
		if (type == SN_UNIX_STREAM) {
			char buf[8];
			send_text(pair.a, "plain", nullptr, {file, file});
			EXPECT_EQ(5, sn_unix_read(pair.b, buf, sizeof buf));
		}
		EXPECT_EQ(before + 3, test::open_descriptors());
		send_text(pair.a, "many", nullptr, std::vector<int>(20, file));
		{
			test::NoDescriptors none;
			none.give_back(10);
			const Received got = receive(pair.b, 64, 20);
			EXPECT_EQ(-EMFILE, got.result);
			EXPECT_EQ("many", got.text.substr(0, 4));
			none.give_back();
		}
		EXPECT_EQ(before + 3, test::open_descriptors());
		// The descriptors of a message that is never received.
		send_text(pair.a, "left", nullptr, {file, file});
		close(file);
	}
	EXPECT_EQ(before, test::open_descriptors());
}

TASK_TEST(UnixFds, AsManyAsTheKernelTakes, 1)
{
	const int before = test::open_descriptors();
	{
		UnixPair pair;
		const int file = file_of("x");

		EXPECT_EQ(-EINVAL, send_text(pair.a, "x", nullptr,
					     std::vector<int>(SN_UNIX_FDS_MAX + 1, file)));
		EXPECT_EQ(-EINVAL, send_text(pair.a, "", nullptr, {file}));
		EXPECT_EQ(-EBADF, send_text(pair.a, "x", nullptr, {file, -1}));
		EXPECT_EQ(1,
			  send_text(pair.a, "x", nullptr, std::vector<int>(SN_UNIX_FDS_MAX, file)));
		const Received got = receive(pair.b, 1, SN_UNIX_FDS_MAX);
		ASSERT_EQ(size_t(SN_UNIX_FDS_MAX), got.fds.size());
		for (const int fd : got.fds)
			close(fd);
		close(file);
	}
	EXPECT_EQ(before, test::open_descriptors());
}

// Ancillary data that the program has asked the kernel to add to each message does not get in the
// way.
TASK_TEST(UnixFds, BesideCredentialsAndPidfds, 1)
{
	const int before = test::open_descriptors();
	{
		UnixPair pair(SN_UNIX_SEQPACKET);
		const int on = 1, file = file_of("x"), pass_pidfd = 76;

		EXPECT_EQ(0,
			  setsockopt(sn_unix_fd(pair.b), SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
		EXPECT_EQ(0,
			  setsockopt(sn_unix_fd(pair.b), SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
		// since Linux 6.5
		setsockopt(sn_unix_fd(pair.b), SOL_SOCKET, pass_pidfd, &on, sizeof on);
		send_text(pair.a, "x", nullptr, std::vector<int>(SN_UNIX_FDS_MAX, file));
		const Received got = receive(pair.b, 1, SN_UNIX_FDS_MAX);
		EXPECT_EQ(size_t(SN_UNIX_FDS_MAX), got.fds.size());
		for (const int fd : got.fds)
			close(fd);
		close(file);
	}
	EXPECT_EQ(before, test::open_descriptors());
}

} // namespace
