// SPDX-License-Identifier: MIT
//
// Unix sockets: addresses, the files that stand for them, connecting, and what a connection does as
// a stream. unix_message_test.cc tests messages and descriptors.
#include <string>
#include <vector>

#include <poll.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <sennit/scan.h>

#include "support/descriptors.h"
#include "support/streams.h"
#include "support/unix.h"

namespace
{

using namespace test;

int try_listen(const std::string &address, sn_unix_listener **listener = nullptr,
	       sn_unix_options options = {})
{
	sn_unix_listener *made = nullptr;
	const int err = sn_unix_listen(&made, address.c_str(), &options);

	if (listener)
		*listener = made;
	else if (err == 0)
		sn_unix_listener_close(made);
	return err;
}

int try_connect(const std::string &address, sn_unix_type type = SN_UNIX_STREAM)
{
	sn_unix *conn = nullptr;
	const int err = sn_unix_connect(&conn, address.c_str(), type, sn_now() + test::patience);

	if (err == 0)
		sn_unix_close(conn);
	return err;
}

// Each end reads what the other writes; then the streams end.
void expect_connection(sn_unix *near, sn_unix *far)
{
	char got[8] = {};

	EXPECT_EQ(4, sn_unix_write_all(near, "ping", 4, nullptr));
	EXPECT_EQ(4, sn_unix_read_full(far, got, 4, nullptr));
	EXPECT_STREQ("ping", got);
	EXPECT_EQ(4, sn_unix_write_all(far, "pong", 4, nullptr));
	EXPECT_EQ(4, sn_unix_read_full(near, got, 4, nullptr));
	EXPECT_STREQ("pong", got);
	EXPECT_EQ(0, sn_unix_shutdown(near, SN_SHUT_WRITE));
	EXPECT_EQ(0, sn_unix_read(far, got, sizeof got));
	EXPECT_EQ(0, sn_unix_close(far));
	EXPECT_EQ(0, sn_unix_read(near, got, sizeof got));
	EXPECT_EQ(-EPIPE, sn_unix_write(near, "x", 1));
	EXPECT_EQ(0, sn_unix_close(near));
}

void expect_works(UnixListener &listener, const std::string &address)
{
	sn_unix *far = nullptr;
	// The accept begins first, so that it waits and has to be woken.
	Task accepting([&] { far = listener.accept(); });

	EXPECT_TRUE(test::someone_reads(listener.get()));
	sn_unix *near = unix_connect(address);
	accepting.join();
	expect_connection(near, far);
}

TASK_TEST(Unix, ConnectsByPathAndByName)
{
	Directory dir;
	const std::string path = dir / "socket";
	const std::string name = "@sennit-test-" + std::to_string(getpid());

	for (const std::string &address : {path, name}) {
		UnixListener listener(address);

		EXPECT_EQ(address, listener.address());
		expect_works(listener, address);
		expect_works(listener, "unix:" + address);
	}
	EXPECT_FALSE(test::exists(path));
	UnixListener any("unix:@"), other;
	EXPECT_EQ('@', any.address()[0]);
	EXPECT_NE(any.address(), other.address());
	expect_works(any, any.address());
}

TEST(Unix, RefusesMalformedAddresses)
{
	test::run(1, [] {
		Directory dir;
		const std::string longest = std::string(107, 'n');

		for (const std::string address : {"", "unix:"}) {
			EXPECT_EQ(-EINVAL, try_listen(address));
			EXPECT_EQ(-EINVAL, try_connect(address));
		}
		EXPECT_EQ(-EINVAL, try_connect("@"));
		EXPECT_EQ(-ENAMETOOLONG, try_listen(dir / longest.c_str()));
		EXPECT_EQ(-ENAMETOOLONG, try_connect("/" + longest));
		EXPECT_EQ(-ENAMETOOLONG, try_listen("@" + longest));
		EXPECT_EQ(0, try_listen("@" + longest.substr(1)));
		UnixListener in_full(dir.path() + "/" + longest.substr(dir.path().size() + 1));
		EXPECT_EQ(107u, in_full.address().size());
		EXPECT_EQ(0, try_connect(in_full.address()));
		EXPECT_EQ(-EINVAL, sn_unix_listen(nullptr, "@", nullptr));
		sn_unix_listener *listener = nullptr;
		EXPECT_EQ(-EINVAL, sn_unix_listen(&listener, nullptr, nullptr));
		sn_unix_options options = {};
		options.type = SN_UNIX_DATAGRAM;
		EXPECT_EQ(-EINVAL, try_listen("@", nullptr, options));
		options.type = sn_unix_type(3);
		EXPECT_EQ(-EINVAL, try_listen("@", nullptr, options));
		options = {};
		options.mode = 01000;
		EXPECT_EQ(-EINVAL, try_listen("@", nullptr, options));
		EXPECT_EQ(-ENOENT, try_connect(dir / "nothing"));
		EXPECT_EQ(-ENOENT, try_listen(dir / "no/where"));
		EXPECT_EQ(-ECONNREFUSED, try_connect("@sennit-nobody-listens-here"));
		EXPECT_EQ(-EPROTOTYPE, try_connect(in_full.address(), SN_UNIX_SEQPACKET));
	});
	sn_unix_listener *listener = nullptr;
	EXPECT_EQ(-ENOTSUP, sn_unix_listen(&listener, "@", nullptr));
	sn_unix *conn = nullptr;
	EXPECT_EQ(-ENOTSUP, sn_unix_connect(&conn, "@x", SN_UNIX_STREAM, SN_NO_DEADLINE));
}

// ---- files ----

mode_t mode_of(const std::string &path)
{
	struct stat st = {};

	EXPECT_EQ(0, lstat(path.c_str(), &st)) << path;
	return st.st_mode & 07777;
}

TASK_TEST(UnixPath, ReplacesAStaleSocket)
{
	Directory dir;
	const std::string path = dir / "socket";

	for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
		close(test::plain_bound(path, type));
		EXPECT_TRUE(test::exists(path));
		UnixListener listener(path);
		expect_works(listener, path);
	}
	EXPECT_FALSE(test::exists(path));
}

