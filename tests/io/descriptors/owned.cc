// SPDX-License-Identifier: MIT
//
// Descriptors that the program owns, and waits for by sennit/fd.h: eventfds, timers, pipes that it
// reads and writes itself, processes, and numbers that are used again.
//
//   - What is added to an eventfd is taken once. A descriptor is closed while tasks wait for it,
//     another one gets its number, and so on.
//   - A timer is not reported before its time.
//   - The bytes of pipes and sockets arrive. A pipe's reader continues under other numbers of the
//     same open file; two tasks wait for each end of a pair of sockets.
//   - A process that is reported has ended. While it lived it had copies of all descriptors.
//   - When a number passes to another descriptor without notice, the waits for the old descriptor
//     do not report what happens to the new one.
#include <csignal>
#include <ctime>

#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "io/descriptors/play.h"

namespace oracle
{
namespace
{

// ---- eventfds ----

class EventPlay : public Play
{
public:
	explicit EventPlay(uint64_t seed) : Play("eventfd", seed) {}

private:
	// An eventfd, with the number that it has for a while.
	struct Event {
		int fd;
		bool semaphore;
		int consumers, producers, each;
		Reasons why;
		Gate gate;
		std::atomic<int> given{0}, taken{0};
		std::atomic<bool> closing{false};
	};

	void open() override {}

	void start() override
	{
		for (uint64_t i = 1 + random_.below(3); i > 0; i--)
			go([this](Random &random) { keep(random); });
	}

	// Opens one eventfd after the other, each for a few tasks.
	void keep(Random &random)
	{
		for (int i = 0; i < 4 && !broken_ && !sn_cancelled() && !failed(); i++) {
			Event event = {};

			event.semaphore = random.below(2);
			event.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC |
						      (event.semaphore ? EFD_SEMAPHORE : 0));
			event.consumers = 1 + int(random.below(3));
			event.producers = 1 + int(random.below(3));
			event.each = int(random.below(20));
			EXPECT_LE(0, event.fd);
			use(random, event);
			EXPECT_EQ(0, probe_watch_waits(event.fd)) << where();
			EXPECT_EQ(0, ::close(event.fd));
			EXPECT_LE(event.taken, event.given) << where();
			if (orderly()) {
				EXPECT_EQ(event.given, event.taken) << where() << "events are lost";
			}
		}
	}

	void use(Random &random, Event &event)
	{
		sn_scope *opened = nullptr;

		if (sn_scope_open(&opened, SN_NO_DEADLINE) < 0)
			return;
		test::Scope scope(opened);
		auto start = [&](auto body) {
			const uint64_t seed = random.next();

			(void)scope.go([seed, body] {
				Random own(seed);

				body(own);
				return 0;
			});
		};
		for (int i = 0; i < event.consumers; i++)
			start([this, &event](Random &own) { consume(own, event); });
		for (int i = 0; i < event.producers; i++)
			start([this, &event](Random &own) { produce(own, event); });
		(void)scope.close();
	}

	void produce(Random &random, Event &event)
	{
		for (int i = 0; i < event.each; i++) {
			event.given++;
			EXPECT_EQ(0, eventfd_write(event.fd, 1));
			count();
			dally(random);
		}
		// If there is nothing to take, no other task ends the play.
		if (event.each == 0)
			close(event);
	}

	void consume(Random &random, Event &event)
	{
		while (!event.why.closed && event.gate.enter()) {
			if (broken_) {
				event.gate.leave();
				return close(event);
			}
			const bool alone = event.consumers == 1;
			const int64_t deadline = random.below(2) && orderly()
							 ? SN_NO_DEADLINE
							 : sn_now() + some_time(random) / 8;
			const int found = random.below(8) == 0
						  ? wait_for_copy(random, event)
						  : wait(random, event.gate, event.fd, POLLIN,
							 event.why, deadline, alone);
			if (found == again)
				return;
			take(event, alone && found > 0);
			dally(random);
		}
	}

