/* SPDX-License-Identifier: MIT */
#include "backends/endpoint.hpp"

#include "backends/balance.hpp"
#include "base/address.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

/* Error numbers from here on stand for HTTP statuses, answers and TLS errors. No system's errno
 * values are that large. */
constexpr int first_status = 0x10000;
constexpr int long_answer = 0x11000;
constexpr int costly_answer = 0x11001;
constexpr int first_of_tls = 0x20000;

health health_of(const endpoint &of, bool is_checked)
{
	const endpoint_counters &counts = of.counts;
	const agent_effect agent = of.agent.effect();
	const checked check = counts.check.load(std::memory_order_relaxed);
	const std::int64_t now = sn_now();
	if ((is_checked && check == checked::down) || agent.health != agent_health::up)
		return health::down;
	if (!agent.lets_in())
		return health::drained;
	if (now < counts.ejected_until.load(std::memory_order_relaxed))
		return health::ejected;
	if (now < counts.slow_until.load(std::memory_order_relaxed))
		return health::slow;
	if (!is_checked)
		return health::unchecked;
	return check == checked::unknown ? health::unknown : health::up;
}

} // namespace

endpoint::endpoint(std::string of, std::string at)
    : backend(std::move(of)), address(std::move(at)), is_local(is_unix(address)),
      hash(hash_of(address))
{
}

/* asked() and answered() read before they write: a needless write would take the cache line from
 * other threads. */
std::int64_t asked(endpoint &to) noexcept
{
	auto &since = to.counts.unanswered_since;
	std::int64_t none = 0;
	if (since.load(std::memory_order_relaxed) != 0)
		return 0;
	const std::int64_t now = sn_now();
	return since.compare_exchange_strong(none, now, std::memory_order_relaxed) ? now : 0;
}

void not_asked(endpoint &of, std::int64_t since) noexcept
{
	if (since != 0)
		of.counts.unanswered_since.compare_exchange_strong(since, 0,
								   std::memory_order_relaxed);
}

void answered(endpoint &by) noexcept
{
	auto &since = by.counts.unanswered_since;
	if (since.load(std::memory_order_relaxed) != 0)
		since.store(0, std::memory_order_relaxed);
}

both_ways read_waiting(const wait_counters &of) noexcept
{
	return {of.now[SN_RELAY_A_TO_B].get(), of.now[SN_RELAY_B_TO_A].get()};
}

std::error_code status_error(unsigned status) noexcept
{
	return {first_status + static_cast<int>(status), std::generic_category()};
}

std::error_code long_answer_error() noexcept
{
	return {long_answer, std::generic_category()};
}

std::error_code costly_answer_error() noexcept
{
	return {costly_answer, std::generic_category()};
}

std::error_code tls_error(const std::error_code &of) noexcept
{
	return {first_of_tls + of.value(), std::generic_category()};
}

std::string check_error_text(int error, std::string_view address)
{
	if (error == first_of_tls + EKEYREJECTED)
		return "its certificate is refused";
	if (error == first_of_tls + EPROTO)
		return "its TLS handshake has failed";
	if (error >= first_of_tls)
		return "its TLS handshake has failed: " +
		       std::generic_category().message(error - first_of_tls);
	if (error == long_answer)
		return "its answer is too long to be searched";
	if (error == costly_answer)
		return "searching its answer for the regular expression takes too long, or too "
		       "much "
		       "memory";
	if (error == first_status)
		return "its answer is not one of HTTP/1";
	if (error > first_status)
		return "its answer has the status " + std::to_string(error - first_status);
	if (error == EPROTO)
		return "its answer is not the expected one";
	if (error == EADDRNOTAVAIL)
		return "no local port is free";
	if (error == ENOENT && !is_unix(address))
		return "its name does not resolve";
	return std::generic_category().message(error);
}

void read_health(const endpoint &of, bool is_checked, endpoint_snapshot &into)
{
	const auto &counts = of.counts;
	into.address = of.address;
	into.state = health_of(of, is_checked);
	into.checks = counts.checks.get();
	into.check_failures = counts.check_failures.get();
	into.last_check =
		std::chrono::nanoseconds(counts.last_check.load(std::memory_order_relaxed));
	if (const int error = counts.last_error.load(std::memory_order_relaxed))
		into.last_error = check_error_text(error, of.address);
	of.agent.read(into.agent);
	into.active = in_use(counts);
	into.connected = counts.connected.get();
	into.failures = counts.failures.get();
	into.ejections = counts.ejections.get();
	into.throttled = counts.throttled.times.get();
	into.throttled_time = std::chrono::nanoseconds(counts.throttled.ns.get());
	into.throttled_now = read_waiting(counts.throttled);
	into.to_backend = counts.to_backend.read();
	into.to_client = counts.to_client.read();
}

void add_totals(endpoint_snapshot &to, const endpoint_snapshot &more) noexcept
{
	to.active += more.active;
	to.connected += more.connected;
	to.failures += more.failures;
	to.ejections += more.ejections;
	to.checks += more.checks;
	to.check_failures += more.check_failures;
	to.last_check = std::max(to.last_check, more.last_check);
	to.throttled += more.throttled;
	to.throttled_time += more.throttled_time;
	to.throttled_now.to_backend += more.throttled_now.to_backend;
	to.throttled_now.to_client += more.throttled_now.to_client;
	to.to_backend += more.to_backend;
	to.to_client += more.to_client;
}

} // namespace relay
