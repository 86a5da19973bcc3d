// SPDX-License-Identifier: MIT
// Labels: long
//
// Two parties carry out a seeded script on a connection: once as plain threads, which is the
// oracle, and once as tasks with hooks. The results of the calls, errno, and the bytes have to be
// the same.
//
// The script has only steps whose results do not depend on how fast a party is: a stream is read
// until a whole message has come, and where a call has to time out, the other party waits. Many
// scripts can therefore run at the same time.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <sennit/hooks.h>

#include "hooks/oracle.h"
#include "support/runtime.h"

namespace
{

using oracle::Buffer;
using oracle::close_ends;
using oracle::described;
using oracle::Ends;
using oracle::is_interrupted;
using oracle::is_stream;
using oracle::Kind;
using oracle::message_of;
using oracle::name_of;
using test::ms;
using test::Random;

bool signals_come;

// One of the parties. Both draw the same random numbers, so each knows what the other one does.
class Party
{
public:
	Party(Kind kind, const Ends &ends, uint64_t seed, int side)
	    : kind_(kind), ends_(ends), random_(seed), side_(side), forks_(oracle::forks(seed))
	{
	}

	void play(int steps)
	{
		for (int i = 0; i < steps; i++)
			step();
		end();
	}

	const std::vector<std::string> &log() const { return log_; }

private:
	bool is_socket() const { return kind_ != Kind::pipes; }

	// The task may be on another thread after the next call, so errno is read here, in a
	// function of its own.
	__attribute__((noinline)) void note(const std::string &what, ssize_t result,
					    const std::string &bytes = "")
	{
		const int err = result < 0 ? errno : 0;

		log_.push_back(what + " = " + std::to_string(result) + " errno " +
			       std::to_string(err) + " bytes " + bytes);
	}

	void step()
	{
		const bool mine = int(random_.below(2)) == side_;
		const uint64_t what = random_.below(10), seed = random_.next();
		const uint64_t write_call = random_.below(8), read_call = random_.below(10);
		size_t size = 1 + random_.below(random_.below(4) ? 2000 : 300000);

		if (!is_stream(kind_) && size > 60000)
			size = 60000;
		if (what < 6) {
			if (mine)
				write_all(write_call, message_of(seed, size));
			else
				read_all(read_call, message_of(seed, size));
		} else {
			wait_in_vain(what, mine);
		}
	}

	// If a signal comes, a call of a thread that has moved some bytes returns early, so the
	// rest is written here.
	ssize_t finish(ssize_t done, std::string_view message)
	{
		while (signals_come && done > 0 && size_t(done) < message.size()) {
			const ssize_t n = write(ends_.out, message.data() + done,
						message.size() - size_t(done));

			if (n < 0)
				return n;
			done += n;
		}
		return done;
	}

	// Writes the bytes of a message, by calls each of which has to take all of its bytes.
	void write_all(uint64_t call, std::string_view message)
	{
		const int fd = ends_.out;
		char *data = const_cast<char *>(message.data()); // as struct iovec wants it
		const size_t half = message.size() / 2;
		struct iovec iov[3] = {
			{data, half}, {data, 0}, {data + half, message.size() - half}};
		struct msghdr header = {};

		header.msg_iov = iov;
		header.msg_iovlen = 3;
		if (!is_socket() && call > 1)
			call %= 2;
		if (!is_stream(kind_) && call == 6)
			call = 5;
		switch (call) {
		case 0:
			note("write", finish(write(fd, data, message.size()), message));
			break;
		case 1:
			note("writev", finish(writev(fd, iov, 3), message));
			break;
		case 2:
			note("send", finish(send(fd, data, message.size(), 0), message));
			break;
		case 3:
			note("sendto",
			     finish(sendto(fd, data, message.size(), MSG_NOSIGNAL, nullptr, 0),
				    message));
			break;
		case 4:
			note("sendmsg", finish(sendmsg(fd, &header, 0), message));
			break;
		case 5:
			note("sendmmsg", finish(send_several(data, message.size()), message));
			break;
		case 6:
			note("sendfile", finish(send_file(message), message));
			break;
		default: {
			struct pollfd one = {.fd = fd, .events = POLLOUT, .revents = 0};
			int found;

			while ((found = poll(&one, 1, -1)) < 0 && errno == EINTR)
				;
			note("poll to write", found);
			note("write", finish(write(fd, data, message.size()), message));
		}
		}
	}

