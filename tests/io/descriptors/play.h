// SPDX-License-Identifier: MIT
//
// What the parts of the oracle for descriptors (io/descriptors_test.cc) have in common. A program
// consists of plays. A play is one object, or a few that belong together, with the tasks that use
// them and with a model of what they may see. This header declares the play, the reasons for which
// its calls may fail, the model of a stream of bytes, and the closing of descriptors for which
// tasks wait.
#ifndef SENNIT_TESTS_NET_DESCRIPTORS_PLAY_H
#define SENNIT_TESTS_NET_DESCRIPTORS_PLAY_H

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/internals.h"
#include "support/scope.h"

namespace oracle
{

using test::ms;
using test::Random;
using test::us;

// What a call in a scope of its own returns when that scope has ended it: no bytes were moved. No
// call of the library returns this value.
constexpr int again = -EAGAIN;

// How many calls were made and checked, in all programs.
inline std::atomic<uint64_t> operations{0};

// How many of these failed for an allowed reason, by errno; EAGAIN counts those that their own
// scope ended.
inline std::array<std::atomic<uint64_t>, 160> failures{};

inline void count()
{
	operations.fetch_add(1, std::memory_order_relaxed);
}

/*
 * Why calls on one end of an object may fail. The party that causes a failure notes the reason
 * first, and the caller looks at it after the call, so a call that fails too early is noticed.
 */
struct Reasons {
	std::atomic<bool> closed{false};    // this end was closed
	std::atomic<bool> cancelled{false}; // by sn_stream_cancel() or the like
	std::atomic<bool> peer_gone{false}; // the other end was closed
	std::atomic<bool> intruded{false};  // another task operates on the same side
	// The earliest of the deadlines that other tasks have set.
	std::atomic<int64_t> earliest{INT64_MAX};
};

/*
 * Lets tasks wait for a descriptor's number until it is about to be closed: sennit/fd.h asks the
 * program to begin no wait from then on. ThreadSanitizer reports a number that is used and closed
 * at the same time.
 */
class Gate
{
public:
	// Returns false if the descriptor is being closed.
	bool enter()
	{
		inside_++;
		if (!closing_)
			return true;
		inside_--;
		return false;
	}
	void leave() { inside_--; }

	// Lets no further wait begin, and waits until those that have begun are parked. Returns
	// false if they do not park in time.
	bool close(int fd)
	{
		closing_ = true;
		return test::eventually([&] { return inside_ == probe_watch_waits(fd); });
	}
	// Called after the close was announced: returns whether all waits have ended.
	bool left()
	{
		return test::eventually([&] { return inside_ == 0; });
	}

private:
	std::atomic<int> inside_{0};
	std::atomic<bool> closing_{false};
};

// One direction of a stream of bytes. At any time one task writes to it, and one reads.
class Flow
{
public:
	// The bytes are cut from a text with this period. The period is prime, so that the text
	// differs at any two places whose distance is a multiple of a buffer's size.
	static constexpr size_t period = 65521;

	Flow(uint64_t shift, uint64_t size) : size(size), shift_(shift) {}

	const uint64_t size;
	std::atomic<bool> ended{false}; // the writer is about to end it, or to close its end

	uint64_t sent() const { return sent_; }
	uint64_t received() const { return received_; }
	// Returns the bytes to be written next, at most `period`. They may arrive from this moment
	// on.
	const char *handing(size_t n)
	{
		handing_ = sent_ + n;
		return text(sent_);
	}
	void wrote(size_t n) { sent_ += n; }
	// Returns whether the bytes are the next ones of the flow.
	bool took(const char *bytes, size_t n)
	{
		if (received_ + n > handing_)
			return false; // more than was ever written
		for (size_t done = 0; done < n;) {
			const size_t part = std::min(n - done, period);

			if (memcmp(bytes + done, text(received_ + done), part) != 0)
				return false;
			done += part;
		}
		received_ += n;
		return true;
	}

private:
	const char *text(uint64_t offset) const
	{
		static const std::string *twice = [] {
			Random random(1);
			std::string once(period, 0);

			for (char &byte : once)
				byte = char(random.next());
			return new std::string(once + once);
		}();

		return twice->data() + (shift_ + offset) % period;
	}

