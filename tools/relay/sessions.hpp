/* SPDX-License-Identifier: MIT */
/*
 * The sessions that are alive: how many may be, and, so that shutting down can wait for them and
 * cut them, which. And those that live for some time are told so, once.
 *
 * Any task may call. It must outlive the runtime's run: the last thing that a session touches is
 * the count here.
 */
#ifndef RELAY_SESSIONS_HPP
#define RELAY_SESSIONS_HPP

#include <sennit/sennit.hpp>

#include <atomic>
#include <cstddef>
#include <mutex>

namespace relay
{

class sessions
{
public:
	/* What can be cut. cut() is called once at most, under the lock of the list. */
	class entry
	{
	public:
		virtual void cut() noexcept = 0;
		/*
		 * Does what is for sessions that live, and returns true, if that is due now. Not called
		 * again then. Under the lock of the list.
		 */
		virtual bool settle(sn::clock::time_point now) noexcept = 0;

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
	 * How many may be alive at once. First before anything else; when it becomes less than
	 * there are, no more are let in until so many have gone.
	 */
	void set_most(std::size_t most) noexcept { most_.store(most, std::memory_order_relaxed); }

	std::size_t most() const noexcept { return most_.load(std::memory_order_relaxed); }

	/*
	 * Makes room for one more, which counts as alive from now on; gone() gives it back. False
	 * when there are as many as there may be.
	 */
	bool reserve() noexcept;

	/* From now on it may be cut. After reserve(). */
	void add(entry &session) noexcept;

	/* From now on it is not cut any more; when that returns, no cut() is running either. */
	void leave(entry &session) noexcept;

	/* It has closed what it had. Its last call. */
	void gone() noexcept { alive_.fetch_sub(1, std::memory_order_release); }

	/* Acquire, to gone()'s release: at zero, all that sessions did has happened. */
	std::size_t alive() const noexcept { return alive_.load(std::memory_order_acquire); }

	/* The oldest session that is not settled is, if it is due; then there may be another one. */
	bool settle_next(sn::clock::time_point now) noexcept;

	/* Cuts every session that is there. No new ones may come. */
	void cut_all() noexcept;

	/* The lock under which entries are cut, for what an entry must not do meanwhile. */
	std::mutex &lock() noexcept { return lock_; }

private:
	std::mutex lock_;
	entry *first_ = nullptr;     /* the youngest */
	entry *unsettled_ = nullptr; /* the oldest of those; all that came later are, too */
	std::atomic<std::size_t> most_{1};
	std::atomic<std::size_t> alive_{0};
};

} // namespace relay

#endif
