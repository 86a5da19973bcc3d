// SPDX-License-Identifier: MIT
//
// The calls for TCP, used with addresses and descriptors of Unix sockets.
#include <string>

#include <sys/file.h>
#include <sys/wait.h>

#include <sennit/sennit.h>

#include "support/unix.h"

extern "C" {
#include "net/unix_name.h"
}

namespace
{

using namespace test;

sn_tcp_listener *listen_at(const std::string &address)
{
	sn_tcp_listener *listener = nullptr;

	EXPECT_EQ(0, sn_tcp_listen(&listener, address.c_str())) << address;
	if (!listener)
		abort(); // without these, nothing else in the test would make sense
	return listener;
}

int try_listen(const std::string &address)
{
	sn_tcp_listener *listener = nullptr;
	const int err = sn_tcp_listen(&listener, address.c_str());

	if (err == 0)
		sn_tcp_listener_close(listener);
	return err;
}

int try_connect(const std::string &address, int64_t deadline = SN_NO_DEADLINE)
{
	sn_tcp *conn = nullptr;
	const int err = sn_tcp_connect(&conn, address.c_str(), deadline);

	if (err == 0)
		sn_tcp_close(conn);
	return err;
}

template <class Get>
std::string text_of(Get get)
{
	char text[SN_ADDRESS_MAX] = "";
	const int n = get(text, sizeof text);

	EXPECT_EQ(int(strlen(text)), n);
	return text;
}

std::string address_of(sn_tcp_listener *of)
{
	return text_of(
		[&](char *buf, size_t size) { return sn_tcp_listener_address(of, buf, size); });
}

std::string peer_of(sn_tcp *of)
{
	return text_of([&](char *buf, size_t size) { return sn_tcp_peer_address(of, buf, size); });
}

std::string local_of(sn_tcp *of)
{
	return text_of([&](char *buf, size_t size) { return sn_tcp_local_address(of, buf, size); });
}

void expect_works(sn_tcp_listener *listener, const std::string &address)
{
	sn_tcp *near = nullptr, *far = nullptr;
	char got[8] = {};
	Task accepting([&] { EXPECT_EQ(0, sn_tcp_accept(listener, &far)); });

	EXPECT_EQ(0, sn_tcp_connect(&near, address.c_str(), sn_now() + test::patience)) << address;
	accepting.join();
	EXPECT_EQ(4, sn_tcp_write_all(near, "ping", 4, nullptr));
	EXPECT_EQ(4, sn_tcp_read_full(far, got, 4, nullptr));
	EXPECT_STREQ("ping", got);
	EXPECT_EQ(0, sn_tcp_shutdown(near, SN_SHUT_WRITE));
	EXPECT_EQ(0, sn_tcp_read(far, got, sizeof got));
	EXPECT_EQ(address_of(listener), peer_of(near));
	EXPECT_EQ("unix:", local_of(near));
	EXPECT_EQ("unix:", peer_of(far));
	EXPECT_EQ(address_of(listener), local_of(far));
	EXPECT_EQ(0, sn_tcp_close(far));
	EXPECT_EQ(0, sn_tcp_wait_closed(near));
	EXPECT_EQ(0, sn_tcp_close(near));
}

TASK_TEST(UnixTcp, ConnectsByPathAndByName)
{
	Directory dir;
	const std::string path = dir / "socket";
	const std::string name = "unix:@sennit-test-" + std::to_string(getpid());

	for (const std::string &address : {"unix:" + path, name}) {
		sn_tcp_listener *listener = listen_at(address);

		EXPECT_EQ(address, address_of(listener));
		expect_works(listener, address);
		EXPECT_EQ(0, sn_tcp_listener_close(listener));
		EXPECT_FALSE(test::exists(path));
	}
	sn_tcp_listener *any = listen_at("unix:@");
	EXPECT_EQ(0u, address_of(any).find("unix:@"));
	expect_works(any, address_of(any));
	EXPECT_EQ(0, sn_tcp_listener_close(any));
}

TEST(UnixTcp, ChecksAddresses)
{
	for (const char *text : {"unix:/a", "unix:./a", "unix:../a", "unix:@a", "unix:@"})
		EXPECT_TRUE(sn_unix_name_is_meant(text)) << text;
	// Hosts with the name unix, and texts that are no address.
	for (const char *text : {"unix:80", "unix:http", "unix:", "unix", "/run/a", "@a", ""})
		EXPECT_FALSE(sn_unix_name_is_meant(text)) << text;
	test::run(1, [] {
		Directory dir;
		const std::string longest = "unix:/" + std::string(106, 'n');
		int port = 0;

		for (const char *address : {"unix:", "/run/a", "@a"}) {
			EXPECT_EQ(-EINVAL, try_listen(address)) << address;
			EXPECT_EQ(-EINVAL, try_connect(address)) << address;
		}
		EXPECT_EQ(-EINVAL, try_connect("unix:@"));
		EXPECT_EQ(-ENOENT, try_connect(longest));
		EXPECT_EQ(-ENAMETOOLONG, try_connect(longest + "n"));
		EXPECT_EQ(-ENAMETOOLONG, try_listen(longest + "n"));
		EXPECT_EQ(-ENOENT, try_listen("unix:" + dir / "no/where"));
		EXPECT_EQ(-ECONNREFUSED, try_connect("unix:@sennit-nobody-listens-here"));
		sn_tcp_listener *listener = listen_at("unix:@");
		EXPECT_EQ(-ETIMEDOUT, try_connect(address_of(listener), sn_now() - 1));
		EXPECT_EQ(-ENOSPC, sn_tcp_listener_address(listener, (char *)&port, sizeof port));
		sn_address value;

		EXPECT_EQ(-EAFNOSUPPORT, sn_tcp_listener_local(listener, &value));
		EXPECT_EQ(0, sn_tcp_listener_close(listener));
	});
	sn_tcp *conn = nullptr;
	EXPECT_EQ(-ENOTSUP, sn_tcp_connect(&conn, "unix:@x", SN_NO_DEADLINE));
}

TASK_TEST(UnixTcp, TheLongestAddressFits, 1)
{
	Directory dir;
	const std::string path = dir.path() + "/" + std::string(106 - dir.path().size(), 'n');
	sn_tcp_listener *listener = listen_at("unix:" + path);

	expect_works(listener, "unix:" + path);
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
	// A path that others have bound, relative to the current directory.
	char *const former = getcwd(nullptr, 0);
	ASSERT_EQ(0, chdir(dir.path().c_str()));
	const std::string bare(107, 'm');
	ASSERT_EQ(0, sn_tcp_listener_adopt(&listener, test::plain_bound(bare, SOCK_STREAM, 5)));
	EXPECT_EQ("unix:./" + bare, address_of(listener));
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
	ASSERT_EQ(0, chdir(former));
	free(former);
}

TASK_TEST(UnixTcp, TakesListenersOfUnixListen)
{
	Directory dir;
	const std::string path = dir / "socket";
	sn_unix_listener *listener = nullptr;
	sn_unix_options options = {};
	struct stat st = {};

	options.mode = 0606;
	ASSERT_EQ(0, sn_unix_listen(&listener, path.c_str(), &options));
	EXPECT_EQ(0, lstat(path.c_str(), &st));
	EXPECT_EQ(0606u, st.st_mode & 0777);
	expect_works(sn_unix_listener_tcp(listener), "unix:" + path);
	EXPECT_EQ(0, sn_tcp_listener_close(sn_unix_listener_tcp(listener)));
	EXPECT_FALSE(test::exists(path));
}

TASK_TEST(UnixTcp, TreatsPathsAsUnixListenDoes, 1)
{
	Directory dir;
	const std::string path = dir / "socket", address = "unix:" + path;

	close(test::plain_bound(path));
	sn_tcp_listener *listener = listen_at(address);
	EXPECT_EQ(-EADDRINUSE, try_listen(address));
	expect_works(listener, address);
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
	close(creat(path.c_str(), 0600));
	EXPECT_EQ(-EADDRINUSE, try_listen(address));
	EXPECT_TRUE(test::exists(path));
}

// A stream of one kind to a stream of the other, through both kinds of copies.
TASK_TEST(UnixTcp, IsCopiedToAndFromTcp)
{
	const struct {
		const char *front, *back;
	} cases[] = {{"unix:@", "127.0.0.1:0"}, {"127.0.0.1:0", "unix:@"}, {"unix:@", "unix:@"}};
	const std::string bytes(size_t(test::scaled(4000000)) + 1, 'b');

	for (const auto &[from, to] : cases) {
		sn_tcp_listener *front = listen_at(from), *back = listen_at(to);
		sn_tcp *client = nullptr, *server = nullptr;
		Task relaying([&] {
			sn_tcp *in = nullptr, *out = nullptr;
			sn_relay_result result;

			EXPECT_EQ(0, sn_tcp_accept(front, &in));
			EXPECT_EQ(0,
				  sn_tcp_connect(&out, address_of(back).c_str(), SN_NO_DEADLINE));
			EXPECT_EQ(0, sn_relay(sn_tcp_stream(in), sn_tcp_stream(out), &result,
					      nullptr));
			EXPECT_EQ(bytes.size(), result.directions[0].bytes_written);
			sn_tcp_close(in);
			sn_tcp_close(out);
		});

		EXPECT_EQ(0, sn_tcp_connect(&client, address_of(front).c_str(), SN_NO_DEADLINE));
		EXPECT_EQ(0, sn_tcp_accept(back, &server));
		Task writing([&] {
			EXPECT_EQ(ssize_t(bytes.size()),
				  sn_tcp_write_all(client, bytes.data(), bytes.size(), nullptr));
			EXPECT_EQ(0, sn_tcp_shutdown(client, SN_SHUT_WRITE));
		});
		EXPECT_TRUE(test::read_to_end(server) == bytes);
		writing.join();
		EXPECT_EQ(3, sn_tcp_write_all(server, "end", 3, nullptr));
		EXPECT_EQ(0, sn_tcp_shutdown(server, SN_SHUT_WRITE));
		EXPECT_EQ("end", test::read_to_end(client));
		relaying.join();
		sn_tcp_close(client);
		sn_tcp_close(server);
		sn_tcp_listener_close(front);
		sn_tcp_listener_close(back);
	}
}

TASK_TEST(UnixTcp, HasItsOtherName, 1)
{
	sn_tcp_listener *listener = listen_at("unix:@"), *tcp = listen_at("127.0.0.1:0");
	sn_tcp *near = nullptr, *far = nullptr;
	sn_unix_credentials peer = {};
	char text[SN_UNIX_ADDRESS_MAX];

	EXPECT_EQ(0, sn_tcp_connect(&near, address_of(listener).c_str(), SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_tcp_accept(listener, &far));
	EXPECT_EQ(0, sn_unix_peer_credentials(sn_tcp_unix(far), &peer));
	EXPECT_EQ(getpid(), peer.pid);
	EXPECT_GT(sn_unix_listener_address(sn_tcp_listener_unix(listener), text, sizeof text), 0);
	EXPECT_EQ(address_of(listener), std::string("unix:") + text);
	// A descriptor is sent along with the bytes.
	int sent = dup(0);
	sn_unix_message message = {};
	message.data = text;
	message.size = 1;
	message.fds = &sent;
	message.fd_count = 1;
	EXPECT_EQ(1, sn_unix_send(sn_tcp_unix(near), &message));
	int got = -1;
	message.fds = &got;
	EXPECT_EQ(1, sn_unix_recv(sn_tcp_unix(far), &message));
	EXPECT_EQ(1, message.fd_count);
	close(got);
	close(sent);
	EXPECT_EQ(0, sn_tcp_abort(near));
	EXPECT_EQ(0, sn_tcp_read(far, text, 1)) << "there is no reset";
	EXPECT_EQ(0, sn_tcp_close(far));
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
	// The option belongs to TCP.
	EXPECT_EQ(-EPROTOTYPE,
		  sn_unix_listener_address(sn_tcp_listener_unix(tcp), text, sizeof text));
	EXPECT_EQ(-EPROTOTYPE, sn_unix_listener_set_unlink(sn_tcp_listener_unix(tcp), 1));
	EXPECT_EQ(0, sn_tcp_listener_close(tcp));
}

// ---- listening sockets that go from one process to another ----

TASK_TEST(UnixTcp, AdoptsListeners)
{
	Directory dir;
	const std::string path = dir / "socket", address = "unix:" + path;
	const int fd = test::plain_bound(path, SOCK_STREAM, 5);
	sn_tcp_listener *listener = nullptr, *second = nullptr;

	ASSERT_EQ(0, sn_tcp_listener_adopt(&listener, fd));
	EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	EXPECT_EQ(-EEXIST, sn_tcp_listener_adopt(&second, fd));
	expect_works(listener, address);
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
	EXPECT_TRUE(test::exists(path)) << "the file was not created by this listener";
}

TASK_TEST(UnixUnlink, IsGivenAwayAndTakenOver)
{
	Directory dir;
	const std::string path = dir / "socket", address = "unix:" + path;
	sn_tcp_listener *listener = listen_at(address), *next = nullptr;
	const int copy = dup(sn_tcp_listener_fd(listener));
	const ino_t inode = inode_of(path);

	EXPECT_EQ(1, sn_unix_listener_set_unlink(sn_tcp_listener_unix(listener), 0));
	EXPECT_EQ(0, sn_unix_listener_set_unlink(sn_tcp_listener_unix(listener), 0));
	EXPECT_EQ(0, sn_tcp_listener_close(listener));
	EXPECT_EQ(inode, inode_of(path));
	ASSERT_EQ(0, sn_tcp_listener_adopt(&next, copy));
	EXPECT_EQ(0, sn_unix_listener_set_unlink(sn_tcp_listener_unix(next), 0));
	EXPECT_EQ(0, sn_unix_listener_set_unlink(sn_tcp_listener_unix(next), 1));
	EXPECT_EQ(1, sn_unix_listener_set_unlink(sn_tcp_listener_unix(next), 1));
	expect_works(next, address);
	EXPECT_EQ(0, sn_tcp_listener_close(next));
	EXPECT_FALSE(test::exists(path));
	EXPECT_EQ(-EBADF, sn_unix_listener_set_unlink(sn_tcp_listener_unix(next), 1));
	EXPECT_EQ(-EINVAL, sn_unix_listener_set_unlink(nullptr, 1));
}

TASK_TEST(UnixUnlink, TakesNothingElse, 1)
{
	Directory dir;
	const std::string path = dir / "socket";
	sn_unix_listener *listener = nullptr;

	ASSERT_EQ(0, sn_unix_listener_adopt(&listener, test::plain_bound(path, SOCK_STREAM, 5)));
	ASSERT_EQ(0, unlink(path.c_str()));
	EXPECT_EQ(-ENOENT, sn_unix_listener_set_unlink(listener, 1));
	close(creat(path.c_str(), 0600));
	EXPECT_EQ(-ENOENT, sn_unix_listener_set_unlink(listener, 1));
	EXPECT_EQ(0, sn_unix_listener_close(listener));
	EXPECT_TRUE(test::exists(path));
	unlink(path.c_str());
	// Another file replaces the one that the listener owns.
	ASSERT_EQ(0, sn_unix_listener_adopt(&listener, test::plain_bound(path, SOCK_STREAM, 5)));
	EXPECT_EQ(0, sn_unix_listener_set_unlink(listener, 1));
	ASSERT_EQ(0, rename(path.c_str(), (dir / "aside").c_str()));
	close(test::plain_bound(path));
	EXPECT_EQ(0, sn_unix_listener_close(listener));
	EXPECT_TRUE(test::exists(path));
	// An abstract name has no file.
	ASSERT_EQ(0, sn_unix_listen(&listener, "@", nullptr));
	EXPECT_EQ(0, sn_unix_listener_set_unlink(listener, 1));
	EXPECT_EQ(0, sn_unix_listener_close(listener));
}

// A listener can only own the file that it has created, or that it has found at the first call.
TASK_TEST(UnixUnlink, OwnsOneFileAndNoOther, 1)
{
	Directory dir;
	const std::string path = dir / "socket", aside = dir / "aside";

	for (const bool adopted : {false, true}) {
		sn_unix_listener *listener = nullptr;

		if (adopted) {
			const int fd = test::plain_bound(path, SOCK_STREAM, 5);

			ASSERT_EQ(0, sn_unix_listener_adopt(&listener, fd));
			EXPECT_EQ(0, sn_unix_listener_set_unlink(listener, 1));
		} else {
			ASSERT_EQ(0, sn_unix_listen(&listener, path.c_str(), nullptr));
		}
		ASSERT_EQ(0, rename(path.c_str(), aside.c_str()));
		// The file is gone, so the call changes nothing.
		EXPECT_EQ(-ENOENT, sn_unix_listener_set_unlink(listener, 1));
		EXPECT_EQ(1, sn_unix_listener_set_unlink(listener, 0));
		EXPECT_EQ(-ENOENT, sn_unix_listener_set_unlink(listener, 1));
		EXPECT_EQ(0, sn_unix_listener_set_unlink(listener, 0));
		// The socket at the path is not the listener's.
		close(test::plain_bound(path));
		EXPECT_EQ(-ENOENT, sn_unix_listener_set_unlink(listener, 1));
		EXPECT_EQ(0, sn_unix_listener_set_unlink(listener, 0));
		// The file is back.
		ASSERT_EQ(0, rename(aside.c_str(), path.c_str()));
		EXPECT_EQ(0, sn_unix_listener_set_unlink(listener, 1));
		EXPECT_EQ(1, sn_unix_listener_set_unlink(listener, 1));
		EXPECT_EQ(0, sn_unix_listener_close(listener));
		EXPECT_FALSE(test::exists(path)) << adopted;
	}
}

// The end of the run removes the files that listeners own at that moment.
TEST(UnixUnlink, HoldsAtTheEndOfTheRun)
{
	Directory dir;
	const std::string kept = dir / "kept", taken = dir / "taken";

	test::run(1, [&] {
		sn_tcp_listener *listener = listen_at("unix:" + kept);

		EXPECT_EQ(1, sn_unix_listener_set_unlink(sn_tcp_listener_unix(listener), 0));
		ASSERT_EQ(0, sn_tcp_listener_adopt(&listener,
						   test::plain_bound(taken, SOCK_STREAM, 5)));
		EXPECT_EQ(0, sn_unix_listener_set_unlink(sn_tcp_listener_unix(listener), 1));
	});
	EXPECT_TRUE(test::exists(kept));
	EXPECT_FALSE(test::exists(taken));
}

} // namespace