// Whatever type of socket uses the path, and whether it listens already or not. The owner does not
// notice the attempts.
TASK_TEST(UnixPath, LeavesAPathInUseAlone, 2)
{
	Directory dir;
	const std::string path = dir / "socket";

	for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM})
		for (const int backlog : {-1, 0, 5}) {
			if (type == SOCK_DGRAM && backlog >= 0)
				continue;
			const int owner = test::plain_bound(path, type, backlog);
			const ino_t inode = inode_of(path);
			EXPECT_EQ(-EADDRINUSE, try_listen(path));
			EXPECT_EQ(inode, inode_of(path));
			if (backlog >= 0) {
				struct pollfd arrivals = {owner, POLLIN, 0};
				EXPECT_EQ(0, poll(&arrivals, 1, 0));
			}
			close(owner);
			unlink(path.c_str());
		}
	UnixListener listener(path);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(-EADDRINUSE, try_listen(path));
	expect_works(listener, path);
	EXPECT_EQ(-EADDRINUSE, try_listen(listener.address()));
	UnixListener named("@");
	EXPECT_EQ(-EADDRINUSE, try_listen(named.address()));
}

TASK_TEST(UnixPath, RemovesNothingButSockets, 1)
{
	Directory dir;
	const std::string file = dir / "file", link = dir / "link", dead = dir / "dead";
	const std::string stale = dir / "stale";

	close(creat(file.c_str(), 0600));
	close(test::plain_bound(stale));
	EXPECT_EQ(0, symlink(stale.c_str(), link.c_str()));
	EXPECT_EQ(0, symlink("nowhere", dead.c_str()));
	for (const std::string &path : {file, link, dead}) {
		EXPECT_EQ(-EADDRINUSE, try_listen(path)) << path;
		EXPECT_TRUE(test::exists(path)) << path;
	}
	EXPECT_EQ(-EADDRINUSE, try_listen(dir.path()));
	EXPECT_TRUE(test::exists(stale));
	EXPECT_EQ(-ECONNREFUSED, try_connect(file));
	EXPECT_EQ(-ECONNREFUSED, try_connect(stale));
}

