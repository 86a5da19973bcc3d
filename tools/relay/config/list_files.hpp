/* SPDX-License-Identifier: MIT */
/*
 * Watches the list files (config_lists.hpp) of the configuration in effect for changes, and
 * provides their state to snapshots. Any task may call.
 *
 * The files are checked every two seconds (file_stamp.hpp), as certificate files are. They are read
 * again when two checks in a row have found the same state, because moving a name from one list to
 * another changes two files. All of them are read, with the whole configuration around them, and
 * take effect together or not at all, because a mistake (such as a name that is in two lists) can
 * concern several of them.
 *
 * The existing routes use the new lists (route::use_lists()), and no new routes are made: an open
 * connection keeps the route that it began with. With a new route for each change, open connections
 * would keep old versions of a list of a hundred thousand entries, and there may be thousands of
 * versions in a day.
 */
#ifndef RELAY_LIST_FILES_HPP
#define RELAY_LIST_FILES_HPP

#include "base/file_stamp.hpp"
#include "base/retries.hpp"
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
		file_stamps stamps; /* taken before the files were read */
	};

	static set of(const config &read);

	/* Makes this set the one in use. */
	void use(set read) noexcept;

	/* Whether the files differ from those in use, have stopped changing, and have not been
	 * refused in their present state. To be called every few seconds, on one thread at a
	 * time. Blocks on the file system, so do not call it in a task. */
	bool have_changed();

	/* Records that the files cannot be used in the state that was seen last, because of their
	 * content. */
	void refuse();

	/* Records that the files could not be read, or not be judged, so that they are tried again,
	 * the less often the longer it lasts (retries.hpp). Returns true at the first failure
	 * until they are in use, refused, or as they were. */
	bool fail();

	/* The files of `now` that differ from those of `before`, to be reported. */
	static std::vector<list_snapshot> changed(const set &now, const set &before);

	set in_use() const;

	bool none() const noexcept { return none_.load(std::memory_order_relaxed); }

	void fill(snapshot &into) const;

private:
	std::atomic<bool> none_{true}; /* a hint, so that most processes do nothing else */
	mutable std::mutex lock_;      /* guards the fields below */
	set in_use_;
	file_stamps seen_;    /* at the last look */
	file_stamps refused_; /* the state whose content could not be used */
	retries retries_;     /* of attempts that could not read or judge the files */
};

} // namespace relay

#endif