	const uint64_t shift_;
	std::atomic<uint64_t> sent_{0};    // at least so many bytes were given to the kernel
	std::atomic<uint64_t> handing_{0}; // at most so many
	std::atomic<uint64_t> received_{0};
};

// A socket at some port of 127.0.0.1, as a service manager would pass it.
inline int plain_socket(int type)
{
	const int fd = socket(AF_INET, type, 0);
	sockaddr_in any = {};

	any.sin_family = AF_INET;
	any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	EXPECT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&any), sizeof any));
	return fd;
}

class Play
{
public:
	Play(const char *name, uint64_t seed) : random_(seed), name_(name), seed_(seed)
	{
		const uint64_t fate = random_.below(8);

		fate_ = fate < 4    ? Fate::orderly
			: fate < 6  ? Fate::broken
			: fate == 6 ? Fate::cancelled
				    : Fate::late;
	}
	virtual ~Play() = default;
	Play(const Play &) = delete;
	Play &operator=(const Play &) = delete;

	// An eventfd that is never set, for all plays; it stays open as long as the process lives.
	static int silent()
	{
		static const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

		return fd;
	}

	// Runs the play; called in a task.
	void run()
	{
		open();
		{
			test::Scope scope(fate_ == Fate::late ? sn_now() + some_time(random_)
							      : SN_NO_DEADLINE);

			scope_ = &scope;
			start();
			if (fate_ == Fate::broken) {
				sn_sleep(some_time(random_));
				if (!failed())
					break_it();
			} else if (fate_ == Fate::cancelled) {
				sn_sleep(some_time(random_));
				EXPECT_EQ(0, scope.cancel());
			}
			const int result = scope.close();

			if (fate_ == Fate::orderly || fate_ == Fate::broken) {
				EXPECT_EQ(0, result) << where();
			}
			scope_ = nullptr;
		}
		finish();
	}

protected:
	enum class Fate {
		orderly,   // its tasks end by themselves, and then nothing is missing
		broken,    // a descriptor is closed while they use it
		cancelled, // their scope is cancelled
		late,      // their scope has a deadline
	};

	// Opens the objects; starts the tasks by go(); closes something that they use, so that they
	// all end; closes everything, and compares.
	virtual void open() = 0;
	virtual void start() = 0;
	virtual void break_it() = 0;
	virtual void finish() = 0;

	bool orderly() const { return fate_ == Fate::orderly; }
	uint64_t seed() const { return seed_; }
	bool failed() const { return testing::Test::HasFailure(); }
	std::string where() const
	{
		return std::string(name_) + ", seed " + std::to_string(seed_) + ": ";
	}

	// Starts a task in the play's scope, with random numbers of its own. Returns false if the
	// scope is cancelled.
	bool go(Random &seeds, std::function<void(Random &)> body)
	{
		const uint64_t seed = seeds.next();

		return scope_->go([seed, body = std::move(body)] {
			Random random(seed);

			body(random);
			return 0;
		}) == 0;
	}
	bool go(std::function<void(Random &)> body) { return go(random_, std::move(body)); }

	static int64_t some_time(Random &random) { return int64_t(random.below(3000)) * us; }
	// The deadline of one call: none, one that has passed, or one that comes soon.
	static int64_t some_deadline(Random &random)
	{
		switch (random.below(12)) {
		case 0:
			return 1;
		case 1:
		case 2:
			return sn_now() + int64_t(random.below(300)) * us;
		default:
			return SN_NO_DEADLINE;
		}
	}
	static void dally(Random &random)
	{
		switch (random.below(16)) {
		case 0:
			sn_sleep(int64_t(random.below(100)) * us);
			break;
		case 1:
			sn_yield();
			break;
		default:
			break;
		}
	}

	// Makes one call, now and then in a scope that ends it early, in which case the result is
	// `again`.
	template <class F>
	ssize_t call(Random &random, F body)
	{
		count();
		if (random.below(10))
			return body();
		const bool cancelled = random.below(4) == 0;
		const int64_t deadline = sn_now() + int64_t(random.below(400)) * us;
		sn_scope *scope = nullptr;
		const int err = sn_scope_open(&scope, deadline);

		if (err < 0)
			return err;
		if (cancelled) {
			// The scope's deadline may be earlier.
			EXPECT_EQ(0, sn_scope_cancel(scope));
		}
		const ssize_t n = body();
		const int64_t now = sn_now();
		const int reason = sn_scope_close(scope);

		if (cancelled) {
			EXPECT_LT(n, 0) << where() << "it was cancelled before the call";
		}
		if (n == 0 || n != reason)
			return n;
		// If the deadline is still ahead, the call must have had another reason.
		if (reason == -ETIMEDOUT && now < deadline && !sn_cancelled())
			return n;
		failures[EAGAIN]++;
		return again;
	}

