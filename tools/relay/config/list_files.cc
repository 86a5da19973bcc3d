/* SPDX-License-Identifier: MIT */
#include "config/list_files.hpp"

#include <sennit/sennit.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace relay
{

list_files::set list_files::of(const config &read)
{
	set found;
	const std::chrono::nanoseconds now(sn_walltime());
	for (const auto &listener : read.listeners)
		for (const auto &each : listener.lists) {
			found.lists.push_back(
				{listener.name, each.key, each.file, each.entries, now});
			/* Of a file that was read twice, keeps the first stamp, so that a change
			 * between the two reads is noticed. */
			found.stamps.emplace(each.file, each.before);
		}
	return found;
}

void list_files::use(set read) noexcept
{
	const std::lock_guard lock(lock_);
	none_.store(read.lists.empty(), std::memory_order_relaxed);
	std::swap(in_use_, read);
	seen_.clear();
	refused_.clear();
	retries_.reset();
}

bool list_files::have_changed()
{
	const auto before = in_use().stamps;
	auto now = stamps_of(before);
	const std::lock_guard lock(lock_);
	const bool is_settled = now == seen_;
	seen_ = std::move(now);
	if (seen_ == in_use_.stamps)
		refused_.clear(); /* the files are as they were */
	if (seen_ == in_use_.stamps || !is_settled) {
		retries_.reset();
		return false;
	}
	return seen_ != refused_ && retries_.is_due();
}

void list_files::refuse()
{
	const std::lock_guard lock(lock_);
	refused_ = seen_;
	retries_.reset();
}

bool list_files::fail()
{
	const std::lock_guard lock(lock_);
	return retries_.fail();
}

std::vector<list_snapshot> list_files::changed(const set &now, const set &before)
{
	std::vector<list_snapshot> found;
	std::ranges::copy_if(now.lists, std::back_inserter(found), [&](const auto &each) {
		const auto was = before.stamps.find(each.file);
		return was == before.stamps.end() || was->second != now.stamps.at(each.file);
	});
	return found;
}

list_files::set list_files::in_use() const
{
	const std::lock_guard lock(lock_);
	return in_use_;
}

void list_files::fill(snapshot &into) const
{
	const std::lock_guard lock(lock_);
	into.lists = in_use_.lists;
	into.lists_refused = retries_.is_failing() || !refused_.empty();
}

} // namespace relay
