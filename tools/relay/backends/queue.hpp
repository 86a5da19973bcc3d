/* SPDX-License-Identifier: MIT */
/*
 * The queue of a group: clients that wait because every backend that they could use is full.
 *
 * First come, first served, also across a reload. A client that arrives while others wait queues
 * after them, even if a place is free at that moment. The exception is a place that none of the
 * waiting clients can use, because they have already failed with that backend, or wait for a better
 * one with which the new client has failed. Then the new client is served immediately. No client
 * waits that could be served.
 *
 * A place is given, not announced. The task that frees a place finds the first waiter that can use
 * it, chooses the backend on the waiter's behalf, and wakes the waiter with the place already
 * reserved. Each freed place therefore serves exactly one client, and no other can take it in
 * between. The waiter after it wakes as well, because it is now the first. A waiter that leaves
 * just as it is given a place frees the place again, which serves the next.
 *
 * No place is lost between a client that finds everything full and one that leaves. The arriving
 * client enters the queue (a), then looks at the backends once more (b). The leaving one frees its
 * place (c), then looks whether anybody waits (d). All four are sequentially consistent, so if (b)
 * came before (c), (d) comes after (a). Other changes (a check, a lookup, a reload) are rare and
 * take the lock, under which (a) and (b) are one step.
 *
 * Clients wait as well while the only backends that they could use have still to pass their first
 * check (balance.hpp). When the last one of these checks has ended, clients for which no backend is
 * left leave immediately.
 *
 * An ejection ends by time alone, which wakes nobody. So the first waiter tries again ten times a
 * second, and whoever frees a place looks for more of them (queue.cc). That also makes up for an
 * attempt that failed for lack of memory.
 *
 * The queue belongs to the registry, by the group's name, and so is shared by the pools of the
 * group before and after a reload. All waiters are served by the latest pool, with the backends,
 * limits and weights that are in effect at that time. The earlier pools together own the latest
 * one, because clients of theirs may wait or leave after a reload has removed the group, and with
 * it everything else that uses the latest pool. The pools in between can go.
 *
 * Rejected: waking the first waiter to choose for itself, which lets newcomers overtake it and
 * needs a second wake-up if it has gone; a queue for each backend as HAProxy has, in which a client
 * waits for one backend while another one is free; a condition variable, which has no order.
 *
 * Any task may call; none parks. When a place is freed, the lock is held for microseconds, however
 * many wait, if a waiter near the front takes it; nobody looks for waiters that wait in vain,
 * because a freed place makes none. All waiters are looked at if none of them can use the place,
 * when a client enters, and when something else has changed.
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
#include <utility>

namespace relay
{

class queue
{
public:
	/* A client that waits. A derived class has the endpoints that it has tried, and the
	 * place that it was given. */
	class waiter
	{
	public:
		waiter(const waiter &) = delete;
		waiter &operator=(const waiter &) = delete;

		/* Rung when the waiter is given a place, when it waits in vain, and when it becomes
		 * the first. Others may ring it, too. */
		bell rings;

	protected:
		/* is_plain: the client has not tried any backend. All plain waiters can use the
		 * same places; another waiter may be able to use a place that plain ones cannot. */
		explicit waiter(bool is_plain = true) : is_plain_(is_plain) {}
		~waiter() = default;

	private:
		friend class queue;
		const bool is_plain_;
		waiter *previous_ = nullptr;
		waiter *next_ = nullptr;
		bool waits_ = false;
		bool is_in_vain_ = false; /* has left, because no place can become free */
	};

	/* Gives places to waiters. */
	class giver
	{
	public:
		enum class answer {
			given,
			none,      /* no place for it, nor for waiters like it */
			no_memory, /* not enough memory to choose */
		};
		/* Chooses a place for the waiter. Called under the queue's lock. itself: this
		 * giver. */
		virtual answer give_place(waiter &to,
					  const std::shared_ptr<giver> &itself) noexcept = 0;
		/* Whether backends have still to pass their first check, or to be looked up before
		 * it. When that ends, waiters leave that may_serve() says wait in vain. */
		virtual bool has_awaited() const noexcept { return false; }
		virtual bool may_serve(const waiter &) const noexcept { return true; }
		/* Whether backends that are down do not come up any more. From then on waiters
		 * leave whenever may_serve() says so. */
		virtual bool is_unwatched() const noexcept { return false; }
		/* Whether clients would have to wait for such backends now. */
		virtual bool awaits_first_checks() const noexcept { return false; }
		/* Whether two waiters that are not plain can use the same places. Called under
		 * the queue's lock. */
		virtual bool are_alike(const waiter &, const waiter &) const noexcept
		{
			return false;
		}

		/* Owns the latest giver. Shared by all those before it. */
		struct successor {
			std::shared_ptr<giver> latest;
		};
		/* From now on this giver and those before it own the next one. Called under the
		 * queue's lock, by an owner of this giver. of_all: what those before it share. */
		void precede(std::shared_ptr<giver> next, std::weak_ptr<successor> &of_all) noexcept
		{
			if (auto shared = of_all.lock())
				after_ = std::move(shared);
			else
				of_all = after_;
			after_->latest = std::move(next);
		}

	protected:
		/* Throws std::bad_alloc. */
		giver() : after_(std::make_shared<successor>()) {}
		~giver() = default;

	private:
		std::shared_ptr<successor> after_; /* empty in the latest giver */
	};

	queue() = default;
	queue(const queue &) = delete;
	queue &operator=(const queue &) = delete;

	/* Sets the limit. A queue that is longer is not cut: it shortens as clients are served. */
	void set_limit(std::uint64_t limit) noexcept
	{
		limit_.store(limit, std::memory_order_relaxed);
	}
	/* Makes it the giver. It lives at least as long as any giver before it. */
	void use(std::shared_ptr<giver> latest) noexcept;

	/* Whether nobody waits, so that a newcomer overtakes nobody. */
	bool is_empty() const noexcept { return waiting_.load() == 0; }

	enum class entry { served, waits, full, in_vain };
	/* Enters the queue until leave(), unless it is full. If the waiter is served immediately,
	 * it need not wait, but must leave. */
	entry enter(waiter &who) noexcept;

	enum class place { given, first, behind, in_vain };
	place look(const waiter &who) noexcept;

	/* Leaves the queue. Returns true if the waiter has been given a place. */
	bool leave(waiter &who) noexcept;

	/* Call it when a connection has ended. Every connection ends with this call, so it costs
	 * only one load if nobody waits. */
	void place_is_free() noexcept
	{
		if (!is_empty())
			give_freed();
	}

	/* Call it when anything else has changed that may let a waiter be served, or makes one wait
	 * in vain. */
	void changed() noexcept;

	/* The same if waiters may wait in vain from now on, for which may_serve() is asked. */
	void ended() noexcept;

	/* How often the first of the queue calls changed(). */
	static constexpr std::chrono::milliseconds beat{100};

	/* The latest giver; null before there is one. */
	std::shared_ptr<giver> latest() noexcept;

	/* Whether there has been a moment at which clients did not have to wait for first checks.
	 */
	bool first_checks_are_over() const noexcept
	{
		return first_checks_are_over_.load(std::memory_order_relaxed);
	}

	std::uint64_t waiting() const noexcept { return waiting_.load(); }
	std::uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

	/* Counted by the sessions. */
	counter waited;   /* clients that had to wait */
	counter full;     /* clients refused because too many waited */
	counter timeouts; /* clients that waited too long */
	counter left;     /* clients that went away */
	counter ns;       /* the sum of all waits */

private:
	/* How far to search for waiters that can be served: among all, or as far as a freed place
	 * makes it likely. */
	enum class extent { all, freed };

	void serve(const std::shared_ptr<giver> &with) noexcept;
	void give_freed() noexcept;
	void note_first_checks(const giver &with) noexcept;
	void give_places(const std::shared_ptr<giver> &with, extent how_far) noexcept;
	void dismiss(const giver &with) noexcept;
	void unlink(waiter &who) noexcept;

	std::mutex lock_; /* guards the list, its counts, the givers and has_awaited_ */
	waiter *first_ = nullptr;
	waiter *last_ = nullptr;
	std::size_t not_plain_ = 0; /* how many in the list are not plain */
	std::weak_ptr<giver> latest_;
	std::weak_ptr<giver::successor> after_; /* of the givers before it */
	bool has_awaited_ = false;              /* what the giver said last */
	std::atomic<bool> first_checks_are_over_{false};
	std::atomic<std::uint64_t> waiting_{0}; /* changed under the lock */
	std::atomic<std::uint64_t> limit_{0};
};

} // namespace relay

#endif