// When several listeners start at the same time over a stale file, one gets the path, keeps it, and
// can be reached.
TASK_TEST(UnixPath, GoesToOneOfSeveral, 2, 4)
{
	Directory dir;
	const std::string path = dir / "socket";

	for (int round = 0; round < test::scaled(100); round++) {
		sn_unix_listener *got[6] = {};
		std::vector<Task> starters;
		int winners = 0;

		if (round % 3)
			close(test::plain_bound(path));
		for (sn_unix_listener *&each : got)
			starters.emplace_back([&] {
				const int err = try_listen(path, &each);
				EXPECT_TRUE(err == 0 || err == -EADDRINUSE) << err;
			});
		join_all(starters);
		for (sn_unix_listener *each : got) {
			if (!each)
				continue;
			winners++;
			sn_unix *near = unix_connect(path), *far = nullptr;
			EXPECT_EQ(0, sn_unix_accept(each, &far));
			expect_connection(near, far);
			EXPECT_EQ(0, sn_unix_listener_close(each));
		}
		ASSERT_EQ(1, winners);
		ASSERT_FALSE(test::exists(path));
	}
}

// Another process may hold the directory's lock for as long as it lives.
TASK_TEST(UnixPath, IsTakenWithoutTheLockInTheEnd, 1)
{
	Directory dir;
	const std::string path = dir / "socket";
	const int holder = open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	sn_scope *scope;

	ASSERT_EQ(0, flock(holder, LOCK_EX));
	close(test::plain_bound(path));
	const int64_t begin = sn_now();
	EXPECT_EQ(0, try_listen(path));
	EXPECT_GT(sn_now() - begin, 100 * test::ms);
	// A cancelled task does not wait for the lock.
	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	sn_scope_cancel(scope);
	EXPECT_EQ(-ECANCELED, try_listen(path));
	sn_scope_close(scope);
	close(holder);
	// A directory that may be searched, but not read, cannot be locked.
	if (geteuid() != 0) {
		ASSERT_EQ(0, chmod(dir.path().c_str(), 0300));
		close(test::plain_bound(path));
		EXPECT_EQ(0, try_listen(path));
		ASSERT_EQ(0, chmod(dir.path().c_str(), 0700));
	}
}

TASK_TEST(UnixPath, HasTheMode, 1)
{
	Directory dir;
	const std::string path = dir / "socket";
	const mode_t former = umask(022);
	sn_unix_listener *listener;

	for (const mode_t mode : {0600, 0660, 0666, 0777, 0002}) {
		sn_unix_options options = {};
		options.mode = int(mode);
		ASSERT_EQ(0, try_listen(path, &listener, options));
		EXPECT_EQ(mode, mode_of(path));
		sn_unix_listener_close(listener);
	}
	ASSERT_EQ(0, try_listen(path, &listener));
	EXPECT_EQ(0755u, mode_of(path));
	sn_unix_listener_close(listener);
	umask(former);
}

TEST(UnixPath, IsRemovedOnlyByItsOwner)
{
	Directory dir;
	const std::string path = dir / "socket", aside = dir / "aside";

	test::run(2, [&] {
		sn_unix_listener *listener;

		// Another file has taken the place.
		ASSERT_EQ(0, try_listen(path, &listener));
		ASSERT_EQ(0, rename(path.c_str(), aside.c_str()));
		close(creat(path.c_str(), 0600));
		EXPECT_EQ(0, sn_unix_listener_close(listener));
		EXPECT_TRUE(test::exists(path));
		EXPECT_TRUE(test::exists(aside));
		unlink(path.c_str());
		// The file belongs to the next listener.
		ASSERT_EQ(0, try_listen(path, &listener));
		unlink(path.c_str());
		UnixListener next(path);
		EXPECT_EQ(0, sn_unix_listener_close(listener));
		EXPECT_EQ(-EBADF, sn_unix_listener_close(listener));
		expect_works(next, path);
		next.close();
		EXPECT_FALSE(test::exists(path));
		// A child of fork() closes its copy.
		ASSERT_EQ(0, try_listen(path, &listener));
		const pid_t child = fork();
		if (child == 0)
			_exit(sn_unix_listener_close(listener) == 0 ? 0 : 1);
		int status = -1;
		EXPECT_EQ(child, waitpid(child, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_TRUE(test::exists(path));
		EXPECT_EQ(0, sn_unix_listener_close(listener));
		EXPECT_FALSE(test::exists(path));
		// The end of the run closes the listener.
		ASSERT_EQ(0, try_listen(path, &listener));
	});
	EXPECT_FALSE(test::exists(path));
}

// ---- connecting ----

// Fills the backlog of a plain listener, and returns the sockets that have connected.
std::vector<int> fill_backlog(const std::string &path)
{
	const sockaddr_un address = test::unix_address(path);
	std::vector<int> fds;

	for (;;) {
		const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof address) < 0) {
			EXPECT_EQ(EAGAIN, errno);
			close(fd);
			return fds;
		}
		fds.push_back(fd);
	}
}