	void take(Event &event, bool certain)
	{
		eventfd_t n = 0;

		if (eventfd_read(event.fd, &n) < 0) {
			EXPECT_EQ(EAGAIN, errno);
			EXPECT_FALSE(certain) << where() << "nothing was there";
			return;
		}
		if (event.semaphore) {
			EXPECT_EQ(1u, n);
		}
		if ((event.taken += int(n)) == event.producers * event.each)
			close(event);
	}

	// Waits for the same open file under another number.
	int wait_for_copy(Random &random, Event &event)
	{
		const int copy = fcntl(event.fd, F_DUPFD_CLOEXEC, 0);
		const Reasons none;
		const int64_t deadline = sn_now() + some_time(random) / 8;

		event.gate.leave();
		EXPECT_LE(0, copy);
		const int found =
			int(call(random, [&] { return sn_fd_wait(copy, POLLIN, deadline); }));
		EXPECT_EQ(0, sn_fd_closing(copy));
		EXPECT_EQ(0, ::close(copy));
		if (found < 0 && found != again && !expected(found, none, deadline, "copy"))
			return again;
		return sn_cancelled() ? again : std::max(found, 0);
	}

	// Ends all waits for it. Its number is not reused until its tasks have left.
	void close(Event &event)
	{
		if (event.closing.exchange(true))
			return;
		EXPECT_EQ(0, sn_cancel_mask());
		event.why.closed = true;
		EXPECT_TRUE(event.gate.close(event.fd)) << where() << "waits do not park";
		EXPECT_EQ(0, sn_fd_closing(event.fd)) << where();
		count();
		EXPECT_TRUE(event.gate.left()) << where() << "the close has not ended all waits";
		EXPECT_EQ(0, sn_cancel_unmask());
	}

	void break_it() override { broken_ = true; }
	void finish() override {}

	std::atomic<bool> broken_{false};
};

// ---- timers ----

class TimerPlay : public Play
{
public:
	explicit TimerPlay(uint64_t seed) : Play("timerfd", seed) {}

private:
	static int64_t monotonic()
	{
		struct timespec now;

		clock_gettime(CLOCK_MONOTONIC, &now);
		return int64_t(now.tv_sec) * test::second + now.tv_nsec;
	}

	void open() override {}

	void start() override
	{
		for (uint64_t i = 1 + random_.below(3); i > 0; i--)
			go([this](Random &random) { keep(random); });
	}

	void keep(Random &random)
	{
		for (int i = 0; i < 10 && !broken_ && !sn_cancelled() && !failed(); i++) {
			const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

			EXPECT_LE(0, fd);
			for (int k = 0; k < 3 && wait_once(random, fd); k++)
				continue;
			EXPECT_EQ(0, sn_fd_closing(fd));
			EXPECT_EQ(0, ::close(fd));
		}
	}

	// Returns whether the task should continue.
	bool wait_once(Random &random, int fd)
	{
		const int64_t when = monotonic() + int64_t(random.below(1000)) * us;
		const struct itimerspec once = {
			{}, {time_t(when / test::second), long(when % test::second)}};
		const Reasons none;
		uint64_t expirations = 0;

		EXPECT_EQ(0, timerfd_settime(fd, TFD_TIMER_ABSTIME, &once, nullptr));
		for (;;) {
			Gate gate;
			const int64_t deadline =
				random.below(2) ? SN_NO_DEADLINE : sn_now() + some_time(random) / 4;

			EXPECT_TRUE(gate.enter());
			const int found = wait(random, gate, fd, POLLIN, none, deadline, true);
			if (found == again)
				return false;
			if (found == 0)
				continue;
			EXPECT_GE(monotonic(), when)
				<< where() << "the timer was reported too early";
			EXPECT_EQ(ssize_t(sizeof expirations),
				  read(fd, &expirations, sizeof expirations))
				<< where();
			EXPECT_EQ(1u, expirations) << where();
			return true;
		}
	}

