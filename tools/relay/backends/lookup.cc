/* SPDX-License-Identifier: MIT */
#include "backends/lookup.hpp"

#include "base/address.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <sys/socket.h>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace relay
{
namespace
{

/* Looks up a host, and adds its addresses. */
sn::result<void> add_host(found_endpoints &to, const std::string &host, const std::string &port)
{
	const auto all = sn::resolve(host, port, sn::no_deadline);
	if (!all)
		return sn::unexpected(all.error());
	for (const sn_resolved_address &each : *all) {
		sn_address address;
		char text[SN_ADDRESS_MAX];
		if (sn_address_from_sockaddr(&address,
					     reinterpret_cast<const sockaddr *>(&each.address),
					     each.length) == 0 &&
		    sn_address_text(&address, text, sizeof text) > 0)
			to.push_back({text, 1, 0});
	}
	return {};
}

/* RFC 2782: an endpoint of weight 0 gets nearly nothing if there are others; if all have weight
 * 0, they are equals. */
void level_weights(found_endpoints &all)
{
	std::map<std::uint32_t, std::uint32_t> most;
	for (const auto &each : all)
		most[each.priority] = std::max(most[each.priority], each.weight);
	for (auto &each : all)
		if (most[each.priority] == 0)
			each.weight = 1;
}

/* sn::resolve_srv() returns records of equal priority in a random order. If there are more than
 * can be used, the same ones must be used each time. */
std::vector<sn_srv> in_fixed_order(const sn::srv_list &records)
{
	std::vector<sn_srv> all(records.begin(), records.end());
	std::ranges::sort(all, {}, [](const sn_srv &each) {
		return std::tuple(each.priority, std::string_view(each.target), each.port);
	});
	return all;
}

/*
 * Looks up all addresses of all hosts, one host after the other, so that a slow name server delays
 * this service alone. missing: see lookup::missing().
 */
sn::result<found_endpoints> resolve_service(const std::string &name, std::error_code &missing)
{
	const auto records = sn::resolve_srv(name, sn::no_deadline);
	if (!records)
		return sn::unexpected(records.error());
	const std::vector<sn_srv> ordered = in_fixed_order(*records);
	found_endpoints found;
	for (const sn_srv &record : ordered) {
		const std::size_t before = found.size();
		const auto added = add_host(found, record.target, std::to_string(record.port));
		if (!added && added.error().value() != ENOENT &&
		    added.error().value() != EADDRNOTAVAIL)
			missing = added.error();
		for (std::size_t i = before; i < found.size(); i++) {
			found[i].weight = record.weight;
			found[i].priority = record.priority;
		}
		if (found.size() >= most_endpoints)
			break;
	}
	if (found.empty())
		return sn::unexpected(missing ? missing : sn::from_errno(-EADDRNOTAVAIL));
	level_weights(found);
	return found;
}

/* "host:port" at the last colon: the host of a backend by name has none. */
sn::result<found_endpoints> resolve(const std::string &address, std::error_code &missing)
{
	if (is_srv(address))
		return resolve_service(std::string(srv_name(address)), missing);
	const auto colon = address.rfind(':');
	found_endpoints found;
	const auto added = add_host(found, address.substr(0, colon), address.substr(colon + 1));
	if (!added)
		return sn::unexpected(added.error());
	if (found.empty())
		return sn::unexpected(std::errc::address_not_available);
	return found;
}

} // namespace

struct lookup::table {
	std::mutex lock; /* guards the table, and taking a reference from it */
	std::unordered_map<std::string, std::weak_ptr<lookup>> all;
	sn::semaphore places{lookups_at_once};

	/* Never destroyed, because lookups may be under way at the end of the process. Needs no
	 * memory, because the end of the process asks whether there are any. */
	static table &get() noexcept
	{
		alignas(table) static std::byte room[sizeof(table)];
		static auto &only = *new (room) table;
		return only;
	}
};

std::shared_ptr<lookup> lookup::of(const std::string &address)
{
	table &its = table::get();
	const std::lock_guard lock(its.lock);
	auto &entry = its.all[address];
	if (auto there = entry.lock())
		return there;
	auto made = std::make_shared<lookup>(address);
	made->over_.add();
	/* The task is in no scope, because the lookup may last longer than anybody waits for it. */
	sn::go([made]() mutable { run(std::move(made)); }, {.name = "look up"});
	entry = made;
	return made;
}

bool lookup::any()
{
	table &its = table::get();
	const std::lock_guard lock(its.lock);
	return std::ranges::any_of(its.all,
				   [](const auto &each) { return !each.second.expired(); });
}

void lookup::run(std::shared_ptr<lookup> self) noexcept
{
	table &its = table::get();
	const auto is_wanted = [&] {
		const std::lock_guard lock(its.lock);
		if (self.use_count() > 1)
			return true;
		its.all.erase(self->address_);
		return false;
	};

	bool has_place = false;
	try {
		its.places.acquire();
		has_place = true;
		if (is_wanted())
			self->found_.emplace(resolve(self->address_, self->missing_));
	} catch (const std::exception &) {
		self->found_.emplace(sn::unexpected(std::errc::not_enough_memory));
	}
	if (has_place)
		its.places.release();
	if (!self->found_)
		return;
	{
		const std::lock_guard lock(its.lock);
		its.all.erase(self->address_);
	}
	self->over_.done();
}

} // namespace relay