// How many tasks wait for a descriptor.
int waiting()
{
	return sn_tasks_each(
		[](const struct sn_task_info *info, void *) {
			return int(info->state == SN_STATE_PARKED && info->waits_for &&
				   strstr(info->waits_for, "descriptor"));
		},
		nullptr);
}

TASK_TEST(UnixConnect, WaitsForRoomInTheBacklog)
{
	Directory dir;
	const std::string path = dir / "socket";
	const int listener = test::plain_bound(path, SOCK_STREAM, 0);
	std::vector<int> before = fill_backlog(path);
	std::atomic<bool> done{false};
	sn_unix *near = nullptr;
	Task connecting([&] {
		near = unix_connect(path);
		done = true;
	});

	EXPECT_TRUE(test::eventually([] { return waiting() == 1; }));
	sn_sleep(20 * test::ms);
	EXPECT_FALSE(done);
	for (size_t i = 0; i < before.size(); i++)
		close(accept(listener, nullptr, nullptr));
	connecting.join();
	const int far = accept(listener, nullptr, nullptr);
	EXPECT_GE(far, 0);
	EXPECT_EQ(1, sn_unix_write(near, "x", 1));
	char c = 0;
	EXPECT_EQ(1, read(far, &c, 1));
	sn_unix_close(near);
	close(far);
	for (const int fd : before)
		close(fd);
	close(listener);
}

TASK_TEST(UnixConnect, GivesUp)
{
	Directory dir;
	const std::string path = dir / "socket";
	const int listener = test::plain_bound(path, SOCK_STREAM, 0);
	std::vector<int> before = fill_backlog(path);
	const int open_before = test::open_descriptors();
	sn_unix *conn = nullptr;
	int64_t deadline = sn_now() - 1;

	EXPECT_EQ(-ETIMEDOUT, sn_unix_connect(&conn, path.c_str(), SN_UNIX_STREAM, deadline));
	deadline = sn_now() + 30 * test::ms;
	EXPECT_EQ(-ETIMEDOUT, sn_unix_connect(&conn, path.c_str(), SN_UNIX_STREAM, deadline));
	EXPECT_GE(sn_now(), deadline);
	sn_scope *scope;
	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	sn_scope_go(
		scope,
		[](void *arg) {
			sn_unix *never = nullptr;

			EXPECT_EQ(-ECANCELED,
				  sn_unix_connect(&never, static_cast<const char *>(arg),
						  SN_UNIX_STREAM, SN_NO_DEADLINE));
			return 0;
		},
		const_cast<char *>(path.c_str()));
	EXPECT_TRUE(test::eventually([] { return waiting() == 1; }));
	sn_scope_cancel(scope);
	sn_scope_close(scope);
	// The listener is closed while a task waits.
	Task connecting([&] { EXPECT_EQ(-ECONNREFUSED, try_connect(path)); });
	EXPECT_TRUE(test::eventually([] { return waiting() == 1; }));
	close(listener);
	connecting.join();
	EXPECT_EQ(open_before - 1, test::open_descriptors());
	for (const int fd : before)
		close(fd);
}

