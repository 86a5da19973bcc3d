/* SPDX-License-Identifier: MIT */
/*
 * The live sessions: a bound on their number, and a list of them, so that shutdown can wait for
 * them and cut them. When a session reaches a certain age, its settle() is called once
 * (keepalive.hpp).
 *
 * Any task may call. This object must outlive the run of the runtime, because the count here is the
 * last thing that a session touches.
 */
#ifndef RELAY_SESSIONS_HPP
#define RELAY_SESSIONS_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cstddef>
#include <mutex>

namespace relay
{

struct endpoint;
struct session_filter;

class sessions
{
public:
	/* A session in the list. cut() is called at most once, under the lock of the list. */
	class entry
	{
	public:
		virtual void cut() noexcept = 0;
		/*
		 * If the session is old enough, enables its keepalive and returns true; it is not
		 * called again after that. Under the lock of the list.
		 */
		virtual bool settle(sn::clock::time_point now) noexcept = 0;
		/* Ends the session and returns true if it is connected to that endpoint, which
		 * is down. Under the lock of the list. */
		virtual bool lose_backend(const endpoint &which) noexcept = 0;
		/* Ends the session and returns true if it is connected to a backend and matches.
		 * Under the lock of the list. */
		virtual bool kill(const session_filter &which) noexcept = 0;

	protected:
		virtual ~entry() = default;

	private:
		friend class sessions;
		entry *previous_ = nullptr;
		entry *next_ = nullptr;
	};

	sessions() = default;
	sessions(const sessions &) = delete;
	sessions &operator=(const sessions &) = delete;

	/*
	 * Sets how many sessions may be alive at a time; must be called first. If the limit drops
	 * below the current number, no more sessions are admitted until enough have ended.
	 */
	void set_most(std::size_t most) noexcept { most_.store(most, std::memory_order_relaxed); }

	std::size_t most() const noexcept { return most_.load(std::memory_order_relaxed); }

	/*
	 * Reserves a place for one session, which counts as alive until gone(). Returns false if
	 * the limit is reached.
	 */
	bool reserve() noexcept;

	/* Adds the session to the list, after reserve(). From now on it may be cut. */
	void add(entry &session) noexcept;

	/* Removes the session from the list. When this returns, no cut() of it is running, and
	 * none will. */
	void leave(entry &session) noexcept;

	/* The last call of a session, after it has closed its connections. */
	void gone() noexcept { alive_.fetch_sub(1, std::memory_order_release); }

	/* Acquire, pairs with gone()'s release: at zero, everything the sessions did is visible. */
	std::size_t alive() const noexcept { return alive_.load(std::memory_order_acquire); }

	/* Settles the oldest unsettled session if it is due. Returns true if the next one may be
	 * due, too. */
	bool settle_next(sn::clock::time_point now) noexcept;

	/* Cuts every session. No new ones may be added any more. */
	void cut_all() noexcept;

	/* Ends the sessions of a backend that is down. Returns how many. */
	std::size_t lose_backend(const endpoint &which) noexcept;

	/* Resets the sessions that match. Returns how many. Takes time for each existing
	 * session. */
	std::size_t kill(const session_filter &which) noexcept;

	/* The lock under which sessions are cut; a session holds it to exclude cut(). */
	std::mutex &lock() noexcept { return lock_; }

private:
	std::mutex lock_;            /* guards the list, and calls of its entries */
	entry *first_ = nullptr;     /* the newest */
	entry *unsettled_ = nullptr; /* the oldest unsettled; all newer ones are unsettled */
	std::atomic<std::size_t> most_{1};
	std::atomic<std::size_t> alive_{0};
};

} // namespace relay

#endif
