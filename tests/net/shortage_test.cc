// SPDX-License-Identifier: MIT
//
// Running out of descriptors, in every call that creates one. The process has 0 free descriptors at
// the call, then 1, then 2 and so on until the call succeeds, so each of its steps fails once; then
// the same with a system that has none left (ENFILE). A call that fails reports it, leaves no
// descriptor open, and works as soon as there are some.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "support/descriptors.h"
#include "support/streams.h"
#include "support/udp.h"
#include "support/unix.h"

namespace test
{

// How many of the functions below still succeed; negative: all of them.
std::atomic<int> system_has{-1};

static bool system_is_full()
{
	for (int left = system_has; left >= 0;)
		if (left == 0 || system_has.compare_exchange_weak(left, left - 1)) {
			if (left == 0)
				errno = ENFILE;
			return left == 0;
		}
	return false;
}

template <class F>
static F *real(const char *name)
{
	return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

} // namespace test

// Each function replaces that of the C library, also for the library under test. No test can fill
// the system's own table of files without disturbing other programs.
extern "C" {

int socket(int family, int type, int protocol) noexcept
{
	static const auto next = test::real<int(int, int, int)>("socket");

	return test::system_is_full() ? -1 : next(family, type, protocol);
}

int socketpair(int family, int type, int protocol, int fds[2]) noexcept
{
	static const auto next = test::real<int(int, int, int, int *)>("socketpair");

	return test::system_is_full() ? -1 : next(family, type, protocol, fds);
}

int accept4(int fd, sockaddr *address, socklen_t *length, int flags)
{
	static const auto next = test::real<int(int, sockaddr *, socklen_t *, int)>("accept4");

	return test::system_is_full() ? -1 : next(fd, address, length, flags);
}

int pipe2(int fds[2], int flags) noexcept
{
	static const auto next = test::real<int(int *, int)>("pipe2");

	return test::system_is_full() ? -1 : next(fds, flags);
}

int eventfd(unsigned value, int flags) noexcept
{
	static const auto next = test::real<int(unsigned, int)>("eventfd");

	return test::system_is_full() ? -1 : next(value, flags);
}
}

namespace
{

using namespace test;

// More than any call needs.
constexpr int most = 24;

// A call under test. It returns 0 or more after it has closed everything that it created, or an
// error.
using Call = std::function<int()>;

// The errors that a call may return without descriptors.
using Errors = std::set<int>;

std::string names_of_open()
{
	std::string all;

	for (int fd = 0; fd < 1000; fd++) {
		char name[64], target[200];
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		const ssize_t n = readlink(name, target, sizeof target);
		if (n > 0)
			all += " " + std::to_string(fd) + "=" + std::string(target, size_t(n));
	}
	return all;
}

// Waits, because descriptors that a call has left open may be closed a little later: a task of the
// program may still be working.
void expect_open(int before, const std::string &what)
{
	EXPECT_TRUE(test::eventually([&] { return open_descriptors() <= before; },
				     test::scaled(2000) * test::ms))
		<< what << ": " << before << " were open, now" << names_of_open();
}

// Tries the call with more and more free descriptors until it succeeds. Returns how many it needs.
int try_with_few(const std::string &what, const Call &call, const Errors &errors, int keeps)
{
	NoDescriptors none;

	for (int room = 0; room < most; room++) {
		const int before = open_descriptors();
		const int err = call();

		if (err >= 0) {
			none.give_back();
			return room;
		}
		EXPECT_TRUE(errors.count(err))
			<< what << " with " << room << ": " << strerror(-err);
		expect_open(before + keeps, what);
		none.give_back(1);
	}
	none.give_back();
	ADD_FAILURE() << what << " fails with " << most << " free descriptors";
	return most;
}

// Does the same with a system that has none left.
int try_in_full_system(const std::string &what, const Call &call, Errors errors)
{
	if (errors.erase(-EMFILE))
		errors.insert(-ENFILE);
	for (int room = 0; room < most; room++) {
		const int before = open_descriptors();
		test::system_has = room;
		const int err = call();
		test::system_has = -1;

		if (err >= 0)
			return room;
		EXPECT_TRUE(errors.count(err))
			<< what << " in a system with room for " << room << ": " << strerror(-err);
		expect_open(before, what);
	}
	ADD_FAILURE() << what << " fails in a system with room for " << most;
	return most;
}

/*
 * Tries a call under both kinds of shortage, and then without. `needs`: the call needs at least so
 * many descriptors; a call that quietly does without them would not be tested. `keeps`: how many
 * the runtime opens at the first such call and keeps.
 */
void try_call(const std::string &what, int needs, const Call &call, Errors errors = {-EMFILE},
	      int keeps = 0)
{
	const int before = open_descriptors();

	EXPECT_GE(try_with_few(what, call, errors, keeps), needs) << what;
	try_in_full_system(what, call, errors);
	const int err = call();
	EXPECT_GE(err, 0) << what << " with all descriptors: " << strerror(-err);
	expect_open(before + keeps, what);
}

// Runs the body with one processor and with two, and checks that the run leaves nothing open.
void in_runs(const std::function<void()> &body)
{
	for (int processors : {1, 2}) {
		const int before = open_descriptors();
		test::run(processors, body);
		EXPECT_GE(before, open_descriptors()) << names_of_open();
	}
}

// ---- listening and connecting ----

TEST(ShortageTcp, ListenAndConnect)
{
	in_runs([] {
		Listener listener;
		const std::string address = listener.address();
		const std::string by_name = "localhost" + address.substr(address.rfind(':'));

		for (const char *at : {"127.0.0.1:0", ":0", "localhost:0"})
			try_call(std::string("sn_tcp_listen ") + at, 1,
				 [&] {
					 sn_tcp_listener *made = nullptr;
					 const int err = sn_tcp_listen(&made, at);

					 return err < 0 ? err : sn_tcp_listener_close(made);
				 },
				 {-EMFILE});
		for (const std::string &to : {address, by_name})
			try_call("sn_tcp_connect " + to, 1,
				 [&] {
					 sn_tcp *conn = nullptr;
					 int err = sn_tcp_connect(&conn, to.c_str(),
								  sn_now() + test::patience);

					 return err < 0 ? err : sn_tcp_close(conn);
				 },
				 {-EMFILE});
	});
}

// Accepting does not fail, but pauses, so it is tried with a deadline.
TEST(ShortageTcp, Accept)
{
	in_runs([] {
		Listener listener;
		sn_tcp *client = test::connect(listener.address());
		int accepted = 0;

		try_call("sn_tcp_accept", 1,
			 [&] {
				 sn_tcp *conn = nullptr;
				 // Until a descriptor is free, the client's connection waits in the
				 // backlog.
				 if (accepted > 0)
					 return 0;
				 sn_tcp_listener_set_deadline(listener.get(),
							      sn_now() + 20 * test::ms);
				 const int err = sn_tcp_accept(listener.get(), &conn);
				 accepted += err == 0;
				 return err < 0 ? err : sn_tcp_close(conn);
			 },
			 {-ETIMEDOUT});
		EXPECT_EQ(1, accepted);
		sn_tcp_close(client);
		sn_tcp_listener_set_deadline(listener.get(), SN_NO_DEADLINE);
		Pair pair(listener);
	});
}

TEST(ShortageUnix, ListenBindConnectAndPair)
{
	in_runs([] {
		test::Directory directory;
		const std::string path = directory / "socket";
		test::UnixListener listener(directory / "served");
		const std::string served = listener.address();

		for (const std::string &at : {path, std::string("@"), "unix:" + path})
			try_call("listening at " + at, 1, [&] {
				sn_unix_listener *made = nullptr;
				sn_tcp_listener *as_tcp = nullptr;
				int err;

				if (at[0] == 'u') {
					err = sn_tcp_listen(&as_tcp, at.c_str());
					made = sn_tcp_listener_unix(as_tcp);
				} else {
					err = sn_unix_listen(&made, at.c_str(), nullptr);
				}
				EXPECT_TRUE(err == 0 || !test::exists(path)) << "leaves a file";
				return err < 0 ? err : sn_unix_listener_close(made);
			});
		// Each call that succeeds removes one of these.
		std::vector<std::string> left;
		for (const char *name : {"a", "b", "c"}) {
			left.push_back(directory / name);
			close(test::plain_bound(left.back()));
		}
		try_call("sn_unix_listen over a stale path", 2, [&] {
			sn_unix_listener *made = nullptr;
			const int err = sn_unix_listen(&made, left.back().c_str(), nullptr);

			EXPECT_TRUE(err == 0 || test::exists(left.back()));
			if (err == 0)
				left.pop_back();
			return err < 0 ? err : sn_unix_listener_close(made);
		});
		try_call("sn_unix_bind", 1, [&] {
			sn_unix *made = nullptr;
			const int err = sn_unix_bind(&made, path.c_str(), nullptr);

			return err < 0 ? err : sn_unix_close(made);
		});
		try_call("sn_unix_connect", 1, [&] {
			sn_unix *made = nullptr;
			const int err = sn_unix_connect(&made, served.c_str(), SN_UNIX_STREAM,
							sn_now() + test::patience);

			return err < 0 ? err : sn_unix_close(made);
		});
		for (sn_unix_type type : {SN_UNIX_STREAM, SN_UNIX_DATAGRAM, SN_UNIX_SEQPACKET})
			try_call("sn_unix_pair", 2, [&] {
				sn_unix *ends[2] = {};
				const int err = sn_unix_pair(ends, type);

				if (err == 0)
					sn_unix_close(ends[0]);
				return err < 0 ? err : sn_unix_close(ends[1]);
			});
	});
}

TEST(ShortageUnix, Accept)
{
	in_runs([] {
		test::UnixListener listener;
		sn_unix *client = test::unix_connect(listener.address());
		int accepted = 0;

		try_call("sn_unix_accept", 1,
			 [&] {
				 sn_unix *conn = nullptr;

				 if (accepted > 0)
					 return 0;
				 sn_unix_listener_set_deadline(listener.get(),
							       sn_now() + 20 * test::ms);
				 const int err = sn_unix_accept(listener.get(), &conn);
				 accepted += err == 0;
				 return err < 0 ? err : sn_unix_close(conn);
			 },
			 {-ETIMEDOUT});
		EXPECT_EQ(1, accepted);
		sn_unix_close(client);
	});
}

TEST(ShortageUnix, DescriptorsThatArrive)
{
	in_runs([] {
		for (sn_unix_type type : {SN_UNIX_STREAM, SN_UNIX_DATAGRAM, SN_UNIX_SEQPACKET}) {
			test::UnixPair pair(type);

			try_call("sn_unix_recv of three descriptors", 3, [&] {
				int sent[] = {0, 1, 2}, fds[3] = {-1, -1, -1};
				char text[] = "three", buf[16];
				sn_unix_message message = {};

				message.data = text;
				message.size = 5;
				message.fds = sent;
				message.fd_count = 3;
				EXPECT_EQ(5, sn_unix_send(pair.a, &message));
				message = {};
				message.data = buf;
				message.size = sizeof buf;
				message.fds = fds;
				message.fd_count = 3;
				const ssize_t n = sn_unix_recv(pair.b, &message);
				EXPECT_EQ(n < 0 ? 0 : 3, message.fd_count);
				EXPECT_EQ(5u, message.length);
				for (int i = 0; i < message.fd_count; i++)
					EXPECT_EQ(0, close(fds[i]));
				return int(n);
			});
		}
		test::UnixListener listener;
		sn_unix *near = test::unix_connect(listener.address()), *far = listener.accept();
		const int pidfd = sn_unix_peer_pidfd(far);
		if (pidfd >= 0) { // if not, the kernel does not support it
			close(pidfd);
			try_call("sn_unix_peer_pidfd", 1, [&] {
				const int fd = sn_unix_peer_pidfd(far);

				return fd < 0 ? fd : close(fd);
			});
		}
		sn_unix_close(near);
		sn_unix_close(far);
	});
}

TEST(ShortageUdp, OpenAndConnect)
{
	in_runs([] {
		for (const char *at : {"127.0.0.1:0", ":0", "localhost:0"})
			try_call(std::string("sn_udp_open ") + at, 1,
				 [&] {
					 sn_udp *made = nullptr;
					 const int err = sn_udp_open(&made, at, nullptr);

					 return err < 0 ? err : sn_udp_close(made);
				 },
				 {-EMFILE});
		for (const char *to : {"127.0.0.1:9", "localhost:9"})
			try_call(std::string("sn_udp_connect ") + to, 1,
				 [&] {
					 sn_udp *made = nullptr;
					 const int err =
						 sn_udp_connect(&made, to, nullptr, SN_NO_DEADLINE);

					 return err < 0 ? err : sn_udp_close(made);
				 },
				 {-EMFILE});
	});
}

// ---- names ----

// The C library may report a name as unknown when it cannot look it up for want of a descriptor.
TEST(ShortageNames, AreNotUnknown)
{
	in_runs([] {
		sockaddr_in loopback = {};

		loopback.sin_family = AF_INET;
		loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		try_call("sn_resolve of a number", 0, [] {
			sn_resolved *list = nullptr;
			const int err =
				sn_resolve(&list, "127.0.0.1", "80", 0, sn_now() + test::patience);

			EXPECT_EQ(0, err);
			sn_resolved_free(list);
			return err;
		});
		try_call("sn_resolve", 1,
			 [] {
				 sn_resolved *list = nullptr;
				 const int err = sn_resolve(&list, "localhost", "80", 0,
							    sn_now() + test::patience);

				 if (err == 0)
					 sn_resolved_free(list);
				 return err;
			 },
			 {-EMFILE});
		try_call("sn_resolve_name", 1,
			 [&] {
				 char name[SN_NAME_MAX];

				 return sn_resolve_name(name, sizeof name,
							reinterpret_cast<sockaddr *>(&loopback),
							sizeof loopback, sn_now() + test::patience);
			 },
			 {-EMFILE, -EAGAIN});
		NoDescriptors none;
		sn_srv_list *list = nullptr;
		const int err =
			sn_resolve_srv(&list, "_x._tcp.one.test", sn_now() + test::patience);
		none.give_back();
		EXPECT_TRUE(err == -EMFILE || err == -EAGAIN || err == -ENOSYS) << strerror(-err);
	});
}

// ---- programs and signals ----

int started(const sn_process_attr *attr)
{
	const char *argv[] = {"true", nullptr};
	sn_process *process = nullptr;
	int err = sn_process_start(&process, argv, attr);

	if (err < 0)
		return err;
	err = sn_process_wait(process, nullptr, SN_NO_DEADLINE);
	sn_process_close(process);
	return err;
}

TEST(ShortageProcess, Start)
{
	in_runs([] {
		const sn_process_stdio a_pipe = {SN_PROCESS_PIPE, 0};
		const sn_process_stdio terminal = {SN_PROCESS_TERMINAL, 0};
		const sn_process_stdio null = {SN_PROCESS_NULL, 0};
		const sn_process_descriptor more[] = {{0, 7}, {1, 3}, {2, 5}};
		sn_process_attr plain = {}, pipes = {}, pty = {}, nothing = {}, passed = {};

		pipes.in = pipes.out = pipes.err = a_pipe;
		pty.in = pty.out = pty.err = terminal;
		nothing.in = nothing.out = nothing.err = null;
		passed.descriptors = more;
		passed.descriptor_count = 3;
		try_call("sn_process_start", 1, [&] { return started(&plain); });
		try_call("sn_process_start with pipes", 6, [&] { return started(&pipes); });
		try_call("sn_process_start in a terminal", 3, [&] { return started(&pty); });
		try_call("sn_process_start with nothing", 2, [&] { return started(&nothing); });
		try_call("sn_process_start with descriptors", 1, [&] { return started(&passed); });
		try_call("sn_process_output", 6, [] {
			const char *argv[] = {"cat", nullptr};
			sn_process_result result = {};
			const int err = sn_process_output(&result, argv, "input", 5, 0, nullptr,
							  SN_NO_DEADLINE);

			if (err == 0) {
				EXPECT_EQ("input", std::string(result.out, result.out_size));
			}
			sn_process_result_free(&result);
			return err;
		});
		EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG)) << "a program is left";
	});
}