TASK_TEST(UnixAccept, PausesWithoutDescriptors)
{
	UnixListener listener;
	sn_unix *near = unix_connect(listener.address());
	// Without this, the pause would give up pipes that an earlier test left in the
	// pool.
	probe_pipes_reset();
	test::NoDescriptors none;
	sn_unix *far = nullptr, *other = nullptr, *ends[2];
	Task accepting([&] { far = listener.accept(); });

	EXPECT_TRUE(test::eventually([] { return test::stats().accept_pauses > 0; }));
	EXPECT_EQ(-EMFILE, sn_unix_connect(&other, listener.address().c_str(), SN_UNIX_STREAM,
					   SN_NO_DEADLINE));
	EXPECT_EQ(-EMFILE, try_listen("@"));
	EXPECT_EQ(-EMFILE, sn_unix_pair(ends, SN_UNIX_STREAM));
	none.give_back();
	accepting.join();
	expect_connection(near, far);
}

TASK_TEST(UnixAccept, EndsWithDeadlineAndClose)
{
	UnixListener listener;
	sn_unix *conn = nullptr;

	sn_unix_listener_set_deadline(listener.get(), sn_now() + test::ms);
	EXPECT_EQ(-ETIMEDOUT, sn_unix_accept(listener.get(), &conn));
	sn_unix_listener_set_deadline(listener.get(), SN_NO_DEADLINE);
	sn_unix_listener *const handle = listener.get();
	Task accepting([&] { EXPECT_EQ(-EBADF, sn_unix_accept(handle, &conn)); });
	EXPECT_TRUE(test::someone_reads(handle));
	sn_unix *second = nullptr;
	EXPECT_EQ(-EBUSY, sn_unix_accept(handle, &second));
	listener.close();
	accepting.join();
	// The old handle does not reach a later listener.
	UnixListener next;
	char text[SN_UNIX_ADDRESS_MAX];
	EXPECT_EQ(-EBADF, sn_unix_accept(handle, &conn));
	EXPECT_EQ(-EBADF, sn_unix_listener_close(handle));
	EXPECT_EQ(-EBADF, sn_unix_listener_fd(handle));
	EXPECT_EQ(-EBADF, sn_unix_listener_address(handle, text, sizeof text));
	EXPECT_EQ(-EINVAL, sn_unix_accept(nullptr, &conn));
	EXPECT_EQ(0, sn_unix_listener_close(nullptr));
	expect_works(next, next.address());
}

// ---- connections ----

