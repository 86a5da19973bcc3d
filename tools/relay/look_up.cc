/* SPDX-License-Identifier: MIT */
#include "look_up.hpp"

#include <cerrno>
#include <exception>
#include <mutex>
#include <unordered_map>

namespace relay
{
namespace
{

/* "host:port" at the last colon: the host of a backend by name has none. */
sn::result<sn::resolved> resolve(const std::string &address)
{
	const auto colon = address.rfind(':');
	return sn::resolve(address.substr(0, colon), address.substr(colon + 1), sn::no_deadline);
}

} // namespace

struct look_up::table {
	std::mutex lock; /* of all, and of taking a reference from it */
	std::unordered_map<std::string, std::weak_ptr<look_up>> all;
	sn::semaphore places{look_ups_at_once};

	/* Never destroyed: at the end of the process look-ups may be under way. */
	static table &get()
	{
		static auto &only = *new table;
		return only;
	}
};

std::shared_ptr<look_up> look_up::of(const std::string &address)
{
	table &its = table::get();
	const std::lock_guard lock(its.lock);
	auto &entry = its.all[address];
	if (auto there = entry.lock())
		return there;
	auto made = std::make_shared<look_up>(address);
	made->over_.add();
	/* In no scope: the place is held for longer than anybody may wait. */
	sn::go([made]() mutable { run(std::move(made)); }, {.name = "look up"});
	entry = made;
	return made;
}

void look_up::run(std::shared_ptr<look_up> self) noexcept
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
			self->found_.emplace(resolve(self->address_));
	} catch (const std::exception &) {
		self->found_.emplace(sn::failure{ENOMEM});
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
