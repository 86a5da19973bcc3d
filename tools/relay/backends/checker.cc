/* SPDX-License-Identifier: MIT */
#include "backends/checker.hpp"

#include "backends/backend_events.hpp"
#include "backends/down_sessions.hpp"
#include "backends/probe.hpp"
#include "backends/visitor.hpp"
#include "base/descriptors.hpp"
#include "base/sleep.hpp"
#include "stats/events.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

/* How soon the first check of an endpoint for which clients may be waiting is tried again, if this
 * machine lacked a resource for it. */
constexpr std::chrono::nanoseconds retry_short = std::chrono::milliseconds(100);

class checker final : public visitor
{
public:
	checker(pool &of, counters &counts, sessions &of_all, std::chrono::nanoseconds drain)
	    : visitor(of.settings().check.interval, "check", "checks"), pool_(of), counts_(counts),
	      open_(of, of_all, of.settings().check.on_down, drain)
	{
	}

	/* Without checks an endpoint that is down would stay down forever, and the others would
	 * count as healthy. All endpoints therefore return to the unchecked state. */
	void given_up(pool &of) noexcept override { of.unchecked(); }
	void tell_ended(const pool &of, const char *why) override;

private:
	void go(const backend_config &of, visit &which) override;
	std::size_t stack_of(const backend_config &of) const override;
	bool is_urgent(const endpoint &of) const override;
	const check_place &place_for(const backend_config &of) const noexcept;
	std::error_code ask(const backend_config &of, const endpoint &at, sn::deadline until,
			    std::string &detail);
	void note_shortage(const visit &which, const std::error_code &of);
	void take(const visit &which, const std::error_code &answer, const std::string &detail);

	pool &pool_;
	counters &counts_;
	const down_sessions open_;
};

std::size_t checker::stack_of(const backend_config &of) const
{
	return probes_by_tls(pool_.settings().check, place_for(of), pool_.tls() != nullptr)
		       ? tls_stack
		       : 0;
}

/* Clients may be waiting for it, because it gets none before its first check. */
bool checker::is_urgent(const endpoint &of) const
{
	return pool_.settings().check.starts_down &&
	       of.counts.check.load(std::memory_order_relaxed) == checked::unknown;
}

void checker::go(const backend_config &of, visit &which)
{
	const auto &how = pool_.settings().check;
	std::string detail;
	auto answer = ask(of, which.at(), sn::after(how.timeout), detail);
	while (which.counts() && is_shortage(answer)) {
		note_shortage(which, answer);
		if (!is_urgent(which.at()))
			break;
		sleep_fully_until(sn::after(retry_short));
		detail.clear();
		answer = ask(of, which.at(), sn::after(how.timeout), detail);
	}
	const bool counts = which.counts();
	if (counts && !is_shortage(answer))
		take(which, answer, detail);
	which.end();
	if (counts)
		open_.end(which.at(), sn::after(how.interval),
			  [&]() -> std::optional<std::int64_t> {
				  const auto &its = which.at().counts;
				  if (which.is_stopped() ||
				      its.check.load(std::memory_order_relaxed) != checked::down)
					  return std::nullopt;
				  return its.down_since.load(std::memory_order_relaxed);
			  });
}

void checker::tell_ended(const pool &of, const char *why)
{
	emit(event_kind::checks_ended,
	     "the checks of " + of.name() +
		     " have ended, so its backends count as unchecked: " + why,
	     {{"group", of.name()}, {"error", why}});
}

/* Where checks of this backend connect to. */
const check_place &checker::place_for(const backend_config &of) const noexcept
{
	return of.check.is_other() ? of.check : pool_.settings().check.at;
}

/* Checks the endpoint. Returns no error if it is healthy. */
std::error_code checker::ask(const backend_config &of, const endpoint &at, sn::deadline until,
			     std::string &detail)
try {
	const auto &group = pool_.settings();
	return probe(at, group.check, place_for(of), {group.send_proxy, pool_.tls()}, until,
		     detail);
} catch (const std::bad_alloc &) {
	return std::make_error_code(std::errc::not_enough_memory);
}

/* The endpoint keeps its last result. The event is emitted once until a check can be made again,
 * because the shortage has other events, too. */
void checker::note_shortage(const visit &which, const std::error_code &of)
{
	if (pool_.not_checked(which.at(), of, which.returns()))
		tell_shortage(pool_, which.at(), of);
}

void checker::take(const visit &which, const std::error_code &answer, const std::string &detail)
{
	const auto effect = pool_.checked(which.at(), answer, which.returns());
	if (answer && effect.is_recorded)
		counts_.check_failures.add();
	if (effect.is_change)
		tell_checked(pool_, which.at(), answer, detail);
}

} // namespace

std::unique_ptr<watcher> watch_health(std::shared_ptr<pool> of, counters &counts, sessions &of_all,
				      std::chrono::nanoseconds drain)
{
	if (of->settings().check.interval.count() == 0)
		return nullptr;
	auto work = std::make_unique<checker>(*of, counts, of_all, drain);
	return std::make_unique<watcher>(std::move(of), std::move(work), "check");
}

} // namespace relay