// The first signal that is caught takes a descriptor, which the process keeps.
TEST(ShortageSignal, Catch)
{
	const int before = open_descriptors();

	test::run(2, [] {
		const int signals[] = {SIGUSR1, SIGUSR2};
		sn_chan *chan = nullptr;
		int signum = 0;

		ASSERT_EQ(0, sn_chan_new(&chan, sizeof(int), 4));
		try_call(
			"sn_signal_send_to", 1, [&] { return sn_signal_send_to(chan, signals, 2); },
			{-EMFILE}, 1);
		try_call("sn_signal_catch", 0, [&] { return sn_signal_catch(SIGUSR1); });
		raise(SIGUSR1);
		EXPECT_EQ(0, sn_chan_recv(chan, &signum));
		EXPECT_EQ(SIGUSR1, signum);
		EXPECT_EQ(0, sn_signal_stop(chan));
		sn_chan_unref(chan);
	});
	EXPECT_GE(before + 1, open_descriptors()) << names_of_open();
}

// ---- waiting, and what needs no descriptor ----

// sn_fd_wait() needs a copy of the descriptor only if that belongs to sennit.
TEST(ShortageWait, OnADescriptor)
{
	in_runs([] {
		Pair pair;
		const int mine = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		const int its = sn_tcp_fd(pair.client);
		const int64_t soon = 5 * test::ms;

		for (int fd : {mine, its}) {
			const int needs = fd == its ? 1 : 0;
			const auto timed_out = [](int err) { return err == -ETIMEDOUT ? 0 : err; };

			try_call("sn_fd_wait", needs, [&] {
				return timed_out(sn_fd_wait(fd, POLLIN, sn_now() + soon));
			});
			try_call("sn_fd_wait_any", needs, [&] {
				pollfd fds[] = {{mine, POLLIN, 0}, {fd, POLLIN, 0}};
				return timed_out(sn_fd_wait_any(fds, 2, sn_now() + soon));
			});
			try_call("sn_select", needs, [&] {
				sn_case a = {};
				a.op = SN_CASE_POLL;
				a.poll.fd = fd;
				a.poll.events = POLLIN;
				return timed_out(sn_select(&a, 1, sn_now() + soon));
			});
		}
		close(mine);
	});
}