	void break_it() override { broken_ = true; }
	void finish() override {}

	std::atomic<bool> broken_{false};
};

// ---- pipes and sockets ----

class PipePlay : public Play
{
public:
	explicit PipePlay(uint64_t seed)
	    : Play("the program's pipe", seed),
	      directions_(1 + int(random_.below(2))), flows_{Flow(random_.below(Flow::period),
								  random_.below(300000)),
							     Flow(random_.below(Flow::period),
								  random_.below(300000))}
	{
	}

private:
	// A pair of sockets has two tasks at each end, which wait for the same number.
	void open() override
	{
		const int size = 1 << (12 + random_.below(4));

		if (directions_ == 1) {
			EXPECT_EQ(0, pipe2(fds_, O_CLOEXEC | O_NONBLOCK));
			std::swap(fds_[0], fds_[1]);
			return;
		}
		EXPECT_EQ(0,
			  socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds_));
		for (const int each : fds_)
			EXPECT_EQ(0, setsockopt(each, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
	}

	void start() override
	{
		for (int i = 0; i < directions_; i++) {
			go([this, i](Random &random) { write_all(random, flows_[i], fds_[i]); });
			go([this, i](Random &random) { read_all(random, flows_[i], fds_[1 - i]); });
		}
	}

	// Only this task closes the descriptor, so it uses a gate of its own.
	bool ready(Random &random, int fd, int events)
	{
		for (;;) {
			Gate gate;
			const int64_t deadline =
				random.below(2) ? SN_NO_DEADLINE : sn_now() + some_time(random) / 4;

			EXPECT_TRUE(gate.enter());
			const int found = wait(random, gate, fd, events, none_, deadline, true);
			if (found)
				return found != again;
		}
	}

	void write_all(Random &random, Flow &flow, int &fd)
	{
		const size_t most = random.below(2) ? 5000 : Flow::period;

		while (flow.sent() < flow.size && !broken_) {
			const size_t n = std::min(size_t(1 + random.below(most)),
						  size_t(flow.size - flow.sent()));
			const ssize_t written = write(fd, flow.handing(n), n);

			if (written > 0)
				flow.wrote(size_t(written));
			else if (errno != EAGAIN)
				ADD_FAILURE() << where() << "write: " << strerror(errno);
			if (written < 0 && !ready(random, fd, POLLOUT))
				return;
			dally(random);
		}
		flow.ended = true;
		if (directions_ == 2) {
			EXPECT_EQ(0, shutdown(fd, SHUT_WR));
			return;
		}
		EXPECT_EQ(0, sn_fd_closing(fd));
		EXPECT_EQ(0, ::close(fd));
		fd = -1;
	}

	void read_all(Random &random, Flow &flow, int &fd)
	{
		std::string room(3000 + random.below(20000), 0);

		for (;;) {
			if (directions_ == 1 && random.below(16) == 0)
				renumber(fd);
			if (!ready(random, fd, POLLIN))
				return;
			const ssize_t n = read(fd, room.data(), room.size());

			if (n <= 0) {
				EXPECT_EQ(0, n)
					<< where() << "nothing was there: " << strerror(errno);
				EXPECT_TRUE(flow.ended)
					<< where()
					<< "an end of the stream, though no peer has ended it";
				EXPECT_EQ(flow.sent(), flow.received()) << where() << "lost";
				return;
			}
			EXPECT_TRUE(flow.took(room.data(), size_t(n))) << where() << "wrong bytes";
			dally(random);
		}
	}

	// Continues under another number.
	void renumber(int &fd)
	{
		const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

		EXPECT_LE(0, copy);
		EXPECT_EQ(0, sn_fd_closing(fd));
		EXPECT_EQ(0, ::close(fd));
		fd = copy;
		count();
	}

	void break_it() override { broken_ = true; }

	void finish() override
	{
		for (const int each : fds_)
			if (each >= 0) {
				EXPECT_EQ(0, sn_fd_closing(each));
				EXPECT_EQ(0, ::close(each));
			}
		for (int i = 0; i < directions_ && orderly(); i++)
			EXPECT_EQ(flows_[i].size, flows_[i].received())
				<< where() << "bytes are lost";
	}

	const int directions_;
	Flow flows_[2];
	int fds_[2] = {-1, -1}; // only the task that uses it changes that of a pipe
	const Reasons none_;
	std::atomic<bool> broken_{false};
};

// ---- processes ----

class ChildPlay : public Play
{
public:
	explicit ChildPlay(uint64_t seed) : Play("child", seed) {}

private:
	void open() override {}

