/* SPDX-License-Identifier: MIT */
/*
 * The lists in files (config_lists.hpp) of the configuration in effect: whether they have changed
 * since they were read, and what snapshots say of them. Any task may call.
 *
 * The files are checked every two seconds (file_stamp.hpp), as those of certificates are. They are
 * read again when two checks in a row have found the same state, because moving a name from one
 * list to another changes two files. All of them are read, with the whole configuration around
 * them, and take effect together or not at all, because a mistake (such as a name that is in two
 * lists) can concern several of them.
 *
 * The existing routes use the new lists (route::use_lists()), and no new routes are made: an open
 * connection keeps the route that it began with, and so would keep an old version of a list of a
 * hundred thousand entries, of which there may be thousands in a day.
 */
#ifndef RELAY_LIST_FILES_HPP
#define RELAY_LIST_FILES_HPP

#include "base/file_stamp.hpp"
#include "config/config.hpp"
#include "stats/snapshot.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace relay
{

class list_files
{
public:
	/* The lists of one configuration. */
	struct set {
		std::vector<list_snapshot> lists;
		file_stamps stamps; /* from before they were read */
	};

	static set of(const config &read);

	/* From now on these are in use. */
	void use(set read) noexcept;

	/* Whether they differ from those in use, have stopped changing, and have not been refused
	 * as they are. To be called every few seconds, by one task at a time. Blocks on the file
	 * system, so not in a task. */
	bool have_changed();

	/* The state that was seen last cannot be used. */
	void refuse();

	/* Which of them differ from those of `before`, to be reported. */
	static std::vector<list_snapshot> changed(const set &now, const set &before);

	set in_use() const;

	bool none() const noexcept { return none_.load(std::memory_order_relaxed); }

	void fill(snapshot &into) const;

private:
	std::atomic<bool> none_{true}; /* a hint, so that most processes do nothing else */
	mutable std::mutex lock_;      /* guards the fields below */
	set in_use_;
	file_stamps seen_;    /* when they were last looked at */
	file_stamps refused_; /* that could not be used */
};

} // namespace relay

#endif