// Adopting a descriptor needs no other one: the first attempt succeeds.
TEST(ShortageAdopt, NeedsNone)
{
	in_runs([] {
		const auto needs_none = [](const char *what, const std::function<int()> &make,
					   const std::function<int(int)> &take) {
			const int fd = make();
			bool taken = false;

			ASSERT_GE(fd, 0) << what;
			NoDescriptors none;
			EXPECT_EQ(0, take(fd)) << what;
			taken = fcntl(fd, F_GETFD) < 0;
			none.give_back();
			EXPECT_TRUE(taken) << what << " was closed with its owner";
		};
		const auto plain = [](int family, int type, bool listens) {
			return [=] {
				sockaddr_in any = {};
				const int fd = ::socket(family, type | SOCK_CLOEXEC, 0);

				any.sin_family = AF_INET;
				if (family == AF_INET) {
					EXPECT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&any),
							  sizeof any));
				}
				if (listens) {
					EXPECT_EQ(0, listen(fd, 1));
				}
				return fd;
			};
		};

		needs_none(
			"sn_stream_adopt", [] { return memfd_create("x", MFD_CLOEXEC); },
			[](int fd) {
				sn_stream *stream = nullptr;
				int err = sn_stream_adopt(&stream, fd);
				return err < 0 ? err : sn_stream_close(stream);
			});
		needs_none("sn_tcp_listener_adopt", plain(AF_INET, SOCK_STREAM, true), [](int fd) {
			sn_tcp_listener *made = nullptr;
			int err = sn_tcp_listener_adopt(&made, fd);
			return err < 0 ? err : sn_tcp_listener_close(made);
		});
		needs_none("sn_udp_adopt", plain(AF_INET, SOCK_DGRAM, false), [](int fd) {
			sn_udp *made = nullptr;
			int err = sn_udp_adopt(&made, fd, nullptr);
			return err < 0 ? err : sn_udp_close(made);
		});
		needs_none("sn_unix_adopt", plain(AF_UNIX, SOCK_DGRAM, false), [](int fd) {
			sn_unix *made = nullptr;
			int err = sn_unix_adopt(&made, fd);
			return err < 0 ? err : sn_unix_close(made);
		});
	});
}