	void start() override
	{
		go([this](Random &random) { have_child(random); });
	}

	// Starts a child that writes a word to a pipe and ends. Until then the child has copies of
	// all open descriptors.
	void have_child(Random &random)
	{
		const unsigned status = unsigned(random.below(200));
		const useconds_t pause = useconds_t(random.below(3000));
		int ends[2];

		EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
		const pid_t child = fork();
		count();
		if (child == 0) {
			signal(SIGPIPE, SIG_IGN); // the reader may have been cancelled
			usleep(pause);
			(void)!write(ends[1], &status, sizeof status);
			_exit(int(status));
		}
		EXPECT_LT(0, child);
		EXPECT_EQ(0, ::close(ends[1]));
		hear(random, ends[0], status);
		await(random, child, int(status));
	}

	void hear(Random &random, int fd, unsigned status)
	{
		sn_stream *stream = nullptr;
		unsigned heard = 0;
		size_t done = 0;
		ssize_t n;

		EXPECT_EQ(0, sn_stream_adopt(&stream, fd)) << where();
		do {
			n = call(random, [&] {
				return sn_stream_read_full(stream, &heard, sizeof heard, &done);
			});
			if (n < 0 && n != again)
				expected(n, none_, 0, "hear");
		} while (n < 0 && goes_on(n));
		if (n >= 0) {
			EXPECT_EQ(ssize_t(sizeof heard), n) << where();
			EXPECT_EQ(status, heard) << where();
		}
		EXPECT_EQ(0, sn_stream_close(stream)) << where();
	}

	void await(Random &random, pid_t child, int expected_status)
	{
		const int pidfd = int(syscall(SYS_pidfd_open, child, 0));
		int status = -1, found = -ETIMEDOUT;

		// The child ends soon, whatever happens to this task.
		EXPECT_EQ(0, sn_cancel_mask());
		while (pidfd >= 0 && found == -ETIMEDOUT) {
			const int64_t deadline =
				random.below(2) ? SN_NO_DEADLINE : sn_now() + some_time(random);

			found = sn_fd_wait(pidfd, POLLIN, deadline);
			count();
			if (found == -ETIMEDOUT)
				expected(found, none_, deadline, "wait for a child");
		}
		if (pidfd >= 0) {
			EXPECT_LT(0, found) << where();
			EXPECT_EQ(POLLIN, found & POLLIN) << where();
			EXPECT_EQ(child, waitpid(child, &status, WNOHANG))
				<< where() << "the process has not ended";
			EXPECT_EQ(0, sn_fd_closing(pidfd));
			EXPECT_EQ(0, ::close(pidfd));
		} else { // this kernel or container does not have them
			sn_enter_blocking();
			EXPECT_EQ(child, waitpid(child, &status, 0));
			sn_exit_blocking();
		}
		EXPECT_EQ(0, sn_cancel_unmask());
		EXPECT_TRUE(WIFEXITED(status)) << where();
		EXPECT_EQ(expected_status, WEXITSTATUS(status)) << where();
	}

	void break_it() override {}
	void finish() override {}

	const Reasons none_;
};

// ---- numbers ----

class NumberPlay : public Play
{
public:
	explicit NumberPlay(uint64_t seed) : Play("number", seed)
	{
		static std::atomic<int> last{0};

		number_ = 700 + last++ % 200; // no other part of the process takes such a number
	}

private:
	void open() override {}