TASK_TEST(Unix, SaysWhoIsThere, 1)
{
	Directory dir;
	const std::string path = dir / "socket";
	UnixListener listener(path);
	const pid_t child = fork();
	struct sn_unix_credentials peer = {};
	char text[SN_UNIX_ADDRESS_MAX] = "?";

	if (child == 0) {
		const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		const sockaddr_un to = test::unix_address(path);
		char c;

		if (connect(fd, reinterpret_cast<const sockaddr *>(&to), sizeof to) == 0 &&
		    read(fd, &c, 1) == 1)
			_exit(0);
		_exit(1);
	}
	sn_unix *conn = listener.accept();
	EXPECT_EQ(0, sn_unix_peer_credentials(conn, &peer));
	EXPECT_EQ(child, peer.pid);
	EXPECT_EQ(geteuid(), peer.uid);
	EXPECT_EQ(getegid(), peer.gid);
	EXPECT_EQ(0, sn_unix_peer_address(conn, text, sizeof text));
	EXPECT_STREQ("", text);
	EXPECT_EQ(int(path.size()), sn_unix_local_address(conn, text, sizeof text));
	EXPECT_EQ(path, text);
	EXPECT_EQ(-ENOSPC, sn_unix_local_address(conn, text, path.size()));
	EXPECT_EQ(-EINVAL, sn_unix_local_address(conn, nullptr, sizeof text));
	EXPECT_EQ(-EINVAL, sn_unix_peer_address(conn, nullptr, sizeof text));
	const int pidfd = sn_unix_peer_pidfd(conn);
	EXPECT_TRUE(pidfd >= 0 || pidfd == -ENOPROTOOPT) << pidfd;
	if (pidfd >= 0) {
		EXPECT_TRUE(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
		close(pidfd);
	}
	EXPECT_EQ(1, sn_unix_write(conn, "x", 1));
	int status = -1;
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	sn_unix_close(conn);
	EXPECT_EQ(-EBADF, sn_unix_peer_credentials(conn, &peer));
	sn_unix *datagrams = nullptr;
	ASSERT_EQ(0, sn_unix_bind(&datagrams, nullptr, nullptr));
	EXPECT_EQ(-ENOTCONN, sn_unix_peer_credentials(datagrams, &peer));
	EXPECT_EQ(-ENOTCONN, sn_unix_peer_address(datagrams, text, sizeof text));
	EXPECT_EQ(0, sn_unix_local_address(datagrams, text, sizeof text));
	sn_unix_close(datagrams);
}

TASK_TEST(Unix, IsAdopted, 1)
{
	Directory dir;
	const std::string path = dir / "socket";
	const int fd = test::plain_bound(path, SOCK_SEQPACKET, 5);
	const int bound = test::plain_bound(dir / "other");
	const int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sn_unix_listener *listener = nullptr;
	sn_unix *conn = nullptr, *far = nullptr;

	EXPECT_EQ(-EINVAL, sn_unix_adopt(&conn, fd));
	EXPECT_EQ(-EINVAL, sn_unix_listener_adopt(&listener, bound));
	EXPECT_EQ(-EPROTOTYPE, sn_unix_adopt(&conn, tcp));
	EXPECT_EQ(-ENOTSOCK, sn_unix_adopt(&conn, STDERR_FILENO));
	EXPECT_EQ(-EBADF, sn_unix_listener_adopt(&listener, -1));
	EXPECT_FALSE(fcntl(fd, F_GETFL) & O_NONBLOCK);
	ASSERT_EQ(0, sn_unix_listener_adopt(&listener, fd));
	EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
	EXPECT_EQ(-EEXIST, sn_unix_listener_adopt(&listener, fd));
	conn = unix_connect(path, SN_UNIX_SEQPACKET);
	ASSERT_EQ(0, sn_unix_accept(listener, &far));
	// The adoption has found out the type: this SOCK_SEQPACKET connection is not a
	// stream.
	EXPECT_EQ(-EPROTOTYPE, sn_unix_write(far, "x", 1));
	sn_unix_close(conn);
	sn_unix_close(far);
	sn_unix_listener_close(listener);
	EXPECT_TRUE(test::exists(path));
	int fds[2];
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	ASSERT_EQ(0, sn_unix_adopt(&conn, fds[0]));
	ASSERT_EQ(0, sn_unix_adopt(&far, fds[1]));
	expect_connection(conn, far);
	close(bound);
	close(tcp);
}

TASK_TEST(Unix, WakesWhoWaitsOnAConnection)
{
	UnixPair pair;
	char c;
	sn_unix *const a = pair.a;

	sn_unix_set_read_deadline(a, sn_now() + test::ms);
	EXPECT_EQ(-ETIMEDOUT, sn_unix_read(a, &c, 1));
	sn_unix_set_read_deadline(a, SN_NO_DEADLINE);
	Task reading([&] { EXPECT_EQ(-EBADF, sn_unix_read(a, &c, 1)); });
	EXPECT_TRUE(test::someone_reads(a));
	const std::string much(8 << 20, 'm');
	Task writing([&] {
		EXPECT_EQ(-EBADF, sn_unix_write_all(a, much.data(), much.size(), nullptr));
	});
	EXPECT_TRUE(test::someone_writes(a));
	pair.close_a();
	reading.join();
	writing.join();
	EXPECT_EQ(-EBADF, sn_unix_read(a, &c, 1));
}

// ---- copying and relaying ----

// A connected pair by path; each end is a stream.
std::unique_ptr<test::Ends> by_path(const std::string &path)
{
	UnixListener listener(path);
	sn_unix *near = unix_connect(path);

	return std::make_unique<test::Ends>(sn_unix_stream(near),
					    sn_unix_stream(listener.accept()));
}

// Checks that bytes go from one pair through a copy to the other, as sn_copy() moves them between
// clients and servers.
void expect_copied(std::unique_ptr<test::Ends> in, std::unique_ptr<test::Ends> out)
{
	test::Random random;
	const std::string bytes = test::random_bytes(random, size_t(test::scaled(8)) << 20);
	struct sn_copy_result result = {};
	std::string got;
	Task writer([&] {
		test::write_in_pieces(in->from(), bytes, random, 200000);
		EXPECT_EQ(0, sn_stream_shutdown(in->from(), SN_SHUT_WRITE));
	});
	Task reader([&] { got = test::read_to_end(out->to()); });

	EXPECT_EQ(0, sn_copy(out->from(), in->to(), -1, nullptr, nullptr, &result));
	EXPECT_EQ(0, sn_stream_shutdown(out->from(), SN_SHUT_WRITE));
	writer.join();
	reader.join();
	EXPECT_TRUE(bytes == got);
}

TASK_TEST(UnixStream, IsCopied, 1, 2)
{
	Directory dir;

	expect_copied(by_path(dir / "a"), by_path(dir / "b"));
	expect_copied(by_path(dir / "a"), test::Ends::tcp());
	expect_copied(test::Ends::tcp(), by_path(dir / "b"));
}

TASK_TEST(UnixStream, IsRelayedBothWays, 1, 2)
{
	Directory dir;

	for (const bool with_tcp : {true, false}) {
		auto a = by_path(dir / "a");
		auto b = with_tcp ? test::Ends::tcp() : by_path(dir / "b");
		test::Random random;
		const size_t size = size_t(test::scaled(4)) << 20;
		const std::string there = test::random_bytes(random, size);
		const std::string back = test::random_bytes(random, size);
		struct sn_relay_result result = {};
		std::string got_there, got_back;
		Task relay([&] { EXPECT_EQ(0, sn_relay(a->to(), b->from(), &result, nullptr)); });
		Task write_there([&] {
			(void)!sn_stream_write_all(a->from(), there.data(), there.size(), nullptr);
			sn_stream_shutdown(a->from(), SN_SHUT_WRITE);
		});
		Task write_back([&] {
			(void)!sn_stream_write_all(b->to(), back.data(), back.size(), nullptr);
			sn_stream_shutdown(b->to(), SN_SHUT_WRITE);
		});
		Task read_there([&] { got_there = test::read_to_end(b->to()); });
		got_back = test::read_to_end(a->from());
		for (Task *each : {&relay, &write_there, &write_back, &read_there})
			each->join();
		EXPECT_TRUE(there == got_there);
		EXPECT_TRUE(back == got_back);
		EXPECT_EQ(SN_RELAY_FINISHED, result.end);
	}
}

// Lines and messages, read through a buffered reader, over a connection by name.
TASK_TEST(UnixStream, IsReadThroughABuffer, 1)
{
	auto ends = by_path("@sennit-lines-" + std::to_string(getpid()));
	struct iovec pieces[2] = {{const_cast<char *>("one\nt"), 5},
				  {const_cast<char *>("wo\n"), 3}};

	EXPECT_EQ(8, sn_stream_writev(ends->from(), pieces, 2));
	char got[8], rest[4];
	struct iovec room[2] = {{got, 4}, {rest, 4}};
	EXPECT_EQ(8, sn_stream_readv(ends->to(), room, 2));
	EXPECT_EQ(0, memcmp(got, "one\n", 4));
	EXPECT_EQ(0, memcmp(rest, "two\n", 4));
}

// ---- threads ----

TEST(Unix, ManyIdleConnectionsNeedFewThreads)
{
	const int processors = 2, n = 500;

	test::run(processors, [&] {
		struct rlimit limit;
		ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
		limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
		ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
		UnixListener listener;
		std::vector<sn_unix *> near, far;
		std::vector<Task> readers;

		for (int i = 0; i < n; i++) {
			near.push_back(unix_connect(listener.address()));
			far.push_back(listener.accept());
			readers.emplace_back([conn = far.back()] {
				char c;

				EXPECT_EQ(0, sn_unix_read(conn, &c, 1));
				EXPECT_EQ(0, sn_unix_close(conn));
			});
		}
		EXPECT_TRUE(test::eventually([&] {
			return std::all_of(far.begin(), far.end(),
					   [](sn_unix *c) { return probe_fd_waiting(c, 0); });
		}));
		// Threads that lost their processors because they were preempted end soon.
		EXPECT_TRUE(test::eventually([&] {
			return test::process_status("Threads") <= processors + 5 + TEST_TSAN;
		})) << test::process_status("Threads");
		for (sn_unix *conn : near)
			sn_unix_close(conn);
		join_all(readers);
	});
}

} // namespace