// Without pipes, copies go through memory of the process, and copies between files need no pipe
// anyway. The pool keeps the pipes that it has created.
TEST(ShortageCopy, GoesOn)
{
	const int outside = open_descriptors();

	test::run({1, 2}, [] {
		Listener listener;
		Pair from(listener), to(listener);
		const std::string bytes(256 * 1024, 'x');
		FILE *file = tmpfile();
		std::string got(bytes.size(), 0);
		ASSERT_NE(nullptr, file);
		sn_stream *stored = adopt(dup(fileno(file)));
		NoDescriptors none;

		for (int room = 0; room < 6; room++) {
			sn_copy_result result = {};
			test::Task sender([&] {
				return int(sn_tcp_write_all(from.client, bytes.data(), bytes.size(),
							    nullptr));
			});
			test::Task receiver([&] {
				return int(sn_tcp_read_full(to.client, got.data(), got.size(),
							    nullptr));
			});
			EXPECT_EQ(0, sn_copy(sn_tcp_stream(to.server), sn_tcp_stream(from.server),
					     int64_t(bytes.size()), nullptr, nullptr, &result));
			EXPECT_EQ(bytes.size(), result.bytes_written) << room;
			EXPECT_EQ(int(bytes.size()), sender.join());
			EXPECT_EQ(int(bytes.size()), receiver.join());
			EXPECT_EQ(bytes, got) << room;

			// To a file, and back.
			test::Task again([&] {
				return int(sn_tcp_write_all(from.client, bytes.data(), bytes.size(),
							    nullptr));
			});
			rewind(file);
			EXPECT_EQ(0, sn_copy(stored, sn_tcp_stream(from.server),
					     int64_t(bytes.size()), nullptr, nullptr, &result));
			EXPECT_EQ(int(bytes.size()), again.join());
			rewind(file);
			test::Task reader([&] {
				return int(sn_tcp_read_full(to.client, got.data(), got.size(),
							    nullptr));
			});
			EXPECT_EQ(0, sn_copy(sn_tcp_stream(to.server), stored,
					     int64_t(bytes.size()), nullptr, nullptr, &result));
			EXPECT_EQ(bytes.size(), result.bytes_written) << room;
			EXPECT_EQ(int(bytes.size()), reader.join());
			none.give_back(1);
		}
		none.give_back();
		sn_stream_close(stored);
		fclose(file);
	});
	struct sn_copy_stats pool = {};
	EXPECT_EQ(0, sn_copy_stats(&pool));
	EXPECT_GE(outside + 2 * int(pool.pipes), open_descriptors()) << names_of_open();
}