	// Returns whether the call was allowed to fail with this error; if not, the test fails.
	// `deadline` is that of the call or of its side.
	bool expected(ssize_t err, const Reasons &why, int64_t deadline, const char *what)
	{
		const int64_t now = sn_now();
		bool good = false;

		switch (err) {
		case -ETIMEDOUT:
			good = (deadline && now >= deadline) || now >= why.earliest;
			break;
		case -EBADF:
			good = why.closed;
			break;
		case -ECANCELED:
			good = why.cancelled;
			break;
		case -EBUSY:
			good = why.intruded;
			break;
		case -EPIPE:
		case -ECONNRESET:
		case -ECONNREFUSED:
		case -ENOTCONN:
			good = why.peer_gone;
			break;
		default:
			break;
		}
		good = good || (sn_cancelled() && err == sn_cancelled());
		EXPECT_TRUE(good) << where() << what << ": error " << -err << " ("
				  << strerror(int(-err)) << ") for no reason";
		if (good)
			failures[size_t(-err)]++;
		return good;
	}

	// Returns whether the task should repeat a call after such an error.
	bool goes_on(ssize_t err) const
	{
		return !sn_cancelled() && !failed() &&
		       (err == again || err == -ETIMEDOUT || err == -EBUSY);
	}

	/*
	 * Waits for a number that only its gate closes. Returns the events, 0 if the wait failed
	 * for an allowed reason, or `again` if the descriptor was closed or the task has to end.
	 * `alone`: no other task takes what this one waits for, so it must be there afterwards.
	 */
	int wait(Random &random, Gate &gate, int fd, int events, const Reasons &why,
		 int64_t deadline, bool alone)
	{
		const int found = int(call(random, [&] {
			return random.below(4) ? sn_fd_wait(fd, events, deadline)
					       : wait_for_any(random, fd, events, deadline);
		}));

		if (found > 0) {
			EXPECT_EQ(0, found & ~(events | POLLERR | POLLHUP)) << where();
			struct pollfd look = {fd, short(events), 0};

			if (alone && poll(&look, 1, 0) >= 0 && !why.closed) {
				EXPECT_NE(0, look.revents)
					<< where() << "the descriptor is not ready";
			}
		}
		gate.leave();
		if (found > 0)
			return found;
		if (found == again)
			return sn_cancelled() ? again : 0;
		EXPECT_NE(0, found) << where();
		return expected(found, why, deadline, "wait") && goes_on(found) ? 0 : again;
	}

	Random random_; // used by the task that runs the play

private:
	// Waits for a descriptor among others that are never ready.
	int wait_for_any(Random &random, int fd, int events, int64_t deadline)
	{
		const size_t n = 1 + random.below(12), mine = random.below(n);
		std::vector<struct pollfd> fds(n, {-1, POLLIN, -1});

		for (struct pollfd &each : fds)
			if (random.below(2))
				each.fd = silent();
		fds[mine] = {fd, short(events), -1};
		const int found = sn_fd_wait_any(fds.data(), n, deadline);

		EXPECT_NE(0, found) << where();
		EXPECT_LE(found, 1) << where() << "a descriptor that is never ready";
		EXPECT_EQ(found > 0, fds[mine].revents != 0) << where();
		if (found < 0)
			return found;
		return fds[mine].revents & POLLNVAL ? -EBADF : fds[mine].revents;
	}

	const char *const name_;
	const uint64_t seed_;
	Fate fate_;
	test::Scope *scope_ = nullptr;
};

// Makes a play of a random kind.
std::unique_ptr<Play> make_stream_play(uint64_t seed);
std::unique_ptr<Play> make_listener_play(uint64_t seed);
std::unique_ptr<Play> make_message_play(uint64_t seed);
std::unique_ptr<Play> make_datagram_play(uint64_t seed);
std::unique_ptr<Play> make_event_play(uint64_t seed);
std::unique_ptr<Play> make_timer_play(uint64_t seed);
std::unique_ptr<Play> make_pipe_play(uint64_t seed);
std::unique_ptr<Play> make_child_play(uint64_t seed);
std::unique_ptr<Play> make_number_play(uint64_t seed);

} // namespace oracle

#endif
