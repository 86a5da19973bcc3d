/* SPDX-License-Identifier: MIT */
#include "checker.hpp"

#include "descriptors.hpp"
#include "names.hpp"
#include "proxy_header.hpp"
#include "report.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

class checker final : public watcher::work
{
public:
	checker(pool &of, counters &counts) : pool_(of), counts_(counts) {}

	void watch(backend &at, const std::atomic<bool> &stopped) override;
	void failed(pool &of, const char *why) override;

private:
	std::error_code ask(backend &at, sn::deadline until, const std::atomic<bool> &stopped);
	void take(backend &at, const std::error_code &answer);

	pool &pool_;
	counters &counts_;
	std::atomic<std::int64_t> begun_{0};
};

/* The first checks come early, so that a backend that is down does not get clients for long. */
constexpr std::chrono::nanoseconds longest_first_round = 1s;

/*
 * Runs until the scope is cancelled, which ends the sleep with an exception for the scope.
 *
 * The checks of a pool are spread, so that hundreds of them do not meet: the first ones over half
 * an interval, or over a second if that is shorter. Each backend's second check follows after half
 * an interval for the first of them, and nearly a whole one for the last; then each has its own
 * place in the interval.
 */
void checker::watch(backend &at, const std::atomic<bool> &stopped)
{
	const auto &how = pool_.settings().check;
	const auto half = how.interval / 2;
	const auto all = static_cast<std::int64_t>(pool_.backends().size());
	const std::int64_t place = begun_.fetch_add(1, std::memory_order_relaxed);
	auto pause = half + half / all * place;

	sn::sleep(std::min(half, longest_first_round) / all * place);
	for (;; pause = how.interval) {
		if (stopped.load(std::memory_order_relaxed))
			return;
		const auto start = sn::now();
		const std::error_code answer = ask(at, start + how.timeout, stopped);
		if (sn::cancelled() || stopped.load(std::memory_order_relaxed))
			return;
		if (!is_shortage(answer))
			take(at, answer);
		sn::sleep_until(std::max(start + pause, sn::now()));
	}
}

/* Without checks a backend that is down would stay down for ever, and the others would count as
 * healthy. So all of them return to the unchecked state. */
void checker::failed(pool &of, const char *why)
{
	report("the checks of " + of.name() +
	       " have ended, so its backends count as unchecked: " + why);
	for (backend &each : of.backends())
		of.unchecked(each);
}

/* No error when the backend is healthy. */
std::error_code checker::ask(backend &at, sn::deadline until, const std::atomic<bool> &stopped)
try {
	const auto &how = pool_.settings().check;
	auto connected =
		connect_to_any(at.counts.addresses, std::nullopt, until, first_words::unknown,
			       [&stopped] { return stopped.load(std::memory_order_relaxed); });
	if (!connected)
		return connected.error();
	connected->set_read_deadline(until);
	connected->set_write_deadline(until);
	/* The header of the relay's own connection, for backends that expect one. */
	const auto header = pool_.settings().send_proxy;
	proxy_header own;
	own.own = true;
	const std::string first = header == proxy_sending::none ? ""
				  : header == proxy_sending::v1 ? write_proxy_v1(own)
								: write_proxy_v2(own);
	if (const auto sent = connected->write_all(first + how.send); !sent)
		return sent.error();

	for (std::string_view missing = how.expect; !missing.empty();) {
		char answer[512];
		const auto n = connected->read(answer, std::min(sizeof answer, missing.size()));
		if (!n)
			return n.error();
		if (*n == 0 || !missing.starts_with(std::string_view(answer, *n)))
			return std::make_error_code(std::errc::protocol_error);
		missing.remove_prefix(*n);
	}
	/*
	 * Reset, not an orderly close: the backend's answer may be long, and a backend that was
	 * only connected to need not keep the connection. An expected answer shows that the check's
	 * bytes have arrived, so the reset loses nothing.
	 */
	connected->abort();
	return {};
} catch (const std::bad_alloc &) {
	return std::make_error_code(std::errc::not_enough_memory);
}

void checker::take(backend &at, const std::error_code &answer)
try {
	if (answer)
		counts_.check_failures.add();
	if (!pool_.checked(at, answer))
		return;
	const std::string name = "backend " + at.settings.address + " of " + pool_.name();
	if (answer)
		report(name + " is down: " + check_error_text(answer.value(), at.settings.address));
	else
		report(name + " is up again");
} catch (const std::bad_alloc &) {
	/* No memory for the line. */
}

} // namespace

std::unique_ptr<watcher> watch_health(std::shared_ptr<pool> of, counters &counts)
{
	if (of->settings().check.interval.count() == 0)
		return nullptr;
	auto work = std::make_unique<checker>(*of, counts);
	return std::make_unique<watcher>(std::move(of), std::move(work), "check");
}

} // namespace relay
