/* SPDX-License-Identifier: MIT */
#include "names.hpp"

#include "address.hpp"
#include "descriptors.hpp"

#include <arpa/inet.h>
#include <utility>

#include <sennit/unstable.hpp>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* Unix sockets have no names. An address in brackets is IPv6. A numeric host with a service name as
 * its port is not a name either: the connect resolves it. */
bool is_named(const std::string &address)
{
	in_addr unused;
	return !is_unix(address) && !address.starts_with('[') &&
	       inet_pton(AF_INET, address.substr(0, address.rfind(':')).c_str(), &unused) != 1;
}

} // namespace

addresses::addresses(const std::string &configured)
    : named_(is_named(configured)),
      list_(std::make_shared<const address_list>(named_ ? 0 : 1, configured)),
      state_(named_ ? unknown : some)
{
}

std::shared_ptr<const address_list> addresses::now() const
{
	const std::lock_guard lock(lock_);
	return list_;
}

bool addresses::found(address_list list)
{
	auto next = std::make_shared<const address_list>(std::move(list));
	{
		const std::lock_guard lock(lock_);
		list_.swap(next);
	}
	state_.store(some, std::memory_order_release);
	return is_failing_.exchange(false, std::memory_order_relaxed);
}

bool addresses::failed() noexcept
{
	failures_.fetch_add(1, std::memory_order_relaxed);
	if (state_.load(std::memory_order_relaxed) == unknown)
		state_.store(none, std::memory_order_release);
	return !is_failing_.exchange(true, std::memory_order_relaxed);
}

sn::result<sn::tcp> connect_to_any(addresses &of, std::optional<std::uint64_t> source,
				   sn::deadline until, first_words whose,
				   const std::function<bool()> &gone)
{
	/* Happens only just after the start, so polling is good enough. */
	while (!of.known()) {
		if (gone())
			return sn::failure{ECANCELED};
		if (until != sn::no_deadline && sn::now() >= until)
			return sn::failure{ETIMEDOUT};
		sn::sleep(5ms);
	}
	const auto all = of.now();
	if (all->empty())
		return sn::failure{ENOENT};
	const std::size_t first = all->size() == 1 ? 0
				  : source         ? static_cast<std::size_t>(*source % all->size())
						   : of.turn();
	for (std::size_t i = 0;; i++) {
		const bool is_last = i + 1 == all->size();
		/* An address that does not answer leaves time for the others, as a backend does. */
		const auto &address = (*all)[(first + i) % all->size()];
		auto give_up = is_last || until == sn::no_deadline
				       ? until
				       : sn::now() + (until - sn::now()) / 2;
		if (give_up == sn::no_deadline && is_unix(address))
			give_up = sn::after(unix_connect_most);
		auto connected = whose == first_words::ours
					 ? sn::unstable::connect_to_write(address, give_up)
					 : sn::tcp::connect(address, give_up);
		if (connected || is_last || is_shortage(connected.error()) || gone() ||
		    (until != sn::no_deadline && sn::now() >= until))
			return connected;
	}
}

} // namespace relay