// A dump reads the executable for the names of functions, and leaves names out if it cannot.
TEST(ShortageDump, HasFewerNames)
{
	in_runs([] {
		FILE *file = tmpfile();

		ASSERT_NE(nullptr, file);
		{
			NoDescriptors none;
			EXPECT_EQ(0, sn_dump(fileno(file)));
			none.give_back();
		}
		EXPECT_GT(lseek(fileno(file), 0, SEEK_END), 0);
		EXPECT_EQ(0, sn_dump(fileno(file)));
		fclose(file);
	});
}

// ---- the runtime itself ----

int run_nothing()
{
	return sn_run([](void *) { return 0; }, nullptr);
}

TEST(ShortageRun, Begin)
{
	const int before = open_descriptors();
	bool failed = false;

	// so that what the runtime opens once and keeps is open already
	EXPECT_EQ(0, run_nothing());
	{
		NoDescriptors none;
		for (int room = 0, err = -1; err < 0; room++) {
			ASSERT_LT(room, most);
			const int open = open_descriptors();
			err = run_nothing();
			failed |= err < 0;
			EXPECT_TRUE(err == 0 || err == -EMFILE) << room << ": " << strerror(-err);
			EXPECT_EQ(open, open_descriptors()) << room;
			none.give_back(1);
		}
		none.give_back();
	}
	EXPECT_TRUE(failed);
	EXPECT_EQ(0, run_nothing());
	EXPECT_EQ(before, open_descriptors());
}

} // namespace