	// Sends in two messages if the bytes need not be one message. An emulator would send the
	// second after a part of the first.
	ssize_t send_several(char *data, size_t size)
	{
		const bool apart = is_stream(kind_) && !TEST_EMULATED;
		const size_t half = apart ? size / 2 : size;
		struct iovec iov[2] = {{data, half}, {data + half, size - half}};
		struct mmsghdr messages[2] = {};
		const unsigned n = apart && half > 0 ? 2 : 1;

		for (unsigned i = 0; i < 2; i++) {
			messages[i].msg_hdr.msg_iov = &iov[i];
			messages[i].msg_hdr.msg_iovlen = 1;
		}
		if (n == 1)
			iov[0].iov_len = size;
		const int sent = sendmmsg(ends_.out, messages, n, 0);
		return sent < 0 ? -1 : messages[0].msg_len + messages[1].msg_len;
	}

	ssize_t send_file(std::string_view message)
	{
		const int file = memfd_create("oracle", MFD_CLOEXEC);
		off_t offset = 0;

		EXPECT_EQ(ssize_t(message.size()), pwrite(file, message.data(), message.size(), 0));
		const ssize_t sent = sendfile(ends_.out, file, &offset, message.size() + 1);
		EXPECT_EQ(sent < 0 ? 0 : sent, offset);
		close(file);
		return sent;
	}

	ssize_t receive_several(char *data, size_t size)
	{
		const size_t half = is_stream(kind_) ? size / 2 : size;
		struct iovec iov[2] = {{data, half}, {data + half, size - half}};
		struct mmsghdr messages[2] = {};
		const unsigned n = is_stream(kind_) && half > 0 ? 2 : 1;

		for (unsigned i = 0; i < 2; i++) {
			messages[i].msg_hdr.msg_iov = &iov[i];
			messages[i].msg_hdr.msg_iovlen = 1;
		}
		if (n == 1)
			iov[0].iov_len = size;
		const int got =
			recvmmsg(ends_.in, messages, n, n == 2 ? MSG_WAITFORONE : 0, nullptr);
		if (got < 0)
			return -1;
		// The first message may be shorter, if it came before the rest of the bytes.
		memmove(data + messages[0].msg_len, data + half, messages[1].msg_len);
		return messages[0].msg_len + messages[1].msg_len;
	}

	void await_readable(uint64_t call)
	{
		const int fd = ends_.in;
		int found = 0;

		if (call == 5) {
			struct pollfd one = {.fd = fd, .events = POLLIN, .revents = 0};

			while ((found = poll(&one, 1, 60000)) < 0 && errno == EINTR)
				;
			EXPECT_TRUE(one.revents & POLLIN);
		} else if (call == 6) {
			fd_set set;

			do {
				FD_ZERO(&set);
				FD_SET(fd, &set);
				found = select(fd + 1, &set, nullptr, nullptr, nullptr);
			} while (found < 0 && errno == EINTR);
			EXPECT_TRUE(FD_ISSET(fd, &set));
		} else if (call == 7) {
			const int epoll = epoll_create1(EPOLL_CLOEXEC);
			struct epoll_event event = {};

			event.events = EPOLLIN;
			EXPECT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
			while ((found = epoll_wait(epoll, &event, 1, 60000)) < 0 && errno == EINTR)
				;
			close(epoll);
		} else {
			return;
		}
		note("ready", found);
	}

	ssize_t read_some(uint64_t call, char *data, size_t size)
	{
		const int fd = ends_.in;
		struct iovec iov[2] = {{data, size / 2}, {data + size / 2, size - size / 2}};
		struct msghdr header = {};

		header.msg_iov = iov;
		header.msg_iovlen = 2;
		if (!is_socket() && call > 1)
			call = 0;
		switch (call) {
		case 1:
			return readv(fd, iov, 2);
		case 2:
			return recv(fd, data, size, 0);
		case 3:
			return recvfrom(fd, data, size, MSG_NOSIGNAL, nullptr, nullptr);
		case 4:
			return recvmsg(fd, &header, 0);
		case 8:
			return recv(fd, data, size, MSG_WAITALL);
		case 9:
			return receive_several(data, size);
		default:
			return read(fd, data, size);
		}
	}

	void read_all(uint64_t call, std::string_view sent)
	{
		const size_t size = sent.size();
		char *const got = buffer_.clean(size);
		size_t done = 0;

		await_readable(call);
		if (!is_stream(kind_)) { // message by message
			const ssize_t n = read_some(call, got, size);

			note("message", n, n > 0 ? described({got, size_t(n)}, sent) : "");
			return;
		}
		while (done < size) {
			const ssize_t n = read_some(call, got + done, size - done);

			if (n <= 0) {
				note("read too early", n);
				return;
			}
			// One call is enough then, unless a signal interrupts it.
			if (call == 8 && is_socket() && !signals_come)
				note("all", n);
			done += size_t(n);
		}
		note("read", ssize_t(done), described({got, done}, sent));
	}