	void start() override
	{
		go([this](Random &random) {
			for (int i = 0; i < 5 && !broken_ && !sn_cancelled() && !failed(); i++)
				renumber(random);
		});
	}

	// Hides the call from ThreadSanitizer, which rightly considers it a mistake: another
	// descriptor gets the number while tasks wait.
	void give_number(int fd)
	{
		EXPECT_EQ(number_, syscall(SYS_dup3, fd, number_, O_CLOEXEC));
		count();
	}

	int fresh()
	{
		events_.push_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
		return events_.back();
	}

	// Tasks wait for the number's descriptor, which never becomes ready. Then the number passes
	// to another descriptor, for which a task waits, too, or which has had the number before.
	void renumber(Random &random)
	{
		const bool waits_again = random.below(2);
		const size_t former = events_.size();
		const int now = fresh();
		const int next = waits_again || former == 0 || random.below(2)
					 ? fresh()
					 : events_[random.below(former)];
		const int waiters = 1 + int(random.below(3));
		std::atomic<int> done{0};
		sn_scope *opened = nullptr;

		give_number(now);
		if (sn_scope_open(&opened, SN_NO_DEADLINE) < 0)
			return;
		test::Scope scope(opened);
		for (int i = 0; i < waiters; i++) {
			const int64_t deadline = sn_now() + 2 * ms + some_time(random);

			if (scope.go([this, deadline, &done] {
				    check_former(sn_fd_wait(number_, POLLIN, deadline), deadline);
				    done++;
				    return 0;
			    }) < 0)
				done++;
		}
		EXPECT_TRUE(test::eventually([&] {
			return sn_cancelled() || done + probe_watch_waits(number_) == waiters;
		})) << where();
		if (!sn_cancelled()) {
			give_number(next);
			if (waits_again)
				(void)scope.go([this] { return check_later(); });
			if (random.below(2))
				sn_sleep(some_time(random) / 8);
			EXPECT_EQ(0, eventfd_write(next, 1));
		}
		(void)scope.close();
		eventfd_t n = 0;
		(void)!eventfd_read(next, &n);
	}

	void check_former(int found, int64_t deadline)
	{
		count();
		// The number has passed to another descriptor, and a task has waited for that.
		if (found == -EBADF)
			return;
		if (found >= 0)
			ADD_FAILURE() << where() << "it reports what happens to another descriptor";
		else
			expected(found, none_, deadline, "a former wait");
	}

	// The descriptor that has the number now becomes ready.
	int check_later()
	{
		const int found = sn_fd_wait(number_, POLLIN, SN_NO_DEADLINE);

		count();
		if (found < 0)
			expected(found, none_, 0, "a later wait");
		else
			EXPECT_EQ(POLLIN, found) << where();
		return 0;
	}

	void break_it() override { broken_ = true; }

	void finish() override
	{
		syscall(SYS_close, number_);
		for (const int each : events_)
			EXPECT_EQ(0, ::close(each));
	}

	int number_;
	std::vector<int> events_; // all descriptors that have had the number
	const Reasons none_;
	std::atomic<bool> broken_{false};
};

} // namespace

std::unique_ptr<Play> make_event_play(uint64_t seed)
{
	return std::make_unique<EventPlay>(seed);
}

std::unique_ptr<Play> make_timer_play(uint64_t seed)
{
	return std::make_unique<TimerPlay>(seed);
}

std::unique_ptr<Play> make_pipe_play(uint64_t seed)
{
	return std::make_unique<PipePlay>(seed);
}

std::unique_ptr<Play> make_child_play(uint64_t seed)
{
	return std::make_unique<ChildPlay>(seed);
}

std::unique_ptr<Play> make_number_play(uint64_t seed)
{
	return std::make_unique<NumberPlay>(seed);
}

} // namespace oracle
