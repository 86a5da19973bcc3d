/* SPDX-License-Identifier: MIT */
/*
 * The queue of a group: clients that wait because every backend that they may be given is full.
 *
 * First come, first served, also across a reload. A client that arrives while others wait queues
 * after them, even if a place is free at that moment. The exception is a place that none of the
 * others can use: they have already failed with that backend, or wait for a better one with which
 * this client has failed. Then it is served immediately. So no client waits that could be served.
 *
 * A place is given, not announced. The task that gives one back finds the first waiter that can use
 * it, chooses the backend on its behalf, and wakes it with the place already reserved. Each freed
 * place therefore serves exactly one client, and no other can take it in between. The next waiter
 * wakes as well, because it is the first now. A waiter that was given a place and leaves at the
 * same time gives it back, which serves the next.
 *
 * No place is lost between a client that finds everything full and one that leaves. The first
 * enters (a), then looks at the backends once more (b); the other gives its place back (c), then
 * looks whether anybody waits (d). All four are sequentially consistent, so if (b) came before (c),
 * (d) comes after (a). Other changes (a check, a look-up, a reload) are rare and take the lock,
 * under which (a) and (b) are one step.
 *
 * The end of an ejection comes by time alone and has no event, so the first of the queue tries
 * again ten times a second. That also makes up for a shortage of memory while a backend was chosen.
 *
 * The queue belongs to the registry, by the group's name, and so is shared by the pools of the
 * group before and after a reload. All who wait are served by the latest pool: they get the
 * backends, limits and weights that are in effect when they are served.
 *
 * Rejected: waking the first waiter to choose for itself, which lets newcomers overtake it and
 * needs a second wake-up if it has gone; a queue for each backend as HAProxy has, in which a client
 * waits for one backend while another one is free; a condition variable, which has no order.
 *
 * Any task may call; none parks. The lock is held for microseconds.
 */
#ifndef RELAY_QUEUE_HPP
#define RELAY_QUEUE_HPP

#include "base/client_wait.hpp"
#include "stats/counters.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace relay
{

class queue
{
public:
	/* A client that waits. A derived class has what it waits for, and what it was given. */
	class waiter
	{
	public:
		waiter(const waiter &) = delete;
		waiter &operator=(const waiter &) = delete;

		/* Rings when it was given a place, when it has become the first, and whenever
		 * others ring it. */
		bell rings;

	protected:
		/* is_plain: it has not tried any backend, so all plain waiters can use the same
		 * places. Other waiters may be able to use a place that these cannot. */
		explicit waiter(bool is_plain = true) : is_plain_(is_plain) {}
		~waiter() = default;

	private:
		friend class queue;
		const bool is_plain_;
		waiter *previous_ = nullptr;
		waiter *next_ = nullptr;
		bool waits_ = false;
	};

	/* Gives places to waiters. */
	class giver
	{
	public:
		enum class answer {
			given,
			none,      /* for it, nor for those that are alike */
			no_memory, /* to look for one */
		};
		/* Under the queue's lock. itself: the giver. */
		virtual answer give_place(waiter &to,
					  const std::shared_ptr<giver> &itself) noexcept = 0;
		/* Whether two that are not plain can use the same places. Under the queue's
		 * lock. */
		virtual bool are_alike(const waiter &, const waiter &) const noexcept
		{
			return false;
		}

	protected:
		~giver() = default;
	};

	queue() = default;
	queue(const queue &) = delete;
	queue &operator=(const queue &) = delete;

	/* What applies from now on. A queue that has become too long shortens by itself. */
	void set_limit(std::uint64_t limit) noexcept
	{
		limit_.store(limit, std::memory_order_relaxed);
	}
	void use(std::weak_ptr<giver> latest) noexcept;

	/* Whether nobody waits, so that a newcomer overtakes nobody. */
	bool is_empty() const noexcept { return waiting_.load() == 0; }

	enum class entry { served, waits, full };
	/* Enters the queue until leave(), unless it is full. If the waiter is served immediately,
	 * it need not wait, but must leave. */
	entry enter(waiter &who) noexcept;

	enum class place { given, first, behind };
	place look(const waiter &who) noexcept;

	/* Leaves the queue. Returns true if the waiter has been given a place. */
	bool leave(waiter &who) noexcept;

	/* A connection has ended: a step on the way of each, so it costs nothing if nobody
	 * waits. */
	void place_is_free() noexcept
	{
		if (!is_empty())
			changed();
	}

	/* Anything else has changed. */
	void changed() noexcept;

	/* How often the first of the queue calls changed(). */
	static constexpr std::chrono::milliseconds beat{100};

	std::uint64_t waiting() const noexcept { return waiting_.load(); }
	std::uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

	/* The session counts these. */
	counter waited;   /* clients that had to wait */
	counter full;     /* that were refused, because too many waited */
	counter timeouts; /* that waited too long */
	counter left;     /* that went away */
	counter ns;       /* the sum of all waits */

private:
	void serve(const std::shared_ptr<giver> &with) noexcept;
	void unlink(waiter &who) noexcept;

	std::mutex lock_; /* guards the list, what is counted of it, and latest_ */
	waiter *first_ = nullptr;
	waiter *last_ = nullptr;
	std::size_t not_plain_ = 0; /* of those in the list */
	std::weak_ptr<giver> latest_;
	std::atomic<std::uint64_t> waiting_{0}; /* changed under the lock */
	std::atomic<std::uint64_t> limit_{0};
};

} // namespace relay

#endif
