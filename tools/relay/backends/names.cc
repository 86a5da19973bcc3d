/* SPDX-License-Identifier: MIT */
#include "backends/names.hpp"

#include "base/address.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <tuple>
#include <utility>

#include <sennit/sn.hpp>
#include <sennit/unstable.hpp>

namespace relay
{
namespace
{

/* Whether the address has a name to look up. A Unix socket has none, and an address in brackets
 * is IPv6. A numeric host with a service name as its port is not a name either: the connect
 * resolves the service. */
bool is_named(const std::string &address)
{
	in_addr unused;
	if (is_srv(address))
		return true;
	return !is_unix(address) && !address.starts_with('[') &&
	       inet_pton(AF_INET, address.substr(0, address.rfind(':')).c_str(), &unused) != 1;
}

/* Brings the list into the order of endpoint_list. An address that is there twice keeps its
 * better priority. If there are too many addresses, those of the better priorities stay. */
void normalize(found_endpoints &list)
{
	const auto by_address = [](const found_endpoint &each) {
		return std::tie(each.address, each.priority, each.weight);
	};
	std::ranges::sort(list, {}, by_address);
	list.erase(std::unique(list.begin(), list.end(),
			       [](const auto &a, const auto &b) { return a.address == b.address; }),
		   list.end());
	if (list.size() <= most_endpoints)
		return;
	std::ranges::stable_sort(list, {}, &found_endpoint::priority);
	list.resize(most_endpoints);
	std::ranges::sort(list, {}, by_address);
}

bool is_same(const endpoint_list &known, const found_endpoints &found)
{
	return std::ranges::equal(known, found, [](const auto &a, const auto &b) {
		return a.at->address == b.address && a.weight == b.weight &&
		       a.priority == b.priority;
	});
}

/* Whether this machine has an address from which it can connect to that one. The kernel reports
 * the lack of such an address and the lack of a free port by the same error. A UDP socket
 * distinguishes them, because its ports are separate. */
bool has_source_for(const std::string &address)
{
	return static_cast<bool>(sn::udp::connect(address, sn::now()));
}

/* Forgets the error, too: without a result it would mean that no check can be made. Call it with
 * the endpoint's `results`. */
void forget_check(endpoint &of) noexcept
{
	of.counts.last_error.store(0, std::memory_order_relaxed);
	of.counts.check.store(checked::unknown, std::memory_order_relaxed);
}

/* Whether an endpoint that has this state may not be chosen before its first check. One that
 * returns slowly, or was ejected, may have to be checked again. */
bool awaits_first_check(const endpoint &of, health state) noexcept
{
	return (state == health::unknown || state == health::slow || state == health::ejected) &&
	       of.counts.check.load(std::memory_order_relaxed) == checked::unknown;
}

/* A name shows the state of its endpoint with the lowest rank. */
int rank(const endpoint_snapshot &of)
{
	switch (of.state) {
	case health::up:
	case health::unchecked:
		return 0;
	case health::unknown:
		return of.awaits_check ? 3 : 1;
	case health::slow:
		return 2;
	case health::ejected:
		return 3;
	default:
		return 4;
	}
}

} // namespace

endpoints::endpoints(std::string configured)
    : configured_(std::move(configured)), named_(is_named(configured_)),
      state_(named_ ? unknown : some)
{
	endpoint_list list;
	if (!named_)
		list.push_back({std::make_shared<endpoint>(configured_, configured_), 1, 0});
	list_ = std::make_shared<const endpoint_list>(std::move(list));
}

std::shared_ptr<const endpoint_list> endpoints::now() const
{
	const std::lock_guard lock(lock_);
	return list_;
}

const endpoint_list &endpoints::now(std::vector<std::shared_ptr<const endpoint_list>> &keep) const
{
	if (!named_)
		return *list_; /* never changes */
	return *keep.emplace_back(now());
}

const endpoint_list &endpoints::now(std::shared_ptr<const endpoint_list> &keep) const noexcept
{
	if (!named_)
		return *list_;
	keep = now();
	return *keep;
}

void endpoints::await_change(std::uint64_t seen, sn::deadline until)
{
	std::unique_lock lock(waiting_);
	changed_.wait_until(lock, until, [&] { return changes() != seen; });
}

/* Call it after the change: each waiter has then either seen the change or is already waiting. */
void endpoints::notify() noexcept
{
	{
		const std::lock_guard lock(waiting_);
	}
	changed_.notify_all();
}

bool endpoints::found(found_endpoints list)
{
	normalize(list);
	bool is_other = false;
	{
		const std::lock_guard lock(lock_);
		is_other = replace(list);
	}
	state_.store(some, std::memory_order_release);
	if (is_other)
		notify();
	return is_failing_.exchange(false, std::memory_order_relaxed);
}

void endpoints::give_up()
{
	bool is_other = false;
	{
		const std::lock_guard lock(lock_);
		is_other = replace({});
	}
	state_.store(none, std::memory_order_release);
	if (is_other)
		notify();
}

/* Call it under the lock. If it throws, nothing has changed. */
bool endpoints::replace(const found_endpoints &list)
{
	forget_gone();
	if (is_same(*list_, list))
		return false;
	endpoint_list next;
	next.reserve(list.size());
	for (const found_endpoint &each : list)
		next.push_back({find_or_make(each.address), each.weight, each.priority});
	auto shared = std::make_shared<const endpoint_list>(std::move(next));

	gone_endpoints gone = gone_;
	for (const auto &each : *list_)
		gone.emplace(each.at->address, each.at);
	for (const auto &each : *shared)
		gone.erase(each.at->address);
	gone_.swap(gone);
	list_.swap(shared);
	changes_.fetch_add(1, std::memory_order_release);
	return true;
}

std::shared_ptr<endpoint> endpoints::find_or_make(const std::string &address)
{
	const auto address_of = [](const listed_endpoint &each) -> const std::string & {
		return each.at->address;
	};
	const auto listed = std::ranges::lower_bound(*list_, address, {}, address_of);
	if (listed != list_->end() && listed->at->address == address)
		return listed->at;
	if (const auto gone = gone_.find(address); gone != gone_.end()) {
		/* Nobody has checked it in the meantime. */
		if (starts_down_) {
			const std::lock_guard results(gone->second->results);
			forget_check(*gone->second);
			gone->second->returns.fetch_add(1, std::memory_order_release);
		}
		return gone->second;
	}
	auto made = std::make_shared<endpoint>(configured_, address);
	set(made->counts.bandwidth, bandwidth_, sn_now());
	made->agent.belongs_to(agent_);
	made->is_checked = is_checked_;
	return made;
}

/*
 * An endpoint to which only gone_ refers is in use by no session, and none can begin to use it,
 * because a list that has it would refer to it as well. The fence orders these reads after the
 * counting that sessions did before they released it.
 */
void endpoints::forget_gone()
{
	std::erase_if(gone_, [this](const auto &each) {
		if (each.second.use_count() != 1)
			return false;
		std::atomic_thread_fence(std::memory_order_acquire);
		endpoint_snapshot last;
		read_health(*each.second, false, last);
		last.active = 0;
		add_totals(totals_of_forgotten_, last);
		return true;
	});
}

bool endpoints::failed() noexcept
{
	failures_.fetch_add(1, std::memory_order_relaxed);
	if (state_.load(std::memory_order_relaxed) == unknown)
		state_.store(none, std::memory_order_release);
	return !is_failing_.exchange(true, std::memory_order_relaxed);
}

void endpoints::limit_bandwidth(const bandwidth_config &to)
{
	const std::int64_t now = sn_now();
	const std::lock_guard lock(lock_);
	bandwidth_ = to;
	for (const auto &each : *list_)
		set(each.at->counts.bandwidth, to, now);
	for (const auto &each : gone_)
		set(each.second->counts.bandwidth, to, now);
}

void endpoints::forget_checks() noexcept
{
	const auto forget = [](endpoint &of) {
		const std::lock_guard results(of.results);
		forget_check(of);
	};
	const std::lock_guard lock(lock_);
	for (const auto &each : *list_)
		forget(*each.at);
	for (const auto &each : gone_)
		forget(*each.second);
}

void endpoints::use_checks(bool are_used) noexcept
{
	const auto use = [are_used](endpoint &of) {
		const std::lock_guard results(of.results);
		of.is_checked = are_used;
		if (!are_used)
			forget_check(of);
	};
	const std::lock_guard lock(lock_);
	is_checked_ = are_used;
	for (const auto &each : *list_)
		use(*each.at);
	for (const auto &each : gone_)
		use(*each.second);
}

void endpoints::start_down(bool is_so) noexcept
{
	const std::lock_guard lock(lock_);
	starts_down_ = is_so;
}

void endpoints::use_agent(const agent_id &agent) noexcept
{
	const std::lock_guard lock(lock_);
	agent_ = agent;
	for (const auto &each : *list_)
		each.at->agent.belongs_to(agent);
	for (const auto &each : gone_)
		each.second->agent.belongs_to(agent);
}

void endpoints::forget_agent() noexcept
{
	const std::lock_guard lock(lock_);
	for (const auto &each : *list_)
		each.at->agent.forget();
	for (const auto &each : gone_)
		each.second->agent.forget();
}

void endpoints::read(backend_snapshot &into, std::uint32_t weight, std::uint64_t limit,
		     bool is_checked)
{
	const std::lock_guard lock(lock_);
	forget_gone();
	into.address = configured_;
	into.weight = weight;
	into.is_named = named_;
	into.resolve_failures = failures();
	into.is_resolve_failing = failing();
	add_totals(into, totals_of_forgotten_);
	into.state = weight == 0 ? health::drained : down() ? health::down : health::unknown;
	into.awaits_check = starts_down_ && into.state == health::unknown;
	into.agent.is_there = agent_ != nullptr;
	agent_snapshot agent_of_best;
	std::uint64_t percents = 0;
	bool is_lost = false;
	bool is_limited = true;
	for (const auto &each : *list_) {
		endpoint_snapshot one;
		read_health(*each.at, is_checked, one);
		if (weight == 0)
			one.state = health::drained;
		one.awaits_check = starts_down_ && awaits_first_check(*each.at, one.state);
		if (one.awaits_check)
			one.state = health::unknown;
		one.weight = each.weight;
		one.priority = each.priority;
		one.limit = lower_limit(limit, one.agent.limit);
		into.limit += one.limit;
		is_limited &= one.limit != 0;
		add_totals(into, one);
		into.addresses.push_back(one.address);
		if (into.addresses.size() == 1 || rank(one) < rank(into)) {
			into.state = one.state;
			into.awaits_check = one.awaits_check;
			into.last_error = one.last_error;
			agent_of_best = one.agent;
		}
		percents += one.agent.percent;
		is_lost |= one.agent.contact == agent_contact::lost;
		if (named_)
			into.endpoints.push_back(std::move(one));
	}
	if (!list_->empty()) {
		into.agent = std::move(agent_of_best);
		into.agent.percent = static_cast<std::uint32_t>(percents / list_->size());
		if (is_lost)
			into.agent.contact = agent_contact::lost;
	}
	if (!is_limited)
		into.limit = 0;
	for (const auto &each : gone_) {
		endpoint_snapshot one;
		read_health(*each.second, false, one);
		one.state = health::drained;
		one.weight = 0;
		add_totals(into, one);
		if (into.endpoints.size() < 2 * most_endpoints)
			into.endpoints.push_back(std::move(one));
	}
	if (down())
		into.last_error = check_error_text(ENOENT, configured_);
}

sn::result<sn::tcp> connect_to_endpoint(const std::string &address, sn::deadline until,
					first_words whose)
{
	if (until == sn::no_deadline && is_unix(address))
		until = sn::after(unix_connect_most);
	auto connected = whose == first_words::ours ? sn::unstable::connect_to_write(address, until)
						    : sn::tcp::connect(address, until);
	if (!connected && connected.error() == std::errc::address_not_available &&
	    !has_source_for(address))
		return sn::unexpected(std::errc::network_unreachable);
	return connected;
}

} // namespace relay