	// One party makes a call that has to time out, or fail immediately, while the other one
	// waits for a message.
	void wait_in_vain(uint64_t what, bool mine)
	{
		const int fd = ends_.in;
		const int64_t begun = sn_now();
		int64_t least = 0;
		char byte = 0;

		if (!mine) {
			note("word", read_some(0, &byte, 1), std::string(1, byte));
			return;
		}
		if (what == 6 && is_socket()) {
			struct timeval time = {0, 10000}, none = {0, 0};

			setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
			ssize_t n;
			while ((n = read_some(random_of(what), &byte, 1)) < 0 && is_interrupted())
				;
			note("timeout", n);
			setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
			// The kernel counts ticks of up to 10 ms, and the first one has begun
			// already.
			least = sn_self() ? 10 * ms : 0;
		} else if (what == 7) {
			struct pollfd two[2] = {{fd, POLLIN, 7}, {-1, POLLIN, 7}};
			int n;

			while ((n = poll(two, 2, 10)) < 0 && errno == EINTR)
				;
			note("poll", n);
			EXPECT_EQ(0, two[0].revents | two[1].revents);
			least = 10 * ms;
		} else if (what == 8) {
			const int flags = fcntl(fd, F_GETFL);

			EXPECT_EQ(0, flags & O_NONBLOCK) << "a hook has left it non-blocking";
			fcntl(fd, F_SETFL, flags | O_NONBLOCK);
			note("non-blocking", read_some(random_of(what), &byte, 1));
			fcntl(fd, F_SETFL, flags);
		} else if (is_socket()) {
			note("MSG_DONTWAIT", recv(fd, &byte, 1, MSG_DONTWAIT));
		}
		EXPECT_GE(sn_now() - begun, least);
		note("word", write(ends_.out, "w", 1));
	}

	static uint64_t random_of(uint64_t what) { return what % 5; }

	// Reads a duplicate, in some scripts in a child of fork(), and then ends first one
	// direction and then the other.
	void end()
	{
		char byte = 0;

		if (side_ == 0) {
			note("last", write(ends_.out, "l", 1));
			if (forks_) {
				note("child", oracle::read_in_child(ends_.in));
			} else {
				const int copy = dup(ends_.in);
				const ssize_t n = read(copy, &byte, 1);
				note("duplicate", n, std::string(1, byte));
				close(copy);
			}
			// Waits for the child of another party, which may have a copy for a moment.
			if (kind_ == Kind::unix_stream || kind_ == Kind::packets)
				shutdown(ends_.in, SHUT_RDWR);
			close_ends(ends_);
			return;
		}
		note("last", read_some(1, &byte, 1), std::string(1, byte));
		note("to the child", write(ends_.out, "c", 1));
		// a datagram socket does not report the end of its peer
		if (kind_ == Kind::unix_datagrams) {
			close_ends(ends_);
			return;
		}
		note("end", read_some(2, &byte, 1));
		if (kind_ == Kind::pipes) { // such a copy keeps the other end of a pipe open
			close_ends(ends_);
			return;
		}
		note("nobody reads", write(ends_.out, "n", 1));
		if (kind_ == Kind::tcp) { // TCP answers that with an error
			struct pollfd one = {.fd = ends_.in, .events = 0, .revents = 0};
			while (poll(&one, 1, -1) < 0 && errno == EINTR)
				;
		}
		note("nor now", write(ends_.out, "n", 1));
		close_ends(ends_);
	}

