/* SPDX-License-Identifier: MIT */
/*
 * What the agent of an endpoint has said so far, and what follows from it.
 *
 * An agent's id is the text of those settings whose change makes it another agent. The state
 * belongs to one agent: it is reset when the endpoint gets another agent, or none, and a late
 * answer of the old agent is ignored. The effects of an agent therefore end with the agent, and
 * survive a reload that keeps it.
 *
 * `effect` is all that the choice of an endpoint needs. It is one word, so that a choice sees one
 * answer and not parts of two, and is read without a lock, relaxed: a choice that sees an answer a
 * moment late is equivalent to a choice a moment earlier. Everything else is under the lock, which
 * is held for microseconds and never over a wait. All writers of `effect` hold the lock, too:
 * heard() and missed() are called by the task that asks (agents.cc; for a moment after a reload
 * there are two of them), belongs_to() by lookups and reloads, and forget() when asking has ended.
 */
#ifndef RELAY_AGENT_STATE_HPP
#define RELAY_AGENT_STATE_HPP

#include "stats/snapshot.hpp"
#include "wire/agent_answer.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace relay
{

/* An agent's id; null: no agent. Shared, so that copies need no memory. */
using agent_id = std::shared_ptr<const std::string>;

/* What an agent has said. The initial values, before the first answer, have no effect. */
struct alignas(8) agent_effect {
	std::uint32_t limit = 0;     /* of connections; 0: none */
	std::uint16_t percent = 100; /* of the weight */
	agent_admin admin = agent_admin::ready;
	agent_health health = agent_health::up;

	/* Whether the endpoint may be given new connections, as far as the agent is concerned. */
	bool lets_in() const noexcept { return percent != 0 && !is_down() && !is_drained(); }
	/* Whether the agent says that its service is down, so that open connections should be
	 * ended. */
	bool is_down() const noexcept
	{
		return health != agent_health::up || admin == agent_admin::maint;
	}
	bool is_drained() const noexcept { return admin != agent_admin::ready; }

	bool operator==(const agent_effect &) const = default;
};
/* The lower of two limits of connections, where 0 means no limit. */
constexpr std::uint64_t lower_limit(std::uint64_t a, std::uint64_t b) noexcept
{
	return a && b ? std::min(a, b) : std::max(a, b);
}
static_assert(sizeof(agent_effect) == 8 && agent_percent_most <= UINT16_MAX);

class agent_state
{
public:
	/* The change that an answer has made. */
	struct change {
		bool counts = false; /* the answer is that of the agent in effect */
		bool answers_again = false;
		std::string description{}; /* the answer's */
		agent_effect before{};
		agent_effect after{};
	};

	agent_effect effect() const noexcept { return effect_.load(std::memory_order_relaxed); }

	/* Makes the state that agent's, and resets it if it was another's. */
	void belongs_to(const agent_id &agent) noexcept;

	/* Records an answer of that agent. If it throws std::bad_alloc, nothing has changed. */
	change heard(const agent_id &agent, const agent_answer &answer);

	/* Records that the agent has not answered, and why, in words. Returns true if this is
	 * the first time since its last answer. */
	bool missed(const agent_id &agent, std::string why) noexcept;

	/* Returns to the state before the first answer. */
	void forget() noexcept;

	/* While effect().is_down(): since when, as of sn_now(). */
	std::int64_t down_since() const noexcept
	{
		return down_since_.load(std::memory_order_relaxed);
	}

	void read(agent_snapshot &into) const;

private:
	bool is_of(const agent_id &agent) const noexcept;
	void reset() noexcept;

	std::atomic<agent_effect> effect_{agent_effect{}};
	std::atomic<std::int64_t> down_since_{0}; /* set before effect_ */
	mutable std::mutex lock_;                 /* guards the fields below, and all writing */
	agent_id of_;
	agent_contact contact_ = agent_contact::none;
	std::string description_; /* what the agent has said with its last state; printable */
	std::string ignored_;     /* an unknown word of the last answer; printable */
	std::string error_;       /* why the last question has no answer */
};

} // namespace relay

#endif
