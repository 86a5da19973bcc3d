/* SPDX-License-Identifier: MIT */
#include "checker.hpp"

#include "descriptors.hpp"
#include "proxy_header.hpp"
#include "report.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

namespace relay
{

checker::checker(std::shared_ptr<pool> which, counters &counts)
    : pool_(std::move(which)), counts_(counts)
{
	running_ = sn::spawn([this] { run(); }, {.name = "checks"});
}

checker::~checker()
{
	stop();
}

void checker::stop() noexcept
{
	if (!stopped_.exchange(true, std::memory_order_relaxed))
		end_.release();
}

bool checker::over(sn::deadline until)
{
	return running_.wait_until(until);
}

void checker::run()
try {
	sn::scope tasks;
	for (backend &each : pool_->backends())
		tasks.go([this, &each] { watch(each); }, {.name = "check"});
	end_.acquire();
	/* The scope's end cancels them and waits. */
} catch (const std::exception &error) {
	/* Whoever is down would stay so for ever, and whoever is not be taken for well. */
	report("the checks of " + pool_->name() +
	       " have ended, its backends are taken for well: " + error.what());
	for (backend &each : pool_->backends())
		pool_->unchecked(each);
}

/* Until the scope is cancelled, which ends the sleep with an exception, the scope's way out. */
void checker::watch(backend &at)
{
	const auto &how = pool_->settings().check;
	for (;;) {
		const auto start = sn::now();
		const std::error_code answer = ask(at, start + how.timeout);
		if (sn::cancelled() || stopped_.load(std::memory_order_relaxed))
			return;
		if (!is_shortage(answer))
			take(at, answer);
		sn::sleep_until(std::max(start + how.interval, sn::now()));
	}
}

/* No error when it is well. */
std::error_code checker::ask(const backend &at, sn::deadline until) const
try {
	const auto &how = pool_->settings().check;
	auto connected = sn::tcp::connect(at.settings.address, until);
	if (!connected)
		return connected.error();
	connected->set_read_deadline(until);
	connected->set_write_deadline(until);
	/* The relay's own connection, for who expects a header. */
	const auto header = pool_->settings().send_proxy;
	const std::string first = header == proxy_sending::none ? ""
				  : header == proxy_sending::v1 ? write_proxy_v1({})
								: write_proxy_v2({});
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
	 * Not in good order: who answered may go on for long, and a listener that was only connected
	 * to need not keep the connection. Nothing that was said is lost by it.
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
	if (!pool_->checked(at, answer))
		return;
	const std::string name = "backend " + at.settings.address + " of " + pool_->name();
	if (answer)
		report(name + " is down: " + check_error_text(answer.value()));
	else
		report(name + " is up again");
} catch (const std::bad_alloc &) {
	/* No memory for the line. */
}

} // namespace relay