	const Kind kind_;
	const Ends ends_;
	Random random_;
	Buffer buffer_;
	const int side_;
	const bool forks_;
	std::vector<std::string> log_;
};

using Log = std::vector<std::string>;

struct Game {
	Game(Kind kind, uint64_t seed)
	{
		Ends ends[2];

		oracle::connect(kind, ends);
		for (int side = 0; side < 2; side++)
			party[side] = std::make_unique<Party>(kind, ends[side], seed, side);
	}
	std::unique_ptr<Party> party[2];
};

using Games = std::vector<std::unique_ptr<Game>>;

constexpr int Steps = 60;

// How many scripts are played, or as many as SENNIT_TEST_SCRIPTS says.
constexpr int Scripts = 10;

// How many of them at the same time. Each has four descriptors at most, and a few for a child or a
// file, whose numbers have to suit select(). Much of a script's time is spent in waiting for time
// limits, so many at the same time take hardly longer than one.
constexpr size_t AtATime = 64;

int scripts()
{
	const char *wish = getenv("SENNIT_TEST_SCRIPTS");
	const int n = wish ? atoi(wish) : 0;

	return n > 0 ? n : test::scaled(Scripts);
}

Games make_games(Kind kind, const std::vector<uint64_t> &seeds)
{
	Games games;

	for (const uint64_t seed : seeds)
		games.push_back(std::make_unique<Game>(kind, seed));
	return games;
}

Games play_in_threads(Kind kind, const std::vector<uint64_t> &seeds)
{
	Games games = make_games(kind, seeds);
	std::vector<std::thread> threads;

	for (auto &game : games)
		for (auto &party : game->party)
			threads.emplace_back([&party] { party->play(Steps); });
	test::join_all(threads);
	return games;
}

Games play_in_tasks(Kind kind, const std::vector<uint64_t> &seeds)
{
	Games games = make_games(kind, seeds);
	std::vector<test::Task> tasks;
	struct sn_task_attr attr = {};

	attr.flags = SN_TASK_HOOKED;
	for (auto &game : games)
		for (auto &party : game->party)
			tasks.emplace_back([&party] { party->play(Steps); }, &attr);
	test::join_all(tasks);
	return games;
}

void compare(uint64_t seed, int side, const Log &threads, const Log &tasks)
{
	ASSERT_EQ(threads.size(), tasks.size()) << "script " << seed << ", side " << side;
	for (size_t i = 0; i < threads.size(); i++)
		ASSERT_EQ(threads[i], tasks[i])
			<< "script " << seed << ", side " << side << ", entry " << i;
}

void play_round(Kind kind, const std::vector<uint64_t> &seeds)
{
	const Games expected = play_in_threads(kind, seeds);

	test::run([&] {
		const Games games = play_in_tasks(kind, seeds);

		for (size_t i = 0; i < seeds.size(); i++)
			for (int side = 0; side < 2; side++)
				compare(seeds[i], side, expected[i]->party[side]->log(),
					games[i]->party[side]->log());
	});
}

// SENNIT_TEST_SCRIPT is the number of a script that has failed; only this one is played.
void play_both(Kind kind, int n)
{
	const char *wish = getenv("SENNIT_TEST_SCRIPT");
	Random random;
	struct sn_hooks_stats before, after;

	sn_hooks_stats(&before);
	for (size_t left = wish ? 1 : size_t(n); left > 0 && !testing::Test::HasFailure();) {
		std::vector<uint64_t> seeds(std::min(left, AtATime));

		for (uint64_t &seed : seeds)
			seed = wish ? strtoull(wish, nullptr, 10)
				    : random.next() / 2 * 2 + (&seed != &seeds.front());
		play_round(kind, seeds);
		left -= seeds.size();
	}
	sn_hooks_stats(&after);
	EXPECT_GT(after.parked, before.parked) << "no call has parked: nothing was tested";
}

class Oracle : public testing::TestWithParam<Kind>
{
protected:
	void SetUp() override { signal(SIGPIPE, SIG_IGN); }
};

TEST_P(Oracle, HookedTasksGetWhatThreadsGet)
{
	play_both(GetParam(), scripts());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Oracle,
			 testing::Values(Kind::unix_stream, Kind::tcp, Kind::pipes,
					 Kind::unix_datagrams, Kind::packets),
			 [](const auto &kind) {
				 std::string name = name_of(kind.param);
				 for (char &c : name)
					 c = c == ' ' ? '_' : c;
				 return name;
			 });

// The same while signals keep coming, to whichever thread.
TEST(OracleWithSignals, HookedTasksGetWhatThreadsGet)
{
	struct sigaction action = {}, former;
	static std::atomic<int> received;

	signal(SIGPIPE, SIG_IGN);
	action.sa_handler = [](int) { received++; };
	action.sa_flags = SA_RESTART;
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, &former));
	signals_come = true;

	std::atomic<bool> done{false};
	std::thread sender([&] {
		while (!done) {
			kill(getpid(), SIGUSR1);
			// longer than what may time out, because a signal makes a timeout begin
			// again
			usleep(30000);
		}
	});
	play_both(Kind::unix_stream, (scripts() + 4) / 5);
	done = true;
	sender.join();
	sigaction(SIGUSR1, &former, nullptr);
	signals_come = false;
	EXPECT_GT(received.load(), 0);
}

} // namespace
