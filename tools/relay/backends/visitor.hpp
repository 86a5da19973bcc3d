/* SPDX-License-Identifier: MIT */
/*
 * Visits each endpoint of a pool once per interval, for checks and for questions to agents. Each
 * backend has a task (watcher.hpp), and each visit that is under way has another one, so that a
 * slow endpoint does not delay others.
 *
 * The first visit of an endpoint starts soon, or soon after a lookup has found its address; an
 * urgent one starts immediately. The next one starts an interval after the start of the previous
 * one, or as soon as the previous one has ended if that took longer. The visits of an address end
 * when the address is gone from its name. Results that arrive after the visits were stopped do not
 * count.
 */
#ifndef RELAY_VISITOR_HPP
#define RELAY_VISITOR_HPP

#include "backends/watcher.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace relay
{

class visitor : public watcher::work
{
public:
	void watch(backend &at, const std::atomic<bool> &stopped) final;

protected:
	/* The visits of one endpoint. */
	struct plan {
		explicit plan(std::shared_ptr<endpoint> which)
		    : of(std::move(which)), returns(returns_of(*of))
		{
		}

		bool is_of(const std::shared_ptr<endpoint> &which) const noexcept
		{
			return of == which && is_current();
		}
		/* False if the endpoint was gone since, and has returned. */
		bool is_current() const noexcept { return returns == returns_of(*of); }
		static std::uint64_t returns_of(const endpoint &which) noexcept
		{
			return which.returns.load(std::memory_order_acquire);
		}

		const std::shared_ptr<endpoint> of;
		/* Differs if the endpoint was gone, and has returned before the backend's task
		 * looked. */
		const std::uint64_t returns;
		std::atomic<bool> is_gone{false};      /* set by the backend's task */
		std::atomic<bool> is_under_way{false}; /* set there, cleared by the visit */
		/* Only the backend's task uses these. */
		sn::clock::time_point next;
		std::chrono::nanoseconds pause; /* from the next visit to the one after it */
	};

	/* One visit. */
	class visit
	{
	public:
		visit(plan &its, const std::atomic<bool> &stopped) : plan_(its), stopped_(stopped)
		{
		}

		endpoint &at() const noexcept { return *plan_.of; }
		bool is_stopped() const noexcept
		{
			return stopped_.load(std::memory_order_relaxed);
		}
		/* Whether the result of the visit counts. The address may be gone and return just
		 * after that, which only returns() tells for certain (endpoint.hpp). */
		bool counts() const noexcept;
		/* How often the address had returned when its visits began. */
		std::uint64_t returns() const noexcept { return plan_.returns; }
		/* Lets the next visit begin. Call it once. */
		void end() noexcept { plan_.is_under_way.store(false, std::memory_order_release); }

	private:
		plan &plan_;
		const std::atomic<bool> &stopped_;
	};

	/* task_name and what, such as "check" and "checks": for messages. */
	visitor(std::chrono::nanoseconds interval, const char *task_name, const char *what)
	    : interval_(interval), task_name_(task_name), what_(what)
	{
	}

	/* Makes a visit, in its task. Must call which.end(). */
	virtual void go(const backend_config &of, visit &which) = 0;
	/* The stack size of the visit's task; 0: the default. */
	virtual std::size_t stack_of(const backend_config &) const { return 0; }
	/* Whether somebody may be waiting for the first visit of the endpoint. */
	virtual bool is_urgent(const endpoint &) const { return false; }

private:
	using plans = std::vector<std::shared_ptr<plan>>;

	void follow(plans &known, const endpoint_list &now);
	std::shared_ptr<plan> make_plan(const std::shared_ptr<endpoint> &of);
	sn::clock::time_point start_due(backend &at, sn::scope &visits, const plans &known,
					const std::atomic<bool> &stopped);

	const std::chrono::nanoseconds interval_;
	const char *const task_name_;
	const char *const what_;
	std::atomic<std::uint32_t> made_{0};
};

} // namespace relay

#endif
