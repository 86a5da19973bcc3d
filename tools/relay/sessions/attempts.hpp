/* SPDX-License-Identifier: MIT */
/*
 * The attempts to connect to backends that are under way, and the task that watches their clients:
 * a client that resets its connection ends the attempt, instead of keeping its place until a dead
 * backend has had its time. So does a session that is over: one that is cut when the relay ends
 * would otherwise be neither counted nor logged, because the relay does not wait for it for long.
 *
 * Which clients count. Only those whose connection was reset, or, with a Unix socket, closed while
 * the relay has read all that they sent. The end of a client's stream does not count: the client
 * may be waiting for the answer to what it has sent, or for a server that speaks first. HAProxy,
 * too, ends such attempts only if asked to (abortonclose).
 *
 * How. An attempt runs in a scope of its own, which the task cancels; all waits in it then fail. An
 * attempt is put into a list, and removed when it is over. An attempt is looked at `interval` after
 * it began, and then once each interval, in one poll(2) for up to `at_once` of them. So one that is
 * answered sooner costs no system call and no memory, except that the runtime now and then
 * allocates scopes in advance. While there is no attempt the task waits for the first one to wake
 * it. So an idle process is not woken, and attempts that end soon wake the task twenty times a
 * second at most, however many they are.
 *
 * Lack of memory. An attempt that gets no scope is made without being watched. Nothing else here
 * needs memory. Nothing refers to an attempt once it is destroyed, however it ends, and no session
 * waits for the task that watches.
 *
 * Rejected: that whoever ends a session cancels the scope of its attempt immediately. The scope
 * would have to be set and cleared under a lock by each attempt, and a session that is cut may as
 * well end an interval later. Rejected: that the first attempt sets a timer instead of waking the
 * task; that saves half of the wake-ups, but there may be no memory for it. Rejected: a task for
 * each attempt that takes long, started by an alarm. An alarm that has fired may be lost if there
 * is no memory for its task, and a session that waits for that task would then wait forever.
 *
 * Who may write what: the task that makes the attempt writes `client_`, `is_over_` and `scope_`
 * before it is listed; any thread may set what `is_over_` refers to; everything else is guarded by
 * the lock. The lock is held during poll(2), which does not wait, and during sn_scope_cancel(),
 * which does not park.
 */
#ifndef RELAY_ATTEMPTS_HPP
#define RELAY_ATTEMPTS_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>

namespace relay
{

class attempts
{
public:
	static constexpr std::chrono::milliseconds interval{100};
	static constexpr std::size_t at_once = 64;

	/*
	 * One attempt. The task that makes it works in its scope until it is destroyed, and
	 * destroys it; scopes are opened and closed in order. `client`: the descriptor, which stays
	 * open as long as this object. `is_over`: once it is true, the attempt is ended within an
	 * interval; it outlives this object.
	 */
	class attempt
	{
	public:
		attempt(attempts &all, int client, const std::atomic<bool> &is_over) noexcept;
		attempt(const attempt &) = delete;
		attempt &operator=(const attempt &) = delete;
		~attempt();

		/* Whether the attempt was ended because the client has gone. */
		bool client_left() const noexcept;

	private:
		friend class attempts;

		attempts &all_;
		const int client_;
		const std::atomic<bool> &is_over_;
		sn_scope *scope_ = nullptr; /* null: it is not watched, and not listed */
		bool is_ended_ = false; /* its scope is cancelled, and it is not listed any more */
		bool has_left_ = false; /* its client, which has ended it */
		sn::clock::time_point due_; /* when to look at it */
		attempt *previous_ = nullptr;
		attempt *next_ = nullptr;
	};

	attempts() = default;
	attempts(const attempts &) = delete;
	attempts &operator=(const attempts &) = delete;

	/* Whether that client counts as gone. Does not park. */
	static bool has_left(int client) noexcept;

	/* Watches until end(), in a task. May park. */
	void watch() noexcept;

	/* Ends watch(), within an interval. Attempts that are made later are not watched. Called
	 * once. Does not park. */
	void end() noexcept;

private:
	sn::deadline look() noexcept;
	void append(attempt &one, sn::clock::time_point due) noexcept;
	void remove(attempt &one) noexcept;

	std::mutex lock_; /* guards the list, its attempts, and looks_ */
	attempt *first_ = nullptr;
	attempt *last_ = nullptr;
	bool looks_ = false; /* watch() looks again, without being woken */
	std::atomic<bool> is_over_{false};
	sn_semaphore begun_ = SN_SEMAPHORE_INIT(0); /* wakes watch() */
};

/* Runs the task that watches until it is destroyed. `of` must outlive it. */
class attempts_watch
{
public:
	explicit attempts_watch(attempts &of)
	    : of_(of), running_(sn::spawn([&of] { of.watch(); }, {.name = "attempts"}))
	{
	}
	attempts_watch(const attempts_watch &) = delete;
	attempts_watch &operator=(const attempts_watch &) = delete;
	/* May park. */
	~attempts_watch()
	{
		of_.end();
		running_.join();
	}

private:
	attempts &of_;
	sn::task<void> running_;
};

} // namespace relay

#endif
